"""The metrics that are means over windows and channels, by name, each as its values (B, C)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np
from torch import Tensor

from fern.errors import FernError, unknown_name
from fern.metrics.arrays import Array, NumpyArray, forecast_and_truth, require_finite
from fern.metrics.ept import channel_std, exceeded_steps
from fern.metrics.intervals import covered_shares, interval_widths, jointly_covered
from fern.metrics.laws import Law, Marginals, read_marginals, read_samples
from fern.metrics.paths import energy_scores, variogram_scores
from fern.metrics.point import absolute_errors, squared_errors
from fern.metrics.probabilistic import crps_values, negative_log_densities
from fern.metrics.wasserstein import w2_squared_per_window


@dataclass(frozen=True)
class Batch:
    """Forecast and truth of some windows, checked, and what single metrics need besides, read when first used."""

    pred: Tensor  # (B, H, C)
    true: Tensor  # (B, H, C)
    given_std: Array | Sequence[float] | None  # (C,)
    given_law: Law | None
    given_samples: Array | None  # (S, B, H, C)

    @cached_property
    def std(self) -> Tensor:  # (C,)
        """The training standard deviations."""
        if self.given_std is None:
            raise FernError("std: ept needs the training standard deviation of each channel")
        return channel_std(self.given_std, self.true)

    @cached_property
    def law(self) -> Law:
        """The predictive law."""
        if self.given_law is None:
            raise FernError("law: none given; scores of a law need a distribution, or samples where those do")
        return self.given_law

    @cached_property
    def marginals(self) -> Marginals:
        """The law's marginals."""
        return read_marginals(self.law, self.true)

    @cached_property
    def samples(self) -> Tensor:  # (S, B, H, C)
        """The samples given, or the law if that is samples."""
        if self.given_samples is not None:
            return read_samples("samples", self.given_samples, self.true)
        if isinstance(self.given_law, Tensor | np.ndarray):
            return read_samples("law", self.given_law, self.true)
        raise FernError("samples: none given; scores of paths need them (samples, batch, horizon, channels)")


SCORES: dict[str, Callable[[Batch], Tensor]] = {
    "mse": lambda batch: squared_errors(batch.pred, batch.true),
    "mae": lambda batch: absolute_errors(batch.pred, batch.true),
    "w2": lambda batch: w2_squared_per_window(batch.pred, batch.true),
    "ept": lambda batch: exceeded_steps(batch.pred, batch.true, batch.std),
    "nll": lambda batch: negative_log_densities(batch.law, batch.true),
    "crps": lambda batch: crps_values(batch.marginals, batch.true),
    "energy_score": lambda batch: energy_scores(batch.samples, batch.true),
    "variogram_score": lambda batch: variogram_scores(batch.samples, batch.true),
}
"""Each gives (B, C)."""

LEVEL_SCORES: dict[str, Callable[[Batch, float], Tensor]] = {
    "coverage": lambda batch, level: covered_shares(batch.marginals, batch.true, level=level),
    "joint_coverage": lambda batch, level: jointly_covered(batch.law, batch.true, level=level),
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
    law: Law | None = ...,
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
    law: Law | None = ...,
    samples: Array | None = ...,
    level: float = ...,
) -> NumpyArray: ...
def per_window(
    metric: str,
    pred: Array,  # (B, H, C)
    true: Array,  # (B, H, C)
    *,
    std: Array | Sequence[float] | None = None,  # (C,)
    law: Law | None = None,
    samples: Array | None = None,  # (S, B, H, C)
    level: float = 0.9,
) -> Array:  # (B, C)
    """The values of a metric for each window and channel, whose mean is the metric: what paired tests compare.

    All metrics but ``sliced_w2`` and ``objective``, which belong to a set of windows. ``std`` is for ``ept``,
    ``law`` and ``level`` for the scores of a law, ``samples`` for ``energy_score`` and ``variogram_score``.

    Example:
        >>> import numpy as np
        >>> per_window("mae", np.array([[[1.0], [2.0]], [[0.0], [0.0]]]), np.zeros((2, 2, 1)))
        array([[1.5],
               [0. ]])
    """
    if metric not in SCORES and metric not in LEVEL_SCORES:
        raise unknown_name("metric", metric, [*SCORES, *LEVEL_SCORES])
    forecast, truth = forecast_and_truth(pred, true)
    batch = Batch(forecast, truth, std, law, samples)
    values = SCORES[metric](batch) if metric in SCORES else LEVEL_SCORES[metric](batch, level)
    require_finite(metric, values, ("batch", "channels"))
    return values if isinstance(true, Tensor) else values.detach().numpy()
