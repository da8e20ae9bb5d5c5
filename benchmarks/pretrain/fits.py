"""``python -m benchmarks.pretrain.fits [--tasks TASK …] [--variants NAME …]``: what the network adds to a default fit.

`FernForecaster` with its defaults on the development tasks without their test part: fitted once, two windows forecast.
Beside it the same without the pretrained network, with half of the training of Fern, and with half of the network's
tuning. A row of ``benchmarks/pretrain/results/fits.json`` for each task and variant; those that are there are kept
unless ``--again`` is given.
"""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import geometric_mean
from typing import Any
from unittest.mock import patch

import pandas as pd

from benchmarks.pretrain.validation import QUICK
from benchmarks.public.models import Predictor, Question, fern
from benchmarks.public.run import measure
from benchmarks.public.tasks import Task, make_windows, named_task
from benchmarks.sections import draw_table, percent
from fern.forecaster import fit, held_out
from fern.forecaster.held_out import choose_combination
from fern.models.pretrained import tuning

RESULTS = Path(__file__).parent / "results" / "fits.json"
COMMAND = "python -m benchmarks.pretrain.fits"
TASKS = tuple(name for name in QUICK if not name.startswith("epf"))
"""Those without covariates, whose fits are chosen otherwise."""

WINDOWS = 2
DEFAULT = "default"


def without_network() -> AbstractContextManager[Any]:
    """Fits that do not know the pretrained network."""
    return patch.object(fit, "choose_combination", partial(_ignore_network, choose_combination))


def _ignore_network(choose: Callable[..., Any], *given: Any, **options: Any) -> Any:
    return choose(*given, **options | {"pretrained": False, "tune": False})


def half_training() -> AbstractContextManager[Any]:
    """Fits whose trainings of Fern have half the steps."""
    return patch.multiple(fit, STEPS=fit.STEPS // 2, LEAST_STEPS=fit.LEAST_STEPS // 2)


def half_tuning() -> AbstractContextManager[Any]:
    """Fits whose tuning of the pretrained network has half the steps."""
    return patch.object(held_out, "tune_network", partial(tuning.tune_network, steps=tuning.STEPS // 2))


VARIANTS: Mapping[str, Callable[[], AbstractContextManager[Any]]] = {
    DEFAULT: nullcontext,
    "without the pretrained network": without_network,
    "half the training of Fern": half_training,
    "half the tuning of the network": half_tuning,
}


def before_test(task: Task) -> Task:
    """The task without the rows of its test windows, and without series that are too short then."""
    history = make_windows(task, task.read())[0].history
    sizes = history.groupby("unique_id", sort=False)["y"].transform("size")
    kept = history[sizes >= (WINDOWS + 1) * task.horizon + task.season].reset_index(drop=True)
    return replace(task, read=lambda: kept, windows=WINDOWS, step=None, judged="y")


def run(name: str, variant: str) -> dict[str, Any]:
    """A task by a variant: its row."""

    def fit_variant(train: pd.DataFrame, question: Question) -> Predictor:
        with VARIANTS[variant]():
            return fern(train, question)

    row, _ = measure(before_test(named_task(name)), fit_variant)
    return {"task": name, "variant": variant, **row}


def draw_fits(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A table of all variants relative to the default, task by task and on average."""
    by_key = {(row["task"], row["variant"]): row for row in rows}
    names = [name for name in TASKS if all((name, variant) in by_key for variant in VARIANTS)]
    others = [variant for variant in VARIANTS if variant != DEFAULT]
    figures: dict[str, list[tuple[float, float, float]]] = {variant: [] for variant in others}
    lines = []
    for name in names:
        own = by_key[name, DEFAULT]
        line = [f"`{name}`", *(f"{own['metrics'][metric]:.4g}" for metric in ("MASE", "WQL"))]
        line += [percent(own["metrics"]["coverage_80"]), f"{own['fit_seconds']:.0f}"]
        for variant in others:
            row = by_key[name, variant]
            ratios = tuple(row["metrics"][metric] / own["metrics"][metric] for metric in ("MASE", "WQL"))
            figures[variant].append((*ratios, row["fit_seconds"] / own["fit_seconds"]))
            line.append(" / ".join(f"{ratio:.3f}" for ratio in figures[variant][-1]))
        lines.append(line)
    means = [
        " / ".join(f"{geometric_mean(ratios):.3f}" for ratios in zip(*figures[variant], strict=True))
        for variant in others
    ]
    lines.append(["**mean**", "", "", "", "", *means])
    return draw_table(["task", "MASE", "WQL", "covers", "seconds", *others], lines)


def read_fits() -> list[dict[str, Any]]:
    """The committed rows."""
    return json.loads(RESULTS.read_text())["fits"] if RESULTS.exists() else []


def main() -> None:
    """Run what is missing, keep each row as it comes, show the table."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--tasks", nargs="+", default=TASKS, choices=TASKS)
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--again", action="store_true", help="replace rows that are there")
    options = parser.parse_args()
    for name in options.tasks:
        for variant in options.variants:
            if not options.again and any((row["task"], row["variant"]) == (name, variant) for row in read_fits()):
                continue
            made = run(name, variant)
            rows = {(row["task"], row["variant"]): row for row in [*read_fits(), made]}  # others may have written since
            RESULTS.write_text(json.dumps({"command": COMMAND, "fits": list(rows.values())}, indent=1) + "\n")
            metrics = made["metrics"]
            print(f"{name}, {variant}: MASE {metrics['MASE']:.4f} WQL {metrics['WQL']:.5f}", flush=True)
    print("\n".join(draw_fits(read_fits())))


if __name__ == "__main__":
    main()
