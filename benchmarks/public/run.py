"""One model on one task: what it forecasts, how that scores, what it costs, and where the figures come from."""

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.public.models import Question, named_model
from benchmarks.public.scores import collect, score, spread_over
from benchmarks.public.tasks import Task, make_windows
from fern.benchmark.runs import machine, versions
from fern.errors import FernError
from fern.systems.trajectory import fingerprint_of

RESULTS = Path(__file__).parent / "results"


def run(task: Task, model: str, *, seed: int = 0) -> dict[str, Any]:
    """Fit once before the first window, forecast every window, and score all of them together.

    Seconds are those of the processor, of all threads; ``coverage_80`` is the share of values within the 10 % and 90 %
    quantiles; ``MASE_error`` is a standard error over ``spread_over``.
    """
    if task.missing_files:
        raise FernError(f"{task.name}: needs {', '.join(task.missing_files)} in FERN_DATA_DIR")
    fit_model = named_model(model)
    table = task.read()
    windows = make_windows(task, table)
    question = Question(task.horizon, task.quantiles, task.season, task.frequency, task.known, seed)
    began = time.process_time()
    predict = fit_model(windows[0].history, question)
    fitted = time.process_time()
    forecasts = [predict(window.history, window.future) for window in windows]
    predicted = time.process_time()
    series = table["unique_id"].nunique()
    expected = (series, task.horizon, len(task.quantiles))
    for forecast in forecasts:
        if forecast.shape != expected:
            raise FernError(f"{model}: gave quantiles of shape {forecast.shape}, needs {expected}")
        if not np.isfinite(forecast).all():
            raise FernError(f"{model}: gave quantiles that are not finite")
    scores = score(task, collect(task, windows, forecasts))
    return {
        "task": task.name,
        "model": model,
        "seed": seed,
        "command": f"python -m benchmarks.public --run {task.name} --model {model} --seed {seed}",
        "series": series,
        "rows": len(table),
        "horizon": task.horizon,
        "season": task.season,
        "windows": len(windows),
        "metrics": {name: float(f"{value:.7g}") for name, value in scores.items()},
        "spread_over": spread_over(len(windows)),
        "fit_seconds": round(fitted - began, 2),
        "predict_seconds": round(predicted - fitted, 3),
        "data_fingerprint": fingerprint_table(table),
        "versions": versions(),
        "machine": machine(threads=_threads()),
    }


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
