"""Datasets of a task as fev tasks, with the oracle's error on the same windows."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.errors import raises_error

from fern.benchmark import export_tasks, fev_tasks, load_dataset, read_task
from fern.benchmark.tasks import DatasetChoice
from fern.errors import FernError, NotWritten
from fern.systems import oracle

TASK = read_task("quick").narrowed(datasets=["OU_PARAM"], horizons=[24])


def test_a_task_points_to_the_rows_and_windows_of_the_test_part(tmp_path):
    (made,) = export_tasks(TASK, tmp_path / "shocks", windows=4)
    assert json.loads((tmp_path / "shocks" / "tasks.yaml").read_text()) == {"tasks": [made]}
    rows = pq.read_table(made["dataset_path"])
    assert rows.column_names == ["id", "timestamp", "x"]
    dataset = load_dataset(DatasetChoice(dataset="OU_PARAM", steps=6000))
    np.testing.assert_array_equal(rows["x"], dataset.values[:, 0])
    starts = made["initial_cutoff"] + made["window_step_size"] * np.arange(made["num_windows"])
    assert starts[0] == 5400 and starts[-1] + made["horizon"] <= 6000 < starts[-1] + made["horizon"] + 4
    floor = json.loads((tmp_path / "shocks" / "floors.json").read_text())["OU_PARAM_24"]
    truth = np.stack([dataset.values[start : start + 24] for start in starts])
    best = oracle(dataset.trajectory, starts, 24)
    assert floor["oracle_mse"] == pytest.approx(np.square(best - truth).mean())


def test_a_folder_that_holds_anything_is_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(FernError, match="is not empty; give a new or an empty folder"):
        export_tasks(TASK, tmp_path)
    with raises_error("windows"):
        export_tasks(TASK, tmp_path / "other", windows=0)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_task_without_simulated_datasets_is_refused(tmp_path):
    with pytest.raises(FernError, match="has no simulated dataset"):
        export_tasks(read_task("real"), tmp_path / "real")


def test_a_refusal_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(path, values):
        raise NotWritten("no space left", where=path)

    monkeypatch.setattr(fev_tasks, "_write_json", full)
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "new", tmp_path / "empty"):
        with pytest.raises(NotWritten):
            export_tasks(TASK, folder)
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")] == ["empty"]


@pytest.mark.parametrize("name", ["", "  "])
def test_an_empty_name_is_not_the_current_folder(fern, name):
    ran = fern("bench", "export-fev", name, "--task", "quick", "--datasets", "OU_PARAM")
    assert ran.code == 2
    assert not list(Path().iterdir())
