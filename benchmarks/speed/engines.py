"""Engines: two jobs against one, and what the engine costs a run of a minute."""

import shutil
import tempfile
import time
from pathlib import Path

from benchmarks.speed.harness import Measurement, record
from fern.benchmark.engines.local import LocalEngine
from fern.benchmark.plan import Plan, make_plan
from fern.benchmark.runs import Workbench, Workplace, execute
from fern.benchmark.store import Store
from fern.benchmark.sweep import run_sweep
from fern.benchmark.tasks import task_from_mapping


def plan(*, seeds: int, epochs: int) -> Plan:
    """Runs of Fern at the paper's sizes on a short series; every epoch takes the same time."""
    values = {
        "schema": 1,
        "models": ["fern"],
        "datasets": [{"dataset": "LORENZ_BASE", "steps": 7000}],
        "context_length": 336,
        "horizons": [336],
        "seeds": list(range(seeds)),
        "train": {"preset": "shock", "epochs": epochs, "patience": epochs, "grace": 0},
    }
    return make_plan(task_from_mapping(values, name="engines"))


def sweep_seconds(runs: Plan, *, slots: int) -> float:
    """A whole sweep, the start of its processes included, with one thread a run."""
    folder = Path(tempfile.mkdtemp(prefix="fern-engines-"))
    try:
        began = time.perf_counter()
        summary = run_sweep(runs, Store(folder), LocalEngine(folder, slots=slots, threads=1))
        spent = time.perf_counter() - began
    finally:
        shutil.rmtree(folder)
    if summary.count("done") != len(runs.runs):
        raise AssertionError([row.error for row in summary.rows])
    return spent


def inline_seconds(runs: Plan) -> float:
    """The same runs in this process without engine, store and checkpoints; the second and later ones are timed."""
    bench = Workbench()
    execute(runs.runs[0], Workplace(threads=1), bench)
    began = time.perf_counter()
    for run in runs.runs[1:]:
        row = execute(run, Workplace(threads=1), bench).row
        if row.status != "done":
            raise AssertionError(row.error)
    return time.perf_counter() - began


def measure() -> None:
    eight = plan(seeds=8, epochs=6)
    one, two = (sweep_seconds(eight, slots=slots) for slots in (1, 2))
    epochs = 6 * round(60 / (one / 8))  # so many as make a run of about a minute
    few, many = (plan(seeds=seeds, epochs=epochs) for seeds in (2, 3))
    # The difference of three runs and two is one run in a worker that is warm, as most runs of a sweep are.
    engine = sweep_seconds(many, slots=1) - sweep_seconds(few, slots=1)
    bare = inline_seconds(few)
    record(
        "engines",
        [
            Measurement(
                name="8 runs of Fern, 336 to 336, two jobs of one thread",
                ours=two,
                peer=one,
                unit="s",
                peer_name="one job of one thread",
                target="ratio >= 1.7",
            ),
            Measurement(
                name="a run of about a minute in a local sweep, checkpoints included",
                ours=engine,
                peer=bare,
                unit="s",
                peer_name="the same run without engine, store and checkpoints",
                target="ratio >= 0.97 (overhead below 3 %)",
            ),
        ],
        packages=("numpy", "numba", "torch"),
    )
