"""The checkpoint score, and metrics over batches of any size, equal to those of one batch."""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields
from functools import cached_property
from math import isfinite
from typing import Literal, Self, TypeVar, get_args, overload

import numpy as np
import torch
from torch import Tensor

from fern.errors import FernError, require_level, unknown_name
from fern.metrics.paths import energy_scores, variogram_scores
from fern.metrics.point import (
    Array,
    NumpyArray,
    Scalar,
    absolute_errors,
    as_kind,
    channel_std,
    exceeded_steps,
    read_directions,
    read_pair,
    read_std,
    require_finite,
    sliced_w2_squared_per_channel,
    squared_errors,
    unit_directions,
    w2_squared_per_window,
)
from fern.metrics.probabilistic import (
    ForecastDistribution,
    Marginals,
    covered_shares,
    crps_values,
    interval_widths,
    jointly_covered,
    negative_log_densities,
    read_marginals,
    read_samples,
)
from fern.settings import STRICT

Distance = Literal["sliced_w2", "w2"]
DISTANCES: tuple[str, ...] = get_args(Distance)

S = TypeVar("S", Tensor, np.float64, float)


@dataclass(frozen=True)
class ObjectiveWeights:
    """The weights of the checkpoint score; the defaults are the paper's.

    ``crps`` weighs the mean CRPS of the marginals, with which the score judges a distribution and not its mean alone.
    A point forecast is a distribution without spread, whose CRPS is its absolute error.

    Example:
        >>> round(ObjectiveWeights().score(mse=20.0, mae=2.0, distance=5.0), 6)
        4.5
    """

    __pydantic_config__ = STRICT

    mse: float = 0.1
    mae: float = 1.0
    distance: float = 0.1
    crps: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            weight = getattr(self, field.name)
            if not (isfinite(weight) and weight >= 0):
                raise FernError(argument=field.name, got=weight, expected="a weight of 0 or more")

    def score(self, *, mse: S, mae: S, distance: S, crps: S | None = None) -> S:
        """The weighted sum of the figures; without ``crps`` the forecast is a point, and ``mae`` stands for it."""
        points = self.mse * mse + self.mae * mae + self.distance * distance
        return points + self.crps * (mae if crps is None else crps) if self.crps else points


PAPER_WEIGHTS = ObjectiveWeights()


def require_distance(distance: str) -> None:
    """Refuse a name that is none of the two distances."""
    if distance not in DISTANCES:
        raise unknown_name("distance", distance, DISTANCES)


@overload
def objective(
    pred: Tensor,
    true: Tensor,
    *,
    distance: Distance = ...,
    directions: Tensor | None = ...,
    weights: ObjectiveWeights = ...,
) -> Tensor: ...
@overload
def objective(
    pred: NumpyArray,
    true: NumpyArray,
    *,
    distance: Distance = ...,
    directions: Array | None = ...,
    weights: ObjectiveWeights = ...,
) -> np.float64: ...
def objective(
    pred: Array,  # (B, H, C)
    true: Array,  # (B, H, C)
    *,
    distance: Distance = "sliced_w2",
    directions: Array | None = None,  # (H, L)
    weights: ObjectiveWeights = PAPER_WEIGHTS,
) -> Scalar:
    """The paper's checkpoint score of point forecasts, 0.1·MSE + 1.0·MAE + 0.1·D; lower is better.

    D is the ``sliced_w2`` of the detailed tables or the ``w2`` of the shock tables. ``directions`` are those of
    ``sliced_w2``; without them it uses its own, the same at each call.
    """
    require_distance(distance)
    if distance == "w2" and directions is not None:
        raise FernError("only sliced_w2 takes them, and the distance is w2", argument="directions")
    forecast, truth = read_pair(pred, true)
    if distance == "w2":
        apart = w2_squared_per_window(forecast, truth).mean()
    else:
        apart = sliced_w2_squared_per_channel(forecast, truth, unit_directions(directions, truth)).mean()
    score = weights.score(
        mse=squared_errors(forecast, truth).mean(), mae=absolute_errors(forecast, truth).mean(), distance=apart
    )
    return as_kind("objective", score, true)


@dataclass(frozen=True)
class Batch:
    """Forecast and truth of some windows, checked, and what single metrics need besides, read when first used."""

    pred: Tensor  # (B, H, C)
    true: Tensor  # (B, H, C)
    given_std: Array | Sequence[float] | None  # (C,)
    given_distribution: ForecastDistribution | None
    given_samples: Array | None  # (S, B, H, C)

    @cached_property
    def std(self) -> Tensor:  # (C,)
        """The training standard deviations."""
        if self.given_std is None:
            raise FernError("ept needs the training standard deviation of each channel", argument="std")
        return channel_std(self.given_std, self.true)

    @cached_property
    def distribution(self) -> ForecastDistribution:
        """The forecast distribution."""
        if self.given_distribution is None:
            raise FernError(
                "none given; scores of a distribution need a distribution, or samples where those do",
                argument="distribution",
            )
        return self.given_distribution

    @cached_property
    def marginals(self) -> Marginals:
        """The distribution's marginals."""
        return read_marginals(self.distribution, self.true)

    @cached_property
    def samples(self) -> Tensor:  # (S, B, H, C)
        """The samples given, or the distribution if that is samples."""
        if self.given_samples is not None:
            return read_samples("samples", self.given_samples, self.true)
        if isinstance(self.given_distribution, Tensor | np.ndarray):
            return read_samples("distribution", self.given_distribution, self.true)
        raise FernError("none given; scores of paths need them (samples, batch, horizon, channels)", argument="samples")


SCORES: dict[str, Callable[[Batch], Tensor]] = {
    "mse": lambda batch: squared_errors(batch.pred, batch.true),
    "mae": lambda batch: absolute_errors(batch.pred, batch.true),
    "w2": lambda batch: w2_squared_per_window(batch.pred, batch.true),
    "ept": lambda batch: exceeded_steps(batch.pred, batch.true, batch.std),
    "nll": lambda batch: negative_log_densities(batch.distribution, batch.true),
    "crps": lambda batch: crps_values(batch.marginals, batch.true),
    "energy_score": lambda batch: energy_scores(batch.samples, batch.true),
    "variogram_score": lambda batch: variogram_scores(batch.samples, batch.true),
}
"""Each gives (B, C)."""

LEVEL_SCORES: dict[str, Callable[[Batch, float], Tensor]] = {
    "coverage": lambda batch, level: covered_shares(batch.marginals, batch.true, level=level),
    "joint_coverage": lambda batch, level: jointly_covered(batch.distribution, batch.true, level=level),
    "interval_width": lambda batch, level: interval_widths(batch.marginals, level=level),
}
"""Each gives (B, C) for the regions of a probability."""


@overload
def per_window(
    metric: str,
    pred: Tensor,
    true: Tensor,
    *,
    std: Array | Sequence[float] | None = ...,
    distribution: ForecastDistribution | None = ...,
    samples: Array | None = ...,
    level: float = ...,
) -> Tensor: ...
@overload
def per_window(
    metric: str,
    pred: NumpyArray,
    true: NumpyArray,
    *,
    std: Array | Sequence[float] | None = ...,
    distribution: ForecastDistribution | None = ...,
    samples: Array | None = ...,
    level: float = ...,
) -> NumpyArray: ...
def per_window(
    metric: str,
    pred: Array,  # (B, H, C)
    true: Array,  # (B, H, C)
    *,
    std: Array | Sequence[float] | None = None,  # (C,)
    distribution: ForecastDistribution | None = None,
    samples: Array | None = None,  # (S, B, H, C)
    level: float = 90.0,
) -> Array:  # (B, C)
    """The values of a metric for each window and channel, whose mean is the metric: what paired tests compare.

    All metrics but ``sliced_w2`` and ``objective``, which belong to a set of windows. ``std`` is for ``ept``,
    ``distribution`` and ``level`` for the scores of a distribution, ``samples`` for ``energy_score`` and
    ``variogram_score``.
    """
    if metric not in SCORES and metric not in LEVEL_SCORES:
        raise unknown_name("metric", metric, [*SCORES, *LEVEL_SCORES])
    forecast, truth = read_pair(pred, true)
    batch = Batch(forecast, truth, std, distribution, samples)
    values = SCORES[metric](batch) if metric in SCORES else LEVEL_SCORES[metric](batch, level)
    require_finite(metric, values, ("batch", "channels"))
    return values if isinstance(true, Tensor) else values.detach().numpy()


OF_A_SET = ("sliced_w2", "objective")
METRICS = (*SCORES, *LEVEL_SCORES, *OF_A_SET)
"""The names an accumulator takes."""


class MetricAccumulator:
    """Gathers metrics over batches of any size; ``compute`` gives the value of all windows in one go.

    What is a mean over windows is kept as a float64 sum, so batch sizes matter by rounding only (1e-12).
    ``sliced_w2`` compares whole sets of windows and cannot be summed over batches: the windows themselves are
    kept, as given, and scored by ``compute``, so the value is exactly that of one go. They take twice N·H·C
    values of the input's type: 56 MB for 7,000 windows of 336 steps and 3 channels in float32 (their 500
    projections would take six times that). Nothing is kept unless ``sliced_w2`` is asked for, or ``objective``
    with it.

    Arguments:
        metrics: names, any of ``METRICS``.
        std: (C,), the training standard deviations, for ``ept``.
        directions: (H, L), for ``sliced_w2``: draw them once with ``sphere_directions``. Without them the
            default ones, the same in every accumulator.
        distance: the third part of ``objective``.
        weights: of its parts. Where ``crps`` has one, `update` takes the distribution from ``distribution``; without
            one the forecast is a point, whose CRPS is its absolute error.
        levels: percentages of the regions of ``coverage``, ``joint_coverage`` and ``interval_width``, whose
            values are named ``coverage_90`` and so on.

    Several workers each fill their own and ``merge`` them; ``state_dict`` holds plain tensors to send or save.

    Example:
        >>> import torch
        >>> pred, true = torch.randn(2, 10, 4, 1, generator=torch.Generator().manual_seed(1))
        >>> accumulator = MetricAccumulator(["mse", "ept", "objective"], std=[1.0])
        >>> for start in range(0, 10, 3):
        ...     accumulator.update(pred[start : start + 3], true[start : start + 3])
        >>> values = accumulator.compute()
        >>> list(values), accumulator.windows
        (['mse', 'ept', 'objective'], 10)
        >>> from fern.metrics import mse
        >>> abs(values["mse"] - mse(pred, true).item()) < 1e-12
        True
    """

    def __init__(
        self,
        metrics: Sequence[str],
        *,
        std: Array | Sequence[float] | None = None,  # (C,)
        directions: Array | None = None,  # (H, L)
        distance: Distance = "sliced_w2",
        weights: ObjectiveWeights = PAPER_WEIGHTS,
        levels: Sequence[float] = (90.0,),
    ) -> None:
        _require_metrics(metrics)
        require_distance(distance)
        if "ept" in metrics and std is None:
            raise FernError("ept needs the training standard deviation of each channel", argument="std")
        self.metrics = tuple(metrics)
        self.levels = tuple(require_level(level) for level in levels)
        if len({f"{level:.6g}" for level in self.levels}) < len(self.levels):
            raise FernError(f"{self.levels} contains duplicates", argument="levels")
        self.distance: Distance = distance
        self.weights = weights
        self.windows = 0
        self._std = None if std is None else read_std(std).clone()
        self._directions = None if directions is None else read_directions(directions).clone()
        self._shape = (0, 0)  # horizon and channels, once known
        self._sums = dict.fromkeys(self._summed_keys(), 0.0)
        self._kept: list[tuple[Tensor, Tensor]] = []  # forecast and truth of each batch

    def update(
        self,
        pred: Array,  # (B, H, C)
        true: Array,  # (B, H, C)
        *,
        distribution: ForecastDistribution | None = None,
        samples: Array | None = None,  # (S, B, H, C)
    ) -> None:
        """Add a batch; bad input leaves everything as it was.

        ``distribution`` is the forecast distribution, for the metrics that score one. ``samples`` are joint paths for
        ``energy_score`` and ``variogram_score``; they are asked for, not drawn here, so that the value does not
        depend on how the windows are split. A distribution given as samples serves for both.
        """
        with torch.no_grad():
            forecast, truth = read_pair(pred, true)
            shape = (truth.shape[1], truth.shape[2])
            if self.windows and shape != self._shape:
                raise FernError(
                    f"(horizon, channels) is {shape} and was {self._shape} in earlier batches", argument="true"
                )
            if self._directions is not None:
                unit_directions(self._directions, truth)
            sums = self._score(Batch(forecast, truth, self._std, distribution, samples))
            kept = [(forecast.clone(), truth.clone())] if self._keeps_windows else []
        self._add(sums, kept, len(truth), shape)

    def compute(self) -> dict[str, float]:
        """The value of each metric over all windows so far, under its name (``coverage_90`` for a level)."""
        if self.windows == 0:
            raise FernError("no windows yet: nothing to compute before the first update")
        scored = self.windows * self._shape[1]
        values = {key: total / scored for key, total in self._sums.items()}
        if self._keeps_windows:
            values["sliced_w2"] = self._sliced_w2()
        if "objective" in self.metrics:
            values["objective"] = self.weights.score(
                mse=values["mse"], mae=values["mae"], distance=values[self.distance], crps=values.get("crps")
            )
        return {key: values[key] for metric in self.metrics for key in self._keys(metric)}

    def merge(self, other: "MetricAccumulator") -> Self:
        """A new accumulator with the windows of both, which stay as they are; both must have the same settings."""
        self._require_same_settings(other)
        merged = copy(self)
        merged._sums, merged._kept = dict(self._sums), list(self._kept)
        if other.windows:
            if self.windows and other._shape != self._shape:
                raise FernError(
                    f"(horizon, channels) is {self._shape} here and {other._shape} in the other", argument="merge"
                )
            merged._add(other._sums, other._kept, other.windows, other._shape)
        return merged

    def state_dict(self) -> dict[str, Tensor]:
        """Everything gathered so far, as plain tensors; ``load_state_dict`` of an equal accumulator takes it."""
        state = {"windows": torch.tensor(self.windows), "shape": torch.tensor(self._shape)}
        state |= {f"sum.{key}": torch.tensor(total, dtype=torch.float64) for key, total in self._sums.items()}
        if self._keeps_windows:
            state["pred"], state["true"] = self._kept_windows()
        return state | self._given_tensors()

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Replace what was gathered by a saved state, which must be of an accumulator with the same settings."""
        expected = self.state_dict()
        for name in state:
            if name not in expected:
                raise FernError(f"{unknown_name('entry', name, expected)}", argument="state")
        for name, values in expected.items():
            if name not in state:
                raise FernError(f"has no {name!r}; it comes from an accumulator with other settings", argument="state")
            if name not in ("pred", "true") and state[name].shape != values.shape:
                raise FernError(
                    f"{name} has shape {tuple(state[name].shape)}", argument="state", expected=f"{tuple(values.shape)}"
                )
        for name, values in self._given_tensors().items():
            if not torch.equal(values, state[name]):
                raise FernError(f"its {name} differ from those of this accumulator", argument="state")
        windows, shape = int(state["windows"]), (int(state["shape"][0]), int(state["shape"][1]))
        if windows < 0:
            raise FernError(f"windows is {windows}", argument="state", expected="0 or more")
        kept = []
        if self._keeps_windows and windows:
            kept = [read_pair(state["pred"], state["true"])]
            if kept[0][1].shape != (windows, *shape):
                raise FernError(
                    f"holds windows of shape {tuple(kept[0][1].shape)}",
                    argument="state",
                    expected=f"{(windows, *shape)}",
                )
        sums = {key: float(state[f"sum.{key}"]) for key in self._sums}
        for key, total in sums.items():
            if not isfinite(total):
                raise FernError(f"sum.{key} is {total}", argument="state", expected="a finite number")
        self.windows, self._shape, self._sums, self._kept = windows, shape, sums, kept

    @property
    def _keeps_windows(self) -> bool:
        asked = "sliced_w2" in self.metrics
        return asked or ("objective" in self.metrics and self.distance == "sliced_w2")

    def _keys(self, metric: str) -> list[str]:
        """The names under which a metric's values are reported."""
        return [f"{metric}_{level:.6g}" for level in self.levels] if metric in LEVEL_SCORES else [metric]

    def _summed(self) -> list[str]:
        """The metrics kept as sums: those asked for, and those that the objective is made of."""
        parts = ["mse", "mae", self.distance, *(["crps"] if self.weights.crps else [])]
        parts = parts if "objective" in self.metrics else []
        return [name for name in METRICS if name in (*self.metrics, *parts) and name not in OF_A_SET]

    def _summed_keys(self) -> list[str]:
        return [key for metric in self._summed() for key in self._keys(metric)]

    def _score(self, batch: Batch) -> dict[str, float]:
        """The sum of each metric's values over the batch's windows and channels."""
        totals = []
        for metric in self._summed():
            if metric == "crps" and batch.given_distribution is None and "crps" not in self.metrics:
                totals.append(SCORES["mae"](batch).sum())  # the objective of a point forecast
            elif metric in SCORES:
                totals.append(SCORES[metric](batch).sum())
            else:
                totals.extend(LEVEL_SCORES[metric](batch, level).sum() for level in self.levels)
        sums = dict(zip(self._summed_keys(), torch.stack(totals).tolist() if totals else [], strict=True))
        _require_finite_sums(sums)
        return sums

    def _add(
        self,
        sums: Mapping[str, float],
        kept: Sequence[tuple[Tensor, Tensor]],
        windows: int,
        shape: tuple[int, int],
    ) -> None:
        for key, total in sums.items():
            self._sums[key] += total
        self._kept.extend(kept)
        self.windows += windows
        self._shape = shape

    def _kept_windows(self) -> tuple[Tensor, Tensor]:  # (N, H, C) each
        if not self._kept:
            return torch.empty(0, 0, 0), torch.empty(0, 0, 0)
        preds, trues = zip(*self._kept, strict=True)
        return torch.cat(preds), torch.cat(trues)

    def _sliced_w2(self) -> float:
        pred, true = self._kept_windows()
        with torch.no_grad():
            value = sliced_w2_squared_per_channel(pred, true, unit_directions(self._directions, true)).mean().item()
        _require_finite_sums({"sliced_w2": value})
        return value

    def _given_tensors(self) -> dict[str, Tensor]:
        inputs = {"std": self._std, "directions": self._directions}
        return {name: values for name, values in inputs.items() if values is not None}

    def _require_same_settings(self, other: "MetricAccumulator") -> None:
        for name in ("metrics", "levels", "distance", "weights"):
            here, there = getattr(self, name), getattr(other, name)
            if here != there:
                raise FernError(f"{name} is {here} here and {there} in the other", argument="merge")
        mine, theirs = self._given_tensors(), other._given_tensors()
        for name in {**mine, **theirs}:
            if name not in mine or name not in theirs or not torch.equal(mine[name], theirs[name]):
                raise FernError(f"{name} differ between the two accumulators", argument="merge")


def _require_metrics(metrics: Sequence[str]) -> None:
    if isinstance(metrics, str):
        raise FernError(argument="metrics", got=metrics, expected="a list of names")
    if not metrics:
        raise FernError(f"is empty; known: {', '.join(METRICS)}", argument="metrics")
    for position, name in enumerate(metrics):
        if name not in METRICS:
            raise unknown_name("metric", name, METRICS)
        if name in metrics[:position]:
            raise FernError(f"{name!r} is given twice", argument="metrics")


def _require_finite_sums(sums: Mapping[str, float]) -> None:
    for key, total in sums.items():
        if not isfinite(total):
            raise FernError("overflows float64; the finite values given are too large to score", argument=key)
