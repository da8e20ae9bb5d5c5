"""The models that run on public tasks. A model is a function: fitted to a frame, it gives a predictor.

To add one, write ``def name(train, question): ... return predict`` and enter it in `MODELS`. ``train`` is the history
of the first window (``unique_id``, ``ds``, ``y`` and the known columns); ``predict(history, future)`` is called once
for each window, with all rows before it and the known columns of the rows to forecast, and gives the quantiles of every
series in the order of the frame: (series, horizon, quantiles). A model that fits anew for each window does so there.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fern.errors import unknown_name

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Question:
    """What a model is told of a task: nothing of its name, nor of rows after the windows' histories."""

    horizon: int
    quantiles: tuple[float, ...]
    season: int
    frequency: str
    known: tuple[str, ...] = ()
    seed: int = 0


Predictor = Callable[[pd.DataFrame, pd.DataFrame], Floats]
Model = Callable[[pd.DataFrame, Question], Predictor]


def named_model(name: str) -> Model:
    """The model of this name."""
    if name not in MODELS:
        raise unknown_name("model", name, MODELS)
    return MODELS[name]


def seasonal_naive(train: pd.DataFrame, question: Question) -> Predictor:
    """The last season again, with Gaussian intervals from its errors in the history that widen season by season."""

    def predict(history: pd.DataFrame, future: pd.DataFrame) -> Floats:
        return np.stack([_repeat_season(values, question) for values in _series(history)])

    return predict


def classical(train: pd.DataFrame, question: Question) -> Predictor:
    """The classical ensemble of `fern.models.classical`, fitted to each history."""
    from fern.models.classical import ClassicalSettings, forecast_panel

    settings = ClassicalSettings(season=question.season)

    def predict(history: pd.DataFrame, future: pd.DataFrame) -> Floats:
        made = forecast_panel(_series(history), question.horizon, settings)
        return np.moveaxis(made.quantile(question.quantiles), 0, -1)

    return predict


def fern(train: pd.DataFrame, question: Question) -> Predictor:
    """`FernForecaster` with its defaults and the task's known columns, fitted once."""
    from fern.forecaster import FernForecaster

    known = [name for name in train.columns if name not in ("unique_id", "ds", "y")]
    columns = ["unique_id", "ds", "y", *known]
    forecaster = FernForecaster(
        horizon=question.horizon, futr_exog_list=known or None, seed=question.seed, progress="silent"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of short series and of levels that few windows cannot calibrate
        forecaster.fit(train[columns])

    def predict(history: pd.DataFrame, future: pd.DataFrame) -> Floats:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ahead = future[["unique_id", "ds", *known]] if known else None
            answer = forecaster.predict(history[columns], futr_df=ahead, quantiles=list(question.quantiles))
        return arrange(answer, history, question)

    return predict


def fern_pretrained(train: pd.DataFrame, question: Question) -> Predictor:
    """`fern.pretrained.forecast`: nothing is fitted, no season is told."""
    from fern.pretrained import forecast

    def predict(history: pd.DataFrame, future: pd.DataFrame) -> Floats:
        return forecast(_series(history), question.horizon).quantile(question.quantiles)

    return predict


def arrange(answer: pd.DataFrame, history: pd.DataFrame, question: Question) -> Floats:  # (series, H, quantiles)
    """The columns ``…-ql0.1`` of a forecaster's frame as an array, with the series in the order of the history.

    Quantiles that cross are sorted, as every benchmark's own evaluation allows.
    """
    names = []
    for quantile in question.quantiles:
        ending = f"-ql{quantile:.10g}"
        names.append(next(column for column in answer.columns if column.endswith(ending)))
    parts = dict(iter(answer.groupby("unique_id", sort=False)))
    values = np.stack([parts[key][names].to_numpy(float) for key in history["unique_id"].drop_duplicates()])
    positions = np.argsort(question.quantiles)
    values[..., positions] = np.sort(values, axis=-1)
    return values


def _series(history: pd.DataFrame) -> list[Floats]:
    return [rows.to_numpy(float) for _, rows in history.groupby("unique_id", sort=False)["y"]]


def _repeat_season(values: Floats, question: Question) -> Floats:  # (T,) -> (H, quantiles)
    season = question.season if len(values) > question.season else 1
    steps = np.arange(question.horizon)
    repeated = values[-season:][steps % season]
    errors = values[season:] - values[:-season]
    spread = np.sqrt((errors**2).mean()) * np.sqrt(steps // season + 1)
    scores = np.array([NormalDist().inv_cdf(quantile) for quantile in question.quantiles])
    answer: Floats = repeated[:, None] + spread[:, None] * scores
    return answer


MODELS: Mapping[str, Model] = {
    "seasonal-naive": seasonal_naive,
    "classical": classical,
    "fern": fern,
    "fern-pretrained": fern_pretrained,
}
