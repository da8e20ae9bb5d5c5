"""The rows in benchmarks/runs are still found: the plan of their task has their keys."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fern.benchmark.plan as planning
from fern.benchmark.plan import make_plan
from fern.benchmark.problem import Dataset, load_dataset
from fern.benchmark.results import RunResult
from fern.benchmark.store import Store
from fern.benchmark.tasks import DatasetChoice, Task, read_task
from fern.systems import SCENARIOS, scenario, simulate

CONTENTS = Store(Path(__file__).parents[2] / "benchmarks" / "runs").contents()
TASKS = sorted({row.task for row in CONTENTS.results})


def rows_of(task: str) -> dict[str, RunResult]:
    return {row.key: row for row in CONTENTS.results if row.task == task}


def on_committed_datasets(task: str) -> Task:
    return read_task(task).narrowed(datasets=list(dict.fromkeys(row.dataset for row in rows_of(task).values())))


def as_recorded(task: str) -> Callable[[DatasetChoice], Dataset]:
    """A `load_dataset` that takes the fingerprints from the rows: to simulate or download every dataset takes long."""
    recorded = {
        (row.dataset, row.data_settings.get("noise", 0.0), row.data_settings.get("start", 0)): row
        for row in rows_of(task).values()
    }

    def load(choice: DatasetChoice) -> Dataset:
        own = recorded.get((choice.dataset, choice.noise, choice.start))
        row = own or recorded[choice.dataset, choice.noise, 0]  # of a start that nothing has been run from
        glimpse = simulate(scenario(choice.dataset, steps=50)) if choice.dataset in SCENARIOS else None
        names = glimpse.channel_names if glimpse is not None else tuple("abcdefg")
        values = np.zeros((row.data_settings["steps"], len(names)), np.float32)
        whole = None if glimpse is None else replace(glimpse, values=values)  # the truth behind noise is as long
        dataset = Dataset(row.dataset, values, names, row.data_settings, whole)
        dataset.__dict__["fingerprint"] = row.data_fingerprint
        return dataset

    return load


def test_every_committed_row_can_be_read() -> None:
    assert CONTENTS.results
    assert not CONTENTS.damaged


@pytest.mark.parametrize("task", TASKS)
def test_the_plan_of_a_task_has_every_committed_row(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "load_dataset", as_recorded(task))
    planned = {run.key for run in make_plan(on_committed_datasets(task)).runs}
    assert not [row.describe() for key, row in rows_of(task).items() if key not in planned]


def test_every_system_simulated_today_has_the_fingerprint_of_its_committed_rows() -> None:
    recorded: dict[DatasetChoice, set[str]] = {}
    for row in CONTENTS.results:
        settings = row.data_settings
        if row.dataset in SCENARIOS and "noise" not in settings:
            made = settings.get("trajectory", "fern")
            steps = settings["steps"] if made == "fern" else None
            start = settings.get("start", 0)
            choice = DatasetChoice(dataset=row.dataset, steps=steps, start=start, trajectory=made)
            recorded.setdefault(choice, set()).add(row.data_fingerprint)
    assert recorded
    for choice, found in recorded.items():
        assert found == {load_dataset(choice).fingerprint}, choice


@pytest.mark.parametrize("model", ["analog", "polymap", "last-value", "oracle"])
def test_what_draws_nothing_has_the_same_figures_under_every_seed(model: str) -> None:
    figures: dict[tuple[object, ...], list[dict[str, float]]] = {}
    for row in CONTENTS.results:
        if row.model == model:
            place = (
                row.task,
                row.preset,
                row.dataset,
                row.horizon,
                *map(row.data_settings.get, ("noise", "start", "trajectory")),
            )
            figures.setdefault(place, []).append(row.metrics)
    repeated = [found for found in figures.values() if len(found) > 1]
    assert repeated
    for first, *others in repeated:
        assert all(other == pytest.approx(first, rel=1e-6, abs=0.0) for other in others)


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_the_plan_of_a_task_on_data_as_they_are_today_has_every_committed_row(task: str) -> None:
    assert rows_of(task).keys() <= {run.key for run in make_plan(on_committed_datasets(task)).runs}
