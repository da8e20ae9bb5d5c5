"""Forecasts of many series at once: in model units through model and calibration, back in the units of the data."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from fern.calibration import CalibratedForecast, Calibration, OnlineCalibration
from fern.calibration.online import apply_each
from fern.data.frequency import last_stamps, next_stamps
from fern.data.series_table import SeriesTable
from fern.errors import FernError, require_memory, show_value
from fern.forecaster.combination import naive_scales
from fern.forecaster.covariates import CovariateRows, phase_of
from fern.forecaster.partner import choose_rows, count_rows, find_absurd, hold_back
from fern.forecaster.state import Recent, State, require_squares, to_units
from fern.models import Forecaster
from fern.models.base import distribution_of
from fern.models.classical import KNOTS, QuantileForecast
from fern.models.classical.intermittent import is_intermittent
from fern.training.logging import Mode, track_steps

Floats = NDArray[np.float64]

AT_ONCE = 2048
"""Series times channels that are forecast together: bounds the memory, not the number of series."""

UPDATED_AT_ONCE = 256
"""The same of series that were updated."""

MOST_ROLLS = 1000
"""Horizons that a forecast may reach: each takes a forecast of every path, and the later ones tell nothing new."""

ROLLED_PATHS = 200
"""Paths from which steps beyond the horizon are forecast."""


@dataclass(frozen=True)
class OutputColumns:
    """The columns of a forecast beside the mean: central intervals (percent) or quantiles (probabilities), not both.

    Example:
        >>> OutputColumns.of(level=[80, 97.5], quantiles=None).names("Fern")
        ['Fern', 'Fern-lo-80', 'Fern-hi-80', 'Fern-lo-97.5', 'Fern-hi-97.5']
        >>> OutputColumns.of(level=None, quantiles=[0.1]).names("Fern")
        ['Fern', 'Fern-ql0.1']
    """

    levels: tuple[float, ...] = ()
    quantiles: tuple[float, ...] = ()

    @classmethod
    def of(cls, *, level: Sequence[float] | float | None, quantiles: Sequence[float] | float | None) -> "OutputColumns":
        """The arguments of `FernForecaster.predict`, checked."""
        if level is not None and quantiles is not None:
            raise FernError("got both, give one of them", argument="level, quantiles")
        levels = _numbers("level", level, low=0.0, high=100.0, example="80 for an 80 % interval")
        for number in levels:
            if number < 1:  # a probability: an interval of less than 1 % is of no use to anyone
                raise FernError(
                    f"got {number:g}, did you mean {100 * number:g}?", argument="level", expected="percent, such as 80"
                )
        probabilities = _numbers("quantiles", quantiles, low=0.0, high=1.0, example="0.9")
        return cls(levels, probabilities)

    def names(self, name: str) -> list[str]:
        """The names of the columns, the point forecast's first."""
        ends = [f"{name}-{end}-{_short(level)}" for level in self.levels for end in ("lo", "hi")]
        return [name, *ends, *(f"{name}-ql{_short(probability)}" for probability in self.quantiles)]

    @property
    def probabilities(self) -> list[float]:
        """The probabilities of the columns after the point forecast, in their order."""
        ends = [0.5 + side * level / 200 for level in self.levels for side in (-1, 1)]
        return [*ends, *self.quantiles]

    def label(self, name: str, mean: Floats, others: Sequence[Floats]) -> dict[str, Floats]:  # (n,) each
        """The columns of one channel by their names: the mean, and what belongs to each probability."""
        return dict(zip(self.names(name), [mean, *others], strict=True))


def _numbers(
    argument: str, values: Sequence[float] | float | None, *, low: float, high: float, example: str
) -> tuple[float, ...]:
    if values is None:
        return ()
    entries = [values] if isinstance(values, int | float) and not isinstance(values, bool) else values
    if not isinstance(entries, list | tuple | np.ndarray) or len(entries) == 0:
        raise FernError(
            argument=argument, got=values, expected=f"a list of numbers between {low:g} and {high:g}, as {example}"
        )
    for value in entries:
        real = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
        spare = 1e-9 * (high - low)  # nearer to the ends, rounding makes it one of them
        if not real or not low + spare < value < high - spare:
            raise FernError(
                argument=argument, got=value, expected=f"numbers between {low:g} and {high:g}, as {example}"
            )
    numbers = tuple(float(value) for value in entries)
    if len({_short(number) for number in numbers}) < len(numbers):  # columns are named by them
        raise FernError(f"{list(entries)} contains duplicates", argument=argument)
    return numbers


def _short(number: float) -> str:
    """80 for 80.0, 97.5 for 97.5: as people write it."""
    return f"{number:.10g}"


@dataclass(frozen=True)
class Request:
    """What is wanted of each series: so many steps, and the quantiles of each step."""

    steps: int
    quantiles: tuple[float, ...] = ()
    seed: int = 7
    progress: Mode = "silent"
    """Of steps beyond the model's horizon, which take long."""


@dataclass(frozen=True)
class Prediction:
    """The forecasts of several series, in the units of the data."""

    mean: Floats  # (N, steps, C)
    quantiles: Floats  # (quantiles, N, steps, C)
    held_back: tuple[str, ...] = ()
    """Series whose forecast by the model was absurd: theirs is the classical partner's."""


def predict_series(state: State, series: Sequence[Recent], request: Request) -> Prediction:
    """Point forecasts and quantiles."""
    if _needs_whole_horizon(state, request.steps):
        whole = predict_series(state, series, replace(request, steps=state.horizon))
        return replace(whole, mean=whole.mean[:, : request.steps], quantiles=whole.quantiles[:, :, : request.steps])
    _require_room(state, len(series), request.steps, arrays=1 + len(request.quantiles), rolled=AT_ONCE * ROLLED_PATHS)
    shape = (len(series), request.steps, len(state.channel_names))
    mean, quantiles = np.empty(shape), np.empty((len(request.quantiles), *shape))
    held_back: list[str] = []
    for places, batch in _batches(state, series, steps=request.steps):
        members = [series[place] for place in places.tolist()]
        if _is_plain(state, members):
            prediction = _predict_batch(state, batch, request)
            floors = _floors(state, members)
            mean[places] = np.maximum(batch.invert(prediction.mean), floors)
            for number, values in enumerate(prediction.quantiles):
                quantiles[number, places] = np.maximum(batch.invert(values), floors)
            odd = find_absurd(_by_entry(mean[places]), _histories(members, state.season), state.season)
            if not odd.any():
                continue
            chosen = np.unique(np.flatnonzero(odd) // shape[2])
            places, members = places[chosen], [members[number] for number in chosen.tolist()]
            batch = make_batch(state, members)
        combined, absurd = _combine(state, batch, members, request)
        held_back += [members[entry // shape[2]].name for entry in np.flatnonzero(absurd).tolist()]
        mean[places] = _by_series(combined.mean, shape[2])
        if request.quantiles:
            quantiles[:, places] = _by_series(combined.quantile(request.quantiles), shape[2])
    for places in _alone(state, series):
        combined = _predict_alone(state, [series[place] for place in places.tolist()], request.steps)
        mean[places] = _by_series(combined.mean, shape[2])
        if request.quantiles:
            quantiles[:, places] = _by_series(combined.quantile(request.quantiles), shape[2])
    _require_finite(mean)
    _require_finite(quantiles)
    return Prediction(mean, quantiles, tuple(dict.fromkeys(held_back)))


def simulate_series(
    state: State, series: Sequence[Recent], *, steps: int, n_paths: int, seed: int, progress: Mode = "silent"
) -> Floats:  # (n_paths, N, steps, C)
    """Sample paths from the joint distribution."""
    if _needs_whole_horizon(state, steps):
        return simulate_series(state, series, steps=state.horizon, n_paths=n_paths, seed=seed)[:, :, :steps]
    _require_room(state, len(series), steps, arrays=n_paths, rolled=max(AT_ONCE, n_paths), paths=n_paths)
    channels = len(state.channel_names)
    samples = np.empty((n_paths, len(series), steps, channels))
    rng, request = np.random.default_rng(seed), Request(steps, seed=seed, progress=progress)
    for places, batch in _batches(state, series, steps=steps, at_once=max(1, AT_ONCE // n_paths)):
        members = [series[place] for place in places.tolist()]
        paths = batch.invert(_sample_paths(state, batch, request, n_paths=n_paths, rng=rng))
        odd = find_absurd(_by_entry(paths.mean(axis=0)), _histories(members, state.season), state.season)
        if _is_plain(state, members) and not odd.any():
            samples[:, places] = np.maximum(paths, _floors(state, members))
            continue
        combined, absurd = _combine(state, batch, members, request)
        # Each step of a path keeps its place in the model's distribution and takes the combined one's value there.
        model = _model_table(state, batch, request)
        mixed = combined.at_scores(model.scores_of(_by_entry(paths)))
        # Where the model has no say, the classical models' errors set how steps go together.
        without = absurd | ~_has_model(state, members)
        if without.any():
            mixed[:, without] = combined.take(np.flatnonzero(without)).sample(n_paths, rng)
        samples[:, places] = _by_series(mixed, channels)
    for places in _alone(state, series):
        combined = _predict_alone(state, [series[place] for place in places.tolist()], steps)
        samples[:, places] = _by_series(combined.sample(n_paths, rng), channels)
    _require_finite(samples)
    return samples


def _needs_whole_horizon(state: State, steps: int) -> bool:
    """Whether fewer steps are the first of all: the regression on covariates knows the horizon alone."""
    return state.covariates is not None and state.covariates.active and steps < state.horizon


def predict_frame(
    state: State, series: Sequence[Recent], table: SeriesTable, prediction: Prediction, output: OutputColumns
) -> Any:
    """The frame of `FernForecaster.predict`."""
    steps = prediction.mean.shape[1]
    columns: dict[str, Floats] = {}
    for c, name in enumerate(state.output_names):
        quantiles = [quantile[..., c].reshape(-1) for quantile in prediction.quantiles]
        columns |= output.label(name, prediction.mean[..., c].reshape(-1), quantiles)
    stamps = [member.future(state.frequency, steps) for member in series]
    return table.frame([member.name for member in series], stamps, columns)


def simulate_frame(
    state: State,
    series: Sequence[Recent],
    table: SeriesTable,
    paths: Floats,  # (n_paths, N, steps, C)
) -> Any:
    """The frame of `FernForecaster.simulate`."""
    n_paths, _, steps, _ = paths.shape
    stamps = [member.future(state.frequency, steps) for member in series]
    columns: dict[str, Any] = {"sample_id": np.tile(np.repeat(np.arange(n_paths), steps), len(series))}
    for c, name in enumerate(state.output_names):
        columns[name] = paths[..., c].swapaxes(0, 1).reshape(-1)
    names = [member.name for member in series for _ in range(n_paths)]
    return table.frame(names, [stamp for stamp in stamps for _ in range(n_paths)], columns, integers=["sample_id"])


def uses_model_alone(state: State, series: Recent) -> bool:
    """Whether the forecast of a series is the model's own, with no part of the classical partner."""
    if not state.learns(series.values) or not _is_plain(state, [series]):
        return False
    return not predict_series(state, [series], Request(state.horizon)).held_back


def calibrate_forecast(
    model: Forecaster | None,
    calibration: Calibration | Sequence[OnlineCalibration] | None,
    contexts: NDArray[np.float32],  # (N, L, C), model units
) -> CalibratedForecast:
    """The calibrated forecast of these contexts, in model units."""
    if model is None or calibration is None:
        raise FernError("every series was too short to learn from; there is no distribution", argument="forecast")
    distribution = distribution_of(model, torch.from_numpy(contexts))
    if isinstance(calibration, Calibration):
        return calibration.apply(distribution)
    return apply_each(calibration, distribution)


def predict_array(
    state: State,
    past: NDArray[np.floating],  # (L, C) or (N, L, C)
) -> Floats:  # (H, C) or (N, H, C)
    """The point forecast of contexts in the units of the data, at the scale of the series that was fitted.

    Where several were fitted, each context is scaled by itself.
    """
    try:
        past = np.asarray(past)
    except ValueError:
        raise FernError("its rows differ in length", argument="past", expected="an array of numbers") from None
    if past.dtype.kind not in "iuf":
        raise FernError(f"holds {past.dtype}", argument="past", expected="numbers")
    past = past.astype(np.float64)
    shape = (state.context_length, len(state.channel_names))
    if past.ndim not in (2, 3) or past.shape[-2:] != shape:
        raise FernError(
            f"got shape {past.shape}", argument="past", expected=f"(rows, channels) {shape}, or several such windows"
        )
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
    calibration: Calibration | Sequence[OnlineCalibration] | None
    """As fitted, or one for each series where some were updated since."""

    def invert(self, values: Floats) -> Floats:  # (..., n, steps, C)
        """In the units of the data."""
        return values * self.spread + self.shift


def make_batch(state: State, series: Sequence[Recent]) -> Batch:
    """The contexts of series that are long enough."""
    scales = [state.scale(member.name, member.values) for member in series]
    calibration: Calibration | Sequence[OnlineCalibration] | None = state.calibration
    if state.calibration is not None and any(member.name in state.online for member in series):
        start = OnlineCalibration.start(state.calibration)
        calibration = [state.online.get(member.name, start) for member in series]
    shift, spread = (np.stack([getattr(scale, name) for scale in scales])[:, None] for name in ("shift", "spread"))
    rows = np.stack([member.values[-state.context_length :] for member in series])
    return Batch(to_units(rows, shift, spread), shift, spread, calibration)


def _batches(
    state: State, series: Sequence[Recent], *, steps: int, at_once: int = AT_ONCE
) -> Iterator[tuple[NDArray[np.int64], Batch]]:
    learnt = np.flatnonzero([state.learns(member.values) for member in series])
    updated = np.array([series[place].name in state.online for place in learnt.tolist()], dtype=np.bool_)
    # Each updated series has tables of radii; beyond the horizon each of its paths would.
    sizes = (at_once, 1 if steps > state.horizon else min(at_once, UPDATED_AT_ONCE))
    for chosen, most in zip((learnt[~updated], learnt[updated]), sizes, strict=True):
        size = max(1, most // len(state.channel_names))
        for first in range(0, len(chosen), size):
            places = chosen[first : first + size]
            yield places, make_batch(state, [series[place] for place in places])


def _predict_batch(state: State, batch: Batch, request: Request) -> Prediction:
    forecast = calibrate_forecast(state.model, batch.calibration, batch.contexts)
    inside = min(request.steps, state.horizon)
    mean = forecast.mean[:, :inside]
    probabilities = list(request.quantiles)
    quantiles = forecast.quantile(probabilities)[:, :, :inside] if probabilities else np.empty((0, *mean.shape))
    if request.steps == inside:
        return Prediction(mean, quantiles)
    rng = np.random.default_rng(request.seed)
    beyond = _sample_paths(state, batch, request, n_paths=ROLLED_PATHS, rng=rng)[:, :, inside:]
    later = np.quantile(beyond, probabilities, axis=0) if probabilities else np.empty((0, *beyond.shape[1:]))
    return Prediction(np.concatenate((mean, beyond.mean(axis=0)), axis=1), np.concatenate((quantiles, later), axis=2))


def _sample_paths(
    state: State, batch: Batch, request: Request, *, n_paths: int, rng: np.random.Generator
) -> Floats:  # (n_paths, n, steps, C), model units
    """Sample paths; beyond the horizon each goes on from a forecast of its own rows."""
    contexts = batch.contexts
    forecast = calibrate_forecast(state.model, batch.calibration, contexts)
    pieces = [forecast.sample(n_paths, generator=rng)]
    windows, length = contexts.shape[:2]
    rows = np.broadcast_to(contexts, (n_paths, *contexts.shape))
    starts = range(state.horizon, request.steps, state.horizon)
    for _ in track_steps(starts, of=request.steps, mode=request.progress):
        rows = np.concatenate((rows, pieces[-1].astype(np.float32)), axis=2)[:, :, -length:]
        flat = np.ascontiguousarray(rows.reshape(n_paths * windows, length, -1))
        following = calibrate_forecast(state.model, batch.calibration, flat).sample(1, generator=rng)[0]
        pieces.append(following.reshape(n_paths, windows, state.horizon, -1))
    return np.concatenate(pieces, axis=2)[:, :, : request.steps]


def _require_room(state: State, series: int, steps: int, *, arrays: int, rolled: int, paths: int | None = None) -> None:
    """Refuse more steps, or ``paths``, than there is memory for: ``arrays`` of the result, and beyond the model's
    horizon the paths of series times channels that are forecast together, ``rolled`` at most."""
    most = MOST_ROLLS * state.horizon
    if steps > most:
        expected = f"at most {most:,} steps, {MOST_ROLLS:,} times the horizon; a longer horizon is fitted for more"
        raise FernError(argument="h", got=steps, expected=expected)
    channels = len(state.channel_names)
    values = arrays * series * channels
    if steps > state.horizon:
        values += 2 * min(rolled, max(arrays, ROLLED_PATHS) * series * channels)  # in pieces, and put together
    subject = f"h: {show_value(steps)} steps of {series:,} series"
    if paths is not None:
        subject = f"n_paths: {show_value(paths)} paths of {show_value(steps)} steps of {series:,} series"
    require_memory(subject, 8.0 * min(steps, 10**30) * values)


def _require_finite(values: Floats) -> None:
    if not np.isfinite(values).all():
        raise FernError("is not finite; the series holds values beyond what the model can take", argument="forecast")


# --- the model and its classical partner; an entry is a channel of a series ------------------------------------------


def _combine(
    state: State, batch: Batch, members: Sequence[Recent], request: Request
) -> tuple[QuantileForecast, NDArray[np.bool_]]:
    """The combined forecast of each entry, and where the model's part was absurd and is left out."""
    combination, histories = state.combination, _histories(members, state.season)
    model = _model_table(state, batch, request)
    classical, pretrained = _partners(state, members, request.steps)
    floors = _floors(state, members).reshape(-1)
    learnt = combination.learnt.apply(model, classical, floors, pretrained)
    zeros = _many_zeros(histories)
    if zeros.any():
        learnt = choose_rows(zeros, combination.zeros.apply(model, classical, floors, pretrained), learnt)
    alone = combination.alone.apply(None, classical, floors, pretrained)
    forecast, absurd = hold_back(learnt, alone, histories, state.season)
    return _with_covariates(state, forecast, members), absurd


def _with_covariates(state: State, forecast: QuantileForecast, members: Sequence[Recent]) -> QuantileForecast:
    """The average with the regression on covariates, where it has a part."""
    model = state.covariates
    if model is None or not model.active:
        return forecast
    if forecast.mean.shape[1] != state.horizon:
        raise FernError(
            argument="h",
            got=forecast.mean.shape[1],
            expected=f"at most {state.horizon} steps where covariates are used",
        )
    rows = [covariate_rows(state, member) for member in members]
    scales = naive_scales(_histories(members, state.season), state.season)
    return model.apply(forecast, rows, scales, _floors(state, members).reshape(-1), state.frequency)


def covariate_rows(state: State, series: Recent) -> CovariateRows:
    """The rows of a series as the regression on covariates takes them."""
    model = state.covariates
    assert model is not None
    encoding, count = model.encoding, len(series.values)
    known = len(encoding.known_outputs)
    if known and series.ahead is None:
        problem = f"the known columns {', '.join(encoding.names.known)} have no values for the steps ahead"
        expected = "a frame with them; make_future_dataframe() gives its rows"
        raise FernError(problem, argument="futr_df", expected=expected)
    stamps = None
    if series.last is not None:
        stamps = pa.concat_arrays(
            [last_stamps(series.last, state.frequency, count), next_stamps(series.last, state.frequency, state.horizon)]
        )
    static = series.static
    if static is None and encoding.static:
        raise FernError(f"series {series.name!r} has no static values", argument="stat_exog_list")
    scale = state.scale(series.name, series.values)
    return CovariateRows(
        series.name,
        series.values,
        np.empty((count, 0)) if series.covariates is None else series.covariates,
        stamps,
        np.empty((state.horizon, 0)) if series.ahead is None else series.ahead,
        np.empty(0) if static is None else static,
        phase_of(None if stamps is None else stamps[0], state.frequency, state.season, row=series.rows - count),
        scale.shift,
        scale.spread,
    )


def _predict_alone(state: State, members: Sequence[Recent], steps: int) -> QuantileForecast:
    """The partners' forecast of each entry of series that are too short for the model."""
    require_squares(np.concatenate([member.values for member in members]))
    classical, pretrained = _partners(state, members, steps)
    forecast = state.combination.alone.apply(None, classical, _floors(state, members).reshape(-1), pretrained)
    return _with_covariates(state, forecast, members)


def _partners(state: State, members: Sequence[Recent], steps: int) -> tuple[QuantileForecast, QuantileForecast | None]:
    """The classical forecast of each entry, and the pretrained network's where it has a part."""
    combination = state.combination
    classical = combination.partner.forecast(_histories(members, state.season), steps)
    if not combination.pretrained:
        return classical, None
    longer = [member.values[-combination.rows :, c] for member in members for c in range(member.values.shape[1])]
    return classical, combination.partner.forecast_pretrained(longer, classical)


def _model_table(state: State, batch: Batch, request: Request) -> QuantileForecast:
    """The model's calibrated forecast of each entry as quantiles, in the units of the data."""
    prediction = _predict_batch(state, batch, replace(request, quantiles=tuple(KNOTS.tolist())))
    mean = _by_entry(batch.invert(prediction.mean))
    table = np.moveaxis(_by_entry(batch.invert(prediction.quantiles)), 0, -1)
    return QuantileForecast(mean, np.sort(table, axis=-1), np.ones_like(mean), np.zeros(len(mean), dtype=np.bool_))


def _is_plain(state: State, members: Sequence[Recent]) -> bool:
    """Whether the model's forecasts of these series are left as they are."""
    combination = state.combination
    if state.covariates is not None and state.covariates.active:
        return False
    if combination.learnt.plain and combination.zeros.plain:
        return True
    zeros = _many_zeros(_histories(members, state.season))
    return (combination.learnt.plain or bool(zeros.all())) and (combination.zeros.plain or not zeros.any())


def _has_model(state: State, members: Sequence[Recent]) -> NDArray[np.bool_]:  # (n·C,)
    """Whether the model has a say in each entry."""
    zeros = _many_zeros(_histories(members, state.season))
    return np.where(zeros, state.combination.zeros.weight > 0, state.combination.learnt.weight > 0)


def _many_zeros(histories: Sequence[Floats]) -> NDArray[np.bool_]:
    return np.array([is_intermittent(values) for values in histories], dtype=np.bool_)


def _alone(state: State, series: Sequence[Recent]) -> Iterator[NDArray[np.int64]]:
    """The places of series that are too short for the model, some at a time."""
    places = np.flatnonzero([not state.learns(member.values) for member in series])
    size = max(1, AT_ONCE // len(state.channel_names))
    for first in range(0, len(places), size):
        yield places[first : first + size]


def _histories(members: Sequence[Recent], season: int) -> list[Floats]:  # n·C of (n_i,)
    """The newest rows of each entry, as many as the classical models look at."""
    rows = count_rows(season)
    return [np.ascontiguousarray(member.values[-rows:, c]) for member in members for c in range(member.values.shape[1])]


def _floors(state: State, members: Sequence[Recent]) -> Floats:  # (n, 1, C)
    return np.stack([state.combination.floor(member.name, member.values) for member in members])[:, None]


def _by_entry(values: Floats) -> Floats:  # (..., n, steps, C) -> (..., n·C, steps)
    *front, n, steps, channels = values.shape
    return np.ascontiguousarray(np.swapaxes(values, -1, -2)).reshape(*front, n * channels, steps)


def _by_series(values: Floats, channels: int) -> Floats:  # (..., n·C, steps) -> (..., n, steps, C)
    *front, entries, steps = values.shape
    return np.swapaxes(values.reshape(*front, entries // channels, channels, steps), -1, -2)
