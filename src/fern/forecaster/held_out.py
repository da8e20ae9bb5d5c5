"""Held-out windows through the model and its classical partner, and the combination that they choose."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fern.calibration import Calibration
from fern.data.series_table import Series
from fern.forecaster.combination import Blend, HeldOut, HeldOutWindows, choose_blend, loss, naive_scales
from fern.forecaster.partner import Combination, Partner, choose_partner, count_rows, find_floor
from fern.forecaster.plan import Plan, TrainingSeries
from fern.forecaster.predict import calibrate_forecast
from fern.forecaster.state import Scale
from fern.models import Forecaster
from fern.models.classical import KNOTS, QuantileForecast
from fern.models.kernel_regression import MOST_PHASES
from fern.models.pretrained.forecasting import READ
from fern.models.pretrained.network import read_weights
from fern.models.pretrained.tuning import tune_network

Floats = NDArray[np.float64]

MOST_WINDOWS = 600
"""Windows times channels that decide, at most."""

MOST_VALUES = 60_000
"""Their forecast steps, at most: a table of quantiles is kept of each."""

MOST_ALONE = 4
"""Windows of a series that the model does not forecast, at most."""

EARLIER = 8
"""Stretches of time on which classical models and the pretrained network, which learn nothing from a series, are
judged where the model's own windows lie in fewer: over long horizons these are one or two."""

TUNING_HANDICAP = 0.005
"""By which share of the loss a tuned network must be better than the one of the package."""

FEWEST_IN_PHASE = 24
"""Windows that begin whole seasons before the end, from which covariates are judged on them alone: what is known of the
steps ahead is worth more at the end of a day than within it."""

FEWEST_ROWS = 3
"""Rows before a held-out window, at least."""


@dataclass(frozen=True)
class Candidate:
    """A trained model, the series it learnt from and its calibration."""

    model: Forecaster
    learnt: TrainingSeries
    calibration: Calibration


def choose_combination(
    series: Sequence[Series],
    scales: Sequence[Scale],
    plan: Plan,
    candidate: Candidate | None,
    *,
    positive: bool | Literal["auto"],
    combine: bool,
    pretrained: bool = False,
    tune: bool = False,
    seed: int = 0,
    in_phase: bool = False,
) -> tuple[Combination, list[str], HeldOutWindows | None]:
    """The combination that held-out windows choose, what was chosen in words, and its forecasts of these windows.

    Without ``combine`` the model's forecasts are left as they are; short series are the partner's all the same.
    ``pretrained`` enters the network that comes with the package beside the model and the classical partner, tuned to
    the rows before the held-out windows where that forecasts these better and ``tune`` allows it. With ``in_phase`` its
    forecasts are those of windows that begin whole seasons before the end, where there are enough: the choice is the
    same.
    """
    floors = {member.name: find_floor(member.values, positive) for member in series}
    by_model = None if candidate is None else _model_windows(series, scales, plan, candidate, floors)
    short = [number for number, parts in enumerate(plan.parts) if parts is None]
    by_partner = None
    if short or by_model is None:
        chosen = short if len(short) * MOST_ALONE >= 20 else range(len(series))
        by_partner = _partner_windows(series, chosen, plan, floors)
    windows = by_model or by_partner
    if windows is None:
        return Combination(partner=Partner(season=plan.season), positive=positive, floors=floors), [], None
    earlier = None
    if pretrained and by_model is not None and len(np.unique(by_model.bare.times)) < EARLIER:
        earlier = _partner_windows(series, range(len(series)), plan, floors, most=EARLIER)
    judges = earlier or windows
    partner, classical, losses = choose_partner(judges.histories, judges.bare, season=plan.season)
    notes = _describe_partner(partner, losses)
    share = None
    if earlier is not None:
        held = earlier.add_forecasts(classical, partner.forecast_pretrained(earlier.longer, classical))
        share = choose_blend(held)[0].share
        classical = partner.forecast(windows.histories, plan.horizon)
    by_network = partner.forecast_pretrained(windows.longer, classical) if pretrained else None
    if by_network is not None and tune:
        partner, by_network, note = _tune(partner, series, windows, classical, by_network, plan, seed)
        notes += note
    learnt = zeros = Blend(1.0)
    if by_model is not None:
        held = by_model.add_forecasts(classical, by_network)
        if combine:
            without_zeros = held.take(~classical.stepped) if not classical.stepped.all() else held
            learnt, by_weight = choose_blend(without_zeros, share=share)
            zeros = choose_blend(held.take(classical.stepped))[0] if classical.stepped.any() else learnt
            notes.append(_describe_blend(learnt, by_weight))
        without = replace(held, model=None)
    if by_partner is not None:
        forecast = classical
        if by_model is not None:
            forecast = partner.forecast(by_partner.histories, plan.horizon)
            by_network = None if by_network is None else partner.forecast_pretrained(by_partner.longer, forecast)
        without = by_partner.add_forecasts(forecast, by_network)
    alone, _ = choose_blend(without, share=None if by_partner is not None else share)
    if by_partner is not None and alone.share > 0:
        notes.append(f"where no model forecasts, the pretrained network has a weight of {100 * alone.share:.0f} %")
    combination = Combination(partner, learnt, zeros, alone, positive, floors)
    if not combination.pretrained:
        combination = replace(combination, partner=replace(partner, network=None))
    judged, blend = (held, learnt) if by_model is not None else (without, alone)
    if in_phase and candidate is not None and 1 < plan.season <= MOST_PHASES:
        again = _model_windows(series, scales, plan, candidate, floors, in_phase=True)
        if again is not None and len(again.longer) >= FEWEST_IN_PHASE:
            forecast = partner.forecast(again.histories, plan.horizon)
            by_network = None if by_network is None else partner.forecast_pretrained(again.longer, forecast)
            judged = again.add_forecasts(forecast, by_network)
    return combination, notes, _judge(judged, blend, series)


def _judge(held: HeldOut, blend: Blend, series: Sequence[Series]) -> HeldOutWindows:
    """The held-out windows as the combination forecasts them."""
    lengths = np.array([len(member.values) for member in series])
    width = series[0].values.shape[1]
    return HeldOutWindows(
        held.series,
        lengths[held.series] - held.ends,
        np.tile(np.arange(width), len(held.scale) // width),
        held.actual,
        held.combine(blend),
        held.scale,
        held.ends,
        held.least,
    )


def _tune(
    partner: Partner,
    series: Sequence[Series],
    windows: "_Windows",
    classical: QuantileForecast,
    untuned: QuantileForecast,
    plan: Plan,
    seed: int,
) -> tuple[Partner, QuantileForecast, list[str]]:
    """The partner with the network tuned to the rows before held-out windows, where that forecasts them better.

    With its forecasts of these windows, which are ``untuned`` where it is left as it was.
    """
    back = np.full(len(series), MOST_ALONE * plan.horizon)
    np.maximum.at(back, windows.bare.series, windows.bare.ends)
    rows = []
    for member, ends in zip(series, back.tolist(), strict=True):
        cut = len(member.values) - ends
        start = max((edge for edge in member.breaks if edge < cut), default=0)
        rows += [
            np.ascontiguousarray(member.values[start:cut, c], dtype=np.float64) for c in range(member.values.shape[1])
        ]
    network = tune_network(
        read_weights(partner.weights)[0], [part for part in rows if len(part)], plan.horizon, seed=seed
    )
    if network is None:
        return partner, untuned, []
    tuned = replace(partner, network=network)
    after = tuned.forecast_pretrained(windows.longer, classical)
    losses = [loss(windows.add_forecasts(classical, None), forecast) for forecast in (untuned, after)]
    if not losses[1] < (1 - TUNING_HANDICAP) * losses[0]:
        return partner, untuned, []
    clause = f"the pretrained network was tuned to these series (scaled CRPS of held-out windows {losses[1]:.3g}"
    return tuned, after, [f"{clause}, before {losses[0]:.3g})"]


def _describe_partner(partner: Partner, losses: dict[str, float]) -> list[str]:
    """What differs from the option that was tried first, and is taken unless windows speak against it."""
    if partner.transform == next(iter(losses)) and not partner.recent:
        return []
    scores = ", ".join(f"{name} {value:.3g}" for name, value in losses.items())
    widths = ", with widths by recent changes" if partner.recent else ""
    return [f"classical models see {_SEEN[partner.transform]}{widths}, by held-out windows (scaled CRPS of {scores})"]


_SEEN = {
    "none": "the values",
    "log1p": "log1p of the values",
    "asinh": "asinh of the values",
    "average": "the values and their log1p",
}


def _describe_blend(blend: Blend, losses: dict[float, float]) -> str:
    scores = ", ".join(f"{100 * weight:.0f} % {value:.3g}" for weight, value in losses.items())
    rest = "classical models the rest"
    if blend.share > 0 and blend.weight < 1:
        rest = f"the pretrained network {100 * (1 - blend.weight) * blend.share:.0f} %, {rest}"
    clause = f"the model has a weight of {100 * blend.weight:.0f} %, {rest}, by held-out windows"
    shape = "" if blend.shape is None else "; intervals have the shape of held-out errors"
    if blend.bias is not None and np.abs(blend.bias).max() > 0.02:
        shape += f", and the mean moves by {blend.bias[0]:+.2f} to {blend.bias[-1]:+.2f} standard deviations"
    return f"{clause} (scaled CRPS of {scores}){shape}"


@dataclass(frozen=True)
class _Windows:
    """Held-out windows, an entry for each window and channel."""

    histories: list[Floats]  # rows that the classical models look at
    longer: list[Floats]  # that the pretrained network does
    model: tuple[Floats, Floats] | None  # means (n, H) and tables (n, H, KNOTS)
    bare: HeldOut  # without any forecast

    def add_forecasts(self, classical: QuantileForecast, pretrained: QuantileForecast | None) -> HeldOut:
        """With the forecasts of the others."""
        model = None
        if self.model is not None:
            model = QuantileForecast(*self.model, classical.response, np.zeros(len(self.longer), dtype=np.bool_))
        return replace(self.bare, model=model, classical=classical, pretrained=pretrained)


_NOTHING = QuantileForecast(
    np.empty((0, 1)), np.empty((0, 1, len(KNOTS))), np.empty((0, 1)), np.empty(0, dtype=np.bool_)
)


def _model_windows(
    series: Sequence[Series],
    scales: Sequence[Scale],
    plan: Plan,
    candidate: Candidate,
    floors: dict[str, Floats],
    *,
    in_phase: bool = False,
) -> _Windows | None:
    """The calibration windows of the series that the model learnt from, as it forecasts them."""
    places = np.array([number for number, parts in enumerate(plan.parts) if parts is not None])
    channels = series[0].values.shape[1]
    most = max(1, min(MOST_WINDOWS, MOST_VALUES // plan.horizon) // channels)
    entries: list[tuple[int, int]] = []
    means, tables = [], []
    for past, _, rows, numbers in candidate.learnt.held_out("calibration", most=most, in_phase=in_phase):
        forecast = calibrate_forecast(candidate.model, candidate.calibration, past.numpy())
        shift, spread = (
            np.stack([getattr(scales[place], name) for place in places[numbers]])[:, None]
            for name in ("shift", "spread")
        )
        means.append(np.swapaxes(forecast.mean * spread + shift, 1, 2))
        quantiles = forecast.quantile(KNOTS.tolist()) * spread + shift  # (K, n, H, C)
        tables.append(np.moveaxis(quantiles, (1, 3, 2, 0), (0, 1, 2, 3)))
        entries += zip(places[numbers].tolist(), rows.tolist(), strict=True)
    if not entries:
        return None
    shape = (len(entries) * channels, plan.horizon)
    model = np.concatenate(means).reshape(shape), np.concatenate(tables).reshape(*shape, len(KNOTS))
    return _collect(series, entries, plan, floors, model)


def _partner_windows(
    series: Sequence[Series], chosen: Sequence[int], plan: Plan, floors: dict[str, Floats], *, most: int = MOST_ALONE
) -> _Windows | None:
    """The last windows of these series, up to ``most`` of each where rows allow, the newest first."""
    channels = series[0].values.shape[1]
    entries = []
    for back in range(1, most + 1):
        for number in chosen:
            row = len(series[number].values) - back * plan.horizon
            if row >= (FEWEST_ROWS if back == 1 else 2 * plan.season + FEWEST_ROWS):
                entries.append((number, row))
    fitting = max(1, min(MOST_WINDOWS, MOST_VALUES // plan.horizon) // channels)
    if len(entries) > fitting:
        entries = entries[:: -(-len(entries) // fitting)]
    return _collect(series, entries, plan, floors, None) if entries else None


def _collect(
    series: Sequence[Series],
    entries: Sequence[tuple[int, int]],
    plan: Plan,
    floors: dict[str, Floats],
    model: tuple[Floats, Floats] | None,
) -> _Windows:
    keep = count_rows(plan.season)
    longer, actual, numbers, ends, least = [], [], [], [], []
    for number, row in entries:
        member = series[number]
        start = max(0, row - max(keep, READ), *(edge for edge in member.breaks if edge < row))
        for channel in range(member.values.shape[1]):
            longer.append(np.ascontiguousarray(member.values[start:row, channel], dtype=np.float64))
            actual.append(member.values[row : row + plan.horizon, channel])
            numbers.append(number)
            ends.append(len(member.values) - row)
            least.append(floors[member.name][channel])
    histories = [rows[-keep:] for rows in longer]
    truth, scale = np.stack(actual).astype(np.float64), naive_scales(histories, plan.season)
    bare = HeldOut(truth, None, _NOTHING, scale, np.array(numbers), np.array(ends), np.array(least))
    return _Windows(histories, longer, model, bare)
