"""``fern demo`` goes from a simulation to a table and a page."""

from functools import partial
from pathlib import Path

import pytest
from tests.html.support import Seen

from fern.benchmark.problem import Problem, load_dataset
from fern.benchmark.scoring import score_oracle
from fern.benchmark.tasks import DatasetChoice
from fern.cli import demo
from fern.cli.demo_page import WHAT_TO_LOOK_AT
from fern.forecaster import FernForecaster
from fern.html.markup import number


def test_the_demo_trains_compares_and_draws(fern, monkeypatch) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    small = {"CONTEXT_LENGTH": 96, "HORIZON": 96, "TABLE_DAYS": 28, "TABLE_HORIZON": 24, "TABLE_WINDOWS": 2}
    for name, value in small.items():
        monkeypatch.setattr(demo, name, value)
    monkeypatch.setattr("fern.forecaster.FernForecaster", partial(FernForecaster, epochs=1))
    ran = fern("demo", "--epochs", 1, "--steps", 2000, "--out", "shown")
    assert ran.code == 0, ran.err
    assert {path.name for path in Path("shown").iterdir()} == {"report.html", "table.md", "load.csv"}
    table = Path("shown/table.md").read_text()
    assert table.strip() in ran.out
    models = ["oracle", "fern", "dlinear", "analog", "polymap", "last-value"]
    assert [line.split(" | ")[0] for line in table.splitlines() if line.startswith("| ")] == [
        "| model",
        *(f"| {model}" for model in models),
    ]
    problem = Problem(load_dataset(DatasetChoice(dataset="LORENZ_PARAM", steps=2000)), "shock", "none", 96, 96)
    floor = number(score_oracle(problem).metrics["mse"])
    assert f"| oracle | {floor} |" in table
    seen = Seen(Path("shown/report.html").read_text())
    assert [line[0] for line in seen.tables[0][1:]] == ["Fern", "seasonal naive", "classical"]
    assert [line[0] for line in seen.tables[1][1:]] == models
    assert seen.tables[1][1][1] == floor
    assert "seasonal naive (season 24)" in ran.out
    assert "MSE over that of the last value" in ran.out
    figures = [given["id"] for tag, given in seen.tags if tag == "figure"]
    assert figures == [
        *(
            "own-fan",
            "trajectory",
            "attractor",
            "error-growth",
            "window",
            "mechanism",
            "coverage-figure",
            "coverage-figure-course",
        ),
        "diagnostics-figure",
    ]
    assert all(line in ran.out and line in seen.text for line in WHAT_TO_LOOK_AT)
    assert Path("shown/report.html").stat().st_size < 8e6


def test_too_few_steps_are_refused_before_any_training(fern) -> None:
    ran = fern("demo", "--steps", 1000)
    assert ran.code == 2
    assert "LORENZ_PARAM: has no validation windows" in ran.err
    assert "Training" not in ran.out
