"""Fern as a model of fev. Needs the extra ``fev``."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fern import forecaster as own
from fern.data.series_table import SeriesTable
from fern.extras import import_optional
from fern.forecaster.predict import Prediction, Request, predict_series
from fern.forecaster.state import keep_recent
from fern.integrations.tables import find_frequency, make_table

import_optional("fev", extra="fev")  # without it, an error that names the extra

from datasets import Dataset, DatasetDict  # noqa: E402
from fev import ForecastingModel  # noqa: E402

Floats = NDArray[np.float64]


class FernModel(ForecastingModel):  # type: ignore[misc]  # the library has no types
    """Fern for any fev task, one target or several: learns from the past of a window, gives calibrated quantiles.

    Arguments:
        model: any registered model (`fern.models.model_names`): ``seasonal-naive`` is a baseline with the same
            calibration.
        model_settings: settings of the model; they replace those chosen for the data.
        context_length: number of rows a forecast sees, or ``"auto"``.
        epochs: number of training epochs, or ``"auto"``.
        time_limit: time limit of a fit, in seconds.
        refit: learn anew for each window of a task. Otherwise the first window's past is learnt from, and later windows
            are forecast from their own past by the same model.
        seed: random seed.
        threads: number of PyTorch threads while fitting; unchanged if not given.

    Covariates of a task are not used. The season is the task's ``seasonality``, or the usual one of its frequency
    where that is 1. Missing values are interpolated.

    Example:
        >>> summary = task.evaluation_summary(FernModel().fit_predict(task), model_name="fern")  # doctest: +SKIP
    """

    model_name = "fern"

    def __init__(
        self,
        *,
        model: str = "fern",
        model_settings: Mapping[str, Any] | None = None,
        context_length: int | Literal["auto"] = "auto",
        epochs: int | Literal["auto"] = "auto",
        time_limit: float | None = None,
        refit: bool = False,
        seed: int = 7,
        threads: int | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.model_settings = model_settings
        self.context_length = context_length
        self.epochs = epochs
        self.time_limit = time_limit
        self.refit = refit
        self.seed = seed
        self.threads = threads

    def _fit_predict(self, task: Any) -> list[Any]:
        """For each window a dataset for each target."""
        fitted: own.FernForecaster | None = None
        answers = []
        for window in task.iter_windows():
            table = _table(window)
            if fitted is None or self.refit:
                with self._record_training_time():
                    fitted = self._forecaster(task).fit(table)
            with self._record_inference_time():
                answers.append(_answer(self._predict_table(fitted, table, task), task))
        return answers

    def _forecaster(self, task: Any) -> own.FernForecaster:
        return own.FernForecaster(
            task.horizon,
            model=self.model,
            model_settings=None if self.model_settings is None else dict(self.model_settings),
            context_length=self.context_length,
            season=task.seasonality if task.seasonality > 1 else "auto",
            epochs=self.epochs,
            time_limit=self.time_limit,
            seed=self.seed,
            threads=self.threads,
            progress="silent",
        )

    def _predict_table(self, fitted: own.FernForecaster, table: SeriesTable, task: Any) -> Prediction:
        state = fitted._fitted()
        request = Request(task.horizon, tuple(task.quantile_levels), seed=self.seed)
        return predict_series(state, keep_recent(table.series, keep=state.keep), request)


def _table(window: Any) -> SeriesTable:
    """The past of a window: a series for each of its items, a channel for each of its targets."""
    past, _ = window.get_input_data()
    rows = past.with_format("numpy")
    series = [
        (str(one[window.id_column]), np.stack([one[name] for name in window.target_columns], axis=1).astype(np.float64))
        for one in rows
    ]
    return make_table(series, frequency=find_frequency(rows[0][window.timestamp_column]))


def _answer(made: Prediction, task: Any) -> Any:
    """Predictions as fev validates them: for each target the point forecast and a column for each quantile."""
    answer = {}
    for c, target in enumerate(task.target_columns):
        columns = {"predictions": made.mean[..., c].tolist()}
        columns |= {
            str(level): values[..., c].tolist()
            for level, values in zip(task.quantile_levels, made.quantiles, strict=True)
        }
        answer[target] = Dataset.from_dict(columns, features=task.predictions_schema)
    return DatasetDict(answer)
