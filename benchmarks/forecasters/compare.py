"""``python -m benchmarks.forecasters.compare [--tables …] [--methods …]``: people's tables by several libraries.

`FernForecaster` with its defaults against neuralforecast's DLinear, NHITS and PatchTST with theirs (and its conformal
intervals), statsforecast's AutoETS and a seasonal naive, on the same tables and the same cut-offs: several windows at
the end of each table, one fit before the first. Written down are MSE and MAE of the point forecast (of values divided
by the training part's standard deviation, so that tables compare), the MSE's standard error over the windows, the CRPS
from 19 quantiles, the coverage of 80 and 95 % intervals and the processor seconds of fit and forecast; of simulated
systems also the MSE of the best possible forecast on the same windows, below which a method can only come by chance. A
library that is not installed is left out and said so. neuralforecast trains twice, once for its conformal intervals; a
training that passes `LONGEST` processor seconds is stopped there, and its row says after how many steps. Rows go to
``benchmarks/forecasters/results/``; those there are already are skipped.
"""

import argparse
import json
import logging
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fern.data import load
from fern.data.datasets import published
from fern.systems import oracle, scenario, simulate

RESULTS = Path(__file__).parent / "results"
LEVELS = (80, 95)
LONGEST = 120.0
"""Processor seconds of one training of neuralforecast: several times what `FernForecaster` takes for a whole fit."""
SHARES = tuple(np.round(np.arange(1, 20) / 20, 2).tolist())
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """A table in long form, what to forecast of it and how often; ``floor`` is the best possible forecast."""

    name: str
    frame: pd.DataFrame
    horizon: int
    frequency: str | int
    season: int
    windows: int
    floor: Floats | None = None  # (windows, series, H)


@dataclass(frozen=True)
class Answer:
    """Forecasts of every window: ``quantiles`` at `SHARES`, and the ends of the intervals of `LEVELS`."""

    mean: Floats  # (windows, series, H)
    quantiles: Floats  # (shares, windows, series, H)
    ends: Mapping[int, tuple[Floats, Floats]]
    fit_seconds: float
    predict_seconds: float
    cut: tuple[int, int] | None = None  # steps taken and steps asked for, where the training was stopped before its end


Method = Callable[[Case, list[pd.DataFrame]], Answer]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=list(TABLES))
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    given = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    for table in given.tables:
        case = TABLES[table]()
        for name in given.methods:
            path = RESULTS / f"{table}-{name}.json"
            if path.exists():
                continue
            try:
                row = compared(case, name)
            except ModuleNotFoundError as error:
                print(f"{name}: {error.name} is not installed: left out", flush=True)
                continue
            path.write_text(json.dumps(row, indent=1) + "\n")
            print(json.dumps(row), flush=True)


def compared(case: Case, name: str) -> dict[str, Any]:
    """The row of one method on one table."""
    needed = case.horizon * case.windows
    groups = [rows.reset_index(drop=True) for _, rows in case.frame.groupby("unique_id", sort=False)]
    histories = [
        pd.concat([rows.iloc[: len(rows) - needed + window * case.horizon] for rows in groups], ignore_index=True)
        for window in range(case.windows)
    ]
    truth = np.stack([rows["y"].to_numpy()[-needed:].reshape(case.windows, -1) for rows in groups], axis=1)
    scale = np.array([rows["y"].to_numpy()[:-needed].std() for rows in groups])[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        answer = METHODS[name](case, histories)
        logging.disable(logging.NOTSET)
    squared = np.square((answer.mean - truth) / scale)
    by_window = squared.mean(axis=(1, 2))
    floor = {} if case.floor is None else {"floor_mse": float(np.square((case.floor - truth) / scale).mean())}
    missed = (truth[None] - answer.quantiles) / scale
    shares = np.array(SHARES)[:, None, None, None]
    return {
        "command": f"python -m benchmarks.forecasters.compare --tables {case.name} --methods {name}",
        "table": case.name,
        "method": name,
        "rows": len(case.frame),
        "series": len(groups),
        "horizon": case.horizon,
        "windows": case.windows,
        "mse": float(squared.mean()),
        "mse_error": float(by_window.std(ddof=1) / np.sqrt(case.windows)),
        **floor,
        "mae": float(np.sqrt(squared).mean()),
        "crps": float(2 * np.maximum(shares * missed, (shares - 1) * missed).mean()),
        **{
            f"coverage_{level}": float(((low <= truth) & (truth <= high)).mean())
            for level, (low, high) in answer.ends.items()
        },
        "fit_seconds": round(answer.fit_seconds, 2),
        "predict_seconds": round(answer.predict_seconds, 4),
        **({} if answer.cut is None else {"steps": answer.cut[0], "steps_asked": answer.cut[1]}),
    }


# --- tables ----------------------------------------------------------------------------------------------------


def air_passengers() -> Case:
    from tests.forecaster.air_passengers import AIR_PASSENGERS

    stamps = pd.date_range("1949-01-31", periods=144, freq="ME")
    frame = pd.DataFrame({"unique_id": "air", "ds": stamps, "y": np.array(AIR_PASSENGERS, dtype=float)})
    return Case("AirPassengers", frame, 12, "ME", 12, windows=2)


def real(name: str, *, horizon: int, frequency: str, season: int, windows: int, rows: int) -> Case:
    table = load(name, kind="pandas")
    columns = published(name).columns
    stamps = pd.date_range("2016-07-01", periods=len(table), freq=frequency)  # Weather's own repeat one stamp
    parts = [
        pd.DataFrame({"unique_id": column, "ds": stamps, "y": table[column].to_numpy(float)}).iloc[:rows]
        for column in columns
        if table[column].iloc[:rows].std() > 0
    ]
    return Case(name, pd.concat(parts, ignore_index=True), horizon, frequency, season, windows)


def simulated(name: str, *, rows: int, season: int, horizon: int = 96, windows: int = 40) -> Case:
    """As many windows as make the error bars small: more of them cost no more fits."""
    steps = rows + windows * horizon
    trajectory = simulate(scenario(name, steps=steps))
    parts = [
        pd.DataFrame({"unique_id": channel, "ds": np.arange(steps), "y": trajectory.values[:, c].astype(float)})
        for c, channel in enumerate(trajectory.channel_names)
    ]
    floor = oracle(trajectory, rows + horizon * np.arange(windows), horizon).swapaxes(1, 2)
    return Case(name, pd.concat(parts, ignore_index=True), horizon, 1, season, windows, floor)


TABLES: Mapping[str, Callable[[], Case]] = {
    "AirPassengers": air_passengers,
    "ETTh1": lambda: real("ETTh1", horizon=96, frequency="h", season=24, windows=10, rows=14_400),
    "ETTh2": lambda: real("ETTh2", horizon=96, frequency="h", season=24, windows=10, rows=14_400),
    "Weather": lambda: real("Weather", horizon=96, frequency="10min", season=144, windows=10, rows=20_000),
    "OU_BASE": lambda: simulated("OU_BASE", rows=8000, season=1),
    "SEASONAL_AR_BASE": lambda: simulated("SEASONAL_AR_BASE", rows=8000, season=24),
    "LORENZ_BASE": lambda: simulated("LORENZ_BASE", rows=8000, season=1),
}


# --- methods ---------------------------------------------------------------------------------------------------


def fern_forecaster(case: Case, histories: list[pd.DataFrame], model: str = "fern") -> Answer:
    from fern.forecaster import FernForecaster

    forecaster = FernForecaster(horizon=case.horizon, season=case.season, model=model, progress="silent")
    began = time.process_time()
    forecaster.fit(histories[0])
    fitted = time.process_time()
    shares = [*SHARES, 0.025, 0.975]
    found = [forecaster.predict(history, quantiles=shares) for history in histories]
    predicted = time.process_time()
    label = next(column for column in found[0].columns if column not in ("unique_id", "ds"))
    names = [label, *(f"{label}-ql{share:.10g}" for share in shares)]
    values = _stacked(found, names, case)
    return _answer(values[0], values[1:], shares, fitted - began, predicted - fitted)


def neuralforecast(case: Case, histories: list[pd.DataFrame], model: str) -> Answer:
    import neuralforecast as library
    from neuralforecast import models
    from neuralforecast.losses.pytorch import MAE
    from neuralforecast.utils import PredictionIntervals

    quiet = {"enable_progress_bar": False, "logger": False, "enable_model_summary": False, "accelerator": "cpu"}
    steps: list[int] = []
    chosen = getattr(models, model)(
        h=case.horizon, input_size=3 * case.horizon, loss=MAE(), callbacks=[_time_limit(LONGEST, steps)], **quiet
    )
    frame = library.NeuralForecast(models=[chosen], freq=case.frequency)
    began = time.process_time()
    frame.fit(histories[0], prediction_intervals=PredictionIntervals(n_windows=2))
    fitted = time.process_time()
    levels = sorted({round(abs(200 * share - 100), 6) for share in (*SHARES, 0.025) if share != 0.5})
    levels = [int(level) for level in levels]
    found = [frame.predict(history, level=levels) for history in histories]
    predicted = time.process_time()
    shares, names = _shares_of_levels(model, levels)
    values = _stacked(found, [model, *names], case)
    answer = _answer(values[0], values[1:], shares, fitted - began, predicted - fitted)
    return replace(answer, cut=(min(steps), chosen.max_steps)) if min(steps) < chosen.max_steps else answer


def _time_limit(seconds: float, steps: list[int]) -> Any:
    """A callback of Lightning's trainer that ends a training after so many processor seconds.

    The steps of each training are added to ``steps``.
    """
    from pytorch_lightning import Callback

    class TimeLimit(Callback):  # type: ignore[misc]
        began = 0.0

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            self.began = time.process_time()

        def on_train_batch_end(self, trainer: Any, pl_module: Any, *args: Any) -> None:
            trainer.should_stop = time.process_time() - self.began > seconds

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            steps.append(trainer.global_step)

    return TimeLimit()


def statsforecast(case: Case, histories: list[pd.DataFrame], model: str) -> Answer:
    import statsforecast as library
    from statsforecast import models

    levels = [round(abs(200 * share - 100)) for share in (*SHARES, 0.025) if share < 0.5]
    chosen = getattr(models, model)(season_length=case.season)
    began = time.process_time()
    found, spent = [], 0.0
    for number, history in enumerate(histories):
        if model == "AutoETS":  # a local method: the newest rows are what it is about
            history = history.groupby("unique_id", sort=False).tail(max(1000, 10 * case.season))
        start = time.process_time()
        library_frame = library.StatsForecast(models=[chosen], freq=case.frequency, n_jobs=1)
        found.append(library_frame.forecast(df=history, h=case.horizon, level=levels))
        spent = time.process_time() - start if number == 0 else spent
    total = time.process_time() - began
    shares, names = _shares_of_levels(model, levels)
    values = _stacked(found, [model, *names], case)
    return _answer(values[0], values[1:], shares, spent, total)


def _shares_of_levels(model: str, levels: list[int]) -> tuple[list[float], list[str]]:
    pairs = [
        (0.5 + side * level / 200, f"{model}-{end}-{level}")
        for level in levels
        for side, end in ((-1, "lo"), (1, "hi"))
    ]
    return [share for share, _ in pairs], [name for _, name in pairs]


def _stacked(found: list[pd.DataFrame], names: list[str], case: Case) -> Floats:  # (names, windows, series, H)
    order = list(dict.fromkeys(case.frame["unique_id"]))
    windows = []
    for frame in found:
        frame = frame if "unique_id" in frame.columns else frame.reset_index()
        by_name = {key: rows.sort_values("ds") for key, rows in frame.groupby("unique_id", sort=False)}
        windows.append(np.stack([by_name[name][names].to_numpy(float).T for name in order], axis=1))
    return np.stack(windows, axis=1)


def _answer(mean: Floats, values: Floats, shares: list[float], fit: float, predict: float) -> Answer:
    """Sorts what the library gave by probability; the median is the point forecast where it is not given."""
    by_share = {round(share, 6): value for share, value in zip(shares, values, strict=True)}
    by_share.setdefault(0.5, mean)
    ends = {level: (by_share[round(0.5 - level / 200, 6)], by_share[round(0.5 + level / 200, 6)]) for level in LEVELS}
    return Answer(mean, np.stack([by_share[round(share, 6)] for share in SHARES]), ends, fit, predict)


METHODS: Mapping[str, Method] = {
    "FernForecaster": fern_forecaster,
    "FernForecaster(model=dlinear)": lambda case, histories: fern_forecaster(case, histories, "dlinear"),
    "SeasonalNaive": lambda case, histories: statsforecast(case, histories, "SeasonalNaive"),
    "AutoETS": lambda case, histories: statsforecast(case, histories, "AutoETS"),
    "DLinear": lambda case, histories: neuralforecast(case, histories, "DLinear"),
    "NHITS": lambda case, histories: neuralforecast(case, histories, "NHITS"),
    "PatchTST": lambda case, histories: neuralforecast(case, histories, "PatchTST"),
}


if __name__ == "__main__":
    main()
