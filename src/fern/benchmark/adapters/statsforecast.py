"""statsforecast models as forecasters of windows. Needs the extra ``statsforecast``."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fern.benchmark.adapters.callables import FunctionForecaster
from fern.errors import FernError
from fern.extras import describe_kind, import_optional


class StatsForecastForecaster(FunctionForecaster):
    """A statsforecast model (AutoARIMA, AutoETS, Theta, …) that is fitted to each channel of each window's context.

    That is how these models are meant: one series, one fit. There is nothing to train and nothing to save. A fit that
    fails, or gives NaN, is a `FernError` that names the window.

    Example:
        >>> from statsforecast.models import AutoETS  # doctest: +SKIP
        >>> model = StatsForecastForecaster(
        ...     AutoETS(season_length=24), context_length=96, horizon=24, channels=3
        ... )  # doctest: +SKIP
    """

    def __init__(self, model: Any, *, context_length: int, horizon: int, channels: int) -> None:
        base = import_optional("statsforecast.models", extra="statsforecast")._TS
        if not isinstance(model, base):
            raise FernError(
                f"got {describe_kind(model)}", argument="model", expected="a statsforecast model such as AutoETS()"
            )
        super().__init__(
            self._forecast_one,
            context_length=context_length,
            horizon=horizon,
            channels=channels,
            name=f"statsforecast {model}",
        )
        self.model = model

    def _forecast_one(self, context: NDArray[Any], horizon: int) -> NDArray[Any]:
        values = context.astype(np.float64)
        return np.stack([self.model.new().forecast(y=channel, h=horizon)["mean"] for channel in values.T], axis=1)
