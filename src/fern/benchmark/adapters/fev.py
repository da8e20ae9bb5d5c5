"""fev models as forecasters of windows. Needs the extra ``fev``."""

import logging
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fern.benchmark.adapters.callables import FunctionForecaster
from fern.errors import FernError
from fern.extras import describe_kind, import_optional

HOUR = np.timedelta64(1, "h")
START = np.datetime64(datetime(2000, 1, 1), "us")
"""Contexts have no stamps of their own, and fev wants some: hours."""


class FevForecaster(FunctionForecaster):
    """A fev model (`fev.ForecastingModel`) whose task is a batch of windows: each context is a series of the task.

    A model that learns from its task thus learns from the contexts of the batch, a pretrained one just forecasts. The
    rows to forecast are NaN in the task, so nothing of the truth is in reach. Several channels are several targets.

    Example:
        >>> model = FevForecaster(MyFevModel(), context_length=96, horizon=24, channels=3)  # doctest: +SKIP
    """

    def __init__(self, model: Any, *, context_length: int, horizon: int, channels: int) -> None:
        library = import_optional("fev", extra="fev")
        if not isinstance(model, library.ForecastingModel):
            raise FernError(
                f"got {describe_kind(model)}",
                argument="model",
                expected="an object of a subclass of fev.ForecastingModel",
            )
        super().__init__(
            self._forecast_batch,
            context_length=context_length,
            horizon=horizon,
            channels=channels,
            takes="batch",
            name=f"fev {model.model_name}",
        )
        self.model = model

    def _forecast_batch(self, contexts: NDArray[Any], horizon: int) -> NDArray[Any]:
        library = import_optional("fev", extra="fev")
        names = [f"channel_{c:04d}" for c in range(contexts.shape[2])]  # in the order that fev sorts targets by
        with TemporaryDirectory() as folder:
            file = Path(folder) / "windows" / "data.parquet"
            file.parent.mkdir()
            pq.write_table(_as_series(contexts, horizon, names), file)
            task = library.Task(
                dataset_path=str(file),
                horizon=horizon,
                target=names if len(names) > 1 else names[0],
                eval_metric="MAE",
            )
            with _quietly():
                (predictions,) = self.model.fit_predict(task)
                made = task.clean_and_validate_predictions(predictions)
        values = [np.stack(made[name].with_format("numpy")["predictions"][:]) for name in names]
        return np.stack(values, axis=-1)


def _as_series(contexts: NDArray[Any], horizon: int, names: list[str]) -> pa.Table:
    """A table of fev with a row for each series: the context, then NaN where the forecast will be."""
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


class _quietly:  # noqa: N801  a context, used once
    """Without fev's notes on every task: there is one for each batch."""

    def __enter__(self) -> None:
        self._logger = logging.getLogger("fev")
        self._level = self._logger.level
        self._logger.setLevel(logging.WARNING)

    def __exit__(self, *_: object) -> None:
        self._logger.setLevel(self._level)
