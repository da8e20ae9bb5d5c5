"""The pretrained model: how fast synthetic series are made, and how long forecasts without a fit take."""

import os

import numpy as np
import torch

from benchmarks.speed.harness import Effort, Measurement, best_seconds
from fern.pretrained import forecast
from fern.synthetic import generate

PACKAGES = ("numpy", "numba", "torch")
LENGTH = 2144


def measure(effort: Effort) -> list[Measurement]:
    torch.set_num_threads(1)
    count = effort.size(2048, least=256)
    generate(256, length=64, seed=1)  # compiles
    made = best_seconds(lambda: generate(count, length=LENGTH, seed=1), repeats=effort.rounds(5))
    pool = list(generate(effort.size(10_000, least=64), length=512, seed=2).values.astype(np.float64))
    forecast(pool[:2], 48)
    levels = [0.1, 0.5, 0.9]
    single = best_seconds(lambda: forecast(pool[0], 48).quantile(levels), repeats=effort.rounds(50))
    plain = best_seconds(lambda: forecast(pool[0], 48, resample=False).quantile(levels), repeats=effort.rounds(50))
    many = best_seconds(lambda: forecast(pool, 48).quantile(levels), repeats=effort.rounds(2))
    many_plain = best_seconds(lambda: forecast(pool, 48, resample=False).quantile(levels), repeats=effort.rounds(2))
    threads = os.cpu_count() or 1
    torch.set_num_threads(threads)
    together = best_seconds(lambda: forecast(pool, 48).quantile(levels), repeats=effort.rounds(2))
    torch.set_num_threads(1)  # what runs after this in the process, as before
    return [
        Measurement(
            f"synthetic series, million points a second ({count:,} series of {LENGTH:,} rows)",
            count * LENGTH / made / 1e6,
            None,
            "M/s",
            "",
            ">= 2",
        ),
        Measurement("quantiles of a series of 512 rows, 48 steps", 1e3 * single, None, "ms", "", "recorded"),
        Measurement("the same without coarser time steps", 1e3 * plain, None, "ms", "", "<= 2"),
        Measurement(
            f"quantiles of {len(pool):,} series of 512 rows, threads {threads}",
            together,
            None,
            "s",
            "",
            "<= 10 for 10,000",
        ),
        Measurement("the same, one thread", many, None, "s", "", "recorded"),
        Measurement("the same without coarser time steps, one thread", many_plain, None, "s", "", "<= 10"),
    ]
