"""A polynomial map of the state, fitted by least squares and rolled out: the plainest model that knows dynamics."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fern.checks import require_number, require_whole
from fern.errors import FernError
from fern.models.base import ModelConfig, Sees
from fern.models.fitted import FittedForecaster
from fern.models.monomials import monomial_count, monomials
from fern.models.registry import register_model

STATES = ((1, 1), (4, 4), (8, 2))
"""Delays and their spacing: the present alone, and two that average observation noise out."""

DEGREES = (1, 2, 3, 4, 5)
RIDGES = (0.0, 1e-8, 1e-6, 1e-4, 1e-3)
SHARES = (1.0, 0.5, 0.25)
"""What validation chooses among."""

MOST_FEATURES = 350
"""Polynomials with more monomials are not tried."""

BEYOND = 1.1
"""How far, in training ranges about their middle, a rollout may go."""

_ROWS_AT_ONCE = 4096
_MOST_ROWS = 200_000
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
    """

    degree: int | None = None
    ridge: float | None = None
    share: float | None = None
    delays: int | None = None
    spacing: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("degree", "delays", "spacing"):
            if getattr(self, name) is not None:
                require_whole(name, getattr(self, name), 1)
        if self.ridge is not None:
            require_number("ridge", self.ridge, "a number of at least 0", lambda value: value >= 0.0)
        if self.share is not None:
            require_number("share", self.share, "a share above 0 and at most 1", lambda value: 0.0 < value <= 1.0)
        if (self.delays is None) != (self.spacing is None):
            raise FernError("delays, spacing: got one without the other, needs both or neither")
        if self.delays is not None and self.spacing is not None:
            reach = (self.delays - 1) * self.spacing
            if reach >= self.context_length:
                raise FernError(
                    f"delays: {self.delays} states {self.spacing} steps apart reach {reach} steps back, "
                    f"needs less than context_length, which is {self.context_length}"
                )
        self._require_a_polynomial()

    def _require_a_polynomial(self) -> None:
        """Refuse sizes of which even the smallest polynomial that the settings allow has too many features."""
        if self.channels >= MOST_FEATURES:
            raise FernError(
                f"channels: got {self.channels}, needs at most {MOST_FEATURES - 1}: "
                f"polymap makes at most {MOST_FEATURES} features, one of each channel and a constant"
            )
        variables = self.channels * (self.delays or 1)
        if variables >= MOST_FEATURES:
            raise FernError(
                f"delays: got {self.delays}, which makes {variables} variables of {self.channels} channels; "
                f"needs at most {(MOST_FEATURES - 1) // self.channels}"
            )
        if self.degree is not None and monomial_count(variables, self.degree) > MOST_FEATURES:
            fewer = ", or fewer delays" if self.delays is not None else ""
            raise FernError(
                f"degree: got {self.degree}, which makes more than {MOST_FEATURES} features of "
                f"{variables} variables; needs a lower one{fewer}"
            )

    @property
    def sees(self) -> Sees:
        """All channels."""
        return "all"


class Polymap(FittedForecaster):
    """x_{t+1} = x_t + p(x_t, x_{t-s}, …): a polynomial p of all channels, rolled out from the end of the context.

    p minimises Σ |x_{t+1} - x_t - p|² + λ n |w|² over the newest rows of each stretch, in closed form: channels in
    units of their deviation, features in units of their root mean square. For a polynomial flow, sampled finely, p
    is the integrator's own expansion, and degree 5 forecasts clean chaos to rounding; with noise on the rows it needs
    delays. Computed in float64 throughout. It is also called NG-RC or NVAR (Gauthier et al., Nat. Commun. 12, 2021).

    *What leaves the training range*, in the context or on the way, is held within 1.1 times it, and a `RuntimeWarning`
    tells in how many windows: the forecast stays finite and its error shows what happened. A channel that was constant
    in training has no range: it is held where it was.

    Example:
        >>> turn = torch.arange(300.0) * 0.1
        >>> rows = torch.stack((turn.cos(), turn.sin()), dim=1)
        >>> model = Polymap(PolymapConfig(context_length=4, horizon=50, channels=2, degree=1, ridge=0.0))
        >>> model.fit([rows[:200]], rows[None, 200:204], rows[None, 204:254])
        >>> bool((model(rows[None, 210:214]).mean - rows[214:264]).abs().max() < 1e-3)
        True
    """

    config: PolymapConfig
    open_settings = ("degree", "ridge", "share", "delays", "spacing")
    coefficients: Tensor
    frame: Tensor

    def __init__(self, config: PolymapConfig) -> None:
        super().__init__(config)
        features = 0
        if config.delays is not None and config.degree is not None:
            features = monomial_count(config.channels * config.delays, config.degree)
        empty = torch.full((features, config.channels), torch.nan, dtype=torch.float64)
        self.register_buffer("coefficients", empty)
        self.register_buffer("frame", torch.full((4, config.channels), torch.nan, dtype=torch.float64))

    def fit_rows(self, stretches: Sequence[Tensor], past: Tensor, future: Tensor) -> dict[str, Any]:
        """Solve for every setting that is open, and keep the one whose rollouts are best on validation."""
        rows = torch.cat([one.double() for one in stretches])
        centre, scale = rows.mean(dim=0), rows.std(dim=0, correction=0)
        scale = torch.where(scale > 0, scale, 1.0)
        low, high = (rows.amin(dim=0) - centre) / scale, (rows.amax(dim=0) - centre) / scale
        middle, reach = (low + high) / 2, BEYOND * (high - low) / 2
        self.frame = torch.stack((centre, scale, middle - reach, middle + reach))
        scaled = [(one.double() - centre) / scale for one in stretches]
        found: list[_Candidate] = []
        for delays, spacing in self._states():
            found += self._solved(scaled, delays, spacing)
        if not found:
            raise FernError(
                f"stretches: none has enough rows for a polynomial of {self.config.channels} channels; needs more rows"
            )
        if len(found) > 1:
            look = torch.linspace(0, len(past) - 1, min(_FIRST_LOOK, len(past))).round().long()
            found = self._ranked(found, past[look], future[look])[:_FINALISTS]
            found = self._ranked(found, past, future)
        best = found[0]
        self.coefficients = best.coefficients
        return {name: getattr(best, name) for name in self.open_settings}

    def predict(self, past: Tensor) -> Tensor:
        """The rollout."""
        self.require_fitted(self.coefficients)
        delays, spacing, degree = self.config.delays, self.config.spacing, self.config.degree
        if delays is None or spacing is None or degree is None:
            raise FernError(f"model: the settings {', '.join(self.open_settings)} are not chosen yet; call fit first")
        made, held = self._rollout(past, self.coefficients[None], delays, spacing, degree)
        if bool(held.any()):
            warnings.warn(
                f"polymap: {int(held.sum())} of {len(past)} windows had values held at {BEYOND} times the training "
                "range, in the context or on the way",
                RuntimeWarning,
                stacklevel=2,
            )
        return made[0].to(past.dtype)

    def _states(self) -> list[tuple[int, int]]:
        """The delays to try: those that the context holds."""
        if self.config.delays is not None and self.config.spacing is not None:
            return [(self.config.delays, self.config.spacing)]
        return [(delays, step) for delays, step in STATES if (delays - 1) * step < self.config.context_length]

    def _solved(self, scaled: Sequence[Tensor], delays: int, spacing: int) -> list["_Candidate"]:
        """The least-squares solutions for one make-up of the state, of every degree, ridge and share of the rows.

        Columns are ordered by degree, so that the R of one QR factorisation holds those of all lower degrees; rows are
        added newest first, so that it holds the shares on its way.
        """
        config, variables = self.config, scaled[0].shape[1] * delays
        asked = DEGREES if config.degree is None else (config.degree,)
        degrees = tuple(degree for degree in asked if monomial_count(variables, degree) <= MOST_FEATURES)
        ridges = RIDGES if config.ridge is None else (config.ridge,)
        shares = SHARES if config.share is None else (config.share,)
        states, steps = _pairs(scaled, delays, spacing)
        if not degrees or len(states) == 0:
            return []
        features = monomial_count(variables, max(degrees))
        found = []
        triangle, done = states.new_zeros(0, features + steps.shape[1]), 0
        for share in sorted(shares):
            wanted = max(1, round(share * len(states)))
            for first in range(done, wanted, _ROWS_AT_ONCE):
                part = slice(len(states) - min(first + _ROWS_AT_ONCE, wanted), len(states) - first)
                block = torch.cat((monomials(states[part].T, max(degrees)).T, steps[part]), dim=1)
                triangle = torch.linalg.qr(torch.cat((triangle, block)), mode="r")[1]
            done = wanted
            for degree in degrees:
                count = monomial_count(variables, degree)
                if count < wanted:  # more equations than unknowns
                    solutions = _least_squares(triangle, count, features, rows=wanted, ridges=ridges)
                    found += [
                        _Candidate(degree, ridge, share, delays, spacing, weights)
                        for ridge, weights in zip(ridges, solutions, strict=True)
                    ]
        return found

    def _ranked(self, candidates: Sequence["_Candidate"], past: Tensor, future: Tensor) -> list["_Candidate"]:
        """The candidates by the error of their rollouts, best first; of equals the one that came first."""
        errors: dict[int, float] = {}
        for delays, spacing in dict.fromkeys((one.delays, one.spacing) for one in candidates):
            for degree in DEGREES if self.config.degree is None else (self.config.degree,):
                alike = [
                    place
                    for place, one in enumerate(candidates)
                    if (one.delays, one.spacing, one.degree) == (delays, spacing, degree)
                ]
                if not alike:
                    continue
                size = len(past) * candidates[alike[0]].coefficients.shape[0]
                for group in torch.split(torch.tensor(alike), max(1, _NUMBERS_AT_ONCE // size)):
                    weights = torch.stack([candidates[int(place)].coefficients for place in group])
                    made, _ = self._rollout(past, weights, delays, spacing, degree)
                    error = (made - future.double()).square().mean(dim=(1, 2, 3))
                    errors |= dict(zip(group.tolist(), error.tolist(), strict=True))
        return [candidates[place] for place in sorted(errors, key=lambda place: (errors[place], place))]

    def _rollout(
        self,
        past: Tensor,  # (B, L, C)
        weights: Tensor,  # (K, features, C): K maps at once
        delays: int,
        spacing: int,
        degree: int,
    ) -> tuple[Tensor, Tensor]:  # (K, B, H, C) float64, (K, B) bool
        """H steps from the end of each context by each map, within the bounds, and whether any value was held there."""
        weights, reach = weights.double(), (delays - 1) * spacing
        centre, scale, low, high = self.frame.double()
        free = (past[:, past.shape[1] - 1 - reach :].double() - centre) / scale
        recent, slack = free.clamp(low, high), self._slack()
        held = ((free - recent).abs() > slack).any(dim=2).any(dim=1).expand(len(weights), -1)
        weights, low, high, slack = weights.mT, low[:, None], high[:, None], slack[:, None]
        columns = recent.permute(1, 2, 0)[:, None].expand(-1, len(weights), -1, -1)
        states = list(columns)  # each (K, C, B), the newest last: a monomial of all windows is one run of memory
        for _ in range(self.config.horizon):
            seen = torch.cat([states[-1 - j * spacing] for j in range(delays)], dim=1)
            step = torch.bmm(weights, monomials(seen, degree))
            free = states[-1] + step
            states.append(free.clamp(low, high))
            held = held | ((free - states[-1]).abs() > slack).any(dim=1)
        rolled: Tensor = torch.stack(states[reach + 1 :], dim=1).permute(0, 3, 1, 2) * scale + centre
        return rolled, held

    def _slack(self) -> Tensor:  # (C,) standardised
        """How far beyond a bound is rounding: that of the range, and of the values themselves where that is finer."""
        centre, scale, low, high = self.frame.double()
        size = torch.maximum((low * scale + centre).abs(), (high * scale + centre).abs()) / scale
        slack: Tensor = 1e-9 * (high - low) + torch.finfo(torch.float32).eps * size
        return slack


class _Candidate(NamedTuple):
    degree: int
    ridge: float
    share: float
    delays: int
    spacing: int
    coefficients: Tensor  # (features, C)


def _pairs(
    stretches: Sequence[Tensor],  # each (T_i, C)
    delays: int,
    spacing: int,
) -> tuple[Tensor, Tensor]:  # (n, C·delays), (n, C)
    """Every state with its delays, newest first in a row, and the step that followed it; at most `_MOST_ROWS`.

    Those of several stretches are ordered by how far from its stretch's end each is, as a share of it, so that the last
    ones are the newest of every stretch, whatever the order of the list.
    """
    reach = (delays - 1) * spacing
    states, steps, ages = [], [], []
    for rows in stretches:
        if len(rows) > reach + 1:
            lagged = [rows[reach - j * spacing : len(rows) - 1 - j * spacing] for j in range(delays)]
            states.append(torch.cat(lagged, dim=1))
            steps.append(rows[reach + 1 :] - rows[reach:-1])
            count = len(rows) - 1 - reach
            ages.append((torch.arange(count, 0, -1, dtype=torch.float64, device=rows.device) - 0.5) / count)
    if not states:
        channels = stretches[0].shape[1]
        return stretches[0].new_empty(0, channels * delays), stretches[0].new_empty(0, channels)
    newest = torch.cat(ages).argsort(descending=True, stable=True)[-_MOST_ROWS:]
    return torch.cat(states)[newest], torch.cat(steps)[newest]


def _least_squares(
    triangle: Tensor,  # (r, p + C): the R of [features | steps]
    count: int,
    features: int,
    *,
    rows: int,
    ridges: Sequence[float],
) -> list[Tensor]:  # (count, C) each
    """The ridge solutions of the first ``count`` features, from one singular value decomposition."""
    own, targets = triangle[:count, :count], triangle[:count, features:]
    size = own.norm(dim=0) / rows**0.5
    size = torch.where(size > 0, size, 1.0)
    left, singular, right = torch.linalg.svd(own / size, full_matrices=False)
    projected = left.mT @ targets
    kept = singular > 1e-14 * singular[0] * rows
    found = []
    for ridge in ridges:
        filtered = torch.where(kept, singular / (singular.square() + ridge * rows), 0.0)
        found.append(right.mT @ (filtered[:, None] * projected) / size[:, None])
    return found


register_model("polymap", PolymapConfig, Polymap)
