"""The datasets of a task as fev tasks: Parquet files and a YAML file, so that fev's models meet our shocks.

Nothing of fev is needed to write them.
"""

import json
import re
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fern.benchmark.problem import NOISE, Dataset, Problem, find_scenario, load_dataset
from fern.benchmark.tasks import Task
from fern.errors import FernError, require_whole, show_value
from fern.files import check_folder, make_folder, write_whole

TASKS, FLOORS = "tasks.yaml", "floors.json"
_FOLDER_NAME = re.compile(r"\w[\w.+-]{0,99}")
QUANTILES = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
START = np.datetime64("2000-01-01T00:00:00", "us")
HOUR = np.timedelta64(1, "h")
"""Simulated series have no calendar, and fev wants one: a row an hour."""


def export_tasks(task: Task, folder: str | Path, *, windows: int = 20) -> list[dict[str, Any]]:
    """Write a task's simulated datasets, and give the fev tasks: one for each dataset and horizon.

    fev's windows are ``windows`` of those that judge here, spread evenly over the test part; a model sees all rows
    before a window. ``floors.json`` has the oracle's MSE on the same windows and the variance of the training rows.

    Example:
        >>> from fern.benchmark.tasks import read_task
        >>> made = export_tasks(read_task("quick").narrowed(datasets=["OU_PARAM"]), "fev", windows=5)
        >>> made[0]["task_name"], made[0]["horizon"], made[0]["num_windows"]
        ('OU_PARAM_96', 96, 5)
    """
    require_whole("windows", windows, 1)
    if not str(folder).strip():
        raise FernError(argument="folder", got=folder, expected="the name of a new or an empty folder")
    chosen = [choice for choice in task.datasets if find_scenario(choice.dataset) is not None]
    if not chosen:
        raise FernError(f"task {task.name}: has no simulated dataset; only those can be exported")
    folder = Path(folder)
    check_folder(folder)
    if folder.is_dir() and list(folder.iterdir()):
        raise FernError("is not empty; give a new or an empty folder", where=folder)
    tables: dict[str, pa.Table] = {}
    tasks: list[dict[str, Any]] = []
    floors: dict[str, dict[str, float]] = {}
    for choice in chosen:
        dataset = load_dataset(choice)
        label = _label(dataset, task=task, taken=tables)
        rows = len(dataset.values)
        channels = dict(zip(dataset.channel_names, np.ascontiguousarray(dataset.values.T), strict=True))
        tables[label] = pa.table({"id": [dataset.name] * rows, "timestamp": START + HOUR * np.arange(rows), **channels})
        for horizon in choice.horizons or task.horizons:
            length = choice.context_length or task.context_length
            problem = Problem(dataset, choice.split or task.split, "none", length, horizon)
            name = f"{label}_{horizon}"
            starts = _starts(problem, windows)
            names = list(dataset.channel_names)
            tasks.append(
                {
                    "dataset_path": str(_file(folder, label).resolve()),
                    "task_name": name,
                    "horizon": horizon,
                    "num_windows": len(starts),
                    "initial_cutoff": int(starts[0]),
                    "window_step_size": int(starts[1] - starts[0]) if len(starts) > 1 else horizon,
                    "target": names if len(names) > 1 else names[0],
                    "eval_metric": "MSE",
                    "extra_metrics": ["MAE", "WQL"],
                    "quantile_levels": QUANTILES,
                }
            )
            truth = np.stack([problem.values[start : start + horizon] for start in starts])
            floors[name] = {
                "oracle_mse": float(np.square(problem.best_forecasts(starts) - truth).mean()),
                "train_variance": float(np.square(problem.train_std).mean()),
            }
    was_there = folder.is_dir()
    try:
        for label, table in tables.items():  # nothing is written before all of it is known to be right
            make_folder(_file(folder, label).parent)
            with write_whole(_file(folder, label)) as temporary:
                pq.write_table(table, temporary)
        _write_json(folder / FLOORS, floors)
        _write_json(folder / TASKS, {"tasks": tasks})  # JSON is YAML too; last, so that a folder with tasks is whole
    except BaseException:  # an interrupt too
        for label in tables:
            shutil.rmtree(folder / label, ignore_errors=True)
        (folder / FLOORS).unlink(missing_ok=True)
        if not was_there:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    return tasks


def _label(dataset: Dataset, *, task: Task, taken: Collection[str]) -> str:
    """The dataset's folder. The id of a scenario's file may be any text: one that leads elsewhere is refused."""
    noise = dataset.settings.get(NOISE)
    label = dataset.name if noise is None else f"{dataset.name}_noise{noise:g}"
    if not _FOLDER_NAME.fullmatch(label):
        raise FernError(
            f"dataset {show_value(dataset.name)}: cannot be the name of a folder; give its scenario an id of at most "
            "100 letters, digits, '_', '-', '+' and '.'"
        )
    if label in taken:
        raise FernError(f"task {task.name}: two of its datasets are called {label!r}; each needs a folder of its own")
    return label


def _file(folder: Path, label: str) -> Path:
    return folder / label / "data.parquet"


def _starts(problem: Problem, windows: int) -> "np.ndarray[Any, np.dtype[np.int64]]":
    """The first rows of the forecasts, evenly spread over the test part."""
    part, horizon = problem.split.test, problem.horizon
    last = part.stop - horizon
    count = min(windows, last - part.start + 1)
    if count < 1:
        raise FernError(f"its test part has {len(part):,} rows, fewer than {horizon:,}", argument=problem.dataset.name)
    step = (last - part.start) // (count - 1) if count > 1 else 1
    return part.start + step * np.arange(count)


def _write_json(path: Path, values: object) -> None:
    with write_whole(path) as temporary:
        temporary.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
