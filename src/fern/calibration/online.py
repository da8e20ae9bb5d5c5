"""Radii that follow what comes in: long-run coverage on any sequence, with outcomes that arrive late."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from fern.calibration.calibration import Calibration, read_array
from fern.calibration.forecast import CalibratedForecast
from fern.calibration.radii import POOLED_STEPS
from fern.calibration.residuals import LEVELS, compute_residuals
from fern.calibration.settings import OnlineSettings
from fern.errors import FernError, require_whole
from fern.metrics.point import WINDOWS, Array, to_tensor
from fern.settings import from_mapping
from fern.transport import Ellipsoid

Values = NDArray[np.float64]

FORMAT = 1
LOG_LIMIT = 20.0
"""Log factors stay within ±20: a radius changes by at most e^20, half a billion times, and is always finite."""

SMALLEST = 1e-9
DEFAULT = OnlineSettings()
MARGIN, PATCH = 0, 1
STATE = {
    "log_factors": (-LOG_LIMIT, LOG_LIMIT),
    "weights": (0.0, 1.0 + 1e-9),
    "squared_loss": (0.0, np.inf),
    "past": (-LOG_LIMIT, LOG_LIMIT),
}
"""What is saved, and the least and the largest value of each."""


@dataclass(frozen=True)
class Arrived:
    """How far windows that are known now lie from their forecasts, as logarithms of errors over radii."""

    margins: Values  # (N, K, levels, members)
    patches: Values | None  # (N, K, levels, members); None where the first patch is not whole
    steps: int
    length: int  # of a patch

    def part(self, windows: slice) -> "Arrived":
        """These windows alone."""
        patches = None if self.patches is None else self.patches[windows]
        return replace(self, margins=self.margins[windows], patches=patches)


@dataclass(frozen=True)
class OnlineCalibration:
    """A calibration whose radii are multiplied by factors that learn from each outcome.

    For each level 1 − α, experts e with steps η_e move a log factor by each arrival (the step of ACI, Gibbs and Candès
    2021, on the log radius, so that it is always finite and positive)::

        θ_e ← θ_e + η_e (g / D) (1{score > radius · exp θ_e at the time of the forecast} − α)

    g the rows between arrivals, D the rows after which an outcome is known; experts are weighed by the pinball loss of
    what they had forecast, as in DtACI (Gibbs and Candès 2024), and the factor is exp of their weighted mean. Only the
    *first patch* of a window is looked at, and all patches share its factor; margins and bands have one, patches and
    regions another, for each group of channels. (A factor for each patch, fed by that patch, did no better when
    simulated: a patch late in the horizon is known at the same time as the first patch of a later window.)

    Over T arrivals an expert's share of misses on the first patch is within O(1/(η T)) of α on any sequence; nothing is
    promised for a single time, and nothing right after a shock. Simulated with the error scale doubled, nominal 90 %
    patches of 12 rows: 91 % before; 1, 19, 70 and 87 % in rows 0–12, 12–24, 24–48 and 48–96 after; then 88–92 %.

    The object does not change: `update` gives a new one.

    Example: errors three times as large as those calibrated on.
        >>> import torch
        >>> from fern.calibration import Residuals, fit_calibration
        >>> rng = torch.Generator().manual_seed(0)
        >>> distribution = Ellipsoid(torch.ones(200, 1, 1, 4), torch.zeros(200, 1, 1, 4), torch.zeros(200, 1, 1, 0, 4),
        ...                 base_variance=1.0)
        >>> y = torch.randn(200, 4, 1, generator=rng)
        >>> static = fit_calibration(Residuals.of(distribution, y, origins=range(0, 800, 4)))
        >>> online = OnlineCalibration.start(static, settings=OnlineSettings(stride=4))
        >>> later = online.update(distribution, 3 * y)
        >>> wider = later.apply(distribution).interval(90)[1].mean() / online.apply(distribution).interval(90)[1].mean()
        >>> bool(2.3 < wider < 3.7)
        True
    """

    calibration: Calibration
    settings: OnlineSettings
    log_factors: Values  # (2, K, levels, experts)
    weights: Values  # (2, K, levels, experts)
    squared_loss: Values  # (2, K, levels) running mean; 0 before the first arrival
    past: Values  # (delay, 2, K, levels, experts) log factors at former arrivals, the newest last
    arrivals: int = 0

    @classmethod
    def start(cls, calibration: Calibration, *, settings: OnlineSettings = DEFAULT) -> Self:
        """Factors of 1, experts of equal weight."""
        state: dict[str, Any] = {name: np.zeros(shape) for name, shape in _shapes(calibration, settings).items()}
        state["weights"] += 1 / len(settings.rates)
        return cls(calibration, settings, **state)

    @property
    def factors(self) -> Values:  # (2, K, levels)
        """What radii are multiplied by: margins and bands first, then patches and regions."""
        return np.exp(self._mean())

    def update(
        self,
        distribution: Ellipsoid,  # batch (N, C), event (H,)
        y: Array,  # (N, h, C), the first h <= H steps
    ) -> Self:
        """Learn from windows whose first h steps are known now, in the order in which they were forecast.

        Each window is given once, as soon as its first patch is known (or earlier: then margins alone learn, from the
        steps there are).
        """
        return self.learn(self.measure(distribution, y))

    def measure(
        self,
        distribution: Ellipsoid,  # batch (N, C), event (H,)
        y: Array,  # (N, h, C)
    ) -> "Arrived":
        """How far the first h steps lie from these forecasts: the same for all states of these settings."""
        self.calibration.apply(distribution)  # refuses a distribution of another shape
        known = to_tensor("y", y, WINDOWS)
        if known.shape[1] > distribution.horizon:
            expected = f"at most the horizon, {distribution.horizon}"
            raise FernError(f"{known.shape[1]} steps", argument="y", expected=expected)
        windows, channels = distribution.batch_shape
        if (known.shape[0], known.shape[2]) != (windows, channels):
            expected = f"({windows}, steps, {channels}) as the distribution"
            raise FernError(f"shape {tuple(known.shape)}", argument="y", expected=expected)
        with torch.no_grad():
            filled = distribution.mean.transpose(1, 2).to(known.dtype).cpu().clone()
        filled[:, : known.shape[1]] = known
        whitened, standardised = compute_residuals(distribution, filled)
        length = min(distribution.patch_size, distribution.horizon)
        steps = min(length, known.shape[1])
        margins = self._margin_ratios(standardised, steps)
        return Arrived(margins, self._patch_ratios(whitened) if steps == length else None, steps, length)

    def learn(self, arrived: "Arrived") -> Self:
        """Learn from windows in the order in which they were forecast; see `update`."""
        state = self
        for window in range(len(arrived.margins)):
            state = state._learn(MARGIN, arrived.margins[window], arrived.steps)
            if arrived.patches is not None:
                state = state._learn(PATCH, arrived.patches[window], arrived.length)
            state = replace(state, past=np.concatenate([state.past[1:], state.log_factors[None]]))
        return replace(state, arrivals=self.arrivals + len(arrived.margins))

    def apply(
        self,
        distribution: Ellipsoid,  # batch (N, C), event (H,)
    ) -> CalibratedForecast:
        """The forecast with the present factors. Paths and sums take the margins' mean factor over the levels."""
        return apply_each([self], distribution)

    # --- saving ---------------------------------------------------------------------------------------------

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The state, without the calibration it started from, as a JSON-able mapping and named arrays."""
        plain = {"format": FORMAT, "settings": asdict(self.settings), "arrivals": self.arrivals}
        return plain, {name: getattr(self, name) for name in STATE}

    @classmethod
    def from_parts(cls, calibration: Calibration, plain: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The state that `to_parts` took apart, on its calibration."""
        stacked = {name: np.asarray(values)[None] for name, values in arrays.items()}
        require_whole("arrivals", plain.get("arrivals"), 0)
        return cls.many_from_parts(calibration, plain, {**stacked, "arrivals": np.array([plain["arrivals"]])})[0]

    @classmethod
    def many_from_parts(
        cls, calibration: Calibration, plain: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> list[Self]:
        """States of one setting, whose arrays are stacked; ``arrivals`` is among them."""
        where = "online calibration"
        if plain.get("format") != FORMAT:
            raise FernError(argument="format", got=plain.get("format"), expected=FORMAT, where=where)
        if not isinstance(plain.get("settings"), Mapping):
            raise FernError(argument="settings", got=plain.get("settings"), expected="a mapping")
        settings = from_mapping(OnlineSettings, plain["settings"], where=where)
        arrivals = read_array(arrays, "arrivals", (arrays["arrivals"].size,), least=0, whole=True, where=where)
        state = {
            name: read_array(arrays, name, (len(arrivals), *shape), least=STATE[name][0], most=STATE[name][1])
            for name, shape in _shapes(calibration, settings).items()
        }
        if not np.allclose(state["weights"].sum(axis=-1), 1.0):
            raise FernError("do not add up to 1", argument="weights", where=where)
        return [
            cls(calibration, settings, **{name: values[i] for name, values in state.items()}, arrivals=count)
            for i, count in enumerate(arrivals.tolist())
        ]

    # --- inside ---------------------------------------------------------------------------------------------

    def _mean(self) -> Values:  # (2, K, levels)
        return np.asarray((self.weights * self.log_factors).sum(axis=-1))

    def _margin_ratios(self, standardised: NDArray[Any], steps: int) -> Values:  # (N, K, levels, members)
        margins = np.abs(self.calibration.shape.margins(standardised)[..., :steps])
        groups, of_step = self.log_factors.shape[1], np.arange(steps) // POOLED_STEPS
        radii = (self.calibration.radii.margin.at(level).reshape(groups, -1) for level in self.settings.levels)
        by_level = [np.maximum(radius, SMALLEST)[:, of_step][self.calibration.group] for radius in radii]
        return self._group_ratios(np.stack([margins / radius for radius in by_level], axis=2))

    def _patch_ratios(self, whitened: NDArray[Any]) -> Values:  # (N, K, levels, members)
        first = self.calibration.shape.distances(whitened)[..., :1]
        groups = self.log_factors.shape[1]
        radii = np.stack(
            [self.calibration.radii.patch.at(level).reshape(groups, -1)[:, 0] for level in self.settings.levels], axis=1
        )
        return self._group_ratios(first[:, :, None] / np.maximum(radii, SMALLEST)[self.calibration.group][..., None])

    def _group_ratios(self, ratios: Values) -> Values:  # (N, C, levels, m) -> (N, K, levels, members), as logarithms
        logs = np.log(np.clip(ratios, np.exp(-LOG_LIMIT), np.exp(LOG_LIMIT)))
        if self.log_factors.shape[1] == len(self.calibration.group):
            return logs
        return logs.transpose(0, 2, 1, 3).reshape(len(logs), 1, logs.shape[2], -1)

    def _learn(self, kind: int, ratios: Values, delay: int) -> Self:  # (K, levels, members)
        miss_rate = 1 - np.asarray(self.settings.levels)[:, None] / 100
        theta, weights = self.log_factors[kind], self.weights[kind]
        rates = np.asarray(self.settings.rates) * self.settings.stride / delay
        # Experts answer for the radii they gave when the window was forecast. Judged by those of today, quick ones
        # would win by following the overlap of windows, which is of no use a patch ahead.
        then = self.past[-ceil(delay / self.settings.stride), kind]
        over = ratios[..., None, :] - then[..., None]  # (K, levels, experts, members)
        missed = (over > 0).mean(axis=-1)
        loss = np.where(over > 0, (1 - miss_rate[..., None]) * over, -miss_rate[..., None] * over).mean(axis=-1)

        memory = self.settings.memory
        combined = (weights * loss).sum(axis=-1)
        before = self.squared_loss[kind]
        squared = np.where(before > 0, before + (combined**2 - before) / memory, combined**2)
        sharpness = np.sqrt((np.log(2 * theta.shape[-1] * memory) + 1) / (memory * np.maximum(squared, 1e-12)))
        # Relative to the best expert, so that the exponential cannot vanish for all of them.
        gained = weights * np.exp(-sharpness[..., None] * (loss - loss.min(axis=-1, keepdims=True)))
        gained /= gained.sum(axis=-1, keepdims=True)
        mixing = self.settings.mixing
        changed = np.clip(theta + rates * (missed - miss_rate), -LOG_LIMIT, LOG_LIMIT)
        return replace(
            self,
            log_factors=_with(self.log_factors, kind, changed),
            weights=_with(self.weights, kind, (1 - mixing) * gained + mixing / theta.shape[-1]),
            squared_loss=_with(self.squared_loss, kind, squared),
        )


def apply_each(
    online: Sequence[OnlineCalibration],  # of one calibration: one for all windows, or one for each
    distribution: Ellipsoid,  # batch (N, C), event (H,)
) -> CalibratedForecast:
    """The forecast of windows of several series, each with the present factors of its own."""
    calibration = online[0].calibration
    means = [state._mean() for state in online]
    factors = np.exp(
        [
            [[np.interp(LEVELS, state.settings.levels, values) for values in kind] for kind in mean]
            for state, mean in zip(online, means, strict=True)
        ]
    )
    scale = np.exp([mean[MARGIN].mean(axis=-1) for mean in means])[:, calibration.group]
    radii = calibration.radii.scale(factors[:, MARGIN], factors[:, PATCH])
    return replace(calibration.apply(distribution), radii=radii, path_scale=scale)


def _shapes(calibration: Calibration, settings: OnlineSettings) -> dict[str, tuple[int, ...]]:
    """The shape of each array of the state."""
    shape = (2, int(calibration.group.max()) + 1, len(settings.levels), len(settings.rates))
    delay = ceil(min(calibration.patch_size, calibration.horizon) / settings.stride)
    return {"log_factors": shape, "weights": shape, "squared_loss": shape[:-1], "past": (delay, *shape)}


def _with(array: Values, kind: int, values: Values) -> Values:
    changed = array.copy()
    changed[kind] = values
    return changed
