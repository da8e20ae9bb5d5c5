"""``fern demo`` goes from a simulation to a table and pictures."""

from pathlib import Path

import pytest

from fern.benchmark.problem import Problem, load_dataset
from fern.benchmark.scoring import score_oracle
from fern.benchmark.tasks import DatasetChoice
from fern.report.numbers import number


def test_the_demo_trains_compares_and_draws(fern) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    ran = fern("demo", "--epochs", 1, "--steps", 4000, "--out", "shown")
    assert ran.code == 0, ran.err
    written = {path.name for path in Path("shown").iterdir()}
    assert written == {"table.md", "forecast.png", "diagnostics.png", "trajectory.png", "warnings.txt"}
    table = Path("shown/table.md").read_text()
    assert table.strip() in ran.out
    assert [line.split(" | ")[0] for line in table.splitlines() if line.startswith("| ")] == [
        "| model",
        "| oracle",
        "| fern",
        "| dlinear",
        "| last-value",
    ]
    problem = Problem(load_dataset(DatasetChoice(dataset="LORENZ_PARAM", steps=4000)), "shock", "none", 336, 336)
    assert f"| oracle | {number(score_oracle(problem).metrics['mse'])} |" in table


def test_too_few_steps_are_refused_before_any_training(fern) -> None:
    ran = fern("demo", "--steps", 1000)
    assert ran.code == 2
    assert "LORENZ_PARAM: has no validation windows" in ran.err
    assert "Training" not in ran.out
