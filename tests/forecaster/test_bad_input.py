"""What a user can give wrong is refused with a message that says what was given and what is needed; nothing trains."""

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from fern.errors import FernError
from fern.forecaster import FernForecaster

ROWS = 60


def wide(rows: int = ROWS, **columns: Any) -> pd.DataFrame:
    """A daily table with two columns."""
    days = pd.date_range("2021-01-01", periods=rows, freq="D")
    wave = np.sin(np.arange(rows) / 3)
    return pd.DataFrame({"ds": days, "a": wave, "b": 2 * wave, **columns})


def long(rows: int = ROWS, **columns: Any) -> pd.DataFrame:
    """Two daily series, one below the other."""
    one = wide(rows)[["ds", "a"]].rename(columns={"a": "y"})
    both = pd.concat([one.assign(unique_id=name) for name in ("u", "v")], ignore_index=True)
    return both[["unique_id", "ds", "y"]].assign(**columns)


def changed(frame: pd.DataFrame, column: str, row: int, value: Any) -> pd.DataFrame:
    """The frame with another value in one place."""
    values = frame[column].tolist()
    values[row] = value
    return frame.assign(**{column: values})


def cut(frame: pd.DataFrame, *rows: int) -> pd.DataFrame:
    """The frame without these rows."""
    return frame.drop(index=list(rows)).reset_index(drop=True)


def swapped(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with two rows in the wrong order."""
    order = list(range(len(frame)))
    order[10], order[11] = order[11], order[10]
    return frame.iloc[order].reset_index(drop=True)


def hours(rows: int = ROWS) -> pd.DatetimeIndex:
    return pd.date_range("2021-01-01", periods=rows, freq="h")


@dataclass(frozen=True)
class Fitted:
    """Forecasters of a long and of a wide table that needed no training."""

    long: FernForecaster
    wide: FernForecaster


@pytest.fixture(scope="module")
def fitted() -> Fitted:
    settings: dict[str, Any] = {"horizon": 4, "context_length": 8, "model": "last-value", "progress": "silent"}
    return Fitted(FernForecaster(**settings).fit(long()), FernForecaster(**settings).fit(wide()))


def fit(frame: Any, **settings: Any) -> Callable[[Fitted], Any]:
    return lambda _: FernForecaster(**{"horizon": 4, "progress": "silent", **settings}).fit(frame)


def argument(**settings: Any) -> Callable[[Fitted], Any]:
    return fit(wide(), **settings)


def validation(frame: Any = None, **given: Any) -> Callable[[Fitted], Any]:
    return lambda _: FernForecaster(horizon=4, progress="silent").cross_validation(
        wide() if frame is None else frame, **given
    )


WHOLE = "needs a whole number of at least 1"

ARGUMENTS = {
    "horizon 0": (argument(horizon=0), f"^horizon: got 0, {WHOLE}$"),
    "horizon below 0": (argument(horizon=-1), f"^horizon: got -1, {WHOLE}$"),
    "horizon with a fraction": (argument(horizon=1.5), f"^horizon: got 1.5, {WHOLE}$"),
    "horizon a truth value": (argument(horizon=True), f"^horizon: got True, {WHOLE}$"),
    "horizon as text": (argument(horizon="7"), f"^horizon: got '7', {WHOLE}$"),
    "horizon missing": (argument(horizon=None), f"^horizon: got None, {WHOLE}$"),
    "horizon of many days": (
        argument(horizon=datetime.timedelta(days=7)),
        "^horizon: got .*timedelta.*, needs a whole",
    ),
    "horizon a list": (argument(horizon=[1, 2]), r"^horizon: got \[1, 2\], needs"),
    "an unknown model": (argument(model="dlinaer"), "^unknown model 'dlinaer': did you mean 'dlinear'"),
    "a model that is no name": (argument(model=3), "^unknown model '3': Known: analog, dlinear"),
    "a model that is a list": (argument(model=["fern"]), "^unknown model .*did you mean 'fern'"),
    "an unknown model setting": (argument(model_settings={"hiden": 3}), "hiden.*did you mean 'hidden'"),
    "model settings that are no mapping": (
        argument(model_settings=[1]),
        r"^model_settings: got \[1\], needs a mapping",
    ),
    "a context longer than the series": (
        argument(context_length=61),
        "^context_length: got 61, the longest series has 60 rows in a row; give fewer, or 'auto'$",
    ),
    "context 0": (argument(context_length=0), f"^context_length: got 0, {WHOLE}, or 'auto'$"),
    "context as text": (argument(context_length="long"), "^context_length: got 'long', needs a whole number"),
    "context with a fraction": (argument(context_length=8.0), r"^context_length: got 8.0, needs a whole number"),
    "context an array": (argument(context_length=np.arange(3)), "^context_length: got array"),
    "season 0": (argument(season=0), "^season: got 0, needs a whole number"),
    "season a truth value": (argument(season=True), "^season: got True, needs a whole number"),
    "epochs 0": (argument(epochs=0), "^epochs: got 0, needs a whole number"),
    "epochs below 0": (argument(epochs=-5), "^epochs: got -5, needs a whole number"),
    "time limit 0": (argument(time_limit=0), "^time_limit: got 0, needs seconds above 0, or None$"),
    "time limit not a number": (argument(time_limit=float("nan")), "^time_limit: got nan, needs seconds above 0"),
    "time limit as text": (argument(time_limit="60s"), "^time_limit: got '60s', needs seconds above 0"),
    "an unknown rule for missing values": (
        argument(missing="fill"),
        "^unknown missing 'fill': did you mean 'ffill'.* Known: drop, error, ffill, interpolate$",
    ),
    "missing None": (argument(missing=None), "^unknown missing 'None': Known: drop, error"),
    "missing a list": (argument(missing=["ffill"]), "^unknown missing .*did you mean 'ffill'"),
    "ignore_columns as text": (argument(ignore_columns="b"), "^ignore_columns: got 'b', needs True or False"),
    "a seed below 0": (argument(seed=-1), "^seed: got -1, needs a whole number of at least 0$"),
    "a seed with a fraction": (argument(seed=0.5), "^seed: got 0.5, needs a whole number"),
    "threads 0": (argument(threads=0), "^threads: got 0, needs a whole number of at least 1, or None$"),
    "an unknown way to show progress": (argument(progress="loud"), "^unknown progress 'loud'.*Known: auto, bar"),
    "id_col that is not there": (argument(id_col="shop"), "^id_col: unknown column 'shop'"),
    "id_col that is no name": (argument(id_col=3), "^id_col: got 3, needs the name of a column"),
    "time_col that is not there": (argument(time_col="dss"), "^time_col: unknown column 'dss': did you mean 'ds'"),
    "time_col that is no name": (argument(time_col=["ds"]), r"^time_col: got \['ds'\], needs the name of a column"),
    "target_col that is not there": (argument(target_col="c"), "^target_col: unknown column 'c'"),
    "target_col that is no name": (
        argument(target_col=3),
        "^target_col: got 3, needs a column's name, or a list of them",
    ),
    "target_col without any": (argument(target_col=[]), r"^target_col: got \[\], needs a column's name"),
    "target_col twice the same": (argument(target_col=["a", "a"]), r"^target_col: \['a', 'a'\] contains duplicates"),
    "target_col that is the time": (argument(target_col="ds", time_col="ds"), "^target_col: 'ds' is the time column"),
    "target_col that names the series": (
        fit(long(), target_col="unique_id"),
        "^target_col: 'unique_id' is the identifier column",
    ),
    "two targets of a long table": (
        fit(long(z=1.0), target_col=["y", "z"]),
        r"^target_col: got \['y', 'z'\]; a long frame has one target, a wide one may have many$",
    ),
    "an unknown parameter": (
        lambda _: FernForecaster(horizon=3).set_params(horizn=3),
        "^unknown parameter 'horizn': did you mean 'horizon'",
    ),
}

NUMBERS = "needs (a list of )?numbers"

FRAMES = {
    "nothing": (fit(None), "^frame: got NoneType, needs a pandas, polars or pyarrow data frame$"),
    "a list": (fit([1.0, 2.0]), "^frame: got list, needs a pandas, polars or pyarrow data frame$"),
    "an array": (fit(np.zeros((9, 2))), "^frame: got ndarray, needs a pandas, polars or pyarrow data frame$"),
    "a dictionary": (fit({"y": [1.0]}), "^frame: got dict, needs a pandas, polars or pyarrow data frame$"),
    "a column alone": (fit(wide()["a"]), "^frame: got Series, needs a.* data frame$"),
    "a lazy frame": (fit(pl.from_pandas(wide()).lazy()), r"^frame: got a lazy frame, needs a collected one"),
    "a class": (fit(pd.DataFrame), "^frame: got type, needs a pandas"),
    "an empty frame": (fit(wide().iloc[:0]), "^frame: has .*no rows$"),
    "an empty polars frame": (fit(pl.from_pandas(wide()).clear()), "^frame: has .*no rows$"),
    "a frame without columns": (fit(pd.DataFrame()), "^frame: has no columns$"),
    "one row": (fit(wide(1)), "^frame: 1 row, a series needs at least 2$"),
    "one row of a series": (fit(cut(long(), *range(61, 120))), "^frame, series 'v': 1 row, a series needs at least 2$"),
    "a time column alone": (fit(wide()[["ds"]]), "^frame: has no value column besides the time column"),
    "an identifier without a target": (fit(long()[["unique_id", "ds"]]), "^frame: has no value column"),
    "a long table with two candidates for the target": (
        fit(long().rename(columns={"y": "sold"}).assign(price=1.0)),
        "^frame: the columns sold, price could all be the target; name it by target_col$",
    ),
    "an extra column of numbers": (
        fit(long(price=1.0)),
        "^frame: 'price' is neither identifier, time nor target; covariates are not supported yet: "
        "ignore_columns=True leaves such columns out$",
    ),
    "extra columns of text": (
        fit(wide(shop="x", town="y")),
        "^frame: 'shop', 'town' are neither identifier, time nor target; covariates are not supported yet",
    ),
    "numbers with a word among them": (
        fit(changed(wide().astype({"a": str}), "a", 3, "closed")),
        r"^frame: column 'a' holds text \('closed' in data row 4\), needs numbers",
    ),
    "a target of text": (
        fit(wide(a="x"), target_col="a", ignore_columns=True),
        r"^frame: column 'a' holds text \('x' in data row 1\), needs numbers",
    ),
    "a missing value": (
        fit(changed(wide(), "a", 5, np.nan)),
        r"^frame: column 'a' has 1 missing or infinite value.* \(first in data row 6\); missing='interpolate'",
    ),
    "a missing value of a series": (
        fit(changed(long(), "y", 65, np.nan)),
        r"^frame, series 'v': column 'y' has 1 missing .*\(first in data row 6\)",
    ),
    "an infinite value": (fit(changed(wide(), "b", 0, np.inf)), "^frame: column 'b' has 1 missing or infinite value"),
    "a column without values": (fit(wide(b=np.nan)), "^frame: column 'b' has no values; "),
    "a column of nothing": (fit(wide(b=None)), "^frame: column 'b' has no values; "),
    "a column without values, filled": (fit(wide(b=np.nan), missing="ffill"), "^frame: column 'b' has no values; "),
    "no whole row to keep": (
        fit(wide(b=np.nan), missing="drop"),
        "^frame: every row has a missing value; nothing is left to forecast from$",
    ),
    "the same stamp twice": (
        fit(changed(wide(), "ds", 7, pd.Timestamp("2021-01-07"))),
        r"^frame: 1 duplicate time stamp.*\(first in data row 8\); .*equally spaced",
    ),
    "the same stamp twice in a series": (
        fit(changed(long(), "ds", 67, pd.Timestamp("2021-01-07"))),
        r"^frame, series 'v': 1 duplicate time stamp.*\(first in data row 8\)",
    ),
    "rows in the wrong order": (
        fit(swapped(wide())),
        r"^frame: 1 time stamp earlier than the one before \(first in data row 12\)",
    ),
    "stamps at odd times": (
        fit(changed(wide(), "ds", 20, pd.Timestamp("2021-01-21 05:17"))),
        r"^frame: 2 steps off the grid of 1 day \(first in data row 21\)",
    ),
    "a missing stamp": (fit(changed(wide(), "ds", 4, pd.NaT)), r"^frame: 1 empty time stamp \(first in data row 5\)"),
    "a gap in time": (
        fit(cut(wide(), 30, 31)),
        "^frame: rows are missing in 1 place.*, first between 2021-01-30.* and 2021-02-02.*; missing='interpolate'",
    ),
    "a gap in the time of a series": (fit(cut(long(), 90)), "^frame: series 'v': rows are missing in 1 place"),
    "series of different frequencies": (
        fit(pd.concat([long(), pd.DataFrame({"unique_id": "h", "ds": hours(), "y": 1.0})])),
        "^mixed frequencies: series 'u' steps by 1 day, series 'h' by 1 hour; forecast them separately$",
    ),
    "dates that may be day or month first": (
        fit(wide(2, ds=["03/04/2021", "04/05/2021"])),
        r"^time column 'ds': '03/04/2021' could be day first or month first; write dates as 2020-12-31$",
    ),
    "stamps that are no dates": (
        fit(wide(ds="soon"), time_col="ds"),
        "^time column 'ds': cannot read 'soon', needs dates, timestamps or integers$",
    ),
    "a time column of fractions": (
        fit(wide(ds=np.arange(ROWS) / 2), time_col="ds"),
        "^frame: time column 'ds' holds double, needs dates, timestamps or integers$",
    ),
    "fractions that look like time": (
        fit(wide().drop(columns="ds").assign(time=np.arange(ROWS) / 100)),
        "^frame: column 'time' looks like time but holds fractions; give dates or integers",
    ),
    "a second time column": (fit(wide(b=hours())), "'b' is .*(second time column|neither identifier, time nor target)"),
    "time zones mixed in a column": (
        fit(changed(wide().astype({"ds": object}), "ds", 3, pd.Timestamp("2021-01-04", tz="Europe/Berlin"))),
        "^frame: column 'ds' has stamps with a time zone and stamps without; use one of them$",
    ),
    "years beyond what nanoseconds hold": (
        fit(pa.table({"ds": pa.array([0, 10**12], pa.timestamp("s")), "y": [1.0, 2.0]})),
        "^time column 'ds': has years outside 1678 to 2262$",
    ),
    "lists in a column": (fit(wide(b=[[1.0, 2.0]] * ROWS)), "'b' .*(list|neither)"),
    "records in a column": (fit(pa.table({"ds": [1, 2], "y": [{"v": 1.0}, {"v": 2.0}]})), "'y' .*(struct|neither)"),
    "complex numbers": (fit(wide(b=np.ones(ROWS, dtype=complex))), "^frame: .*complex"),
    "durations": (fit(wide(b=pd.Timedelta(hours=1))), "'b' .*(duration|neither)"),
    "objects": (fit(wide(b=[object()] * ROWS)), "^frame: "),
    "numbers and text in one column": (
        fit(changed(wide().astype({"b": object}), "b", 3, "x")),
        "^frame: .*mixed types",
    ),
    "bytes": (fit(wide(b=b"1.5")), "'b' .*(binary|neither)"),
    "a column twice": (fit(pd.concat([wide(), wide()[["a"]]], axis=1)), "^frame: column 'a' appears 2 times$"),
    "a MultiIndex": (
        fit(long().set_index(["unique_id", "ds"])),
        "^frame: has a MultiIndex; turn its levels into columns",
    ),
    "columns in two levels": (
        fit(pd.concat({"x": wide()}, axis=1)),
        r"^frame: its columns have 2 levels; give each one name$",
    ),
    "an empty name of a series": (fit(changed(long(), "unique_id", 3, None)), "^frame: column 'unique_id' has 1 empty"),
    "a series' name that is a number that is not there": (
        fit(long(unique_id=np.nan)),
        "^frame: column 'unique_id' has 120 empty series names$",
    ),
}

PREDICTIONS = {
    "before fit": (
        lambda _: FernForecaster(horizon=3).predict(),
        r"^this forecaster is not fitted yet; call fit\(df\)",
    ),
    "simulate before fit": (lambda _: FernForecaster(horizon=3).simulate(), "^this forecaster is not fitted yet"),
    "total before fit": (lambda _: FernForecaster(horizon=3).total(), "^this forecaster is not fitted yet"),
    "h 0": (lambda f: f.long.predict(h=0), f"^h: got 0, {WHOLE}$"),
    "h with a fraction": (lambda f: f.long.predict(h=2.0), f"^h: got 2.0, {WHOLE}$"),
    "h a truth value": (lambda f: f.long.predict(h=True), f"^h: got True, {WHOLE}$"),
    "h as text": (lambda f: f.long.predict(h="3"), f"^h: got '3', {WHOLE}$"),
    "level and quantiles": (
        lambda f: f.long.predict(level=[80], quantiles=[0.1]),
        "^level, quantiles: got both, give one of them$",
    ),
    "level 0": (lambda f: f.long.predict(level=[0]), "^level: got 0, needs numbers between 0 and 100"),
    "level 100": (lambda f: f.long.predict(level=100), "^level: got 100, needs numbers between 0 and 100"),
    "level not a number": (lambda f: f.long.predict(level=[np.nan]), "^level: got nan, needs numbers"),
    "level as text": (lambda f: f.long.predict(level="80"), f"^level: got '80', {NUMBERS}"),
    "level as texts": (lambda f: f.long.predict(level=["80"]), f"^level: got '80', {NUMBERS}"),
    "level a truth value": (lambda f: f.long.predict(level=[True]), f"^level: got True, {NUMBERS}"),
    "level without any": (lambda f: f.long.predict(level=[]), r"^level: got \[\], needs a list of numbers"),
    "level twice the same": (lambda f: f.long.predict(level=[80, 80.0]), r"^level: \[80, 80.0\] contains duplicates$"),
    "level a table": (lambda f: f.long.predict(level=np.ones((2, 2))), "^level: got .*, needs"),
    "level a dictionary": (lambda f: f.long.predict(level={80: 1}), "^level: got {80: 1}, needs a list"),
    "level too near to 100": (lambda f: f.long.predict(level=[100 - 1e-13]), "^level: got .*needs numbers between"),
    "quantile 0": (lambda f: f.long.predict(quantiles=[0]), "^quantiles: got 0, needs numbers between 0 and 1"),
    "quantiles in percent": (
        lambda f: f.long.predict(quantiles=[10, 90]),
        "^quantiles: got 10, needs numbers between 0",
    ),
    "another frequency": (
        lambda f: f.wide.predict(wide(ds=hours())),
        "^frame: its time steps by 1 hour, the forecaster was fitted to 1 day$",
    ),
    "a wide table for a long one": (
        lambda f: f.long.predict(wide()),
        r"^frame: the forecaster was fitted to a long \(with an identifier column\) frame, needs the same$",
    ),
    "a long table for a wide one": (
        lambda f: f.wide.predict(long()),
        r"^frame: the forecaster was fitted to a wide \(a column for each channel\) frame, needs the same$",
    ),
    "a column less": (lambda f: f.wide.predict(wide()[["ds", "a"]]), "^(frame|target_col): .*'b'"),
    "a column more": (lambda f: f.wide.predict(wide(c=1.0)), "^frame: 'c' is neither identifier, time nor target"),
    "no time column where there was one": (lambda f: f.wide.predict(wide()[["a", "b"]]), "^frame: its time steps by"),
    "another target": (
        lambda f: f.long.predict(long().rename(columns={"y": "z"})),
        "^frame: its target is 'z', the forecaster was fitted to 'y'",
    ),
    "missing values in new rows": (
        lambda f: f.wide.predict(changed(wide(), "a", 59, np.nan)),
        "^frame: column 'a' has 1 missing",
    ),
    "an empty new frame": (lambda f: f.wide.predict(wide().iloc[:0]), "^frame: has .*no rows$"),
    "no paths": (lambda f: f.long.simulate(n_paths=0), f"^n_paths: got 0, {WHOLE}$"),
    "half a path": (lambda f: f.long.simulate(n_paths=1.5), f"^n_paths: got 1.5, {WHOLE}$"),
    "paths of a seed below 0": (
        lambda f: f.long.simulate(seed=-1),
        "^seed: got -1, needs a whole number of at least 0",
    ),
    "paths of a seed as text": (lambda f: f.long.simulate(seed="7"), "^seed: got '7', needs a whole number"),
    "totals by an unknown period": (lambda f: f.long.total(by="months"), "^unknown by 'months': did you mean 'month'"),
    "totals of an unknown kind": (lambda f: f.long.total(how="median"), "^unknown how 'median'.*Known: mean, sum$"),
    "totals by a list": (lambda f: f.long.total(by=["month"]), "^unknown by .*did you mean 'month'"),
    "an array of another shape": (
        lambda f: f.wide.predict_array(np.zeros((5, 2))),
        r"^past: got shape \(5, 2\), needs \(rows, channels\) \(8, 2\), or several such windows$",
    ),
    "an array of text": (lambda f: f.wide.predict_array([["x"] * 2] * 8), "^past: .*needs numbers"),
    "an array with NaN": (
        lambda f: f.wide.predict_array(np.full((8, 2), np.nan)),
        "^past: got nan .*needs finite numbers",
    ),
}

VALIDATIONS = {
    "no window": (validation(n_windows=0), f"^n_windows: got 0, {WHOLE}$"),
    "windows as text": (validation(n_windows="3"), f"^n_windows: got '3', {WHOLE}$"),
    "step 0": (validation(step_size=0), f"^step_size: got 0, {WHOLE}$"),
    "too many windows": (
        validation(n_windows=20),
        "^n_windows: 20 windows of 4 steps, 4 apart, need more than 80 rows; the series has 60$",
    ),
    "more windows than a series has room for": (
        validation(cut(long(), *range(80, 120)), n_windows=6),
        "need more than 24 rows; series 'v' has 20$",
    ),
    "refit and use_fitted": (
        validation(refit=True, use_fitted=True),
        "^refit, use_fitted: got both, give one of them$",
    ),
    "use_fitted before fit": (validation(use_fitted=True), "^this forecaster is not fitted yet"),
    "a horizon of 0": (
        lambda _: FernForecaster(horizon=0).cross_validation(wide()),
        f"^horizon: got 0, {WHOLE}$",
    ),
    "levels and quantiles to validate": (validation(level=80, quantiles=0.1), "^level, quantiles: got both"),
    "a frame that is none": (validation(SimpleNamespace()), "^frame: got SimpleNamespace, needs a pandas"),
}

TABLE = {
    f"{part}: {name}": case
    for part, cases in (
        ("argument", ARGUMENTS),
        ("frame", FRAMES),
        ("prediction", PREDICTIONS),
        ("validation", VALIDATIONS),
    )
    for name, case in cases.items()
}


@pytest.fixture(autouse=True)
def _nothing_trains(monkeypatch: pytest.MonkeyPatch, fitted: Fitted) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a training began before the mistake was found")

    monkeypatch.setattr("fern.forecaster.fitting.fit.train", refuse)


@pytest.mark.parametrize("name", TABLE)
def test_a_mistake_is_refused_in_plain_words(name: str, fitted: Fitted) -> None:
    call, message = TABLE[name]
    with pytest.raises(FernError, match=message):
        call(fitted)


def test_there_are_enough_of_them() -> None:
    assert len(TABLE) >= 60
