"""``fern forecast``, ``fern backtest`` and ``fern diagnose``, as a user runs them."""

import io
import json
import multiprocessing
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from fern.cli.app import main

QUICK = ("--epochs", 1, "--threads", 1)
NAIVE = ("--model", "last-value")
"""A model that needs no training."""


def daily(rows: int = 200) -> pd.DataFrame:
    """Two columns with a weekly wave."""
    rng = np.random.default_rng(0)
    wave = 100 + 10 * np.sin(np.arange(rows) * 2 * np.pi / 7) + rng.normal(size=rows)
    return pd.DataFrame(
        {"day": pd.date_range("2021-03-01", periods=rows, freq="D"), "load": wave.round(2), "temp": (wave / 4).round(2)}
    )


def shops() -> pd.DataFrame:
    """Two series, one below the other, not in alphabetical order."""
    one = daily()[["day", "load"]].rename(columns={"load": "sold"})
    return pd.concat([one.assign(shop="b"), one.iloc[:150].assign(shop="a")])[["shop", "day", "sold"]]


@pytest.fixture
def german() -> Path:
    frame = daily().rename(columns={"day": "Tag", "load": "Last", "temp": "Wärme"})
    frame["Tag"] = frame["Tag"].dt.strftime("%d.%m.%Y")
    frame.to_csv("verbrauch.csv", sep=";", decimal=",", index=False)
    return Path("verbrauch.csv")


@pytest.fixture
def file() -> Path:
    daily().to_csv("load.csv", index=False)
    return Path("load.csv")


@pytest.fixture
def long() -> Path:
    shops().to_csv("shops.csv", index=False)
    return Path("shops.csv")


def test_semicolons_decimal_commas_and_days_first_are_read_and_days_are_written_as_they_came(
    fern: Any, german: Path
) -> None:
    assert german.read_text().splitlines()[1].startswith("01.03.2021;100,13;")
    ran = fern("forecast", german, "--horizon", 7, "--level", "80", "95", "-o", "out.csv", *QUICK)
    assert ran.code == 0, ran.err
    assert ran.out == ""
    assert "time: Tag; targets: Last, Wärme; 200 rows, step 1 day" in ran.err
    made = pd.read_csv("out.csv")
    ends = [f"{name}{end}" for name in ("Last", "Wärme") for end in ("", "-lo-80", "-hi-80", "-lo-95", "-hi-95")]
    assert made.columns.tolist() == ["Tag", *ends]
    assert made["Tag"].tolist() == [f"{day:02}.09.2021" for day in range(17, 24)]
    assert made["Last"].between(60, 140).all()


def test_a_table_goes_in_by_standard_input_and_out_by_standard_output(fern: Any, long: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(long.read_bytes())))
    ran = fern("forecast", "-", "--horizon", 3, "--quantiles", "0.1,0.9", *NAIVE)
    assert ran.code == 0, ran.err
    made = pd.read_csv(io.StringIO(ran.out))
    assert made.columns.tolist() == ["shop", "day", "LastValue", "LastValue-ql0.1", "LastValue-ql0.9"]
    assert made["shop"].tolist() == ["b"] * 3 + ["a"] * 3
    assert made["day"].tolist()[:2] == ["2021-09-17", "2021-09-18"]
    assert "time: day; series: shop (2); target: sold; 150 to 200 rows" in ran.err


def test_parquet_goes_in_and_out_with_its_types(fern: Any) -> None:
    frame = shops().astype({"sold": np.float32})
    frame.to_parquet("shops.parquet", index=False)
    ran = fern("forecast", "shops.parquet", "--horizon", 3, "-o", "out.parquet", *NAIVE)
    assert ran.code == 0, ran.err
    table = pq.read_table("out.parquet")
    assert table.column_names == ["shop", "day", "LastValue"]
    assert str(table.schema.field("LastValue").type) == "float"
    assert str(table.schema.field("day").type).startswith("timestamp")


def test_roles_that_are_given_are_not_guessed(fern: Any) -> None:
    shops().assign(price=3.0, town="x").to_csv("shops.csv", index=False)
    refused = fern("forecast", "shops.csv", "--horizon", 3, "--id", "shop", "--target", "sold", *NAIVE)
    assert refused.code == 2
    assert "shops.csv: --ignore-columns: 'price', 'town' are neither identifier, time nor target" in refused.err
    ran = fern("forecast", "shops.csv", "--horizon", 3, "--id", "shop", "--target", "sold", "--ignore-columns", *NAIVE)
    assert ran.code == 0, ran.err
    assert ran.out.startswith("shop,day,LastValue\n")


@pytest.mark.parametrize("identifier", ["007", "a, b"])
def test_names_of_series_come_back_as_they_are_written(fern: Any, identifier: str) -> None:
    frame = daily()[["day", "load"]].rename(columns={"load": "y", "day": "ds"}).assign(unique_id=identifier)
    frame.to_csv("one.csv", index=False)
    ran = fern("forecast", "one.csv", "--horizon", 2, *NAIVE)
    assert pd.read_csv(io.StringIO(ran.out), dtype=str)["unique_id"].tolist() == [identifier] * 2


def test_a_saved_forecaster_forecasts_without_training(fern: Any, long: Path) -> None:
    first = fern("forecast", long, "--horizon", 5, "--level", 80, "--save", "model", "--plot", "out.png", *NAIVE)
    assert first.code == 0, first.err
    assert Path("out.png").read_bytes().startswith(b"\x89PNG")
    again = fern("forecast", long, "--model", "model", "--level", 80)
    assert again.code == 0, again.err
    assert again.out == first.out
    assert "epoch" not in again.err
    longer = fern("forecast", long, "--model", "model", "--horizon", 8)
    assert len(longer.out.splitlines()) == 1 + 2 * 8
    refused = fern("forecast", long, "--model", "model", "--epochs", 3)
    assert (refused.code, refused.out) == (2, "")
    assert "--epochs: model is a saved forecaster, which is not trained again" in refused.err
    diagnosed = fern("diagnose", long, "--model", "model")
    assert diagnosed.code == 0, diagnosed.err
    assert "Measured coverage" in diagnosed.out


def test_a_backtest_prints_scores_and_writes_the_rows(fern: Any, long: Path) -> None:
    ran = fern(
        "backtest", long, "--horizon", 5, "--windows", 3, "--step-size", 4, "--level", 80, "-o", "rows.csv", *NAIVE
    )
    assert ran.code == 0, ran.err
    rows = pd.read_csv("rows.csv")
    assert rows.columns.tolist() == ["shop", "day", "cutoff", "LastValue", "LastValue-lo-80", "LastValue-hi-80", "sold"]
    assert len(rows) == 2 * 3 * 5
    lines = {line.split()[0]: line.split() for line in ran.out.splitlines() if line.strip()}
    assert lines["method"] == ["method", "steps", "MSE", "MAE", "MASE", "CRPS", "in", "80", "%"]
    error = rows["LastValue"] - rows["sold"]
    inside = rows["sold"].between(rows["LastValue-lo-80"], rows["LastValue-hi-80"]).mean()
    first = next(line.split() for line in ran.out.splitlines() if line.split()[:2] == ["last-value", "30"])
    assert first[1:4] == ["30", f"{(error**2).mean():.4g}", f"{error.abs().mean():.4g}"]
    assert first[6] == f"{100 * inside:.1f}"
    assert {"a", "b", "seasonal", "classical"} <= lines.keys()
    assert "3 windows" in ran.out


def test_a_backtest_as_json_has_the_scores_of_every_method_and_the_verdict(fern: Any, long: Path) -> None:
    ran = fern("backtest", long, "--horizon", 5, "--windows", 2, "--level", 80, "--json", *NAIVE)
    assert ran.code == 0, ran.err
    result = json.loads(ran.out)
    assert [method["name"] for method in result["methods"]] == ["last-value", "seasonal naive", "classical"]
    assert all(0 <= method["coverage"][0] <= 1 and method["mase"] > 0 for method in result["methods"])
    assert result["verdict"].startswith("last-value is ")


def test_a_backtest_of_a_saved_forecaster_takes_no_rows_that_it_was_fitted_to(fern: Any, long: Path) -> None:
    assert fern("forecast", long, "--horizon", 5, "--save", "model", "-o", "out.csv", *NAIVE).code == 0
    ran = fern("backtest", long, "--model", "model")
    assert ran.code == 2
    assert "--windows" in ran.err and "fitted to rows up to" in ran.err


def test_a_backtest_of_a_wide_table_scores_each_column(fern: Any, file: Path) -> None:
    ran = fern("backtest", file, "--horizon", 5, "--windows", 2, "-o", "rows.parquet", *NAIVE)
    assert ran.code == 0, ran.err
    assert {"last-value", "load", "temp"} <= {line.split()[0] for line in ran.out.splitlines() if line.strip()}
    assert pq.read_table("rows.parquet").column_names[:3] == ["day", "cutoff", "load"]


MISTAKES = {
    "no such file": (["nope.csv", "--horizon", 3], "error: nope.csv: no such file"),
    "no horizon": (["load.csv"], "--horizon: needs the number of steps to forecast"),
    "horizon 0": (["load.csv", "--horizon", 0], "--horizon: got 0, needs a whole number of at least 1"),
    "horizon as text": (["load.csv", "--horizon", "week"], "--horizon"),
    "unknown model": (
        ["load.csv", "--horizon", 3, "--model", "dlinaer"],
        "unknown model 'dlinaer': did you mean 'dlinear'",
    ),
    "a folder that is no forecaster": (["load.csv", "--model", "."], "no saved forecaster"),
    "a level too high": (["load.csv", "--horizon", 3, "--level", 120], "--level: got 120.0, needs numbers between 0"),
    "a level that is no number": (["load.csv", "--horizon", 3, "--level", "x"], "--level: got 'x', needs numbers"),
    "level and quantiles": (
        ["load.csv", "--horizon", 3, "--level", 80, "--quantiles", 0.1],
        "--level, --quantiles: got both, give one of them",
    ),
    "unknown missing": (
        ["load.csv", "--horizon", 3, "--missing", "fill"],
        "unknown missing 'fill': did you mean 'ffill'",
    ),
    "unknown column": (
        ["load.csv", "--horizon", 3, "--target", "lod"],
        "--target: unknown column 'lod': did you mean 'load'",
    ),
    "unknown time": (["load.csv", "--horizon", 3, "--time", "dya"], "unknown column 'dya': did you mean 'day'"),
    "the output is the input": (["load.csv", "--horizon", 3, "-o", "load.csv"], "is also an input"),
    "the plot is the input": (["load.png", "--horizon", 3, "--plot", "load.png"], "is also an input"),
    "an output of another kind": (
        ["load.csv", "--horizon", 3, "-o", "out.xlsx"],
        "a table needs one of .csv, .parquet",
    ),
    "an output nowhere": (["load.csv", "--horizon", 3, "-o", "no/out.csv"], "the folder no does not exist"),
    "a plot of another kind": (["load.csv", "--horizon", 3, "--plot", "out.txt"], "a plot needs one of .png"),
    "a folder with other files": (["load.csv", "--horizon", 3, "--save", "."], "holds other files"),
    "missing values": (["gaps.csv", "--horizon", 3], "gaps.csv: --missing: column 'load' has 2 missing"),
    "an empty file": (["empty.csv", "--horizon", 3], "empty.csv: is empty"),
    "a header alone": (["header.csv", "--horizon", 3], "header.csv: has a header but no rows"),
    "a word among numbers": (["word.csv", "--horizon", 3], "column 'load' holds text ('closed' in data row 6)"),
    "damaged Parquet": (["bad.parquet", "--horizon", 3], "is not a readable Parquet file"),
    "an Excel file": (["table.xlsx", "--horizon", 3], "is an Excel or zip file, needs CSV or Parquet"),
    "a folder": ([".", "--horizon", 3], "is a directory"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_line_and_exit_code_two_and_writes_nothing(fern: Any, file: Path, name: str) -> None:
    daily().to_csv("load.png", index=False)
    daily().assign(load=lambda f: f["load"].where(f.index % 90 != 5)).iloc[:100].to_csv("gaps.csv", index=False)
    daily().astype({"load": str}).assign(load=lambda f: f["load"].where(f.index != 5, "closed")).to_csv("word.csv")
    Path("empty.csv").touch()
    Path("header.csv").write_text("ds,y\n")
    Path("bad.parquet").write_bytes(b"PAR1 and then nothing")
    Path("table.xlsx").write_bytes(b"PK\x03\x04")
    before = {path.name: path.read_bytes() for path in Path().iterdir()}
    arguments, message = MISTAKES[name]
    ran = fern("forecast", *arguments)
    assert ran.code == 2, ran.err
    assert message in ran.err
    assert "Traceback" not in ran.err
    assert ran.out == ""
    assert {path.name: path.read_bytes() for path in Path().iterdir()} == before


def test_missing_values_are_dealt_with_as_asked(fern: Any) -> None:
    daily().assign(load=lambda f: f["load"].where(f.index % 50 != 5)).drop(index=[30, 31]).to_csv(
        "gaps.csv", index=False
    )
    refused = fern("forecast", "gaps.csv", "--horizon", 3, *NAIVE)
    assert "gaps.csv: --missing: column 'load' has 4 missing" in refused.err
    assert fern("forecast", "gaps.csv", "--horizon", 3, "--missing", "interpolate", *NAIVE).code == 0


def test_a_table_too_short_to_learn_from_is_forecast_with_a_note(fern: Any) -> None:
    daily(15).to_csv("short.csv", index=False)
    ran = fern("forecast", "short.csv", "--horizon", 5, "--level", 80)
    assert ran.code == 0
    assert "note: no model was trained from so few rows: classical models forecast every series" in ran.err
    assert len(ran.out.splitlines()) == 6


def _run_alone(arguments: list[str], told: Path) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    sys.argv, sys.stderr = ["fern", *arguments], told.open("w", buffering=1)
    main()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_ctrl_c_keeps_the_best_so_far_and_still_writes_the_forecast() -> None:
    daily(300).to_csv("long.csv", index=False)
    sizes = ["--horizon", "4", "--context-length", "8", "--epochs", "100000"]
    arguments = ["forecast", "long.csv", *sizes, "--threads", "1", "-o", "out.csv", "--model", "dlinear"]
    told = Path("told.txt")
    running = multiprocessing.get_context("fork").Process(target=_run_alone, args=(arguments, told))
    running.start()
    deadline = time.monotonic() + 120
    while not (told.exists() and "epoch 2/" in told.read_text()) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert running.pid is not None
    os.kill(running.pid, signal.SIGINT)
    running.join(120)
    assert running.exitcode == 0
    said = Path("told.txt").read_text()
    assert "note: interrupted: the best weights so far are kept" in said
    assert len(Path("out.csv").read_text().splitlines()) == 5


def test_a_forecast_without_training_and_what_a_saved_forecaster_does_not_take(fern: Any, file: Path) -> None:
    ran = fern("forecast", file, "--horizon", 7, "--pretrained", "-o", "out.csv", "--save", "saved")
    assert ran.code == 0, ran.err
    assert pd.read_csv("out.csv")["load"].between(80, 120).all()
    again = fern("forecast", file, "--model", "saved", "--pretrained")
    assert again.code == 2
