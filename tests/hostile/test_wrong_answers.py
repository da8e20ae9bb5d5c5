"""What would be answered wrongly is refused, and what is no internal error is none."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tests.errors import raises_error
from tests.hostile.support import Case, cases, check, hourly

from fern import audit
from fern.errors import ABSENT
from fern.forecaster import FernForecaster

pytestmark = pytest.mark.filterwarnings("ignore::fern.forecaster.FernWarning")

DAYS = pd.date_range("2024-01-01", periods=100, freq="D")
RNG = np.random.default_rng(0)
WIDE = pd.DataFrame({"ds": DAYS, "a": RNG.standard_normal(100), "b": RNG.standard_normal(100)})
LONG = pd.DataFrame({"unique_id": np.repeat(["p", "q"], 100), "ds": np.tile(DAYS, 2), "y": RNG.standard_normal(200)})
HOURS = pd.date_range("2024-01-01", periods=100, freq="h")


def make_forecaster(**settings: Any) -> FernForecaster:
    return FernForecaster(4, model="dlinear", epochs=1, context_length=8, progress="silent", threads=1, **settings)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, FernForecaster]:
    """Forecasters of the first 60 days, saved and loaded."""
    folder = tmp_path_factory.mktemp("saved")
    for name, frame in {"wide": WIDE, "long": LONG}.items():
        make_forecaster().fit(frame[frame["ds"] < DAYS[60]]).save(folder / name)
    return {name: FernForecaster.load(folder / name) for name in ("wide", "long")}


UNLIKE = {
    "wide": {
        "other columns": WIDE.rename(columns={"a": "c"}),
        "hours for days": WIDE.assign(ds=HOURS),
        "long for wide": LONG,
        "no target": WIDE[["ds"]],
        "a column less": WIDE.drop(columns="a"),
    },
    "long": {
        "another target": LONG.rename(columns={"y": "z"}),
        "hours for days": LONG.assign(ds=np.tile(HOURS, 2)),
        "wide for long": WIDE,
        "no target": LONG.drop(columns="y"),
    },
}
USES = {
    "cross_validation": lambda model, frame: model.cross_validation(frame, use_fitted=True),
    "diagnose": lambda model, frame: model.diagnose(frame),
    "predict": lambda model, frame: model.predict(frame),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(("form", "table"), [(form, table) for form, tables in UNLIKE.items() for table in tables])
def test_a_table_unlike_the_fitted_one_is_refused(form: str, table: str, use: str, saved: dict[str, Any]) -> None:
    with raises_error():
        USES[use](saved[form], UNLIKE[form][table])


@pytest.mark.parametrize("use", USES)
def test_a_table_like_the_fitted_one_is_taken(use: str, saved: dict[str, FernForecaster]) -> None:
    USES[use](saved["wide"], WIDE)


@pytest.mark.parametrize("lost", [range(97, 98), range(92, 96)], ids=["within the window", "before the window"])
def test_a_window_across_a_gap_is_refused(lost: range) -> None:
    with raises_error("missing"):
        make_forecaster(missing="drop").cross_validation(WIDE.drop(index=lost))


def test_a_gap_elsewhere_is_no_matter() -> None:
    assert len(make_forecaster(missing="drop").cross_validation(WIDE.drop(index=range(30, 33)))) == 4


def test_levels_have_a_column_each_or_are_refused(saved: dict[str, FernForecaster]) -> None:
    assert saved["long"].predict(level=[80, 80.0000001]).shape[1] == 7
    with raises_error("level"):
        saved["long"].predict(level=[80, 80.00000000001])


TABLE = hourly(columns="größe")
SEVEN = TABLE.encode("utf-7")
PDF = b"%PDF-1.4\n" + b"".join(b"%010d 00000\n" % (17 * i) for i in range(80))
FORECAST = ("--model", "dlinear", "--epochs", "1", "--horizon", "4")
WITH_A_GAP = "".join(line for row, line in enumerate(hourly().splitlines(keepends=True)) if row not in (57, 58))


@cases(
    Case("a PDF", ("forecast", "x.csv", *FORECAST), 2, "PDF", {"x.csv": PDF}),
    Case("a PDF is audited", ("audit", "x.csv"), 2, "PDF", {"x.csv": PDF}),
    Case("UTF-7", ("forecast", "x.csv", *FORECAST), 2, "UTF-7", {"x.csv": SEVEN}),
    Case("UTF-7 that is named", ("audit", "x.csv", "--encoding", "utf-7"), 0, "größe", {"x.csv": SEVEN}),
    Case("UTF-7 with its mark", ("audit", "x.csv"), 2, "UTF-7", {"x.csv": b"+/v8-" + hourly().encode()}),
    Case("UTF-16 without its mark", ("audit", "x.csv", "--encoding", "utf-16"), 2, "utf-16", {"x.csv": hourly()}),
    Case("no such identifier", ("forecast", "x.csv", "--id", "unique_id", *FORECAST), 2, "--id", {"x.csv": hourly()}),
    Case("a sum is no UTF-7", ("audit", "x.csv"), 0, r"a\+b-c", {"x.csv": hourly(columns="a+b-c")}),
    Case("the identifier is time", ("forecast", "x.csv", "--id", "date", *FORECAST), 2, "--id", {"x.csv": hourly()}),
    Case("separator NUL", ("audit", "x.csv", "--separator", "\0"), 2, "--separator|separator", {"x.csv": hourly()}),
    Case("separator emoji", ("audit", "x.csv", "--separator", "🌿"), 2, "--separator|separator", {"x.csv": hourly()}),
    Case(
        "levels of one column",
        ("forecast", "x.csv", *FORECAST, "--level", "80,80.00000000001"),
        2,
        "--level|level",
        {"x.csv": hourly()},
    ),
    Case(
        "a gap in the window",
        ("backtest", "x.csv", *FORECAST, "--missing", "drop"),
        2,
        "missing|gap",
        {"x.csv": WITH_A_GAP},
    ),
    Case(
        "cells at the end of numbers",
        ("audit", "x.csv"),
        0,
        "28 rows",
        {"x.csv": "\n".join(["date,a", *(f"2020-01-{i + 1:02d},{(-1) ** i * 1.7e308}" for i in range(28))])},
    ),
    Case(
        "a jump to 1e300",
        ("audit", "x.csv"),
        0,
        "28 rows",
        {"x.csv": "\n".join(["date,a", *(f"2020-01-{i + 1:02d},{1e300 * (i > 26)}" for i in range(28))])},
    ),
)
def test_files_that_are_no_tables_and_columns_of_two_roles_are_refused(case: Case, capsys: Any) -> None:
    check(case, capsys)


def test_the_commands_refuse_a_table_unlike_the_fitted_one(capsys: Any) -> None:
    make_forecaster().fit(WIDE[:60]).save(Path("model"))
    for name, frame in UNLIKE["wide"].items():
        frame.to_csv("table.csv", index=False)
        for command in ("backtest", "diagnose"):
            check(Case(name, (command, "table.csv", "--model", "model"), 2, "error: "), capsys)


# --- honest input ---------------------------------------------------------------------------------------------

NOT_UTF_8 = pa.StringArray.from_buffers(
    2, pa.array([0, 2, 4], pa.int32()).buffers()[1], pa.py_buffer(b"\xff\xfe\xff\xfe")
)
FAR = pd.DataFrame({"ds": [*range(60), 10**12], "y": np.arange(61.0)})
BEYOND = pd.DataFrame({"ds": DAYS, "y": [10**30 + k for k in range(100)]})
ODD_CALLS: dict[str, Any] = {
    "text that is not UTF-8": lambda: make_forecaster().fit(
        pa.table({"unique_id": NOT_UTF_8, "ds": [1, 2], "y": [1.0, 2.0]})
    ),
    "values beyond 64 bits": lambda: make_forecaster().fit(BEYOND),
    "values beyond 64 bits, audited": lambda: audit(BEYOND),
    "times beyond 64 bits": lambda: make_forecaster().fit(BEYOND.rename(columns={"ds": "y", "y": "ds"})),
    "a gap of 10^12 rows": lambda: make_forecaster().fit(FAR),
    "a gap of 10^12 rows to fill": lambda: make_forecaster(missing="interpolate").fit(FAR),
    "text that is half of a surrogate pair": lambda: make_forecaster().fit(
        LONG.assign(unique_id=pd.Series(["\ud800"] * 100 + ["q"] * 100, dtype=object))
    ),
    "identifiers that are durations": lambda: make_forecaster().fit(
        LONG.assign(unique_id=pd.to_timedelta(np.repeat([1, 2], 100), unit="D"))
    ),
    "later rows without stamps": lambda: make_forecaster().fit(WIDE[:90]).update(WIDE[90:].assign(ds=pd.NaT)),
    "an endless season": lambda: make_forecaster(season=10**30).fit(WIDE),
    "an array for a calendar": lambda: make_forecaster(calendar=np.array([1, 2])).fit(WIDE),
    "an array for a precision": lambda: make_forecaster(precision=np.array([1, 2])).fit(WIDE),
    "a column that is called NaN": lambda: make_forecaster().fit(WIDE.rename(columns={"a": np.nan})).save("kept"),
    "a column that is called True": lambda: make_forecaster().fit(WIDE.rename(columns={"a": True})).save("kept"),
    "a context among the model's settings": lambda: make_forecaster(model_settings={"context_length": 8}).fit(WIDE),
    "a name among the model's settings": lambda: make_forecaster(model_settings={"name": "x"}).fit(WIDE),
    "a generator among the model's settings": lambda: make_forecaster(model_settings={"generator": 3}).fit(WIDE),
    "channels among the model's settings": lambda: make_forecaster(model_settings={"channels": 2}).fit(WIDE),
    "values without squares": lambda: make_forecaster().fit(WIDE.assign(a=1e160 * WIDE["a"])),
    "a short series without squares": lambda: (
        make_forecaster().fit(LONG).predict(LONG.head(5).assign(unique_id="new", y=1e300))
    ),
    "values far from the fitted": lambda: make_forecaster().fit(LONG).predict(LONG.assign(y=1e40 * LONG["y"])),
    "later rows far from the fitted": lambda: make_forecaster().fit(WIDE[:90]).update(WIDE[90:].assign(a=1e40)),
    "saved at the end of the calendar": lambda: (
        make_forecaster().fit(WIDE.assign(ds=pd.date_range(end="2262-04-10", periods=100))).save("kept")
    ),
    "a number that names a setting": lambda: make_forecaster(model_settings={3: 1}).fit(WIDE),
    "series that were read without covariates": lambda: make_forecaster(futr_exog_list=["promo"]).fit(
        make_forecaster().read(LONG)
    ),
    "static columns beside series that were read": lambda: make_forecaster().fit(
        make_forecaster().read(LONG), static_df=LONG
    ),
    "beyond the year 2262": lambda: (
        make_forecaster().fit(WIDE.assign(ds=pd.date_range(end="2262-04-10", periods=100, freq="D"))).predict()
    ),
}


@pytest.mark.parametrize("name", ODD_CALLS)
def test_odd_input_is_a_mistake_and_no_crash(name: str) -> None:
    with raises_error():
        ODD_CALLS[name]()


def test_a_record_batch_is_a_table() -> None:
    batch = pa.record_batch({"ds": pa.array(DAYS[:60]), "y": pa.array(WIDE["a"][:60])})
    assert make_forecaster().fit(batch).predict().num_rows == 4


def test_an_hour_that_an_old_clock_skipped_is_stepped_over() -> None:
    days = pd.date_range("1893-01-01", periods=89, freq="D").tz_localize("Europe/Berlin")  # April began 6 minutes late
    made = make_forecaster().fit(pd.DataFrame({"ds": days, "y": np.arange(89.0)})).predict()
    assert len(made) == 4 and made["ds"].is_monotonic_increasing


@pytest.mark.parametrize("steps", [1, "x", (1,), (1, 2, 3), (0, 1), (1, 99), (1.5, 2), (None, 1), {1: 2}, True])
def test_two_steps_of_a_plot_are_two_steps(steps: Any, saved: dict[str, FernForecaster]) -> None:
    with raises_error("joint", got=steps):
        saved["long"].plot(joint=steps)


@pytest.mark.parametrize("given", ["no", 1, None])
def test_a_truth_value_is_one(given: Any, saved: dict[str, FernForecaster]) -> None:
    model = saved["long"]
    for name in ("refit", "use_fitted"):
        with raises_error(name, got=given):
            model.cross_validation(LONG, **{name: given})
    with raises_error("band", got=given):
        model.plot(band=given)


@pytest.mark.parametrize("given", ["text", 3, {}])
def test_the_audit_of_a_report_is_one(given: Any, saved: dict[str, FernForecaster]) -> None:
    with raises_error("audit", got=given):
        saved["long"].report(audit=given)


READINGS = [("encoding", 3), ("separator", 3), ("decimal", 3), ("name", 3), ("kind", "spark"), ("kind", ["pandas"])]
ODD_USES: list[tuple[str, Any, str, Any]] = [
    *(("report", {argument: 3}, argument, 3) for argument in ("name", "command")),
    *(("read", {argument: given}, argument, ABSENT) for argument, given in READINGS),
]


@pytest.mark.parametrize(("use", "given", "argument", "got"), ODD_USES)
def test_text_is_text(use: str, given: Any, argument: str, got: Any, saved: dict[str, FernForecaster]) -> None:
    WIDE.to_csv("table.csv", index=False)
    call = {"report": saved["long"].report, "read": lambda **options: saved["wide"].read("table.csv", **options)}[use]
    with raises_error(argument, got=got):
        call(**given)


@pytest.mark.parametrize(("argument", "given"), [("calendar", True), ("holidays", "NO")])
@pytest.mark.parametrize(
    "rows", [pd.DataFrame({"ds": range(90), "y": np.arange(90.0)}), pd.DataFrame({"y": range(90)})]
)
def test_a_calendar_needs_dates(argument: str, given: Any, rows: pd.DataFrame) -> None:
    with raises_error():
        make_forecaster(**{argument: given}).fit(rows)


# --- columns that are known ahead ---------------------------------------------------------------------------------

PROMO = LONG.assign(promo=np.arange(200) % 5 == 0)


@pytest.fixture(scope="module")
def known() -> FernForecaster:
    return make_forecaster(futr_exog_list=["promo"]).fit(PROMO.assign(y=PROMO["y"] + 5 * PROMO["promo"]))


@pytest.fixture(scope="module")
def ahead(known: FernForecaster) -> pd.DataFrame:
    return known.make_future_dataframe().assign(promo=1.0)


ODD_FUTURES: dict[str, Any] = {
    "a path": lambda ahead: "nothing.csv",
    "a number": lambda ahead: 3,
    "a mapping": lambda ahead: {"promo": [1.0]},
    "no columns": lambda ahead: pd.DataFrame(),
    "no known column": lambda ahead: ahead.drop(columns="promo"),
    "no series": lambda ahead: ahead.drop(columns="unique_id"),
    "no stamps": lambda ahead: ahead.drop(columns="ds"),
    "a few steps": lambda ahead: ahead.head(3),
    "every step twice": lambda ahead: pd.concat([ahead, ahead]),
    "steps of another day": lambda ahead: ahead.assign(ds=ahead["ds"] + pd.Timedelta(days=1)),
    "stamps with a zone": lambda ahead: ahead.assign(ds=ahead["ds"].dt.tz_localize("UTC")),
    "stamps that are text": lambda ahead: ahead.assign(ds="noon"),
    "stamps that are numbers": lambda ahead: ahead.assign(ds=range(8)),
    "other series": lambda ahead: ahead.assign(unique_id="r"),
    "infinite values": lambda ahead: ahead.assign(promo=np.inf),
    "missing values": lambda ahead: ahead.assign(promo=np.nan),
    "text for values": lambda ahead: ahead.assign(promo="much"),
    "values beyond 64 bits": lambda ahead: ahead.assign(promo=[2**70] * 8),
    "complex values": lambda ahead: ahead.assign(promo=1j),
    "a further column": lambda ahead: ahead.assign(price=1.0),
}


@pytest.mark.parametrize("use", USES)
def test_series_that_were_read_without_covariates_are_refused(use: str, known: FernForecaster) -> None:
    with raises_error("frame"):
        USES[use](known, make_forecaster().read(LONG))


@pytest.mark.parametrize("name", ODD_FUTURES)
def test_an_odd_future_is_a_mistake(name: str, known: FernForecaster, ahead: pd.DataFrame) -> None:
    odd = ODD_FUTURES[name](ahead)
    for call in (known.predict, known.simulate, known.total):
        with raises_error() as caught:
            call(futr_df=odd)
        assert "futr_df" in str(caught.value) or "nothing.csv" in str(caught.value)
    with raises_error():
        known.compare(ahead, odd)


ODD_COMPARISONS: list[tuple[str, Any]] = [
    *(("level", value) for value in (None, [80, 95], [80], "80", True, 0, 100, 0.8, float("nan"))),
    *(("n_paths", value) for value in (None, 1, 2.5, "9", True)),
    *(("seed", value) for value in (-1, 2.5, "7", True)),
]


@pytest.mark.parametrize(("argument", "value"), ODD_COMPARISONS)
def test_two_futures_are_compared_by_sensible_settings(
    argument: str, value: Any, known: FernForecaster, ahead: pd.DataFrame
) -> None:
    with raises_error(argument):
        known.compare(ahead, ahead, **{argument: value})


def test_more_paths_than_fit_in_memory_are_told_by_their_name(known: FernForecaster, ahead: pd.DataFrame) -> None:
    for call in (known.simulate, lambda futr_df, n_paths: known.compare(futr_df, futr_df, n_paths=n_paths)):
        with raises_error() as caught:
            call(futr_df=ahead, n_paths=10**12)
        assert str(caught.value).startswith("n_paths")


@pytest.mark.parametrize("use", ["predict", "missing_future", "compare"])
def test_a_future_is_of_no_use_without_known_columns(
    use: str, saved: dict[str, FernForecaster], ahead: pd.DataFrame
) -> None:
    plain = saved["long"]
    calls = {
        "predict": lambda: plain.predict(futr_df=ahead),
        "missing_future": lambda: plain.missing_future(ahead),
        "compare": lambda: plain.compare(ahead, ahead),
    }
    with raises_error("futr_df"):
        calls[use]()


@pytest.mark.parametrize("static", ["text", 3, pd.DataFrame({"region": ["a"]}), pd.DataFrame(), None])
def test_an_odd_table_of_static_columns_is_a_mistake(static: Any) -> None:
    with raises_error():
        make_forecaster(stat_exog_list=["region"]).fit(LONG, static_df=static)


@pytest.mark.parametrize("past", [[[1.0], [1.0, 2.0]], [["x"]] * 8, None, np.ones((3, 1)), np.ones((8, 1)) * 1j])
def test_what_is_no_array_of_contexts_is_refused(past: Any, saved: dict[str, FernForecaster]) -> None:
    with raises_error("past"):
        saved["long"].predict_array(past)


NO_PATHS = [None, 3, 0.5, b"model", ["model"], "a\0b", "x" * 256, "a\ud800"]


@pytest.mark.parametrize("path", NO_PATHS, ids=lambda path: ascii(path)[:12])
def test_what_is_no_path_is_refused_by_the_forecaster(path: Any, saved: dict[str, FernForecaster]) -> None:
    model = saved["long"]
    calls = {
        "path": [model.save, FernForecaster.load, model.export],
        "source": [FernForecaster.from_pretrained, lambda path: model.predict_file(path, "out.parquet")],
        "out": [lambda path: model.predict_file("in.parquet", path)],
    }
    if path is not None:
        calls["path"].append(lambda path: model.report(path=path))
        calls["directory"] = [lambda path: make_forecaster().fit(LONG, directory=path)]
    for argument, each in calls.items():
        for call in each:
            with raises_error(argument):
                call(path)
    assert list(Path().iterdir()) == []
