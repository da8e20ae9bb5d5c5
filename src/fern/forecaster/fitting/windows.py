"""Windows of many series in model units, and the residuals of held-out windows under a model's distribution."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fern.calibration import Residuals
from fern.data.frames import Series
from fern.data.splits import Part
from fern.data.windows import Windows
from fern.errors import FernError
from fern.forecaster.distributions import distribution_of
from fern.forecaster.fitting.plan import Plan, SeriesParts, stride_for
from fern.forecaster.scales import Scale
from fern.models import Forecaster

HeldOut = Literal["validation", "calibration"]
Rows = NDArray[np.int64]

AT_ONCE = 4096
"""Series (windows times channels) that are forecast together."""


@dataclass(frozen=True)
class Learnt:
    """The series that a model learns from, in model units, with their parts."""

    values: tuple[NDArray[np.float32], ...]  # each (T_i, C)
    breaks: tuple[tuple[int, ...], ...]
    parts: tuple[SeriesParts, ...]
    plan: Plan

    @classmethod
    def of(cls, series: Sequence[Series], scales: Sequence[Scale], plan: Plan) -> "Learnt":
        """The series that are long enough, scaled."""
        kept = [i for i, parts in enumerate(plan.parts) if parts is not None]
        return cls(
            tuple(scales[i].apply(series[i].values) for i in kept),
            tuple(series[i].breaks for i in kept),
            tuple(parts for parts in plan.parts if parts is not None),
            plan,
        )

    def train(self) -> Windows:
        """Every window of the training parts."""
        return self._windows([parts.train for parts in self.parts], most=None)

    def before_calibration(self) -> Windows:
        """Every window of the training and validation parts."""
        return self._windows([Part(0, parts.calibration.start) for parts in self.parts], most=None)

    def everything(self) -> Windows:
        """Every window of the series."""
        return self._windows([Part(0, len(values)) for values in self.values], most=None)

    def validation(self, *, most: int) -> Windows:
        """Windows of the validation parts, at most about so many."""
        return self._windows([parts.validation for parts in self.parts], most=most)

    def residuals(self, model: Forecaster, part: HeldOut, *, most: int) -> Residuals:
        """What the truth of held-out windows is under the model's distributions; about ``most`` windows over all
        series.
        """
        found = [
            Residuals.of(distribution_of(model, past), future, origins=rows, series=series)
            for past, future, rows, series in self.held_out(part, most=most)
        ]
        if found:
            return Residuals.joined(found)
        channels = self.values[0].shape[1]
        distribution = distribution_of(model, torch.zeros(1, self.plan.context_length, channels))
        return Residuals.none(channels=channels, horizon=self.plan.horizon, patch_size=distribution.patch_size)

    def count(self, part: HeldOut, *, most: int) -> int:
        """How many windows `held_out` gives."""
        try:
            return len(self._windows([getattr(parts, part) for parts in self.parts], most=most))
        except FernError:  # breaks in the time grid leave no window there
            return 0

    def held_out(self, part: HeldOut, *, most: int) -> Iterator[tuple[Tensor, Tensor, Rows, Rows]]:
        """Held-out windows in batches: past (n, L, C), future (n, H, C), first forecast row, series."""
        try:
            windows = self._windows([getattr(parts, part) for parts in self.parts], most=most)
        except FernError:  # breaks in the time grid leave no window there
            return
        begins = np.cumsum([0, *(len(values) for values in self.values)])
        at_once = max(1, AT_ONCE // windows.channels)
        for first in range(0, len(windows), at_once):
            indices = torch.arange(first, min(first + at_once, len(windows)))
            past, future = windows.gather(indices)
            rows = windows.starts(indices).numpy() + windows.context_length
            series = np.searchsorted(begins, rows, side="right") - 1
            yield past, future, rows - begins[series], series

    def _windows(self, parts: Sequence[Part], *, most: int | None) -> Windows:
        def cut(stride: int) -> Windows:
            return Windows.over(
                self.values,
                parts=parts,
                breaks=self.breaks,
                stride=stride,
                context_length=self.plan.context_length,
                horizon=self.plan.horizon,
            )

        whole = cut(1)
        if most is None or len(whole) <= most:
            return whole
        return cut(stride_for(len(whole), most=most, season=self.plan.season))
