"""One model on one task: what it forecasts, how that scores, what it costs, and where the figures come from."""

import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.public.models import Floats, Model, Question, named_model
from benchmarks.public.scores import Outcome, collect, score, spread_over
from benchmarks.public.tasks import Task, make_windows
from fern.benchmark.runs import describe_machine, versions
from fern.errors import FernError
from fern.systems.trajectory import fingerprint_of

RESULTS = Path(__file__).parent / "results"


def run(task: Task, model: str, *, seed: int = 0) -> dict[str, Any]:
    """The row of one of `MODELS` on a task."""
    row, _ = measure(task, named_model(model), seed=seed)
    command = f"python -m benchmarks.public --run {task.name} --model {model} --seed {seed}"
    return {"task": task.name, "model": model, "seed": seed, "command": command, **row}


def measure(
    task: Task, fit_model: Model, *, seed: int = 0, longest: float = math.inf
) -> tuple[dict[str, Any], Outcome | None]:
    """Fit once before the first window, forecast every window, and score all of them together.

    Seconds are those of the processor, of all threads; ``coverage_80`` is the share of values within the 10 % and 90 %
    quantiles; ``MASE_error`` is a standard error over ``spread_over``. Where fit and forecasts will take more than
    ``longest`` seconds, by the pace so far, nothing is scored and the row says after how many windows it was stopped.
    """
    if task.missing_files:
        raise FernError(f"needs {', '.join(task.missing_files)} in FERN_DATA_DIR", where=task.name)
    table = task.read()
    windows = make_windows(task, table)
    series = table["unique_id"].nunique()
    row = {
        "series": series,
        "rows": len(table),
        "horizon": task.horizon,
        "season": task.season,
        "windows": len(windows),
        "data_fingerprint": fingerprint_table(table),
        "versions": versions(),
        "machine": describe_machine(threads=_threads()),
    }
    question = Question(task.horizon, task.quantiles, task.season, task.frequency, task.known, seed)
    train = windows[0].history
    began = time.process_time()
    predict = fit_model(train, question)
    fitted = time.process_time()
    forecasts: list[Floats] = []
    ends: list[float] = []
    for window in windows:
        pace = (ends[-1] - ends[0]) / (len(ends) - 1) if len(ends) > 1 else 0.0  # libraries compile in the first window
        if pace and ends[-1] - began + pace * (len(windows) - len(ends)) > longest:
            return row | {"stopped": f"stopped after {len(ends)} of {len(windows)} windows, {pace:.0f} s each"}, None
        forecasts.append(predict(window.history, window.future))
        ends.append(time.process_time())
    predicted = time.process_time()
    expected = (series, task.horizon, len(task.quantiles))
    for forecast in forecasts:
        if forecast.shape != expected or not np.isfinite(forecast).all():
            raise FernError(
                f"the model gave quantiles of shape {forecast.shape}, {np.isfinite(forecast).mean():.0%} finite",
                expected=f"finite ones of shape {expected}",
                where=task.name,
            )
    outcome = collect(task, windows, forecasts)
    return row | {
        "metrics": {name: float(f"{value:.7g}") for name, value in score(task, outcome).items()},
        "spread_over": spread_over(len(windows)),
        "fit_seconds": round(fitted - began, 2),
        "predict_seconds": round(predicted - fitted, 3),
    }, outcome


def fingerprint_table(table: pd.DataFrame) -> str:
    """Of all numbers of a table, in the order of its rows."""
    return fingerprint_of(table.select_dtypes("number").to_numpy(float))[:16]


def result_path(task: str, model: str, seed: int) -> Path:
    """Where the row of a run is kept."""
    return RESULTS / task / f"{model}-seed{seed}.json"


def write_result(row: dict[str, Any]) -> Path:
    """Keep a row; one of the same task, model and seed is replaced."""
    path = result_path(row["task"], row["model"], row["seed"])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(row, indent=1) + "\n")
    return path


def read_results() -> list[dict[str, Any]]:
    """All committed rows, by task, model and seed."""
    return [json.loads(path.read_text()) for path in sorted(RESULTS.glob("*/*.json"))]


def _threads() -> int:
    import torch

    return torch.get_num_threads()
