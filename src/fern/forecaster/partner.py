"""The partners of a model, classical and pretrained: their combination with it, and what is held back as absurd."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from fern.errors import unknown_name
from fern.forecaster.combination import Blend, HeldOut, losses_of, under
from fern.models.classical import ClassicalSettings, QuantileForecast, forecast_panel
from fern.models.classical.intermittent import is_intermittent
from fern.models.pretrained.averaging import forecast_averaged
from fern.models.pretrained.forecasting import READ, Contexts
from fern.models.pretrained.network import NEWEST, WEIGHTS, Network, read_weights, rebuild_network
from fern.models.pretrained.representation import SHORTEST

Floats = NDArray[np.float64]
Transform = Literal["none", "log1p", "asinh", "average"]
"""On which scale classical models see the values; ``average`` of none and log1p, quantile by quantile."""

ROWS = 600
"""The newest rows of a series that the partner looks at, at least eight seasons."""

HANDICAP, FEWEST_SERIES, ALONE_HANDICAP = 0.005, 8, 0.2
"""A transform, or widths by recent changes, must score better by this share of the loss and by a standard error over
series; where these are fewer, by 0.2 of the loss over the number of windows."""

RECENT_ROWS, RECENT_POWER, MOST_RECENT = 28, 0.5, 3.0
"""The widths of classical forecasts are multiplied by the square root of the mean size of the last 28 changes over that
of all, at most threefold: half of what volatility does is gone when the forecast comes true."""

_BLENDS = ("learnt", "zeros", "alone")

FAR = 1.0
"""A mean is absurd where it leaves both the history's range and the partner's widest quantiles by this many ranges."""


def count_rows(season: int) -> int:
    """The newest rows that the partner looks at.

    Example:
        >>> count_rows(12), count_rows(168)
        (600, 1344)
    """
    return max(ROWS, 8 * season)


@dataclass(frozen=True, kw_only=True)
class Partner:
    """The classical ensemble on a scale that held-out windows chose, and the pretrained network."""

    season: int
    transform: Transform = "none"
    recent: bool = False
    """Whether classical widths follow the size of recent changes."""
    weights: str = NEWEST
    """The name of the pretrained network's weights."""
    network: Network | None = None
    """The pretrained network as it was tuned to the fitted series; None where it was not."""

    def forecast_pretrained(
        self,
        histories: Sequence[Floats],  # each (n_i,)
        classical: QuantileForecast,
    ) -> QuantileForecast:
        """The pretrained network's forecast distributions; the classical ones where rows are too few for it."""
        able = np.flatnonzero([len(rows) >= SHORTEST for rows in histories])
        if not len(able):
            return classical
        network = read_weights(self.weights)[0] if self.network is None else self.network
        contexts = Contexts.of([histories[place] for place in able.tolist()])
        ahead = forecast_averaged(network, contexts, classical.mean.shape[1])
        forecast = QuantileForecast.normal(ahead.mean.numpy(), ahead.stddev.numpy(), classical.response[able])
        finite = np.isfinite(forecast.table).all(axis=(1, 2))
        mean, table = classical.mean.copy(), classical.table.copy()
        mean[able[finite]], table[able[finite]] = forecast.mean[finite], forecast.table[finite]
        return replace(classical, mean=mean, table=table)

    def forecast(
        self,
        histories: Sequence[Floats],  # each (n_i,)
        horizon: int,
    ) -> QuantileForecast:
        """Forecast distributions of the classical ensemble, in the units of the data."""
        forecast = self._forecast(histories, horizon)
        return follow_changes(forecast, histories) if self.recent else forecast

    def _forecast(self, histories: Sequence[Floats], horizon: int) -> QuantileForecast:
        settings = ClassicalSettings(season=self.season, rows=ROWS, positive="auto")
        if self.transform == "none":
            return forecast_panel(histories, horizon, settings)
        if self.transform == "average":
            on_each = (replace(self, transform=scale)._forecast(histories, horizon) for scale in ("none", "log1p"))
            return _mean_of(*on_each)
        signed = self.transform == "asinh"  # which bends negative values too
        bendable = np.array(
            [(signed or rows.min() >= 0) and not is_intermittent(rows[-ROWS:]) for rows in histories], dtype=np.bool_
        )
        parts = []
        for places, transform in ((np.flatnonzero(~bendable), "none"), (np.flatnonzero(bendable), self.transform)):
            if len(places):
                panel = [histories[place] for place in places.tolist()]
                if transform == "none":
                    forecast = forecast_panel(panel, horizon, settings)
                else:
                    forecast = _forecast_transformed(self, panel, horizon)
                parts.append((places, forecast))
        order = np.argsort(np.concatenate([places for places, _ in parts]))
        names = ("mean", "table", "response", "stepped")
        return QuantileForecast(
            *(np.concatenate([getattr(forecast, name) for _, forecast in parts])[order] for name in names)
        )


def follow_changes(forecast: QuantileForecast, histories: Sequence[Floats]) -> QuantileForecast:
    """The forecasts with widths by the size of recent changes; series with many zeros stay as they are."""
    factors = np.ones(len(histories))
    for place, rows in enumerate(histories):
        sizes = np.abs(np.diff(rows))
        if len(sizes) > RECENT_ROWS and sizes.any() and not forecast.stepped[place]:
            factors[place] = sizes[-RECENT_ROWS:].mean() / sizes.mean()
    factors = np.clip(factors, 1 / MOST_RECENT, MOST_RECENT) ** RECENT_POWER
    middle = forecast.quantile([0.5])[0]
    mean = middle + factors[:, None] * (forecast.mean - middle)
    return replace(
        forecast, mean=mean, table=middle[..., None] + factors[:, None, None] * (forecast.table - middle[..., None])
    )


def _mean_of(first: QuantileForecast, second: QuantileForecast) -> QuantileForecast:
    """The average of two forecasts of the same series, quantile by quantile."""
    return replace(first, mean=(first.mean + second.mean) / 2, table=(first.table + second.table) / 2)


def _forecast_transformed(partner: Partner, histories: Sequence[Floats], horizon: int) -> QuantileForecast:
    """The forecast of transformed rows, transformed back; the mean is that of the distribution, not its median."""
    scales = np.array([np.abs(rows).mean() or 1.0 for rows in histories])
    bend, unbend = (np.log1p, np.expm1) if partner.transform == "log1p" else (np.arcsinh, np.sinh)
    transformed = [bend(rows / scale) for rows, scale in zip(histories, scales, strict=True)]
    settings = ClassicalSettings(season=partner.season, rows=ROWS, positive=False)
    forecast = forecast_panel(transformed, horizon, settings)
    # An exponential has no bounds: nothing goes farther beyond the history than the history is wide, bent.
    low, high = (np.array([end(rows[-ROWS:]) for rows in transformed]) for end in (np.min, np.max))
    span = np.maximum(high - low, 0.5)
    table = np.clip(forecast.table, (low - span)[:, None, None], (high + span)[:, None, None])
    restored = replace(forecast, table=table).through(lambda values: np.asarray(unbend(values)))
    return replace(restored, mean=restored.mean * scales[:, None], table=restored.table * scales[:, None, None])


@dataclass(frozen=True, eq=False)
class Combination:
    """What held-out windows chose: the partner, and blends by group of series.

    ``learnt``  of series that the model forecasts; ``zeros`` of those among them with many zeros;
    ``alone``   of series that are too short for the model.
    ``floors``  for each fitted series, the value of each channel below which nothing lies (0, or −∞).
    """

    partner: Partner
    learnt: Blend = field(default_factory=lambda: Blend(1.0))
    zeros: Blend = field(default_factory=lambda: Blend(1.0))
    alone: Blend = field(default_factory=lambda: Blend(0.0))
    positive: bool | Literal["auto"] = "auto"
    floors: Mapping[str, Floats] = field(default_factory=dict)

    @property
    def pretrained(self) -> bool:
        """Whether the pretrained network has a part."""
        return any(blend.share > 0 and blend.weight < 1 for blend in (self.learnt, self.zeros, self.alone))

    @property
    def rows(self) -> int:
        """The newest rows of a series that its partners look at."""
        return max(count_rows(self.partner.season), READ if self.pretrained else 0)

    def floor(self, name: str, values: Floats) -> Floats:  # (T, C) -> (C,)
        """Below which nothing lies: as fitted, or for a new series from its rows."""
        return self.floors[name] if name in self.floors else find_floor(values, self.positive)

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """What JSON holds, and arrays, but for the floors."""
        plain: dict[str, Any] = {name: value for name, value in vars(self.partner).items() if name != "network"}
        plain["positive"] = self.positive
        arrays: dict[str, NDArray[Any]] = {}
        for name in _BLENDS:
            plain[name], blend_arrays = getattr(self, name).to_parts()
            arrays |= {f"{name}.{entry}": values for entry, values in blend_arrays.items()}
        if self.partner.network is not None:
            tensors = self.partner.network.state_dict()
            arrays |= {f"network.{name}": value.half().numpy() for name, value in tensors.items()}
        return plain, arrays

    @classmethod
    def from_parts(
        cls, plain: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], floors: Mapping[str, Floats]
    ) -> "Combination":
        """What `to_parts` took apart, checked by `saved_schema`."""
        blends = {name: Blend.from_parts(plain[name], under(arrays, f"{name}.")) for name in _BLENDS}
        partner = Partner(**{name: value for name, value in plain.items() if name not in (*_BLENDS, "positive")})
        if partner.weights not in WEIGHTS:
            raise unknown_name("weights", partner.weights, WEIGHTS, argument="weights")
        tuned = under(arrays, "network.")
        if tuned:
            partner = replace(partner, network=rebuild_network(partner.weights, tuned))
        return cls(partner=partner, positive=plain["positive"], floors=floors, **blends)


def find_floor(values: Floats, positive: bool | Literal["auto"]) -> Floats:  # (T, C) -> (C,)
    """0 for channels that were never negative (or for all, or none), else −∞.

    Example:
        >>> find_floor(np.array([[0.0, -1.0], [2.0, 3.0]]), "auto").tolist()
        [0.0, -inf]
    """
    if positive == "auto":
        return np.where(values.min(axis=0) >= 0, 0.0, -np.inf)
    return np.full(values.shape[1], 0.0 if positive else -np.inf)


def choose_partner(
    histories: Sequence[Floats], held: HeldOut, *, season: int
) -> tuple[Partner, QuantileForecast, dict[str, float]]:
    """The partner that scores best on held-out windows, its forecasts of them, and the losses of what was tried.

    Whether values that were never negative grow by steps or by shares is left open, as the average of both, until
    windows say which.
    """
    positive = all(rows.min() >= 0 for rows in histories)
    forecasts: dict[Transform, QuantileForecast] = {
        transform: Partner(season=season, transform=transform).forecast(histories, held.actual.shape[1])
        for transform in cast("tuple[Transform, ...]", ("none", "log1p") if positive else ("none", "asinh"))
    }
    if positive:
        forecasts = {"average": _mean_of(forecasts["none"], forecasts["log1p"]), **forecasts}
    scores: dict[str, float] = {}
    first: Floats | None = None
    best: tuple[float, Partner, QuantileForecast] | None = None
    for transform, plain in forecasts.items():
        for recent in (False, True):
            forecast = follow_changes(plain, histories) if recent else plain
            losses = losses_of(held, forecast.clip_below(held.least))
            scores[f"{transform}, recent changes" if recent else transform] = float(losses.mean())
            first = losses if first is None else first
            share = (losses - first) / max(float(first.mean()), 1e-12)
            cost = float(share.mean()) + _doubt(share, held)
            if best is None or cost < best[0]:
                best = (cost, Partner(season=season, transform=transform, recent=recent), forecast)
    assert best is not None
    return best[1], best[2], scores


def _doubt(differences: Floats, held: HeldOut) -> float:
    """By which share of the loss what differs so from the first option must be better; 0 for that one itself."""
    if not differences.any():
        return 0.0
    _, places, counts = np.unique(held.series, return_inverse=True, return_counts=True)
    if len(counts) < FEWEST_SERIES:
        return ALONE_HANDICAP / max(held.worth, 1.0)
    means = np.bincount(places, differences) / counts
    return HANDICAP + float(means.std(ddof=1) / len(means) ** 0.5)


def find_absurd(
    mean: Floats,  # (N, H)
    histories: Sequence[Floats],
    season: int,
) -> NDArray[np.bool_]:  # (N,)
    """Which forecasts lie so far outside the history that the partner is asked whether its trend explains them."""
    rows = count_rows(season)
    low, high = (np.array([end(values[-rows:]) for values in histories]) for end in (np.min, np.max))
    span = FAR * np.maximum(high - low, 1e-9 * np.maximum(np.abs(high), np.abs(low)))
    return np.asarray(((mean < (low - span)[:, None]) | (mean > (high + span)[:, None])).any(axis=1))


def hold_back(
    forecast: QuantileForecast, partner: QuantileForecast, histories: Sequence[Floats], season: int
) -> tuple[QuantileForecast, NDArray[np.bool_]]:
    """The forecasts with the partner's in place of those that neither the history nor the partner can explain."""
    absurd = find_absurd(forecast.mean, histories, season)
    rows = count_rows(season)
    span = np.array([np.ptp(values[-rows:]) for values in histories])[:, None]
    beyond = (forecast.mean < partner.table[..., 0] - FAR * span) | (
        forecast.mean > partner.table[..., -1] + FAR * span
    )
    absurd &= beyond.any(axis=1)
    if not absurd.any():
        return forecast, absurd
    return choose_rows(absurd, partner, forecast), absurd


def choose_rows(
    chosen: NDArray[np.bool_],  # (N,)
    first: QuantileForecast,
    second: QuantileForecast,
) -> QuantileForecast:
    """The first forecast where ``chosen``, else the second."""
    by_step, by_knot = chosen[:, None], chosen[:, None, None]
    return QuantileForecast(
        np.where(by_step, first.mean, second.mean),
        np.where(by_knot, first.table, second.table),
        np.where(by_step, first.response, second.response),
        np.where(chosen, first.stepped, second.stepped),
    )
