"""The comparison of libraries: its tables, its methods, and what is stopped or left out."""

import json

import numpy as np
import pandas as pd
import pytest
from benchmarks.forecasters import compare as command
from benchmarks.forecasters.compare import METHODS, compare
from benchmarks.forecasters.libraries import TrainingStopped
from benchmarks.forecasters.tables import TABLES
from benchmarks.public.models import Question, seasonal_naive
from benchmarks.public.tasks import DECILES, make_windows
from benchmarks.sections.libraries import OURS


@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_twenty_windows_or_all_that_its_panel_has(name):
    table = TABLES[name]
    if table.missing_files:
        pytest.skip(f"{', '.join(table.missing_files)} is not in FERN_DATA_DIR")
    windows = make_windows(table, table.read())
    series = windows[0].truth["unique_id"].nunique()
    assert len(windows) >= 20 or series > 300
    train = windows[0].history
    assert train.groupby("unique_id").size().min() >= 2 * table.horizon
    assert (train.groupby("unique_id")["ds"].max() < windows[0].truth.groupby("unique_id")["ds"].min()).all()


def test_forecasts_of_a_noisy_system_are_made_from_what_is_seen_and_judged_by_what_is_true():
    table = TABLES["LORENZ_BASE_noise0.05"]
    frame = table.read()
    window = make_windows(table, frame)[0]
    rows = frame.merge(window.truth, on=["unique_id", "ds"])
    np.testing.assert_array_equal(rows["y_y"], rows["true"])
    assert "true" not in window.history
    assert (frame["y"] - frame["true"]).abs().mean() > 0.1


def test_a_training_that_is_stopped_has_no_figures_and_no_verdict(monkeypatch):
    def stopped(train, question):
        raise TrainingStopped(120, 5000, 4.0)

    monkeypatch.setattr(command, "METHODS", {**METHODS, "Slow": stopped})
    result = compare(TABLES["AirPassengers"], "Slow")
    assert result["stopped"] == "stopped after 120 of 5,000 steps, 4 s each"
    assert "metrics" not in result


def test_windows_that_take_too_long_are_stopped(monkeypatch):
    monkeypatch.setattr(command, "THIRTY_MINUTES", 0.0)
    result = compare(TABLES["AirPassengers"], "SeasonalNaive")
    assert result["stopped"].startswith("stopped after 2 of 20 windows")
    assert "metrics" not in result


def test_a_library_that_is_not_installed_is_said_and_left_out(monkeypatch, capsys, tmp_path):
    def absent(train, question):
        raise ModuleNotFoundError("No module named 'nowhere'", name="nowhere")

    monkeypatch.setattr(command, "METHODS", {"Absent": absent})
    monkeypatch.setattr(command, "RESULTS", tmp_path)
    options = ["--tables", "AirPassengers", "--methods"]
    assert command.main([*options, "Absent"]) == 0
    assert "nowhere is not installed" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_a_result_is_written_once_and_kept(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(command, "RESULTS", tmp_path)
    arguments = ["--tables", "AirPassengers", "--methods", "SeasonalNaive"]
    assert command.main(arguments) == 0
    result = json.loads((tmp_path / "AirPassengers-SeasonalNaive.json").read_text())
    assert len(result["losses"]) == 20
    assert np.mean(result["losses"]) == pytest.approx(result["metrics"]["SQL"], rel=1e-4)
    capsys.readouterr()
    assert command.main(arguments) == 0
    assert capsys.readouterr().out == ""


PACKAGES_OF = {"Ligh": ("mlforecast", "lightgbm"), "Auto": ("statsforecast",)}


@pytest.mark.filterwarnings("ignore")  # libraries' own notes, as `quiet` leaves them out of a comparison
@pytest.mark.parametrize("name", [name for name in METHODS if name not in (OURS, "SeasonalNaive")])
def test_a_librarys_method_gives_ordered_quantiles_of_every_series(name):
    for package in PACKAGES_OF.get(name[:4], ("neuralforecast",)):
        pytest.importorskip(package)
    rng = np.random.default_rng(1)
    stamps = pd.date_range("2020-01-01", periods=200, freq="D")
    table = pd.concat(
        [pd.DataFrame({"unique_id": key, "ds": stamps, "y": rng.normal(size=200).cumsum()}) for key in ("b", "a")],
        ignore_index=True,
    )
    question = Question(horizon=4, quantiles=DECILES, season=7, frequency="D")
    quantiles = METHODS[name](table, question)(table, table.iloc[:0])
    assert quantiles.shape == (2, 4, 9)
    assert (np.diff(quantiles, axis=-1) >= 0).all()
    # A walk without drift goes on from where it is, whichever series comes first.
    naive = seasonal_naive(table, question)(table, table.iloc[:0])
    assert np.abs(quantiles[..., 4] - naive[..., 4]).max() < 15
