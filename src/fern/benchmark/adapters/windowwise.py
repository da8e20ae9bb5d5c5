"""Forecasters of sktime, statsforecast, Chronos and fev as forecasters of windows.

Each needs the extra of its name and is used as it comes: fitted to the context of every window, or pretrained. There
is nothing to train and nothing to save. A fit or forecast that fails, or gives NaN, is a `FernError` that names the
window. ``sizes`` are ``context_length``, ``horizon`` and ``channels``.
"""

import json
import logging
import warnings
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fern.benchmark.adapters.callables import FunctionForecaster
from fern.errors import FernError
from fern.extras import describe_kind, import_optional

MEDIAN = 0.5
HOUR = np.timedelta64(1, "h")
START = np.datetime64(datetime(2000, 1, 1), "us")
"""Contexts have no stamps of their own, and fev wants some: hours."""


def _require_kind(value: Any, kind: type, argument: str, expected: str) -> None:
    if not isinstance(value, kind):
        raise FernError(f"got {describe_kind(value)}", argument=argument, expected=expected)


class SktimeForecaster(FunctionForecaster):
    """An sktime forecaster that is fitted to the context of each window, and forecasts the window's future.

    That is how sktime's forecasters are meant: one series, one fit. A fresh copy is fitted to each context (L, C), so
    windows do not influence each other and what is passed stays unfitted. A forecaster for single series is fitted to
    each channel on its own, one for several to all of them together; sktime decides.

    Example:
        >>> from sktime.forecasting.naive import NaiveForecaster  # doctest: +SKIP
        >>> model = SktimeForecaster(
        ...     NaiveForecaster("drift"), context_length=96, horizon=24, channels=3
        ... )  # doctest: +SKIP
    """

    def __init__(self, forecaster: Any, **sizes: int) -> None:
        base = import_optional("sktime.forecasting.base", extra="sktime").BaseForecaster
        _require_kind(forecaster, base, "forecaster", "an sktime forecaster such as NaiveForecaster()")
        super().__init__(self._forecast_one, takes="window", name=f"sktime {type(forecaster).__name__}", **sizes)
        self.forecaster = forecaster

    def _forecast_one(self, context: NDArray[Any], horizon: int) -> Any:
        steps = np.arange(1, horizon + 1)
        with warnings.catch_warnings():
            # What sktime will change one day it announces with every new object: here, with every window.
            warnings.simplefilter("ignore", FutureWarning)
            # Classical methods are written for float64, and several lose their footing in float32.
            return self.forecaster.clone().fit(context.astype(np.float64), fh=steps).predict()


class StatsForecastForecaster(FunctionForecaster):
    """A statsforecast model (AutoARIMA, AutoETS, Theta, …) that is fitted to each channel of each window's context.

    That is how these models are meant: one series, one fit.

    Example:
        >>> from statsforecast.models import AutoETS  # doctest: +SKIP
        >>> model = StatsForecastForecaster(
        ...     AutoETS(season_length=24), context_length=96, horizon=24, channels=3
        ... )  # doctest: +SKIP
    """

    def __init__(self, model: Any, **sizes: int) -> None:
        base = import_optional("statsforecast.models", extra="statsforecast")._TS
        _require_kind(model, base, "model", "a statsforecast model such as AutoETS()")
        super().__init__(self._forecast_one, takes="window", name=f"statsforecast {model}", **sizes)
        self.model = model

    def _forecast_one(self, context: NDArray[Any], horizon: int) -> NDArray[Any]:
        values = context.astype(np.float64)
        return np.stack([self.model.new().forecast(y=channel, h=horizon)["mean"] for channel in values.T], axis=1)


class ChronosForecaster(FunctionForecaster):
    """The medians of a Chronos, Chronos-Bolt or Chronos-2 model, read from a local folder and used as it is.

    Nothing is fetched: the folder must hold the model (``config.json`` and its weights). Chronos and Chronos-Bolt see
    each channel on its own; Chronos-2 sees the channels of a window together.

    Example:
        >>> model = ChronosForecaster("models/chronos-bolt-tiny", context_length=96, horizon=24, channels=1)
        ... # doctest: +SKIP
    """

    def __init__(self, folder: str | Path, **sizes: int) -> None:
        library = import_optional("chronos", extra="chronos")
        if not is_chronos(Path(folder)):
            raise FernError("is no folder of a Chronos model; needs a config.json with a chronos_config", where=folder)
        super().__init__(self._forecast_batch, takes="batch", name=f"chronos {Path(folder).name}", **sizes)
        self.pipeline: Any = library.BaseChronosPipeline.from_pretrained(
            str(folder), device_map="cpu", local_files_only=True
        )

    def _forecast_batch(self, contexts: NDArray[Any], horizon: int) -> NDArray[Any]:
        windows, length, channels = contexts.shape
        series = torch.from_numpy(np.ascontiguousarray(contexts.swapaxes(1, 2), dtype=np.float32))  # (B, C, L)
        together = type(self.pipeline).__name__ == "Chronos2Pipeline"
        quantiles, _ = self.pipeline.predict_quantiles(
            series if together else series.reshape(windows * channels, length),
            prediction_length=horizon,
            quantile_levels=[MEDIAN],
        )
        # A tensor (B·C, H, 1), or of Chronos-2 a list with (C, H, 1) for each window.
        medians = torch.stack(list(quantiles))[..., 0].reshape(windows, channels, horizon)
        return medians.transpose(1, 2).float().numpy()


def is_chronos(folder: Path) -> bool:
    """Whether a folder holds a Chronos model, by its ``config.json``."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and "chronos_config" in config


class FevForecaster(FunctionForecaster):
    """A fev model (`fev.ForecastingModel`) whose task is a batch of windows: each context is a series of the task.

    A model that learns from its task thus learns from the contexts of the batch, a pretrained one just forecasts. The
    rows to forecast are NaN in the task, so nothing of the truth is in reach. Several channels are several targets.

    Example:
        >>> model = FevForecaster(MyFevModel(), context_length=96, horizon=24, channels=3)  # doctest: +SKIP
    """

    def __init__(self, model: Any, **sizes: int) -> None:
        library = import_optional("fev", extra="fev")
        _require_kind(model, library.ForecastingModel, "model", "an object of a subclass of fev.ForecastingModel")
        super().__init__(self._forecast_batch, takes="batch", name=f"fev {model.model_name}", **sizes)
        self.model = model

    def _forecast_batch(self, contexts: NDArray[Any], horizon: int) -> NDArray[Any]:
        from pyarrow.parquet import write_table

        library = import_optional("fev", extra="fev")
        names = [f"channel_{c:04d}" for c in range(contexts.shape[2])]  # in the order that fev sorts targets by
        with TemporaryDirectory() as folder:
            file = Path(folder) / "windows" / "data.parquet"
            file.parent.mkdir()
            write_table(_as_series(contexts, horizon, names), file)
            task = library.Task(
                dataset_path=str(file),
                horizon=horizon,
                target=names if len(names) > 1 else names[0],
                eval_metric="MAE",
            )
            logger = logging.getLogger("fev")
            level = logger.level
            logger.setLevel(logging.WARNING)  # without fev's notes on every task: there is one for each batch
            try:
                (predictions,) = self.model.fit_predict(task)
                validated = task.clean_and_validate_predictions(predictions)
            finally:
                logger.setLevel(level)
        values = [np.stack(validated[name].with_format("numpy")["predictions"][:]) for name in names]
        return np.stack(values, axis=-1)


def _as_series(contexts: NDArray[Any], horizon: int, names: list[str]) -> Any:
    """A table of fev with a row for each series: the context, then NaN where the forecast will be."""
    import pyarrow as pa  # here, because every worker of a sweep loads this module

    windows, length, _ = contexts.shape
    stamps = START + HOUR * np.arange(length + horizon)
    unknown = np.full((windows, horizon, len(names)), np.nan)
    values = np.concatenate((contexts.astype(np.float64), unknown), axis=1)
    columns: dict[str, Any] = {
        # fev sorts series by their names as texts.
        "id": [f"{i:09d}" for i in range(windows)],
        "timestamp": pa.array([stamps] * windows, pa.list_(pa.timestamp("us"))),
    }
    for c, name in enumerate(names):
        columns[name] = pa.array(list(values[:, :, c]), pa.list_(pa.float64()))
    return pa.table(columns)
