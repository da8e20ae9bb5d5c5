"""sktime forecasters as forecasters of windows. Needs the extra ``sktime``."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fern.benchmark.adapters.callables import FunctionForecaster
from fern.errors import FernError
from fern.extras import describe_kind, import_optional


class SktimeForecaster(FunctionForecaster):
    """An sktime forecaster that is fitted to the context of each window, and forecasts the window's future.

    That is how sktime's forecasters are meant: one series, one fit. A fresh copy is fitted to each context (L, C), so
    windows do not influence each other and what is passed stays unfitted. A forecaster for single series is fitted to
    each channel on its own, one for several to all of them together; sktime decides.

    There is nothing to train and nothing to save. A fit or forecast that fails, or gives NaN, is a `FernError` that
    names the window.

    Example:
        >>> from sktime.forecasting.naive import NaiveForecaster  # doctest: +SKIP
        >>> model = SktimeForecaster(
        ...     NaiveForecaster("drift"), context_length=96, horizon=24, channels=3
        ... )  # doctest: +SKIP
    """

    def __init__(self, forecaster: Any, *, context_length: int, horizon: int, channels: int) -> None:
        base = import_optional("sktime.forecasting.base", extra="sktime").BaseForecaster
        if not isinstance(forecaster, base):
            raise FernError(
                f"got {describe_kind(forecaster)}",
                argument="forecaster",
                expected="an sktime forecaster such as NaiveForecaster()",
            )
        super().__init__(
            self._forecast_one,
            context_length=context_length,
            horizon=horizon,
            channels=channels,
            name=f"sktime {type(forecaster).__name__}",
        )
        self.forecaster = forecaster

    def _forecast_one(self, context: NDArray[Any], horizon: int) -> Any:
        steps = np.arange(1, horizon + 1)
        with warnings.catch_warnings():
            # What sktime will change one day it announces with every new object: here, with every window.
            warnings.simplefilter("ignore", FutureWarning)
            # Classical methods are written for float64, and several lose their footing in float32.
            return self.forecaster.clone().fit(context.astype(np.float64), fh=steps).predict()
