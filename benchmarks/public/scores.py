"""The measures of the public protocols, each as its benchmark defines it.

With errors e over windows w, series i and steps h, and the scale of a window's series, the mean absolute difference of
its history at the lag of the season, s_wi = mean |y_t - y_(t-m)|:

- MASE = mean |e_wih| / s_wi, over series whose scale is finite and not zero;
- WQL = mean over quantiles q of 2 Σ pinball_q / Σ |y| (Chronos and GIFT-Eval: one sum over all windows; fev-bench: a
  quotient for each window, and the mean of them);
- SQL = mean over quantiles of 2 pinball_q / s_wi;
- sMAPE = mean 200 |e| / (|y| + |f|); OWA, the mean of sMAPE and MASE over those of the competition's Naive2;
- MSIS at 95 % = mean (u - l + 40 (l - y)₊ + 40 (y - u)₊) / s_wi.

The point forecast is the median.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.public.tasks import DECILES, ENDS_OF_95, Task, Window

Floats = NDArray[np.float64]

NAIVE2: Mapping[str, tuple[float, float]] = {"hourly": (18.383, 2.395), "weekly": (9.161, 2.777)}
"""sMAPE and MASE of the M4 competition's benchmark, by its own table."""


@dataclass(frozen=True)
class Outcome:
    """Forecasts and truths of all windows, with the scale of each window's series."""

    quantiles: Floats  # (W, N, H, Q), in the order of the task's quantiles
    truth: Floats  # (W, N, H)
    scale: Floats  # (W, N)


def stack(values: pd.Series, series: int) -> Floats:  # (N, H)
    """A column of a frame whose series have equally many rows."""
    matrix: Floats = values.to_numpy(float).reshape(series, -1)
    return matrix


def seasonal_scale(history: pd.DataFrame, season: int) -> Floats:  # (N,)
    """The mean absolute difference at the lag of the season, for each series; NaN where it is too short.

    Example:
        >>> seasonal_scale(pd.DataFrame({"unique_id": ["a"] * 4, "y": [1.0, 2.0, 5.0, 2.0]}), 2).tolist()
        [2.0]
    """
    groups = history.groupby("unique_id", sort=False)["y"]
    differences = (history["y"] - groups.shift(season)).abs()
    scale: Floats = differences.groupby(history["unique_id"], sort=False).mean().to_numpy(float)
    return scale


def collect(task: Task, windows: Sequence[Window], forecasts: Sequence[Floats]) -> Outcome:
    """The outcome of a task from a model's quantiles for each window, (N, H, Q) each."""
    series = windows[0].truth["unique_id"].nunique()
    return Outcome(
        quantiles=np.stack(forecasts),
        truth=np.stack([stack(window.truth["y"], series) for window in windows]),
        scale=np.stack([seasonal_scale(window.history, task.season) for window in windows]),
    )


def score(task: Task, outcome: Outcome) -> dict[str, float]:
    """All measures that the task's protocols know, the coverage of 80 % and the spread of MASE."""
    truth, scale = outcome.truth, outcome.scale
    order = {q: position for position, q in enumerate(task.quantiles)}
    median = outcome.quantiles[..., order[0.5]]
    errors = np.abs(truth - median)
    scaled = errors / _usable(scale)[..., None]
    mase = float(np.nanmean(scaled))
    by_decile = outcome.quantiles[..., [order[q] for q in DECILES]]
    pinball = 2 * _pinball(truth, by_decile)
    inside = (by_decile[..., 0] <= truth) & (truth <= by_decile[..., -1])
    scores = {
        "MASE": mase,
        "MASE_error": _standard_error(scaled),
        "WQL": _weighted(pinball, truth, by_window="fev" in task.published),
        "SQL": float(np.nanmean(pinball / _usable(scale)[..., None, None])),
        "MAE": float(errors.mean()),
        "coverage_80": float(inside.mean()),
    }
    if "m4" in task.published:
        smape_of_naive, mase_of_naive = NAIVE2[task.published["m4"]]
        smape = float((200 * errors / (np.abs(truth) + np.abs(median))).mean())
        low, high = (outcome.quantiles[..., order[q]] for q in ENDS_OF_95)
        outside = 40 * (np.maximum(low - truth, 0) + np.maximum(truth - high, 0))
        scores |= {
            "sMAPE": smape,
            "OWA": (smape / smape_of_naive + mase / mase_of_naive) / 2,
            "MSIS": float(np.nanmean((high - low + outside) / _usable(scale)[..., None])),
            "coverage_95": float(((low <= truth) & (truth <= high)).mean()),
        }
    return scores


def scaled_losses(outcome: Outcome, quantiles: tuple[float, ...]) -> Floats:  # (windows,) or (series,)
    """SQL of each window, or of each series where there is one window: what a paired comparison of models is made of.

    Series whose scale cannot divide are NaN.
    """
    by_decile = outcome.quantiles[..., [quantiles.index(q) for q in DECILES]]
    losses = 2 * _pinball(outcome.truth, by_decile).mean(axis=(2, 3)) / _usable(outcome.scale)  # (W, N)
    each: Floats = np.nanmean(losses, axis=1) if len(losses) > 1 else losses[0]
    return each


def spread_over(windows: int) -> str:
    """What the standard error of MASE is taken over: windows where there are several, series otherwise."""
    return "windows" if windows > 1 else "series"


def _usable(scale: Floats) -> Floats:
    """The scale with NaN where it cannot divide: those series are left out."""
    return np.where(scale > 0, scale, np.nan)


def _pinball(truth: Floats, quantiles: Floats) -> Floats:
    missed = truth[..., None] - quantiles
    shares = np.asarray(DECILES)
    answer: Floats = np.maximum(shares * missed, (shares - 1) * missed)
    return answer


def _weighted(pinball: Floats, truth: Floats, *, by_window: bool) -> float:
    if not by_window:
        return float((pinball.sum(axis=(0, 1, 2)) / np.abs(truth).sum()).mean())
    mean_size = np.maximum(np.abs(truth).mean(axis=(1, 2)), 1.0)  # fev-bench's epsilon is 1
    return float((pinball.mean(axis=(1, 2)) / mean_size[:, None]).mean())


def _standard_error(scaled: Floats) -> float:  # (W, N, H)
    """Of the mean over windows, or over series where there is one window."""
    usable = scaled[0][~np.isnan(scaled[0]).all(axis=1)]
    units = np.nanmean(scaled, axis=(1, 2)) if len(scaled) > 1 else np.nanmean(usable, axis=1)
    return float(units.std(ddof=1) / np.sqrt(len(units))) if len(units) > 1 else 0.0
