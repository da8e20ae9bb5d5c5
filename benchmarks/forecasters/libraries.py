"""Other libraries' forecasters as their documentation recommends them, by the protocol of `benchmarks.public.models`.

statsforecast's models are local: they are fitted anew to each window, to at most the last `NEWEST` rows, as fev-bench
runs them. neuralforecast's are fitted once, with `MQLoss` over the quantiles that are asked for, robust scaling, their
default `max_steps` and early stopping, as in its tutorials. LightGBM goes through mlforecast with lags of the season,
seasonal differences and its conformal intervals; where series are too short for two windows of those, a quantile
objective for each step takes their place.
"""

import time
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.public.models import Floats, Model, Predictor, Question, arrange

NEWEST = 1_000
CONFORMAL_WINDOWS = 10
COLUMNS = ["unique_id", "ds", "y"]


def statsforecast(*names: str) -> Model:
    """The model of this name; the average of the quantiles of several."""

    def fit(train: pd.DataFrame, question: Question) -> Predictor:
        import statsforecast as library
        from statsforecast import models

        chosen = [getattr(models, name)(season_length=question.season) for name in names]
        levels = sorted({round(abs(200 * quantile - 100), 6) for quantile in question.quantiles if quantile != 0.5})

        def predict(history: pd.DataFrame, future: pd.DataFrame) -> Floats:
            newest = history[COLUMNS].groupby("unique_id", sort=False).tail(NEWEST)
            forecaster = library.StatsForecast(
                models=chosen,
                freq=question.frequency,
                n_jobs=1,
                fallback_model=models.SeasonalNaive(season_length=question.season),
            )
            answer = forecaster.forecast(df=newest, h=question.horizon, level=levels)
            parts = [arrange(_quantile_columns(answer, name, question), history, question) for name in names]
            return np.asarray(np.mean(parts, axis=0), dtype=np.float64)

        return predict

    return fit


def neuralforecast(name: str, *, longest: float) -> Model:
    """The model of this name; a training that passes ``longest`` processor seconds is stopped, and says so."""

    def fit(train: pd.DataFrame, question: Question) -> Predictor:
        import neuralforecast as library
        from neuralforecast import models
        from neuralforecast.losses.pytorch import MQLoss

        watch = _stop_after(longest)
        shortest = int(train.groupby("unique_id").size().min())
        held_out = question.horizon if shortest > 4 * question.horizon else 0
        chosen = getattr(models, name)(
            h=question.horizon,
            input_size=min(3 * question.horizon, shortest - question.horizon - held_out),
            loss=MQLoss(quantiles=list(question.quantiles)),
            scaler_type="robust",
            random_seed=question.seed + 1,
            early_stop_patience_steps=3 if held_out else -1,
            val_check_steps=100,
            start_padding_enabled=True,
            callbacks=[watch],
            enable_progress_bar=False,
            enable_model_summary=False,
            logger=False,
            accelerator="cpu",
        )
        forecaster = library.NeuralForecast(models=[chosen], freq=question.frequency)
        forecaster.fit(train[COLUMNS], val_size=held_out)
        if watch.stopped:
            raise TrainingStopped(watch.steps, chosen.max_steps, watch.pace)

        def predict(history: pd.DataFrame, future: pd.DataFrame) -> Floats:
            answer = forecaster.predict(df=history[COLUMNS])
            columns = [column for column in answer.columns if column.startswith(name)]
            renamed = dict(zip(columns, [f"Model-ql{q:.10g}" for q in question.quantiles], strict=True))
            return arrange(answer.rename(columns=renamed), history, question)

        return predict

    return fit


class TrainingStopped(Exception):  # noqa: N818 - what happened, not a mistake
    """A training that took too long: after so many of its steps, of so many processor seconds each."""

    def __init__(self, steps: int, asked: int, pace: float) -> None:
        super().__init__(f"stopped after {steps:,} of {asked:,} steps, {pace:.2g} s each")
        self.steps, self.asked = steps, asked


def lightgbm(train: pd.DataFrame, question: Question) -> Predictor:
    """LightGBM with lags through mlforecast.

    Whether values are differenced at the season or scaled is chosen on the last horizon of the training rows.
    """
    from mlforecast.utils import PredictionIntervals

    train = train[COLUMNS]
    season, horizon = question.season, question.horizon
    shortest = int(train.groupby("unique_id").size().min())
    behind = train.groupby("unique_id", sort=False).cumcount(ascending=False)
    earlier, newest = train[behind >= horizon], train[behind < horizon]
    errors = {}
    for differenced in (True, False):
        trial = _boosted(question, shortest - horizon, differenced=differenced, quantiles=())
        trial.fit(earlier, static_features=[])
        answer = trial.predict(horizon).merge(newest, on=["unique_id", "ds"])
        scale = answer.groupby("unique_id")["y"].transform(lambda values: values.abs().mean()) + 1e-9
        errors[differenced] = float(((answer["Model"] - answer["y"]).abs() / scale).mean())
    differenced = errors[True] <= errors[False]
    windows = min(CONFORMAL_WINDOWS, (shortest - _longest_lag(question, shortest) - season - 1) // horizon)
    if windows < 2:
        direct = _boosted(question, shortest, differenced=differenced, quantiles=question.quantiles)
        direct.fit(train, static_features=[], max_horizon=horizon)
        return lambda history, future: arrange(direct.predict(horizon, new_df=history[COLUMNS]), history, question)
    model = _boosted(question, shortest, differenced=differenced, quantiles=())
    model.fit(train, static_features=[], prediction_intervals=PredictionIntervals(n_windows=windows, h=horizon))
    levels = sorted({round(abs(200 * quantile - 100), 6) for quantile in question.quantiles if quantile != 0.5})

    def predict(history: pd.DataFrame, future: pd.DataFrame) -> Floats:
        answer = model.predict(horizon, new_df=history[COLUMNS], level=levels)
        return arrange(_quantile_columns(answer, "Model", question), history, question)

    return predict


def _boosted(question: Question, shortest: int, *, differenced: bool, quantiles: tuple[float, ...]) -> Any:
    """mlforecast's forecaster: one model of the mean, or one for each quantile."""
    from lightgbm import LGBMRegressor
    from mlforecast import MLForecast
    from mlforecast.target_transforms import Differences, LocalStandardScaler

    settings: dict[str, Any] = {"n_jobs": 1, "verbosity": -1, "random_state": question.seed}
    models = {
        f"Model-ql{quantile:.10g}": LGBMRegressor(objective="quantile", alpha=quantile, **settings)
        for quantile in quantiles
    } or {"Model": LGBMRegressor(**settings)}
    longest = _longest_lag(question, shortest)
    seasons = {question.season * k for k in range(1, 8)}
    return MLForecast(
        models,
        freq=question.frequency,
        lags=sorted(lag for lag in {*range(1, 13), *seasons} if lag <= longest),
        target_transforms=[Differences([question.season])] if differenced else [LocalStandardScaler()],
    )


def _longest_lag(question: Question, shortest: int) -> int:
    """Lags that leave the shortest series half of its rows to learn from, after differences."""
    return max(1, min(7 * question.season if question.season > 1 else 12, (shortest - question.season) // 2))


def _quantile_columns(answer: pd.DataFrame, name: str, question: Question) -> pd.DataFrame:
    """Nixtla's columns of levels under the names of the quantiles that they are; the point forecast is the median."""
    answer = answer if "unique_id" in answer.columns else answer.reset_index()
    columns = {"unique_id": answer["unique_id"]}
    for quantile in question.quantiles:
        level = round(abs(200 * quantile - 100), 6)
        ends = f"{name}-{'lo' if quantile < 0.5 else 'hi'}-"
        source = (
            name if quantile == 0.5 else next(c for c in answer.columns if c in (f"{ends}{level:g}", f"{ends}{level}"))
        )
        columns[f"Model-ql{quantile:.10g}"] = answer[source]
    return pd.DataFrame(columns)


def _stop_after(seconds: float) -> Any:
    """A callback of Lightning's trainer that ends a training after so many processor seconds."""
    from pytorch_lightning import Callback

    class Watch(Callback):  # type: ignore[misc, unused-ignore]
        began, steps, pace, stopped = 0.0, 0, 0.0, False

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            self.began = time.process_time()

        def on_train_batch_end(self, trainer: Any, pl_module: Any, *args: Any) -> None:
            self.steps, spent = trainer.global_step, time.process_time() - self.began
            self.pace = spent / max(self.steps, 1)
            if spent > seconds:
                self.stopped = trainer.should_stop = True

    return Watch()


def quiet() -> None:
    """Libraries' own notes are no part of a comparison."""
    warnings.filterwarnings("ignore")


THIRTY_MINUTES = 1_800.0
"""Processor seconds after which a fit is stopped; its row is left out of verdicts."""

LIBRARIES: Mapping[str, Model] = {
    "AutoETS": statsforecast("AutoETS"),
    "AutoTheta": statsforecast("AutoTheta"),
    "AutoARIMA": statsforecast("AutoARIMA"),
    "AutoETS+Theta+ARIMA": statsforecast("AutoETS", "AutoTheta", "AutoARIMA"),
    "LightGBM": lightgbm,
    "NHITS": neuralforecast("NHITS", longest=THIRTY_MINUTES),
    "DLinear": neuralforecast("DLinear", longest=THIRTY_MINUTES),
}
