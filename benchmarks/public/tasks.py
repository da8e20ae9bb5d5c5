"""The public tasks as data: which series, which horizon, which windows, by which published protocol.

Chronos Benchmark II (autogluon/fev, ``benchmarks/chronos_zeroshot``): the last ``horizon`` rows of each series, once.
GIFT-Eval (SalesforceAIResearch/gift-eval): the last tenth of the rows in non-overlapping windows, at least one and at
most 20; the medium and long terms have 10 and 15 times the short horizon. M4: the competition's own test part. Prices
of electricity (fev-bench): the last 20 days, a day at a time, with day-ahead forecasts of load and generation known.

The files are those of ``FERN_DATA_DIR``; none of them is part of this repository.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fern.data.datasets import local_folders
from fern.errors import FernError, unknown_name

DECILES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
ENDS_OF_95 = (0.025, 0.975)
"""The ends of the interval that MSIS judges, asked of the M4 tasks beside the deciles."""
MOST_WINDOWS = 20
TEST_SHARE = 0.1
TERMS: Mapping[str, int] = {"short": 1, "medium": 10, "long": 15}

Benchmark = Literal["chronos", "gift", "m4", "fev"]


@dataclass(frozen=True)
class Task:
    """A table, what is forecast of it and how often, and where others' figures for it stand.

    Arguments:
        name: as on the command line.
        read: the whole table in long form (``unique_id``, ``ds``, ``y`` and the ``known`` columns).
        files: what ``read`` needs of the data folder.
        horizon: steps of a forecast.
        season: the lag of MASE's scale and of the seasonal naive, as the protocol has it.
        frequency: of the stamps, in pandas' words.
        windows: windows at the end of each series; None takes GIFT-Eval's rule.
        published: the names of this task in the tables of others, by benchmark.
        known: columns whose future values a model may read.
        development: whether its data may be used to choose settings; the others are kept for judging.
        step: rows from one window to the next; None is the horizon, so that windows do not overlap.
        judged: the column that forecasts are judged by, where it is not ``y``.
    """

    name: str
    read: Callable[[], pd.DataFrame]
    files: tuple[str, ...]
    horizon: int
    season: int
    frequency: str
    windows: int | None
    published: Mapping[Benchmark, str]
    known: tuple[str, ...] = ()
    development: bool = True
    step: int | None = None
    judged: str = "y"

    @property
    def quantiles(self) -> tuple[float, ...]:
        """The quantiles that are scored: the deciles, and for M4 the ends of its interval."""
        return (*DECILES, *ENDS_OF_95) if "m4" in self.published else DECILES

    @property
    def missing_files(self) -> list[str]:
        """Files that are not on this machine."""
        return [file for file in self.files if _find(file) is None]


@dataclass(frozen=True)
class Window:
    """Rows a model may read, the known columns of the rows it forecasts, and what came; made when asked for."""

    table: pd.DataFrame
    behind: NDArray[np.int64]  # rows that follow each row in its series
    known: tuple[str, ...]
    judged: str
    horizon: int
    after: int  # rows from the window's first one to the end of its series

    @property
    def history(self) -> pd.DataFrame:
        """All rows before the window: ``unique_id``, ``ds``, ``y`` and the known columns."""
        return self.table.loc[self.behind >= self.after, ["unique_id", "ds", "y", *self.known]].reset_index(drop=True)

    @property
    def future(self) -> pd.DataFrame:
        """The window's rows without what is forecast: ``unique_id``, ``ds`` and the known columns."""
        return self._ahead(["unique_id", "ds", *self.known])

    @property
    def truth(self) -> pd.DataFrame:
        """What came: ``unique_id``, ``ds``, ``y``."""
        return self._ahead(["unique_id", "ds", self.judged]).rename(columns={self.judged: "y"})

    def _ahead(self, columns: list[str]) -> pd.DataFrame:
        ahead = (self.behind < self.after) & (self.behind >= self.after - self.horizon)
        return self.table.loc[ahead, columns].reset_index(drop=True)


def count_windows(task: Task, table: pd.DataFrame) -> int:
    """Windows of each series.

    Example:
        >>> table = pd.DataFrame({"unique_id": ["a"] * 1000, "ds": range(1000), "y": 0.0})
        >>> [count_windows(named_task(name), table) for name in ("jena_10T_short", "jena_10T_long", "m4_weekly")]
        [3, 1, 1]
    """
    if task.windows is not None:
        return task.windows
    shortest = int(table.groupby("unique_id", sort=False).size().min())
    return min(max(1, math.ceil(TEST_SHARE * shortest / task.horizon)), MOST_WINDOWS)


def make_windows(task: Task, table: pd.DataFrame) -> list[Window]:
    """The windows of a task in the order of time; the first one's history is what a model is fitted to."""
    behind = table.groupby("unique_id", sort=False).cumcount(ascending=False).to_numpy(np.int64)
    step = task.horizon if task.step is None else task.step
    return [
        Window(table, behind, task.known, task.judged, task.horizon, task.horizon + step * later)
        for later in reversed(range(count_windows(task, table)))
    ]


def named_task(name: str) -> Task:
    """The task of this name."""
    if name not in TASKS:
        raise unknown_name("task", name, TASKS)
    return TASKS[name]


# --- readers ---------------------------------------------------------------------------------------------------


def _find(file: str) -> Path | None:
    return next((folder / file for folder in local_folders() if (folder / file).is_file()), None)


def _path(file: str) -> Path:
    path = _find(file)
    if path is None:
        raise FernError(f"{file}: is not on this machine; set FERN_DATA_DIR to a folder that has it")
    return path


def _melt(values: pd.DataFrame, stamps: pd.DatetimeIndex, *, prefix: str = "") -> pd.DataFrame:
    parts = [
        pd.DataFrame({"unique_id": f"{prefix}{column}", "ds": stamps, "y": values[column].to_numpy(float)})
        for column in values.columns
    ]
    return pd.concat(parts, ignore_index=True)


def _read_parquet(name: str) -> pd.DataFrame:
    table = pd.read_parquet(_path(f"benchmark_ii/{name}.parquet"))[["unique_id", "ds", "y"]]
    return table.astype({"unique_id": object})


def _read_etth() -> pd.DataFrame:
    """All columns of both transformers: 14 series."""
    parts = []
    for name in ("ETTh1", "ETTh2"):
        values = pd.read_csv(_path(f"{name}.csv"), parse_dates=["date"]).set_index("date")
        parts.append(_melt(values, pd.DatetimeIndex(values.index), prefix=f"{name}-"))
    return pd.concat(parts, ignore_index=True)


def _read_ett1(rows_each: int, frequency: str) -> pd.DataFrame:
    """ETTm1 in means of so many rows; what is left at the end is no full one and is dropped, as GIFT-Eval does."""
    values = pd.read_csv(_path("ETTm1.csv"), parse_dates=["date"]).set_index("date")
    count = len(values) // rows_each
    means = values.to_numpy(float)[: count * rows_each].reshape(count, rows_each, -1).mean(axis=1)
    stamps = pd.date_range(values.index[0], periods=count, freq=frequency)
    return _melt(pd.DataFrame(means, columns=values.columns), stamps)


def _read_jena() -> pd.DataFrame:
    """21 columns every ten minutes as published, -9999 in them included; stamps are counted, the file repeats one."""
    values = pd.read_csv(_path("weather.csv"), encoding="latin-1").drop(columns="date")
    stamps = pd.date_range("2020-01-01 00:10", periods=len(values), freq="10min")
    return _melt(values, stamps)


def _read_m4(group: str, frequency: str) -> pd.DataFrame:
    """Train and test part of a group one after the other; the stamps are made up."""
    train = pd.read_csv(_path(f"m4/{group}-train.csv"), index_col=0)
    test = pd.read_csv(_path(f"m4/{group}-test.csv"), index_col=0).loc[train.index]
    pairs = zip(train.to_numpy(float), test.to_numpy(float), strict=True)
    series = [np.concatenate([past[~np.isnan(past)], later]) for past, later in pairs]
    sizes = [len(values) for values in series]
    stamps = pd.date_range("2000-01-01", periods=max(sizes), freq=frequency).to_numpy()
    return pd.DataFrame(
        {
            "unique_id": np.repeat(train.index.to_numpy(object), sizes),
            "ds": np.concatenate([stamps[:size] for size in sizes]),
            "y": np.concatenate(series),
        }
    )


def _read_epf(market: str) -> pd.DataFrame:
    values = pd.read_csv(_path(f"epf/{market}.csv"), skipinitialspace=True)
    stamps = pd.to_datetime(values["date"], format="mixed")
    known = {column: values[column].to_numpy(float) for column in values.columns[1:-1]}
    return pd.DataFrame({"unique_id": market, "ds": stamps, "y": values[values.columns[-1]].to_numpy(float), **known})


# --- the tasks -------------------------------------------------------------------------------------------------


def _chronos(name: str, horizon: int, season: int, frequency: str, *, development: bool) -> Task:
    return Task(
        name=name,
        read=partial(_read_parquet, name),
        files=(f"benchmark_ii/{name}.parquet",),
        horizon=horizon,
        season=season,
        frequency=frequency,
        windows=1,
        published={"chronos": name},
        development=development,
    )


def _gift_terms(name: str, label: str, read: Callable[[], pd.DataFrame], file: str, **rest: object) -> list[Task]:
    return [
        Task(
            name=f"{name}_{term}",
            read=read,
            files=(file,),
            horizon=48 * longer,
            windows=None,
            published={"gift": f"{label}/{term}"},
            **rest,  # type: ignore[arg-type]
        )
        for term, longer in TERMS.items()
    ]


def _m4(group: str, label: str, horizon: int, season: int, frequency: str) -> Task:
    return Task(
        name=f"m4_{group.lower()}",
        read=partial(_read_m4, group, frequency),
        files=(f"m4/{group}-train.csv", f"m4/{group}-test.csv"),
        horizon=horizon,
        season=season,
        frequency=frequency,
        windows=1,
        published={"gift": f"m4_{group.lower()}/{label}/short", "m4": group.lower()},
    )


def _epf(market: str, *known: str, development: bool) -> Task:
    return Task(
        name=f"epf_{market}",
        read=partial(_read_epf, market),
        files=(f"epf/{market}.csv",),
        horizon=24,
        season=24,
        frequency="h",
        windows=20,
        published={"fev": f"epf_{market.lower()}"},
        known=known,
        development=development,
    )


TASKS: Mapping[str, Task] = {
    task.name: task
    for task in (
        Task("ETTh", _read_etth, ("ETTh1.csv", "ETTh2.csv"), 24, 24, "h", 1, {"chronos": "ETTh"}),
        _chronos("exchange_rate", 30, 5, "B", development=True),
        Task(
            name="hospital",
            read=partial(_read_parquet, "hospital"),
            files=("benchmark_ii/hospital.parquet",),
            horizon=12,
            season=12,
            frequency="MS",
            windows=1,
            published={"chronos": "hospital", "gift": "hospital/M/short"},
        ),
        _chronos("m3_yearly", 6, 1, "YS", development=True),
        _chronos("m3_quarterly", 8, 4, "QS", development=True),
        _chronos("m3_monthly", 18, 12, "MS", development=True),
        _m4("Hourly", "H", 48, 24, "h"),
        _m4("Weekly", "W", 13, 1, "W"),
        *_gift_terms("ett1_H", "ett1/H", partial(_read_ett1, 4, "h"), "ETTm1.csv", season=24, frequency="h"),
        *_gift_terms(
            "ett1_15T", "ett1/15T", partial(_read_ett1, 1, "15min"), "ETTm1.csv", season=96, frequency="15min"
        ),
        Task("ett1_D", partial(_read_ett1, 96, "D"), ("ETTm1.csv",), 30, 1, "D", None, {"gift": "ett1/D/short"}),
        Task(
            "ett1_W", partial(_read_ett1, 672, "W-FRI"), ("ETTm1.csv",), 8, 1, "W-FRI", None, {"gift": "ett1/W/short"}
        ),
        *_gift_terms("jena_10T", "jena_weather/10T", _read_jena, "weather.csv", season=144, frequency="10min"),
        _epf("NP", "Grid load forecast", "Wind power forecast", development=True),
        _epf("BE", "Generation forecast", "System load forecast", development=True),
        _chronos("car_parts", 12, 12, "MS", development=False),
        _chronos("m1_yearly", 6, 1, "YS", development=False),
        _chronos("m1_quarterly", 8, 4, "QS", development=False),
        _chronos("m1_monthly", 18, 12, "MS", development=False),
        _chronos("tourism_quarterly", 8, 4, "QS", development=False),
        _chronos("tourism_monthly", 24, 12, "MS", development=False),
        _epf("FR", "Generation forecast", "System load forecast", development=False),
        _epf("DE", "Ampirion Load Forecast", "PV+Wind Forecast", development=False),
        _epf("PJM", "System load forecast", "Zonal COMED load foecast", development=False),
    )
}
