"""Speed and memory of the audit and of the windows."""

import importlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from benchmarks.speed.harness import Effort, Measurement, best_seconds
from fern.data.windows import Windows
from fern.training.runtime import threads

PACKAGES = ("numpy", "pyarrow", "polars", "numba", "torch")
ROWS, COLUMNS, HEAD = 10_000_000, 10, 200_000
BATCHES = 1000

# Each in a process of its own, so that peaks of memory do not mix. Imports are not timed; a first pass over the head
# of the file loads compiled code and libraries.
# VmHWM and not getrusage: the latter counts the memory of the process that started this one.
_PEAK = """
import json, re, sys, time
def peak():
    with open("/proc/self/status") as file: return int(re.search(r"VmHWM:\\s+(\\d+) kB", file.read())[1]) / 1024
"""
_COMMON = (
    _PEAK
    + """
path, head = sys.argv[1], sys.argv[2]
"""
)
_OURS = (
    _COMMON
    + """
import fern.data.auditing.scan
from fern.data.auditing.audit import audit
before = peak()
audit(head)
start, work = time.perf_counter(), time.process_time()
audit(path)
found = {"seconds": time.perf_counter() - start, "work": time.process_time() - work, "mb": peak() - before}
print(json.dumps(found))
"""
)
# The part of the audit that polars offers as expressions: no codes, no random-walk test, no pictures, no commonest
# values, no time column.
_POLARS = (
    _COMMON
    + """
import polars as pl
def run(path):
    names = [n for n in pl.scan_parquet(path).collect_schema().names() if n != "ds"]
    out = []
    for n in names:
        c = pl.col(n)
        out += [
            (c == 0).sum().alias(n + "_zeros"), c.null_count().alias(n + "_missing"), c.min().alias(n + "_min"),
            c.max().alias(n + "_max"), c.mean().alias(n + "_mean"), c.std().alias(n + "_std"),
            c.median().alias(n + "_median"), (c - c.median()).abs().median().alias(n + "_mad"),
            c.rle().struct.field("len").max().alias(n + "_run"),
        ]
    return pl.scan_parquet(path).select(out).collect()
before = peak()
run(head)
start, work = time.perf_counter(), time.process_time()
run(path)
found = {"seconds": time.perf_counter() - start, "work": time.process_time() - work, "mb": peak() - before}
print(json.dumps(found))
"""
)
_WINDOWS = (
    _PEAK
    + """
import numpy as np, torch
from fern.data.windows import Windows
def epoch(rows, batches):
    windows = Windows(series[:rows], context_length=336, horizon=336)
    order = windows.batches(128, generator=torch.Generator().manual_seed(0))
    for _ in range(batches): next(order)
series = np.zeros((2000, 4), np.float32)
epoch(2000, 5)
before = peak()
series = np.ones((int(sys.argv[1]), 4), np.float32)
epoch(len(series), int(sys.argv[2]))
print(json.dumps({"ratio": (peak() - before) * 2**20 / series.nbytes}))
"""
)


def measure(effort: Effort) -> list[Measurement]:
    return [*_audit(effort), *_gather(effort), _window_memory(effort)]


def _audit(effort: Effort) -> list[Measurement]:
    importlib.import_module("polars")  # absent, it is said before the work and not by a child in the middle of it
    rows = effort.size(ROWS, least=2000)
    with tempfile.TemporaryDirectory() as folder:
        path, head = Path(folder) / "sensors.parquet", Path(folder) / "head.parquet"
        _write_sensors(path, head, rows)
        ours = [_child(_OURS, path, head) for _ in range(effort.rounds(3))]
        peer = [_child(_POLARS, path, head) for _ in range(effort.rounds(3))]
    name = f"audit of a Parquet file of {rows:,} rows × {COLUMNS} columns"
    seconds, work, memory = (
        [min(run[figure] for run in runs) for runs in (ours, peer)] for figure in ("seconds", "work", "mb")
    )
    subset = "polars, the part it offers"
    return [
        Measurement(name, seconds[0], seconds[1], "s", subset, "a few seconds"),
        Measurement(f"{name}, processor time", work[0], work[1], "s", subset, "two cores share it"),
        Measurement(f"{name}, peak memory", memory[0], memory[1], "MB", subset, "bounded: not the 800 MB of values"),
    ]


def _gather(effort: Effort) -> list[Measurement]:
    measurements: list[Measurement] = []
    generator = torch.Generator().manual_seed(0)
    for wanted, channels, batch in ((17_420, 7, 128), (1_000_000, 7, 128), (1_000_000, 7, 2048), (10_000_000, 1, 128)):
        rows = effort.size(wanted, least=1000 + len(measurements))  # a smoke run keeps their names apart
        windows = Windows(
            np.random.default_rng(0).standard_normal((rows, channels), dtype=np.float32),
            context_length=336,
            horizon=336,
        )
        indices = torch.randint(len(windows), (batch,), generator=generator)
        past, future = windows.gather(indices)
        numbers = indices.tolist()
        figures = {
            "gather": lambda: windows.gather(indices),  # noqa: B023 (called in this round)
            "copy": lambda: (past.clone(), future.clone()),  # noqa: B023
            "collate": lambda: [torch.stack(part) for part in zip(*(windows[i] for i in numbers), strict=True)],  # noqa: B023
        }
        with threads(1):  # one core's bandwidth for both sides
            seconds = {
                name: best_seconds(run, repeats=effort.rounds(100), warmups=effort.rounds(10))
                for name, run in figures.items()
            }
        speed = (past.nbytes + future.nbytes) / 1e9 / seconds["gather"]
        name = f"gather {batch:,} windows of 336 + 336 from {rows:,} rows × {channels} ({speed:.1f} GB/s)"
        ours = 1e6 * seconds["gather"]
        measurements += [
            Measurement(
                name, ours, 1e6 * seconds["copy"], "µs", "plain copies of the same bytes", "memory bandwidth: near 1"
            ),
            Measurement(name, ours, 1e6 * seconds["collate"], "µs", "stacking the windows one by one", "well above 1"),
        ]
    return measurements


def _window_memory(effort: Effort) -> Measurement:
    rows, batches = effort.size(ROWS, least=2000), effort.size(BATCHES, least=1)
    found = _child(_WINDOWS, rows, batches)
    return Measurement(
        f"peak memory over series size, {batches:,} shuffled batches from {rows:,} rows × 4",
        max(0.0, found["ratio"]),  # of a small series less than what was free before
        None,
        "×",
        "",
        "within 2",
    )


def _child(code: str, *arguments: object) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, check=True
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _write_sensors(path: Path, head: Path, rows: int) -> None:
    """Ten years at half a minute: daily cycles in three decimals, plain noise, a walk, rain and a stuck sensor."""
    rng = np.random.default_rng(0)
    stamps = np.datetime64("2014-01-01", "ms") + np.arange(rows) * np.timedelta64(30_000, "ms")
    cycle = np.sin(np.arange(rows) * (2 * np.pi / 2880))
    columns = {f"sensor_{i}": np.round(20 + 5 * cycle + rng.standard_normal(rows), 3) for i in range(6)}
    columns["noise"] = rng.standard_normal(rows)
    columns["walk"] = rng.standard_normal(rows).cumsum()
    columns["rain"] = np.where(rng.random(rows) < 0.95, 0.0, rng.random(rows))
    columns["stuck"] = np.where(np.arange(rows) % 1_000_000 < 50_000, 88.298, rng.standard_normal(rows))
    table = pa.table({"ds": stamps, **columns})
    pq.write_table(table, path, compression="zstd")
    pq.write_table(table.slice(0, HEAD), head, compression="zstd")
