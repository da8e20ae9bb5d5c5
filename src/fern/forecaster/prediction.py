"""Forecasts of many series at once: in model units through model and calibration, back in the units of the data."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from fern.calibration import CalibratedForecast, Calibration, OnlineCalibration
from fern.checks import require_memory
from fern.errors import FernError, show_value
from fern.forecaster.distributions import distribution_of
from fern.forecaster.simple import SimpleForecast, simple_forecast
from fern.forecaster.state import Recent, State
from fern.models import Forecaster

Floats = NDArray[np.float64]

AT_ONCE = 2048
"""Series times channels that are forecast together: bounds the memory, not the number of series."""

ROLLED_PATHS = 200
"""Paths from which steps beyond the horizon are forecast."""


@dataclass(frozen=True)
class Request:
    """What is wanted of each series: so many steps, and the quantiles of each step."""

    steps: int
    shares: tuple[float, ...] = ()
    seed: int = 7


@dataclass(frozen=True)
class Predicted:
    """The forecasts of several series, in the units of the data."""

    mean: Floats  # (N, steps, C)
    quantiles: Floats  # (shares, N, steps, C)


def predict_series(state: State, series: Sequence[Recent], request: Request) -> Predicted:
    """Point forecasts and quantiles."""
    _require_room(state, len(series), request.steps, arrays=1 + len(request.shares), rolled=AT_ONCE * ROLLED_PATHS)
    shape = (len(series), request.steps, len(state.channel_names))
    mean, quantiles = np.empty(shape), np.empty((len(request.shares), *shape))
    for places, batch in _batches(state, series):
        made = _predicted(state, batch, request)
        mean[places] = batch.invert(made.mean)
        for number, values in enumerate(made.quantiles):
            quantiles[number, places] = batch.invert(values)
    for place, simple in _simple(state, series, request.steps):
        mean[place] = simple.mean
        for number, share in enumerate(request.shares):
            quantiles[number, place] = simple.quantile(share)
    _require_finite(mean)
    return Predicted(mean, quantiles)


def simulate_series(
    state: State, series: Sequence[Recent], *, steps: int, paths: int, seed: int
) -> Floats:  # (paths, N, steps, C)
    """Joint paths."""
    _require_room(state, len(series), steps, arrays=paths, rolled=max(AT_ONCE, paths))
    drawn = np.empty((paths, len(series), steps, len(state.channel_names)))
    rng = np.random.default_rng(seed)
    for places, batch in _batches(state, series, at_once=max(1, AT_ONCE // paths)):
        drawn[:, places] = batch.invert(_paths(state, batch, steps=steps, paths=paths, rng=rng))
    for place, simple in _simple(state, series, steps):
        drawn[:, place] = simple.paths(paths, rng)
    _require_finite(drawn)
    return drawn


def calibrated(
    model: Forecaster | None,
    calibration: Calibration | OnlineCalibration | None,
    contexts: NDArray[np.float32],  # (N, L, C), model units
) -> CalibratedForecast:
    """The calibrated forecast of these contexts, in model units."""
    if model is None or calibration is None:
        raise FernError("every series was too short to learn from; there is no distribution", argument="forecast")
    return calibration.apply(distribution_of(model, torch.from_numpy(contexts)))


def array_forecast(
    state: State,
    past: Floats,  # (L, C) or (N, L, C)
) -> Floats:  # (H, C) or (N, H, C)
    """The point forecast of contexts in the units of the data, at the scale of the series that was fitted.

    Where several were fitted, each context is scaled by itself.
    """
    if state.model is None:
        raise FernError("every series was too short to learn from; there is no model", argument="forecast")
    if len(state.scales) == 1:
        scale = next(iter(state.scales.values()))
        shift, spread = scale.shift, scale.spread
    else:
        shift, spread = past.mean(axis=-2, keepdims=True), past.std(axis=-2, keepdims=True)
        spread = np.where(spread > 0, spread, 1.0)
    scaled = torch.from_numpy(((past - shift) / spread).astype(np.float32))
    with torch.no_grad():
        mean = state.model(scaled if scaled.ndim == 3 else scaled[None]).mean.numpy()
    return np.asarray((mean if scaled.ndim == 3 else mean[0]) * spread + shift, dtype=np.float64)


@dataclass(frozen=True)
class Batch:
    """Contexts of several series in model units, and the way back."""

    contexts: NDArray[np.float32]  # (n, L, C)
    shift: Floats  # (n, 1, C)
    spread: Floats  # (n, 1, C)
    calibration: Calibration | OnlineCalibration | None

    def invert(self, values: Floats) -> Floats:  # (..., n, steps, C)
        """In the units of the data."""
        return values * self.spread + self.shift


def batch_of(state: State, series: Sequence[Recent]) -> Batch:
    """The contexts of series that are long enough and have one calibration."""
    scales = [state.scale(one.name, one.values) for one in series]
    calibrations = {id(found): found for found in (state.calibration_of(one.name) for one in series)}
    if len(calibrations) > 1:
        raise FernError(
            (
                "series that were updated have radii of their own, so there is no distribution of "
                "several together; give a frame of one series"
            ),
            argument="forecast",
        )
    shift, spread = (np.stack([getattr(scale, name) for scale in scales])[:, None] for name in ("shift", "spread"))
    scaled = (np.stack([one.values[-state.context_length :] for one in series]) - shift) / spread
    return Batch(scaled.astype(np.float32), shift, spread, next(iter(calibrations.values())))


def _batches(
    state: State, series: Sequence[Recent], *, at_once: int = AT_ONCE
) -> Iterator[tuple[NDArray[np.int64], Batch]]:
    learnt = np.flatnonzero([state.learns(one.values) for one in series])
    updated = np.array([series[place].name in state.online for place in learnt.tolist()], dtype=np.bool_)
    size = max(1, at_once // len(state.channel_names))
    together = learnt[~updated]
    groups = [together[first : first + size] for first in range(0, len(together), size)]
    for places in (*groups, *learnt[updated][:, None]):
        yield places, batch_of(state, [series[place] for place in places])


def _simple(state: State, series: Sequence[Recent], steps: int) -> Iterator[tuple[int, SimpleForecast]]:
    for place, one in enumerate(series):
        if not state.learns(one.values):
            yield place, simple_forecast(one.values, horizon=steps, season=state.season)


def _predicted(state: State, batch: Batch, request: Request) -> Predicted:
    forecast = calibrated(state.model, batch.calibration, batch.contexts)
    inside = min(request.steps, state.horizon)
    mean = forecast.mean[:, :inside]
    quantiles = forecast.quantile(list(request.shares))[:, :, :inside] if request.shares else np.empty((0, *mean.shape))
    if request.steps == inside:
        return Predicted(mean, quantiles)
    rng = np.random.default_rng(request.seed)
    beyond = _paths(state, batch, steps=request.steps, paths=ROLLED_PATHS, rng=rng)[:, :, inside:]
    later = np.quantile(beyond, request.shares, axis=0) if request.shares else np.empty((0, *beyond.shape[1:]))
    return Predicted(np.concatenate((mean, beyond.mean(axis=0)), axis=1), np.concatenate((quantiles, later), axis=2))


def _paths(
    state: State,
    batch: Batch,
    *,
    steps: int,
    paths: int,
    rng: np.random.Generator,
) -> Floats:  # (paths, n, steps, C), model units
    """Joint paths; beyond the horizon each goes on from a forecast of its own rows."""
    contexts = batch.contexts
    forecast = calibrated(state.model, batch.calibration, contexts)
    drawn = forecast.sample(paths, generator=rng)
    pieces, made = [drawn], state.horizon
    windows, length = contexts.shape[:2]
    rows = np.broadcast_to(contexts, (paths, *contexts.shape))
    while made < steps:
        rows = np.concatenate((rows, pieces[-1].astype(np.float32)), axis=2)[:, :, -length:]
        flat = np.ascontiguousarray(rows.reshape(paths * windows, length, -1))
        following = calibrated(state.model, batch.calibration, flat).sample(1, generator=rng)[0]
        pieces.append(following.reshape(paths, windows, state.horizon, -1))
        made += state.horizon
    return np.concatenate(pieces, axis=2)[:, :, :steps]


def _require_room(state: State, series: int, steps: int, *, arrays: int, rolled: int) -> None:
    """Refuse more steps than there is memory for: ``arrays`` of the result, and beyond the model's horizon the paths
    of series times channels that are forecast together, ``rolled`` at most."""
    channels = len(state.channel_names)
    wanted = arrays * series * channels
    if steps > state.horizon:
        wanted += 2 * min(rolled, max(arrays, ROLLED_PATHS) * series * channels)  # in pieces, and put together
    require_memory(f"h: {show_value(steps)} steps of {series:,} series", 8.0 * min(steps, 10**30) * wanted)


def _require_finite(values: Floats) -> None:
    if not np.isfinite(values).all():
        raise FernError("is not finite; the series holds values beyond what the model can take", argument="forecast")
