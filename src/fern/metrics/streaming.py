"""The checkpoint score, and metrics over batches of any size, equal to those of one batch."""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields
from functools import cached_property
from math import isfinite
from typing import Literal, Self, get_args

import torch
from torch import Tensor

from fern.errors import FernError, require_choice, require_level, unknown_name
from fern.metrics.point import (
    Array,
    absolute_errors,
    channel_std,
    first_exceeding_steps,
    read_directions,
    read_pair,
    read_std,
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
    negative_log_densities,
    read_marginals,
)
from fern.settings import STRICT

Distance = Literal["sliced_w2", "w2"]


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

    def score(self, *, mse: float, mae: float, distance: float, crps: float | None = None) -> float:
        """The weighted sum of the figures; without ``crps`` the forecast is a point, and ``mae`` stands for it."""
        points = self.mse * mse + self.mae * mae + self.distance * distance
        return points + self.crps * (mae if crps is None else crps) if self.crps else points


PAPER_WEIGHTS = ObjectiveWeights()


@dataclass(frozen=True)
class Batch:
    """Forecast and truth of some windows, checked, and what single metrics need besides, read when first used."""

    pred: Tensor  # (B, H, C)
    true: Tensor  # (B, H, C)
    given_std: Tensor | None  # (C,)
    given_distribution: ForecastDistribution | None

    @property
    def std(self) -> Tensor:  # (C,)
        """The training standard deviations, without which no accumulator of ``ept`` is made."""
        assert self.given_std is not None
        return channel_std(self.given_std, self.true)

    @property
    def distribution(self) -> ForecastDistribution:
        """The forecast distribution."""
        if self.given_distribution is None:
            raise FernError("none given, and some of the metrics score one", argument="distribution")
        return self.given_distribution

    @cached_property
    def marginals(self) -> Marginals:
        """The distribution's marginals."""
        return read_marginals(self.distribution, self.true)


SCORES: dict[str, Callable[[Batch], Tensor]] = {
    "mse": lambda batch: squared_errors(batch.pred, batch.true),
    "mae": lambda batch: absolute_errors(batch.pred, batch.true),
    "w2": lambda batch: w2_squared_per_window(batch.pred, batch.true),
    "ept": lambda batch: first_exceeding_steps(batch.pred, batch.true, batch.std),
    "nll": lambda batch: negative_log_densities(batch.distribution, batch.true),
    "crps": lambda batch: crps_values(batch.marginals, batch.true),
}
"""Each gives (B, C)."""

METRICS = (*SCORES, "coverage", "sliced_w2", "objective")
"""The names an accumulator takes."""


class MetricAccumulator:
    """Gathers metrics over batches of any size; ``compute`` gives the value of all windows in one go.

    What is a mean over windows is kept as a float64 sum, so batch sizes matter by rounding only (1e-12).
    ``sliced_w2`` compares whole sets of windows and cannot be summed over batches: where it is asked for, or
    ``objective`` with it, the windows themselves are kept (56 MB for 7,000 windows of 336 steps and 3 channels).

    Arguments:
        metrics: names, any of ``METRICS``.
        std: (C,), the training standard deviations, for ``ept``.
        directions: (H, L), for ``sliced_w2``: draw them once with ``sphere_directions``. Without them the
            default ones, the same in every accumulator.
        distance: the third part of ``objective``.
        weights: of its parts. Where ``crps`` has one, `update` takes the distribution from ``distribution``; without
            one the forecast is a point, whose CRPS is its absolute error.
        levels: percentages of the intervals of ``coverage``, whose values are named ``coverage_90`` and so on.

    Several workers each fill their own and ``merge`` them.

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
        require_choice("distance", distance, get_args(Distance))
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
        self._sums = dict.fromkeys(self._list_sum_keys(), 0.0)
        self._kept: list[tuple[Tensor, Tensor]] = []  # forecast and truth of each batch

    def update(
        self,
        pred: Array,  # (B, H, C)
        true: Array,  # (B, H, C)
        *,
        distribution: ForecastDistribution | None = None,
    ) -> None:
        """Add a batch, with its forecast distribution for the metrics that score one.

        Bad input leaves everything as it was.
        """
        with torch.no_grad():
            forecast, truth = read_pair(pred, true)
            shape = (truth.shape[1], truth.shape[2])
            if self.windows and shape != self._shape:
                problem = f"(horizon, channels) is {shape} and was {self._shape} in earlier batches"
                raise FernError(problem, argument="true")
            if self._directions is not None:
                unit_directions(self._directions, truth)
            sums = self._score(Batch(forecast, truth, self._std, distribution))
            pairs = [(forecast.clone(), truth.clone())] if self._keeps_windows else []
        self._add(sums, pairs, len(truth), shape)

    def compute(self) -> dict[str, float]:
        """The value of each metric over all windows so far, under its name (``coverage_90`` for a level)."""
        if self.windows == 0:
            raise FernError("no windows yet: nothing to compute before the first update")
        scored = self.windows * self._shape[1]
        values = {key: total / scored for key, total in self._sums.items()}
        if self._keeps_windows:
            pred, true = (torch.cat(parts) for parts in zip(*self._kept, strict=True))
            with torch.no_grad():
                distances = sliced_w2_squared_per_channel(pred, true, unit_directions(self._directions, true))
            values["sliced_w2"] = distances.mean().item()
            _require_finite_sums({"sliced_w2": values["sliced_w2"]})
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
                problem = f"(horizon, channels) is {self._shape} here and {other._shape} in the other"
                raise FernError(problem, argument="merge")
            merged._add(other._sums, other._kept, other.windows, other._shape)
        return merged

    @property
    def _keeps_windows(self) -> bool:
        return "sliced_w2" in self.metrics or ("objective" in self.metrics and self.distance == "sliced_w2")

    def _keys(self, metric: str) -> list[str]:
        """The names under which a metric's values are reported."""
        return [f"{metric}_{level:.6g}" for level in self.levels] if metric == "coverage" else [metric]

    def _list_summed(self) -> list[str]:
        """The metrics kept as sums: those asked for, and those that the objective is made of."""
        names = set(self.metrics)
        if "objective" in names:
            names |= {"mse", "mae", self.distance, *(["crps"] if self.weights.crps else [])}
        return [name for name in (*SCORES, "coverage") if name in names]

    def _list_sum_keys(self) -> list[str]:
        return [key for metric in self._list_summed() for key in self._keys(metric)]

    def _score(self, batch: Batch) -> dict[str, float]:
        """The sum of each metric's values over the batch's windows and channels."""
        totals = []
        for metric in self._list_summed():
            if metric == "crps" and batch.given_distribution is None and "crps" not in self.metrics:
                totals.append(SCORES["mae"](batch).sum())  # the objective of a point forecast
            elif metric in SCORES:
                totals.append(SCORES[metric](batch).sum())
            else:
                totals.extend(covered_shares(batch.marginals, batch.true, level=level).sum() for level in self.levels)
        sums = dict(zip(self._list_sum_keys(), torch.stack(totals).tolist() if totals else [], strict=True))
        _require_finite_sums(sums)
        return sums

    def _add(
        self, sums: Mapping[str, float], pairs: list[tuple[Tensor, Tensor]], windows: int, shape: tuple[int, int]
    ) -> None:
        for key, total in sums.items():
            self._sums[key] += total
        self._kept.extend(pairs)
        self.windows += windows
        self._shape = shape

    def _require_same_settings(self, other: "MetricAccumulator") -> None:
        for name in ("metrics", "levels", "distance", "weights"):
            setting, other_setting = getattr(self, name), getattr(other, name)
            if setting != other_setting:
                raise FernError(f"{name} is {setting} here and {other_setting} in the other", argument="merge")
        for name in ("std", "directions"):
            value, other_value = getattr(self, f"_{name}"), getattr(other, f"_{name}")
            alike = value is other_value if value is None or other_value is None else torch.equal(value, other_value)
            if not alike:
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
