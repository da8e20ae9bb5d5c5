"""Windows that a pretrained network is judged on while it is built: those before the test part of each public task.

No real series trains the network. Its settings are chosen by these windows; the test windows are for
`benchmarks.public` alone.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from benchmarks.public.tasks import DECILES, TASKS, make_windows, named_task

Array = NDArray[np.float64]
Moments = Callable[[list[Array], int, int], tuple[Array, Array]]
"""Series, horizon and season to the mean and the deviation of each step."""

QUICK = (
    "ETTh",
    "exchange_rate",
    "hospital",
    "m3_yearly",
    "m3_quarterly",
    "m3_monthly",
    "m4_hourly",
    "m4_weekly",
    "ett1_H_short",
    "ett1_15T_short",
    "ett1_D",
    "ett1_W",
    "jena_10T_short",
    "epf_NP",
    "epf_BE",
)
"""The development tasks with short horizons."""

ALL = tuple(name for name, task in TASKS.items() if task.development)


@dataclass(frozen=True)
class Score:
    """Errors of one task as the public protocols count them, and those of the seasonal naive."""

    mase: float
    wql: float
    coverage_80: float
    naive_mase: float
    naive_wql: float


@cache
def past_of(name: str) -> tuple[Array, ...]:
    """The series of a task without any row of its test windows."""
    task = named_task(name)
    history = make_windows(task, task.read())[0].history
    return tuple(rows.to_numpy(float) for _, rows in history.groupby("unique_id", sort=False)["y"])


def judge(name: str, forecast: Moments, *, windows: int = 2) -> Score:
    """The score over the last windows before the test part, as many as the rows allow."""
    task = named_task(name)
    horizon, season = task.horizon, task.season
    series = [values for values in past_of(name) if len(values) >= 2 * horizon + 8]
    series = series or [values for values in past_of(name) if len(values) >= horizon + 8]
    deciles = np.array([NormalDist().inv_cdf(level) for level in DECILES])
    scaled, pinball, total, inside, naive_scaled, naive_pinball = [], 0.0, 0.0, [], [], 0.0
    for window in range(1, windows + 1):
        kept = [values for values in series if len(values) >= window * horizon + 8]
        if not kept:
            break
        past = [values[: len(values) - window * horizon] for values in kept]
        truth = np.stack([values[len(p) : len(p) + horizon] for values, p in zip(kept, past, strict=True)])
        mean, stddev = forecast(past, horizon, season)
        lags = [season if len(p) > season else 1 for p in past]
        errors = [np.abs(p[lag:] - p[:-lag]) for p, lag in zip(past, lags, strict=True)]
        scale = np.array([e.mean() for e in errors])
        usable = scale > 0
        naive = np.stack([p[len(p) - lag + np.arange(horizon) % lag] for p, lag in zip(past, lags, strict=True)])
        cycles = np.sqrt(np.stack([np.arange(horizon) // lag + 1 for lag in lags]))
        naive_spread = np.array([np.sqrt((e**2).mean()) for e in errors])[:, None] * cycles
        scaled.append(np.abs(truth - mean).mean(1)[usable] / scale[usable])
        naive_scaled.append(np.abs(truth - naive).mean(1)[usable] / scale[usable])
        inside.append(np.abs(truth - mean) <= deciles[-1] * stddev)
        pinball += _pinball(truth, mean, stddev, deciles)
        naive_pinball += _pinball(truth, naive, naive_spread, deciles)
        total += float(np.abs(truth).sum())
    return Score(
        float(np.concatenate(scaled).mean()),
        pinball / total,
        float(np.concatenate([part.ravel() for part in inside]).mean()),
        float(np.concatenate(naive_scaled).mean()),
        naive_pinball / total,
    )


def _pinball(truth: Array, mean: Array, stddev: Array, deciles: Array) -> float:
    quantiles = mean[..., None] + stddev[..., None] * deciles
    error = truth[..., None] - quantiles
    return float(2 * np.maximum(np.array(DECILES) * error, (np.array(DECILES) - 1) * error).mean(-1).sum())


def judge_all(forecast: Moments, names: Sequence[str] = QUICK, *, windows: int = 2) -> tuple[dict[str, Score], str]:
    """The scores by task, and a line that sums them up."""
    scores = {name: judge(name, forecast, windows=windows) for name in names}
    mase, wql, cover = mean_relative(scores)
    return scores, f"relative MASE {mase:.4f}, WQL {wql:.4f}, coverage of 80 % {100 * cover:.1f} %"


def mean_relative(scores: Mapping[str, Score]) -> tuple[float, float, float]:
    """Geometric means of MASE and WQL relative to the seasonal naive, and the mean coverage."""
    mase = np.exp(np.mean([np.log(score.mase / score.naive_mase) for score in scores.values()]))
    wql = np.exp(np.mean([np.log(score.wql / score.naive_wql) for score in scores.values()]))
    return float(mase), float(wql), float(np.mean([score.coverage_80 for score in scores.values()]))
