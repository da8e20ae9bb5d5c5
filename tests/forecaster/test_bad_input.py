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


def hours(rows: int = ROWS) -> pd.DatetimeIndex:
    return pd.date_range("2021-01-01", periods=rows, freq="h")


@dataclass(frozen=True)
class Expected:
    """The fields of an error, and words in its text."""

    argument: str
    where: str
    words: str


def about(argument: str = "", *, where: str = "", words: str = "") -> Expected:
    return Expected(argument, where, words)


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


ARGUMENTS = {
    "horizon 0": (argument(horizon=0), about("horizon")),
    "horizon below 0": (argument(horizon=-1), about("horizon")),
    "horizon with a fraction": (argument(horizon=1.5), about("horizon")),
    "horizon a truth value": (argument(horizon=True), about("horizon")),
    "horizon as text": (argument(horizon="7"), about("horizon", words="'7'")),
    "horizon missing": (argument(horizon=None), about("horizon")),
    "horizon of many days": (
        argument(horizon=datetime.timedelta(days=7)),
        about("horizon"),
    ),
    "horizon a list": (argument(horizon=[1, 2]), about("horizon")),
    "an unknown model": (argument(model="dlinaer"), about("model", words="did you mean 'dlinear'")),
    "a model that is no name": (argument(model=3), about("model", words="'3'")),
    "a model that is a list": (argument(model=["fern"]), about("model", words="did you mean 'fern'")),
    "an unknown model setting": (
        argument(model_settings={"hiden": 3}),
        about(where="fern", words="did you mean 'hidden'"),
    ),
    "model settings that are no mapping": (
        argument(model_settings=[1]),
        about("model_settings"),
    ),
    "a context longer than the series": (
        argument(context_length=61),
        about("context_length"),
    ),
    "context 0": (argument(context_length=0), about("context_length")),
    "context as text": (argument(context_length="long"), about("context_length", words="'long'")),
    "context with a fraction": (argument(context_length=8.0), about("context_length")),
    "context an array": (argument(context_length=np.arange(3)), about("context_length")),
    "season 0": (argument(season=0), about("season")),
    "season a truth value": (argument(season=True), about("season")),
    "epochs 0": (argument(epochs=0), about("epochs")),
    "epochs below 0": (argument(epochs=-5), about("epochs")),
    "time limit 0": (argument(time_limit=0), about("time_limit")),
    "time limit not a number": (argument(time_limit=float("nan")), about("time_limit")),
    "time limit as text": (argument(time_limit="60s"), about("time_limit", words="'60s'")),
    "an unknown rule for missing values": (
        argument(missing="fill"),
        about("missing", words="did you mean 'ffill'"),
    ),
    "missing None": (argument(missing=None), about("missing", words="'None'")),
    "missing a list": (argument(missing=["ffill"]), about("missing", words="did you mean 'ffill'")),
    "ignore_columns as text": (argument(ignore_columns="b"), about("ignore_columns", words="'b'")),
    "a seed below 0": (argument(seed=-1), about("seed")),
    "a seed with a fraction": (argument(seed=0.5), about("seed")),
    "threads 0": (argument(threads=0), about("threads")),
    "an unknown way to show progress": (argument(progress="loud"), about("progress", words="'loud'")),
    "id_col that is not there": (argument(id_col="shop"), about("id_col", where="frame")),
    "id_col that is no name": (argument(id_col=3), about("id_col")),
    "time_col that is not there": (
        argument(time_col="dss"),
        about("time_col", where="frame", words="did you mean 'ds'"),
    ),
    "time_col that is no name": (argument(time_col=["ds"]), about("time_col")),
    "target_col that is not there": (argument(target_col="c"), about("target_col", where="frame")),
    "target_col that is no name": (
        argument(target_col=3),
        about("target_col"),
    ),
    "target_col without any": (argument(target_col=[]), about("target_col")),
    "target_col twice the same": (argument(target_col=["a", "a"]), about("target_col")),
    "target_col that is the time": (argument(target_col="ds", time_col="ds"), about("target_col", where="frame")),
    "target_col that names the series": (
        fit(long(), target_col="unique_id"),
        about("target_col", where="frame"),
    ),
    "two targets of a long table": (
        fit(long(z=1.0), target_col=["y", "z"]),
        about("target_col", where="frame"),
    ),
    "an unknown parameter": (
        lambda _: FernForecaster(horizon=3).set_params(horizn=3),
        about(words="did you mean 'horizon'"),
    ),
}

FRAMES = {
    "nothing": (fit(None), about("frame")),
    "a list": (fit([1.0, 2.0]), about("frame")),
    "an array": (fit(np.zeros((9, 2))), about("frame")),
    "a dictionary": (fit({"y": [1.0]}), about("frame")),
    "a column alone": (fit(wide()["a"]), about("frame")),
    "a lazy frame": (fit(pl.from_pandas(wide()).lazy()), about("frame")),
    "a class": (fit(pd.DataFrame), about("frame")),
    "an empty frame": (fit(wide().iloc[:0]), about("frame")),
    "an empty polars frame": (fit(pl.from_pandas(wide()).clear()), about("frame")),
    "a frame without columns": (fit(pd.DataFrame()), about(where="frame", words="has no columns")),
    "a time column alone": (fit(wide()[["ds"]]), about(where="frame", words="has no value column besides th")),
    "an identifier without a target": (
        fit(long()[["unique_id", "ds"]]),
        about(where="frame", words="has no value column besides th"),
    ),
    "a long table with two candidates for the target": (
        fit(long().rename(columns={"y": "sold"}).assign(price=1.0)),
        about("target_col", where="frame", words="sold, price"),
    ),
    "an extra column of numbers": (
        fit(long(price=1.0)),
        about("ignore_columns", where="frame", words="'price'"),
    ),
    "extra columns of text": (
        fit(wide(weather="x", town="y")),
        about("ignore_columns", where="frame", words="'weather'.*'town'"),
    ),
    "numbers with a word among them": (
        fit(changed(wide().astype({"a": str}), "a", 3, "closed")),
        about(where="frame", words="'a'.*'closed'.*data row 4"),
    ),
    "a target of text": (
        fit(wide(a="x"), target_col="a", ignore_columns=True),
        about(where="frame", words="'a'.*'x'.*data row 1"),
    ),
    "a missing value": (
        fit(changed(wide(), "a", 5, np.nan)),
        about("missing", where="frame", words="'a'.*data row 6"),
    ),
    "a missing value of a series": (
        fit(changed(long(), "y", 65, np.nan)),
        about("missing", where="frame, series 'v'", words="'y'.*data row 6"),
    ),
    "an infinite value": (fit(changed(wide(), "b", 0, np.inf)), about("missing", where="frame", words="'b'")),
    "a column without values": (fit(wide(b=np.nan)), about(where="frame", words="'b'")),
    "a column of nothing": (fit(wide(b=None)), about(where="frame", words="'b'")),
    "a column without values, filled": (fit(wide(b=np.nan), missing="ffill"), about(where="frame", words="'b'")),
    "no whole row to keep": (
        fit(wide(b=np.nan), missing="drop"),
        about(where="frame", words="every row has a missing value;"),
    ),
    "the same stamp twice": (
        fit(changed(wide(), "ds", 7, pd.Timestamp("2021-01-07"))),
        about(where="frame", words="data row 8"),
    ),
    "the same stamp twice in a series": (
        fit(changed(long(), "ds", 67, pd.Timestamp("2021-01-07"))),
        about(where="frame, series 'v'", words="'v'.*data row 8"),
    ),
    "stamps at odd times": (
        fit(changed(wide(), "ds", 20, pd.Timestamp("2021-01-21 05:17"))),
        about(where="frame", words="data row 21"),
    ),
    "a missing stamp": (fit(changed(wide(), "ds", 4, pd.NaT)), about(where="frame", words="data row 5")),
    "a gap in time": (
        fit(cut(wide(), 30, 31)),
        about("missing", where="frame"),
    ),
    "a gap in the time of a series": (fit(cut(long(), 90)), about("missing", where="frame, series 'v'", words="'v'")),
    "series of different frequencies": (
        fit(pd.concat([long(), pd.DataFrame({"unique_id": "h", "ds": hours(), "y": 1.0})])),
        about(words="'u'.*'h'"),
    ),
    "dates that may be day or month first": (
        fit(wide(2, ds=["03/04/2021", "04/05/2021"])),
        about("time_col", words="'ds'.*'03/04/2021'"),
    ),
    "stamps that are no dates": (
        fit(wide(ds="soon"), time_col="ds"),
        about("time_col", where="frame", words="'ds'.*'soon'"),
    ),
    "a time column of fractions": (
        fit(wide(ds=np.arange(ROWS) / 2), time_col="ds"),
        about(where="frame", words="'ds'"),
    ),
    "fractions that look like time": (
        fit(wide().drop(columns="ds").assign(time=np.arange(ROWS) / 100)),
        about("time_col", where="frame", words="'time'"),
    ),
    "a second time column": (fit(wide(b=hours())), about("ignore_columns", where="frame", words="'b'")),
    "time zones mixed in a column": (
        fit(changed(wide().astype({"ds": object}), "ds", 3, pd.Timestamp("2021-01-04", tz="Europe/Berlin"))),
        about("frame", words="'ds'"),
    ),
    "years beyond what nanoseconds hold": (
        fit(pa.table({"ds": pa.array([0, 10**12], pa.timestamp("s")), "y": [1.0, 2.0]})),
        about(words="'ds'"),
    ),
    "lists in a column": (fit(wide(b=[[1.0, 2.0]] * ROWS)), about("ignore_columns", where="frame", words="'b'")),
    "records in a column": (
        fit(pa.table({"ds": [1, 2], "y": [{"v": 1.0}, {"v": 2.0}]})),
        about("ignore_columns", where="frame", words="'y'"),
    ),
    "complex numbers": (fit(wide(b=np.ones(ROWS, dtype=complex))), about("frame")),
    "durations": (fit(wide(b=pd.Timedelta(hours=1))), about("ignore_columns", where="frame", words="'b'")),
    "objects": (fit(wide(b=[object()] * ROWS)), about("frame")),
    "numbers and text in one column": (
        fit(changed(wide().astype({"b": object}), "b", 3, "x")),
        about("frame"),
    ),
    "bytes": (fit(wide(b=b"1.5")), about("ignore_columns", where="frame", words="'b'")),
    "a column twice": (fit(pd.concat([wide(), wide()[["a"]]], axis=1)), about(where="frame", words="'a'")),
    "a MultiIndex": (
        fit(long().set_index(["unique_id", "ds"])),
        about("frame"),
    ),
    "columns in two levels": (
        fit(pd.concat({"x": wide()}, axis=1)),
        about("frame"),
    ),
    "an empty name of a series": (fit(changed(long(), "unique_id", 3, None)), about("frame", words="'unique_id'")),
    "a series' name that is a number that is not there": (
        fit(long(unique_id=np.nan)),
        about("frame", words="'unique_id'"),
    ),
}

PREDICTIONS = {
    "before fit": (
        lambda _: FernForecaster(horizon=3).predict(),
        about(words="this forecaster is not fitted "),
    ),
    "simulate before fit": (
        lambda _: FernForecaster(horizon=3).simulate(),
        about(words="this forecaster is not fitted "),
    ),
    "total before fit": (lambda _: FernForecaster(horizon=3).total(), about(words="this forecaster is not fitted ")),
    "h 0": (lambda f: f.long.predict(h=0), about("h")),
    "h with a fraction": (lambda f: f.long.predict(h=2.0), about("h")),
    "h a truth value": (lambda f: f.long.predict(h=True), about("h")),
    "h as text": (lambda f: f.long.predict(h="3"), about("h", words="'3'")),
    "level and quantiles": (
        lambda f: f.long.predict(level=[80], quantiles=[0.1]),
        about("level, quantiles"),
    ),
    "level 0": (lambda f: f.long.predict(level=[0]), about("level")),
    "level 100": (lambda f: f.long.predict(level=100), about("level")),
    "level not a number": (lambda f: f.long.predict(level=[np.nan]), about("level")),
    "level as text": (lambda f: f.long.predict(level="80"), about("level", words="'80'")),
    "level as texts": (lambda f: f.long.predict(level=["80"]), about("level", words="'80'")),
    "level a truth value": (lambda f: f.long.predict(level=[True]), about("level")),
    "level without any": (lambda f: f.long.predict(level=[]), about("level")),
    "level twice the same": (lambda f: f.long.predict(level=[80, 80.0]), about("level")),
    "level a table": (lambda f: f.long.predict(level=np.ones((2, 2))), about("level")),
    "level a dictionary": (lambda f: f.long.predict(level={80: 1}), about("level")),
    "level too near to 100": (lambda f: f.long.predict(level=[100 - 1e-13]), about("level")),
    "quantile 0": (lambda f: f.long.predict(quantiles=[0]), about("quantiles")),
    "quantiles in percent": (
        lambda f: f.long.predict(quantiles=[10, 90]),
        about("quantiles"),
    ),
    "another frequency": (
        lambda f: f.wide.predict(wide(ds=hours())),
        about("frame"),
    ),
    "a wide table for a long one": (
        lambda f: f.long.predict(wide()),
        about("frame"),
    ),
    "a long table for a wide one": (
        lambda f: f.wide.predict(long()),
        about("frame"),
    ),
    "a column less": (lambda f: f.wide.predict(wide()[["ds", "a"]]), about("target_col", where="frame")),
    "a column more": (lambda f: f.wide.predict(wide(c=1.0)), about("ignore_columns", where="frame", words="'c'")),
    "no time column where there was one": (lambda f: f.wide.predict(wide()[["a", "b"]]), about("frame")),
    "another target": (
        lambda f: f.long.predict(long().rename(columns={"y": "z"})),
        about("frame", words="'z'.*'y'"),
    ),
    "missing values in new rows": (
        lambda f: f.wide.predict(changed(wide(), "a", 59, np.nan)),
        about("missing", where="frame", words="'a'"),
    ),
    "an empty new frame": (lambda f: f.wide.predict(wide().iloc[:0]), about("frame")),
    "no paths": (lambda f: f.long.simulate(n_paths=0), about("n_paths")),
    "half a path": (lambda f: f.long.simulate(n_paths=1.5), about("n_paths")),
    "paths of a seed below 0": (
        lambda f: f.long.simulate(seed=-1),
        about("seed"),
    ),
    "paths of a seed as text": (lambda f: f.long.simulate(seed="7"), about("seed", words="'7'")),
    "totals by an unknown period": (lambda f: f.long.total(by="months"), about(words="did you mean 'month'")),
    "totals of an unknown kind": (lambda f: f.long.total(how="median"), about(words="'median'")),
    "totals by a list": (lambda f: f.long.total(by=["month"]), about(words="did you mean 'month'")),
    "an array of another shape": (
        lambda f: f.wide.predict_array(np.zeros((5, 2))),
        about("past"),
    ),
    "an array of text": (lambda f: f.wide.predict_array([["x"] * 2] * 8), about("past")),
    "an array with NaN": (
        lambda f: f.wide.predict_array(np.full((8, 2), np.nan)),
        about("past"),
    ),
}

VALIDATIONS = {
    "no window": (validation(n_windows=0), about("n_windows")),
    "windows as text": (validation(n_windows="3"), about("n_windows", words="'3'")),
    "step 0": (validation(step_size=0), about("step_size")),
    "too many windows": (
        validation(n_windows=20),
        about("n_windows"),
    ),
    "more windows than a series has room for": (
        validation(cut(long(), *range(80, 120)), n_windows=6),
        about("n_windows", words="'v'"),
    ),
    "refit and use_fitted": (
        validation(refit=True, use_fitted=True),
        about("refit, use_fitted"),
    ),
    "use_fitted before fit": (validation(use_fitted=True), about(words="this forecaster is not fitted ")),
    "a horizon of 0": (
        lambda _: FernForecaster(horizon=0).cross_validation(wide()),
        about("horizon"),
    ),
    "levels and quantiles to validate": (validation(level=80, quantiles=0.1), about("level, quantiles")),
    "a frame that is none": (validation(SimpleNamespace()), about("frame")),
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

    monkeypatch.setattr("fern.forecaster.fit.train", refuse)


@pytest.mark.parametrize("name", TABLE)
def test_a_mistake_is_refused_in_plain_words(name: str, fitted: Fitted) -> None:
    call, expected = TABLE[name]
    with pytest.raises(FernError, match=expected.words or None) as caught:
        call(fitted)
    assert (caught.value.argument, caught.value.where) == (expected.argument, expected.where), str(caught.value)
