"""How a forecaster takes a shock: its error before, across and after, and how long it needs to recover.

A window is known by ``start``, the first row it forecasts. With the shock at row s (the first row made after it),
context length L and horizon H, a window is

- *before*    when all it forecasts comes before the shock: start + H <= s;
- *across*    when the shock falls into what it forecasts: s - H < start < s; nobody can foresee it;
- *adapting*  when the shock lies in its context, which mixes both regimes: s <= start < s + L;
- *after*     when all it sees and forecasts is of the new regime: start >= s + L.

The counterfactual twin is the same system with the same noise and no shock. The forecaster's error on the twin's
windows at the same starts says what its error would have been, so that a hard stretch is not taken for the shock.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fern.errors import FernError, require_number, require_whole
from fern.systems import Scenario, Trajectory, twin

Floats = NDArray[np.float64]
ForecastWindows = Callable[[NDArray[np.float32]], NDArray[Any]]
"""Contexts ``(B, L, C)`` to forecasts ``(B, H, C)``."""

PHASES = ("before", "across", "adapting", "after")
_BATCH = 256


@dataclass(frozen=True)
class Phase:
    """The windows of one phase: how many, the mean error, and that of the twin at the same starts."""

    name: str
    windows: int
    mse: float | None
    twin_mse: float | None

    @property
    def ratio(self) -> float | None:
        """The error over the twin's."""
        return self.mse / self.twin_mse if self.mse is not None and self.twin_mse else None


@dataclass(frozen=True, eq=False)
class ShockResponse:
    """A forecaster's error around a shock.

    ``level``       the mean error before the shock.
    ``limits``      what the smoothed error must stay within to count as recovered: 1 + tolerance times the level or,
                    where that is higher, times the twin's smoothed error. So a stretch that is hard without the shock
                    too is not counted against the forecaster.
    ``recovery``    rows from the shock to the first window from which on it does for context and horizon together: by
                    then every row that the forecaster saw at the shock is gone. None when that is not seen.
    """

    scenario: str
    shock_row: int
    context_length: int
    horizon: int
    starts: NDArray[np.int64]  # (n,)
    errors: Floats  # (n,)
    twin_errors: Floats  # (n,)
    smoothed: Floats  # (n,)
    limits: Floats  # (n,)
    phases: tuple[Phase, ...]
    level: float
    recovery: int | None

    def phase(self, name: str) -> Phase:
        """The phase of that name."""
        return next(phase for phase in self.phases if phase.name == name)

    def in_words(self) -> str:
        """What happened, in a sentence."""
        last = int(self.starts[-1]) - self.shock_row
        if self.recovery is None:
            return f"has not recovered within {last:,} rows of the shock"
        if self.recovery == 0:
            return "was not affected: its error stays within the limit after the shock"
        return f"recovers {self.recovery:,} rows after the shock"


def shock_response(
    forecast: ForecastWindows,
    trajectory: Trajectory,
    *,
    context_length: int,
    horizon: int,
    stride: int = 1,
    reach: int | None = None,
    shock: int = 0,
    tolerance: float = 0.5,
    smoothing: int | None = None,
) -> ShockResponse:
    """The forecaster's error in every ``stride``-th window around a shock of the trajectory, and on its twin.

    ``reach``      windows start at most this many rows before and after the shock. Default: four times the sum of
                   context length and horizon. Another shock ends it earlier.
    ``shock``      which of several shocks, from 0.
    ``smoothing``  rows over which errors are averaged, backwards, before they are held against the limit. Default: the
                   horizon. After the shock, only windows that start after it are averaged.

    Example:
        >>> from fern.systems import scenario, simulate
        >>> trajectory = simulate(scenario("OU_PARAM", steps=2000))
        >>> def last_value(contexts):
        ...     return np.repeat(contexts[:, -1:], 12, axis=1)
        >>> response = shock_response(last_value, trajectory, context_length=24, horizon=12)
        >>> response.shock_row, [phase.name for phase in response.phases], response.phase("across").windows
        (700, ['before', 'across', 'adapting', 'after'], 11)
    """
    smoothing = horizon if smoothing is None else smoothing
    sizes = {"context_length": context_length, "horizon": horizon, "stride": stride, "smoothing": smoothing}
    for name, size in sizes.items():
        require_whole(name, size, 1)
    require_number("tolerance", tolerance, "a number of at least 0", lambda value: value >= 0)
    row, first, last = _stretch(trajectory, shock, context_length, horizon, reach)
    # The grid of starts is laid from the shock, so that the first window after it is always there.
    starts = np.unique(np.concatenate([np.arange(row, first - 1, -stride), np.arange(row, last + 1, stride)]))
    errors = window_errors(forecast, trajectory, starts, context_length=context_length, horizon=horizon)
    calm = window_errors(forecast, twin(trajectory), starts, context_length=context_length, horizon=horizon)
    before = starts + horizon <= row
    level = float(errors[before].mean())
    count = max(1, smoothing // stride)
    smoothed = _smooth(errors, starts, row, count)
    limits = (1.0 + tolerance) * np.maximum(level, _smooth(calm, starts, row, count))
    since, windows = starts >= row, -(-(context_length + horizon) // stride)
    return ShockResponse(
        scenario=trajectory.scenario.id or trajectory.scenario.system,
        shock_row=row,
        context_length=context_length,
        horizon=horizon,
        starts=starts,
        errors=errors,
        twin_errors=calm,
        smoothed=smoothed,
        limits=limits,
        phases=tuple(_phases(starts, errors, calm, row, context_length, horizon)),
        level=level,
        recovery=_recovery(starts[since] - row, smoothed[since] > limits[since], windows=windows),
    )


def with_shock_at(plan: Scenario, at: int | float) -> Scenario:
    """The scenario with its first shock at another place: a row, or a fraction such as 0.95 in the test part.

    Example:
        >>> from fern.systems import scenario
        >>> with_shock_at(scenario("OU_PARAM", steps=2000), 0.95).shock_rows
        (1900,)
    """
    _shock_row(plan, 0)
    return replace(plan, shocks=(replace(plan.shocks[0], at=at), *plan.shocks[1:]))


def window_errors(
    forecast: ForecastWindows,
    trajectory: Trajectory,
    starts: NDArray[np.int64],  # (n,) the first row of each forecast
    *,
    context_length: int,
    horizon: int,
) -> Floats:  # (n,)
    """The mean squared error of each window, over rows and channels."""
    values = np.asarray(trajectory.values, dtype=np.float32)
    errors = []
    for first in range(0, len(starts), _BATCH):
        batch = starts[first : first + _BATCH]
        contexts = values[batch[:, None] + np.arange(-context_length, 0)]
        truth = values[batch[:, None] + np.arange(horizon)].astype(np.float64)
        forecasts = np.asarray(forecast(contexts.copy()), dtype=np.float64)
        if forecasts.shape != truth.shape:
            problem = f"returned shape {forecasts.shape} for contexts {contexts.shape}"
            raise FernError(problem, argument="forecast", expected=truth.shape)
        if not np.isfinite(forecasts).all():
            bad = int(batch[np.argwhere(~np.isfinite(forecasts))[0][0]])
            raise FernError(f"is not finite for the window that starts at row {bad:,}", argument="forecast")
        errors.append(((forecasts - truth) ** 2).mean(axis=(1, 2)))
    return np.concatenate(errors)


def _shock_row(plan: Scenario, shock: int) -> int:
    name = plan.id or plan.system
    if not plan.shocks:
        raise FernError("has no shock; the ids of shocked scenarios end in _PARAM, _STATE or _SWITCH", argument=name)
    if not 0 <= shock < len(plan.shocks):
        raise FernError(f"got {shock}, but {name} has {len(plan.shocks)}, counted from 0", argument="shock")
    return plan.shock_rows[shock]


def _stretch(
    trajectory: Trajectory, shock: int, context_length: int, horizon: int, reach: int | None
) -> tuple[int, int, int]:
    """The shock's row, and the first and the last start of a window."""
    plan = trajectory.scenario
    row = _shock_row(plan, shock)
    reach = 4 * (context_length + horizon) if reach is None else reach
    require_whole("reach", reach, 1)
    earlier = plan.shock_rows[shock - 1] if shock else 0
    later = plan.shock_rows[shock + 1] if shock + 1 < len(plan.shocks) else plan.steps
    first, last = max(earlier + context_length, row - reach), min(later - horizon, row + reach)
    name = plan.id or plan.system
    if first > row - horizon:
        problem = (
            f"no window lies before the shock at row {row:,}: context {context_length} and horizon {horizon} need "
            f"{context_length + horizon} rows from row {earlier:,} on"
        )
        short = "" if reach >= horizon else f", and a reach of at least {horizon}, got {reach}"
        raise FernError(problem + short, argument=name)
    if last < row:
        problem = f"no window lies after the shock at row {row:,}: a horizon of {horizon} needs the shock at row"
        raise FernError(f"{problem} {later - horizon:,} or earlier", argument=name)
    return row, first, last


def _phases(
    starts: NDArray[np.int64], errors: Floats, calm: Floats, row: int, context_length: int, horizon: int
) -> Iterator[Phase]:
    borders = (-np.inf, row - horizon + 1, row, row + context_length, np.inf)
    for name, (low, high) in zip(PHASES, pairwise(borders), strict=True):
        inside = (starts >= low) & (starts < high)
        means = (float(errors[inside].mean()), float(calm[inside].mean())) if inside.any() else (None, None)
        yield Phase(name, int(inside.sum()), *means)


def _smooth(errors: Floats, starts: NDArray[np.int64], row: int, count: int) -> Floats:
    """The mean of each error and those up to ``count - 1`` before it; windows before and after never mix."""
    out = np.empty_like(errors)
    for part in (starts < row, starts >= row):
        running = np.concatenate([[0.0], np.cumsum(errors[part])])
        ends = np.arange(1, part.sum() + 1)
        begins = np.maximum(0, ends - count)
        out[part] = (running[ends] - running[begins]) / (ends - begins)
    return out


def _recovery(
    since: NDArray[np.int64],  # (m,) rows from the shock to each window after it
    above: NDArray[np.bool_],  # (m,) whether the smoothed error is above its limit
    *,
    windows: int,
) -> int | None:
    """The first of so many windows in a row that all stay within their limits."""
    edges = [-1, *np.flatnonzero(above).tolist(), len(above)]
    for before, after in pairwise(edges):
        if after - before > windows:
            return int(since[before + 1])
    return None
