"""Fern as a model of fev. Needs the extra ``fev``."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fern import forecaster as own
from fern.data.covariates import Covariates, EncodedColumn, Encoding, encode_columns, learn_encoding
from fern.data.frequency import ROWS
from fern.data.series_table import SeriesTable, interpolate
from fern.errors import FernError
from fern.extras import import_optional
from fern.forecaster.predict import Prediction, Request, predict_series
from fern.forecaster.state import State, keep_recent
from fern.integrations.tables import Columns, find_frequency, make_table
from fern.models.pretrained.representation import SHORTEST
from fern.pretrained import forecast

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
        covariates: use the covariates of a task.
        seed: random seed.
        threads: number of PyTorch threads while fitting; unchanged if not given.

    The task's ``known_dynamic_columns``, ``past_dynamic_columns`` and ``static_columns`` are covariates, with the
    calendar beside them; they enter where held-out windows say that they help. Text of too many values is left out.
    The season is the task's ``seasonality``, or the usual one of its frequency where that is 1. Missing values are
    interpolated.

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
        covariates: bool = True,
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
        self.covariates = covariates
        self.seed = seed
        self.threads = threads

    def _fit_predict(self, task: Any) -> list[Any]:
        """For each window a dataset for each target."""
        fitted: own.FernForecaster | None = None
        answers = []
        for window in task.iter_windows():
            if fitted is None or self.refit:
                table, ahead = _table(window, covariates=self.covariates)
                with self._record_training_time():
                    fitted = self._forecaster(task).fit(table)
            else:
                table, ahead = _table(window, covariates=self.covariates, like=fitted._require_fitted())
            with self._record_inference_time():
                state = fitted._require_fitted()
                request = Request(task.horizon, tuple(task.quantile_levels), seed=self.seed)
                recent = keep_recent(table.series, keep=state.keep)
                known = [replace(series, ahead=ahead.get(series.name)) for series in recent]
                answers.append(_answer(predict_series(state, known, request), task))
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


class PretrainedFernModel(ForecastingModel):  # type: ignore[misc]  # the library has no types
    """The Fern that comes with the package, zero-shot: each series by itself, from its past alone.

    It was trained on synthetic series alone (`fern.pretrained`), so no dataset is in its training data. Nothing is
    fitted and nothing calibrated; covariates are not used. Several targets are forecast each by itself; a series of
    fewer than 8 rows begins with its first value as often as is needed.

    Example:
        >>> PretrainedFernModel().trained_on_datasets
        []
    """

    model_name = "fern-pretrained"

    def _fit_predict(self, task: Any) -> list[Any]:
        """For each window a dataset for each target."""
        answers = []
        for window in task.iter_windows():
            table, _ = _table(window, covariates=False)
            with self._record_inference_time():
                answers.append(_answer(_predict_pretrained(table, task), task))
        return answers


def _predict_pretrained(table: SeriesTable, task: Any) -> Prediction:
    rows = [column for series in table.series for column in series.values.T]
    long_enough = [np.concatenate((np.repeat(row[:1], max(0, SHORTEST - len(row))), row)) for row in rows]
    ahead = forecast(long_enough, task.horizon, season=task.seasonality if task.seasonality > 1 else None)
    shape = (len(table.series), len(table.channel_names), task.horizon)
    quantiles = np.empty((0, *shape))
    if task.quantile_levels:
        quantiles = np.moveaxis(ahead.quantile(task.quantile_levels).reshape(*shape, -1), 3, 0)
    return Prediction(ahead.mean.reshape(shape).swapaxes(1, 2), quantiles.swapaxes(2, 3))


def _table(
    window: Any, *, covariates: bool, like: State | None = None
) -> tuple[SeriesTable, dict[str, Floats]]:  # and (H, K known) for each series
    """The past of a window: a series for each of its items, a channel for each of its targets; and what is known ahead.

    ``like`` is a fitted state, whose columns become numbers as they did there.
    """
    past, future = window.get_input_data()
    rows = past.with_format("numpy")
    stamps = window.timestamp_column
    series = [
        (
            str(item[window.id_column]),
            np.stack([item[name] for name in window.target_columns], axis=1).astype(np.float64),
        )
        for item in rows
    ]
    frequency = find_frequency(rows[0][stamps]) if like is None else like.frequency
    names = [name for name, _ in series]
    lists = {
        "known": list(window.known_dynamic_columns),
        "past": list(window.past_dynamic_columns),
        "static": list(window.static_columns),
    }
    if not covariates or not any(lists.values()):
        return make_table(series, frequency=frequency), {}
    before, after = past.with_format("arrow")[:], future.with_format("arrow")[:]
    dynamic = _explode(before, lists["known"] + lists["past"])
    statics = before.select(lists["static"])
    fitted = None if like is None or like.covariates is None else like.covariates.encoding
    encoding = fitted or _learn_encoding(dynamic, statics, lists, calendar=frequency != ROWS)
    lengths = [len(values) for _, values in series]
    matrix = _encode(dynamic, (*encoding.known, *encoding.past), rows=sum(lengths))
    static = _encode(statics, encoding.static, rows=len(names))
    typical = np.nansum(static, axis=0) / np.maximum(1, (~np.isnan(static)).sum(axis=0))
    ahead = _encode(_explode(after, lists["known"]), encoding.known, rows=len(names) * window.horizon)
    parts = np.split(matrix, np.cumsum(lengths)[:-1])
    columns = Columns(
        encoding,
        dict(zip(names, parts, strict=True)),
        dict(zip(names, np.where(np.isnan(static), typical, static), strict=True)),
        {name: pa.array(item[stamps].astype("datetime64[ns]")) for name, item in zip(names, rows, strict=True)}
        if frequency != ROWS
        else {},
    )
    table = make_table(series, frequency=frequency, columns=columns)
    steps = ahead.reshape(len(names), window.horizon, -1)
    filled = {
        name: np.nan_to_num(interpolate(np.concatenate((part[-1:, : steps.shape[2]], step))))[1:]
        for name, part, step in zip(names, parts, steps, strict=True)
    }
    return table, filled


def _explode(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """Lists of each item as one long column."""
    return pa.table({name: pc.list_flatten(table[name]) for name in names})


def _learn_encoding(
    dynamic: pa.Table, statics: pa.Table, lists: Mapping[str, Sequence[str]], *, calendar: bool
) -> Encoding:
    """How columns become numbers; those that cannot are left out."""
    columns: dict[str, tuple[EncodedColumn, ...]] = {}
    for kind, names in lists.items():
        table = statics if kind == "static" else dynamic
        learnt: list[EncodedColumn] = []
        for name in names:
            try:
                learnt += learn_encoding(table, [name], argument=name, where="task")
            except FernError:  # dates, or text of too many values
                continue
        columns[kind] = tuple(learnt)
    names_of = {kind: tuple(column.name for column in chosen) for kind, chosen in columns.items()}
    return Encoding(Covariates(**names_of), columns["known"], columns["past"], columns["static"], calendar=calendar)


def _encode(table: pa.Table, columns: Sequence[EncodedColumn], *, rows: int) -> Floats:  # (rows, K)
    encoded = encode_columns(table, columns, argument="task", where="task")
    return np.stack(list(encoded.values()), axis=1) if encoded else np.empty((rows, 0))


def _answer(prediction: Prediction, task: Any) -> Any:
    """Predictions as fev validates them: for each target the point forecast and a column for each quantile."""
    answer = {}
    for c, target in enumerate(task.target_columns):
        columns = {"predictions": prediction.mean[..., c].tolist()}
        columns |= {
            str(level): values[..., c].tolist()
            for level, values in zip(task.quantile_levels, prediction.quantiles, strict=True)
        }
        answer[target] = Dataset.from_dict(columns, features=task.predictions_schema)
    return DatasetDict(answer)
