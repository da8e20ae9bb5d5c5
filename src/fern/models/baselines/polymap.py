"""A polynomial map of the state, fitted by least squares and applied recursively."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, get_args

import torch
from torch import Tensor

from fern.errors import FernError, require_choice, require_number, require_whole
from fern.models.base import FittedForecaster, ModelConfig, Sees
from fern.models.polynomial import LEAST_WAVE, Layout, Ring, monomial_count, monomials, strong_waves
from fern.models.registry import register_model
from fern.transport._checks import has_values

MOST_FEATURES = 350
"""Polynomials with more monomials are not tried."""

_ROWS_AT_ONCE = 4096
_MOST_ROWS = 200_000


class State(NamedTuple):
    """What a polynomial is one of: past rows so many steps apart, of all channels or of a channel's neighbours."""

    delays: int
    spacing: int
    ring: Ring | None

    def variables(self, channels: int) -> int:
        """Values in a state."""
        return self.delays * (channels if self.ring is None else self.ring.width)

    @property
    def past(self) -> int:
        """How far back it goes."""
        return (self.delays - 1) * self.spacing


class Candidate(NamedTuple):
    """A map, and the settings that it was solved with."""

    state: State
    degree: int
    ridge: float
    share: float
    coefficients: Tensor  # (features, C), on a ring (features, 1)


def solve(
    scaled: Sequence[Tensor],  # each (T_i, C)
    state: State,
    *,
    degrees: Sequence[int],
    ridges: Sequence[float],
    shares: Sequence[float],
) -> list[Candidate]:
    """The least-squares solutions for one make-up of the state, of every degree, ridge and share of the rows.

    Columns are ordered by degree, so that the R of one QR factorisation holds those of all lower degrees; rows are
    added newest first, so that it holds the shares on its way.
    """
    variables = state.variables(scaled[0].shape[1])
    degrees = [degree for degree in degrees if monomial_count(variables, degree) <= MOST_FEATURES]
    if not degrees:
        return []
    states, steps = _pairs(scaled, state)
    if len(states) == 0:
        return []
    features = monomial_count(variables, max(degrees))
    candidates = []
    triangle, done = states.new_zeros(0, features + steps.shape[1]), 0
    for share in sorted(shares):
        used = max(1, round(share * len(states)))
        for first in range(done, used, _ROWS_AT_ONCE):
            part = slice(len(states) - min(first + _ROWS_AT_ONCE, used), len(states) - first)
            block = torch.cat((monomials(states[part].T, max(degrees)).T, steps[part]), dim=1)
            triangle = torch.linalg.qr(torch.cat((triangle, block)), mode="r")[1]
        done = used
        for degree in degrees:
            count = monomial_count(variables, degree)
            if count < used:  # more equations than unknowns
                solutions = _least_squares(triangle, count, features, rows=used, ridges=ridges)
                candidates += [
                    Candidate(state, degree, ridge, share, weights)
                    for ridge, weights in zip(ridges, solutions, strict=True)
                ]
    return candidates


def _pairs(stretches: Sequence[Tensor], state: State) -> tuple[Tensor, Tensor]:  # (n, variables), (n, C); ring: (n, 1)
    """Every state with its delays, newest first in a row, and the step that followed it; at most `_MOST_ROWS`.

    Those of several stretches are ordered by how far from its stretch's end each is, as a share of it, so that the last
    ones are the newest of every stretch, whatever the order of the list. On a ring each channel has a state of its own
    at every time: there are plenty, and those that are too many are left out evenly, not the oldest of them.
    """
    states, steps, ages = [], [], []
    for rows in stretches:
        if len(rows) > state.past + 1:
            ends = len(rows) - 1
            lagged = [rows[state.past - j * state.spacing : ends - j * state.spacing] for j in range(state.delays)]
            states.append(torch.stack(lagged, dim=1))
            steps.append(rows[state.past + 1 :] - rows[state.past : -1])
            count = ends - state.past
            ages.append((torch.arange(count, 0, -1, dtype=torch.float64, device=rows.device) - 0.5) / count)
    if not states:
        channels, empty = stretches[0].shape[1], stretches[0].new_empty
        return empty(0, state.variables(channels)), empty(0, channels if state.ring is None else 1)
    newest = torch.cat(ages).argsort(descending=True, stable=True)
    ring = state.ring
    if ring is None:
        newest = newest[-_MOST_ROWS:]
        return torch.cat(states)[newest].flatten(1), torch.cat(steps)[newest]
    newest = newest[:: -(-len(newest) * ring.channels // _MOST_ROWS)]
    around = ring.around(torch.cat(states)[newest]).transpose(1, 2)  # (n, C, delays, width)
    return around.flatten(2).flatten(0, 1), torch.cat(steps)[newest].flatten()[:, None]


def _least_squares(
    triangle: Tensor,  # (r, p + C): the R of [features | steps]
    count: int,
    features: int,
    *,
    rows: int,
    ridges: Sequence[float],
) -> list[Tensor]:  # (count, C) each
    """The ridge solutions of the first ``count`` features, from one singular value decomposition."""
    design, targets = triangle[:count, :count], triangle[:count, features:]
    size = design.norm(dim=0) / rows**0.5
    size = torch.where(size > 0, size, 1.0)
    left, singular, right = torch.linalg.svd(design / size, full_matrices=False)
    projected = left.mT @ targets
    kept = singular > 1e-14 * singular[0] * rows
    solutions = []
    for ridge in ridges:
        filtered = torch.where(kept, singular / (singular.square() + ridge * rows), 0.0)
        solutions.append(right.mT @ (filtered[:, None] * projected) / size[:, None])
    return solutions


STATES = ((1, 1), (4, 4), (8, 2))
"""Delays and their spacing: the present alone, and two that average observation noise out."""

DEGREES = (1, 2, 3, 4, 5)
RIDGES = (0.0, 1e-8, 1e-6, 1e-4, 1e-3)
SHARES = (1.0, 0.5, 0.25)
REACHES = (2, 4, 8)
LEAST_WAVES = (LEAST_WAVE, 1e-8)
"""What validation chooses among; the last two on a ring."""

BEYOND = 1.1
"""How far, in training ranges about their middle, a rollout may go."""

_FIRST_LOOK = 16  # validation windows on which all candidates are judged; the best go on to all windows
_FINALISTS = 8
_NUMBERS_AT_ONCE = 1 << 22


@dataclass(frozen=True, kw_only=True)
class PolymapConfig(ModelConfig):
    """The settings of `Polymap`; None leaves one to validation.

    ``degree``   of the polynomial.
    ``ridge``    λ, in units of the features' mean square.
    ``share``    of the training rows that it is fitted to, the newest of each stretch: less than 1 forgets an old
                 regime.
    ``delays``   past states that the next one is made from.
    ``spacing``  time steps from one of them to the next.
    ``layout``   ``free``: each channel in its own right, made from all. ``ring``: points of a ring and alike
                 everywhere, as those of a field in space; one polynomial for all, of a channel's neighbours.
    ``reach``    neighbours on either side, on a ring.
    ``least_wave``  mean square, relative to the strongest, of waves round the ring that a rollout keeps.
    """

    degree: int | None = None
    ridge: float | None = None
    share: float | None = None
    delays: int | None = None
    spacing: int | None = None
    layout: Layout = "free"
    reach: int | None = None
    least_wave: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice("layout", self.layout, get_args(Layout))
        for name, least in (("degree", 1), ("delays", 1), ("spacing", 1), ("reach", 0)):
            if getattr(self, name) is not None:
                require_whole(name, getattr(self, name), least)
        if self.least_wave is not None:
            require_number("least_wave", self.least_wave, "a share from 0 to 1", lambda value: 0.0 <= value <= 1.0)
        for name in ("reach", "least_wave"):
            if self.layout != "ring" and getattr(self, name) is not None:
                expected = "layout 'ring': other channels have none"
                raise FernError(f"got {getattr(self, name)}", argument=name, expected=expected)
        if self.ridge is not None:
            require_number("ridge", self.ridge, "a number of at least 0", lambda value: value >= 0.0)
        if self.share is not None:
            require_number("share", self.share, "a share above 0 and at most 1", lambda value: 0.0 < value <= 1.0)
        if (self.delays is None) != (self.spacing is None):
            raise FernError("got one without the other", argument="delays, spacing", expected="both or neither")
        if self.delays is not None and self.spacing is not None:
            past = (self.delays - 1) * self.spacing
            if past >= self.context_length:
                problem = f"{self.delays} states {self.spacing} steps apart reach {past} steps back"
                expected = f"less than context_length, which is {self.context_length}"
                raise FernError(problem, argument="delays", expected=expected)
        # Even the smallest polynomial that the settings allow may have too many features.
        smallest = self.rings()[0]
        seen = self.channels if smallest is None else smallest.width
        variables, degree = seen * (self.delays or 1), self.degree or 1
        if monomial_count(variables, degree) > MOST_FEATURES:
            guilty = "channels" if smallest is None else "reach"
            guilty = guilty if seen >= MOST_FEATURES else "delays" if variables >= MOST_FEATURES else "degree"
            problem = f"degree {degree} makes more than {MOST_FEATURES} features of {variables} variables"
            expected = f"fewer {'channels' if smallest is None else 'neighbours'} or delays, or a lower degree"
            raise FernError(problem, argument=guilty, expected=expected)

    def rings(self) -> list[Ring | None]:
        """The neighbourhoods that may be tried, the smallest first; None for all channels."""
        if self.layout == "free":
            return [None]
        reaches = REACHES if self.reach is None else (self.reach,)
        by_width = {ring.width: ring for ring in (Ring(self.channels, reach) for reach in reversed(reaches))}
        return [by_width[width] for width in sorted(by_width)]

    @property
    def sees(self) -> Sees:
        """All channels, on a ring the neighbours."""
        return "all" if self.layout == "free" else "near"


class Polymap(FittedForecaster):
    """x_{t+1} = x_t + p(x_t, x_{t-s}, …): a polynomial p of all channels, rolled out from the end of the context.

    p minimises Σ |x_{t+1} - x_t - p|² + λ n |w|² over the newest rows of each stretch, in closed form: channels in
    units of their deviation, features in units of their root mean square. For a polynomial flow, sampled finely, p
    is the integrator's own expansion, and degree 5 forecasts clean chaos to rounding; with noise on the rows it needs
    delays. Computed in float64 throughout. It is also called NG-RC or NVAR (Gauthier et al., Nat. Commun. 12, 2021).

    *What leaves the training range*, in the context or on the way, is held within 1.1 times it, and a `RuntimeWarning`
    tells in how many windows: the forecast stays finite and its error shows what happened. A channel that was constant
    in training has no range: it is held where it was.

    *On a ring* centre, scale, bounds and p are shared by all channels, and waves that the training rows hardly have are
    taken out on the way (`fern.models.polynomial.strong_waves`): p does not know them, and would make them grow.

    Example:
        >>> turn = torch.arange(300.0) * 0.1
        >>> rows = torch.stack((turn.cos(), turn.sin()), dim=1)
        >>> model = Polymap(PolymapConfig(context_length=4, horizon=50, channels=2, degree=1, ridge=0.0))
        >>> model.fit([rows[:200]], rows[None, 200:204], rows[None, 204:254])
        >>> bool((model(rows[None, 210:214]).mean - rows[214:264]).abs().max() < 1e-3)
        True
    """

    config: PolymapConfig
    open_settings: tuple[str, ...] = ("degree", "ridge", "share", "delays", "spacing")
    coefficients: Tensor  # (features, C), on a ring (features, 1)
    frame: Tensor  # (4, C): centre, scale, lowest, highest
    waves: Tensor  # (C, C), on a ring

    def __init__(self, config: PolymapConfig) -> None:
        super().__init__(config)
        on_ring = config.layout == "ring"
        if on_ring:
            self.open_settings = (*self.open_settings, "reach", "least_wave")
            self.register_buffer("waves", torch.eye(config.channels, dtype=torch.float64))
        features = 0
        state = self._find_state()
        if state is not None and config.degree is not None:
            features = monomial_count(state.variables(config.channels), config.degree)
        empty = torch.full((features, 1 if on_ring else config.channels), torch.nan, dtype=torch.float64)
        self.register_buffer("coefficients", empty)
        self.register_buffer("frame", torch.full((4, config.channels), torch.nan, dtype=torch.float64))

    def fit_rows(self, stretches: Sequence[Tensor], past: Tensor, future: Tensor) -> dict[str, Any]:
        """Solve for every setting that is open, and keep the one whose rollouts are best on validation."""
        rows = torch.cat([stretch.double() for stretch in stretches])
        config = self.config
        pooled = rows if config.layout == "free" else rows.reshape(-1, 1)
        self.frame = _frame_of(pooled).expand(-1, config.channels).contiguous()
        centre, scale, _, _ = self.frame
        scaled = [(stretch.double() - centre) / scale for stretch in stretches]
        candidates: list[Candidate] = []
        for state in self._states():
            candidates += solve(
                scaled,
                state,
                degrees=DEGREES if config.degree is None else (config.degree,),
                ridges=RIDGES if config.ridge is None else (config.ridge,),
                shares=SHARES if config.share is None else (config.share,),
            )
        if not candidates:
            problem = f"none has enough rows for a polynomial of {config.channels} channels; needs more rows"
            raise FernError(problem, argument="stretches")
        best, least_wave = self._best(candidates, self._projections((rows - centre) / scale), past, future)
        self.coefficients = best.coefficients
        state = best.state
        chosen = {name: getattr(best, name) for name in ("degree", "ridge", "share")}
        chosen |= {"delays": state.delays, "spacing": state.spacing}
        if state.ring is not None:
            chosen |= {"reach": state.ring.reach, "least_wave": least_wave}
        return chosen

    def predict(self, past: Tensor) -> Tensor:
        """The rollout."""
        self.require_fitted(self.coefficients)
        state, degree = self._find_state(), self.config.degree
        if state is None or degree is None:
            problem = f"the settings {', '.join(self.open_settings)} are not chosen yet; call fit first"
            raise FernError(problem, argument="model")
        waves = None if state.ring is None else self.waves.double()
        rolled, held = self._rollout(past, self.coefficients[None], state, degree, waves)
        if has_values(held) and bool(held.any()):
            warnings.warn(
                f"polymap: {int(held.sum())} of {len(past)} windows had values held at {BEYOND} times the training "
                "range, in the context or on the way",
                RuntimeWarning,
                stacklevel=2,
            )
        return rolled[0].to(past.dtype)

    def _find_state(self) -> State | None:
        """What the settings make of a state; None while one of them is open."""
        config = self.config
        if config.delays is None or config.spacing is None or (config.layout == "ring" and config.reach is None):
            return None
        return State(config.delays, config.spacing, config.rings()[0])

    def _states(self) -> list[State]:
        """Those to try: what the context holds."""
        config = self.config
        lags = STATES if config.delays is None or config.spacing is None else ((config.delays, config.spacing),)
        states = [State(delays, spacing, ring) for ring in config.rings() for delays, spacing in lags]
        return [state for state in states if state.past < config.context_length]

    def _projections(self, scaled: Tensor) -> dict[float, Tensor | None]:  # (n, C) -> (C, C) each
        """Those onto the waves that are kept, by the share from which they are; None where there is no ring."""
        if self.config.layout == "free":
            return {0.0: None}
        shares = LEAST_WAVES if self.config.least_wave is None else (self.config.least_wave,)
        projections: dict[float, Tensor | None] = {}
        for least in shares:
            waves = strong_waves(scaled, least=least)
            if not any(known is not None and torch.equal(waves, known) for known in projections.values()):
                projections[least] = waves
        return projections

    def _best(
        self,
        candidates: list[Candidate],
        projections: Mapping[float, Tensor | None],
        past: Tensor,  # (n, L, C)
        future: Tensor,  # (n, H, C)
    ) -> tuple[Candidate, float]:
        """The candidate and the waves whose rollouts are best; `waves` are set to them."""
        pairs = [(candidate, least) for least in projections for candidate in candidates]
        if len(pairs) > 1:
            sample = torch.linspace(0, len(past) - 1, min(_FIRST_LOOK, len(past))).round().long()
            pairs = self._rank(pairs, projections, past[sample], future[sample])[:_FINALISTS]
            pairs = self._rank(pairs, projections, past, future)
        best, least = pairs[0]
        waves = projections[least]
        if waves is not None:
            self.waves = waves
        return best, least

    def _rank(
        self,
        pairs: Sequence[tuple[Candidate, float]],
        projections: Mapping[float, Tensor | None],
        past: Tensor,  # (n, L, C)
        future: Tensor,  # (n, H, C)
    ) -> list[tuple[Candidate, float]]:
        """The candidates by the error of their rollouts, best first; of equals the one that came first."""
        alike: dict[tuple[State, int, float], list[int]] = {}
        for place, (candidate, least) in enumerate(pairs):
            alike.setdefault((candidate.state, candidate.degree, least), []).append(place)
        errors: dict[int, float] = {}
        for (state, degree, least), places in alike.items():
            size = len(past) * pairs[places[0]][0].coefficients.shape[0] * (1 if state.ring is None else past.shape[2])
            for group in torch.split(torch.tensor(places), max(1, _NUMBERS_AT_ONCE // size)):
                weights = torch.stack([pairs[int(place)][0].coefficients for place in group])
                rolled, _ = self._rollout(past, weights, state, degree, projections[least])
                error = (rolled - future.double()).square().mean(dim=(1, 2, 3))
                errors |= dict(zip(group.tolist(), error.tolist(), strict=True))
        return [pairs[place] for place in sorted(errors, key=lambda place: (errors[place], place))]

    def _rollout(
        self,
        past: Tensor,  # (B, L, C)
        weights: Tensor,  # (K, features, C or 1): K maps at once
        state: State,
        degree: int,
        waves: Tensor | None,  # (C, C)
    ) -> tuple[Tensor, Tensor]:  # (K, B, H, C) float64, (K, B) bool
        """H steps from the end of each context by each map, within the bounds, and whether any value was held there."""
        weights = weights.double()
        centre, scale, low, high = self.frame.double()
        free = (past[:, past.shape[1] - 1 - state.past :].double() - centre) / scale
        if waves is not None:
            free = free @ waves
        recent, slack = free.clamp(low, high), self._slack()
        held = ((free - recent).abs() > slack).any(dim=2).any(dim=1).expand(len(weights), -1)
        weights, low, high, slack = weights.mT, low[:, None], high[:, None], slack[:, None]
        columns = recent.permute(1, 2, 0)[:, None].expand(-1, len(weights), -1, -1)
        rows = list(columns)  # each (K, C, B), the newest last: a monomial of all windows is one run of memory
        for _ in range(self.config.horizon):
            seen = [rows[-1 - j * state.spacing] for j in range(state.delays)]
            if state.ring is not None:  # every channel of every window is a column
                seen = [state.ring.around(row.mT).permute(0, 3, 2, 1).flatten(2) for row in seen]
            step = torch.bmm(weights, monomials(torch.cat(seen, dim=1), degree))
            free = rows[-1] + step.view_as(rows[-1])
            if waves is not None:
                free = waves @ free
            rows.append(free.clamp(low, high))
            held = held | ((free - rows[-1]).abs() > slack).any(dim=1)
        rolled: Tensor = torch.stack(rows[state.past + 1 :], dim=1).permute(0, 3, 1, 2) * scale + centre
        return rolled, held

    def _slack(self) -> Tensor:  # (C,) standardised
        """How far beyond a bound is rounding: that of the range, and of the values themselves where that is finer."""
        centre, scale, low, high = self.frame.double()
        size = torch.maximum((low * scale + centre).abs(), (high * scale + centre).abs()) / scale
        slack: Tensor = 1e-9 * (high - low) + torch.finfo(torch.float32).eps * size
        return slack


def _frame_of(rows: Tensor) -> Tensor:  # (n, C) -> (4, C)
    """Centre and scale of each channel, and the bounds that values are held within, standardised."""
    centre, scale = rows.mean(dim=0), rows.std(dim=0, correction=0)
    scale = torch.where(scale > 0, scale, 1.0)
    low, high = (rows.amin(dim=0) - centre) / scale, (rows.amax(dim=0) - centre) / scale
    middle, beyond = (low + high) / 2, BEYOND * (high - low) / 2
    return torch.stack((centre, scale, middle - beyond, middle + beyond))


register_model("polymap", PolymapConfig, Polymap, presets={"ring": {"layout": "ring"}})
