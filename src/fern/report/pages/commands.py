"""The command that makes a number again."""

import shlex
from collections.abc import Sequence

from fern.benchmark.problem import NOISE
from fern.benchmark.rows import Row
from fern.benchmark.tasks import ORACLE, Task, is_outside, read_task, task_names

OUT = "runs"
_USUAL = ("paper", "default")


def built_in(name: str) -> Task | None:
    """The built-in task of that name; None where rows are of a task of somebody's own."""
    return read_task(name) if name in task_names() else None


def command_for(rows: Sequence[Row]) -> str:
    """What makes runs of one model on one dataset at one horizon again, under all of their seeds.

    Example:
        >>> command_for([Row(task="shock", model="dlinear", preset="paper", dataset="OU_BASE", data_fingerprint="ab",
        ...     context_length=336, horizon=336, split="shock", scaling="none", code_version="1", status="done",
        ...     metrics={"mse": 1.0}, seed=seed) for seed in (7, 8)])
        'fern bench run shock --models dlinear --datasets OU_BASE --horizons 336 --seeds 7,8 --out runs'
    """
    row = rows[0]
    words = ["fern", "bench", "run", row.task if row.task in task_names() else f"{row.task}.toml"]
    words += ["--with", row.model] if is_outside(row.model) else ["--models", _model(row)]
    words += ["--datasets", row.dataset, "--horizons", str(row.horizon)]
    if NOISE in row.data_settings:
        words += ["--noise", repr(row.data_settings[NOISE])]
    epochs = row.train_settings.get("epochs")
    if isinstance(epochs, int):
        words += ["--max-epochs", str(epochs)]
    words += ["--seeds", ",".join(str(seed) for seed in sorted({one.seed for one in rows})), "--out", OUT]
    return shlex.join(words)


def _model(row: Row) -> str:
    """The model as the command takes it: with its preset where that does not go without saying."""
    plain = row.preset in _USUAL or row.preset == row.dataset.partition(":")[0].lower() or row.model == ORACLE
    return row.model if plain else f"{row.model}:{row.preset}"
