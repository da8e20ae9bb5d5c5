"""What calibration keeps of held-out windows: their residuals under the distribution, and where in time they lie."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from fern.errors import FernError
from fern.metrics.point import WINDOWS, Array, require_finite, to_tensor, wide
from fern.metrics.probabilistic import CHANNEL_FIRST, require_distribution_fits
from fern.transport import Ellipsoid

Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Residuals:
    """Residuals of n windows under their distributions N(μ, aA²), free of the unit and level of the series.

    ``whitened`` is z = A⁻¹(y − μ)/√a, standard normal in every direction under the distribution; ``standardised`` is
    (y − μ)/σ, step by step. ``origins`` are the row positions of the windows in their series, ``series`` names the
    series. Windows of different series count as exchangeable, windows of one series as dependent in time, and the
    channels of one window as dependent on each other as their residuals show.

    The distribution itself is not kept, so many windows can be gone through in batches and joined:

    Example:
        >>> import torch
        >>> distribution = Ellipsoid(torch.ones(5, 1, 2, 3), torch.zeros(5, 1, 2, 3), torch.zeros(5, 1, 2, 0, 3))
        >>> batch = Residuals.of(distribution, torch.ones(5, 6, 1), origins=range(5))
        >>> joined = Residuals.joined([batch, Residuals.of(distribution, torch.ones(5, 6, 1), origins=range(5, 10))])
        >>> len(joined), joined.channels, joined.horizon, joined.patches
        (10, 1, 6, 2)
    """

    whitened: Floats  # (n, C, H)
    standardised: Floats  # (n, C, H)
    origins: NDArray[np.int64]  # (n,)
    series: NDArray[Any]  # (n,)
    patch_size: int

    @classmethod
    def of(
        cls,
        distribution: Ellipsoid,  # batch (n, C), event (H,)
        y: Array,  # (n, H, C)
        *,
        origins: Iterable[int],  # (n,)
        series: Sequence[int] | Sequence[str] | NDArray[Any] | None = None,  # (n,)
    ) -> Self:
        """The residuals of the truth under the distributions; without ``series`` all windows are of one."""
        truth = to_tensor("y", y, WINDOWS)
        rows = np.asarray(list(origins), dtype=np.int64)
        names = np.zeros(len(rows), dtype=np.int64) if series is None else np.asarray(series)
        for name, values in (("origins", rows), ("series", names)):
            if values.shape != (len(truth),):
                raise FernError(f"{len(values)} for {len(truth)} windows", argument=name, expected="one for each")
        whitened, standardised = compute_residuals(distribution, truth)
        return cls(whitened, standardised, rows, names, distribution.patch_size)._in_order()

    @classmethod
    def none(cls, *, channels: int, horizon: int, patch_size: int) -> Self:
        """No window at all: what is calibrated on it says that it is not."""
        empty = np.zeros((0, channels, horizon))
        return cls(empty, empty, np.zeros(0, np.int64), np.zeros(0, np.int64), patch_size)

    @classmethod
    def joined(cls, batches: Iterable[Self]) -> Self:
        """All windows of the batches, in order of series and time."""
        parts = list(batches)
        if not parts:
            raise FernError("got none", argument="batches", expected="at least one")
        for part in parts[1:]:
            part.require_like(parts[0])
        return cls(
            np.concatenate([part.whitened for part in parts]),
            np.concatenate([part.standardised for part in parts]),
            np.concatenate([part.origins for part in parts]),
            np.concatenate([part.series for part in parts]),
            parts[0].patch_size,
        )._in_order()

    def __len__(self) -> int:
        return len(self.origins)

    @property
    def channels(self) -> int:
        """C."""
        return int(self.standardised.shape[1])

    @property
    def horizon(self) -> int:
        """H."""
        return int(self.standardised.shape[2])

    @property
    def patches(self) -> int:
        """g."""
        return ceil(self.horizon / self.patch_size)

    def require_like(self, other: "Residuals") -> None:
        """Refuse residuals with other channels, horizon or patches."""
        own, wanted = (self.channels, self.horizon, self.patch_size), (other.channels, other.horizon, other.patch_size)
        if own != wanted:
            raise FernError(
                (f"channels, horizon and patch size are {own} in one set and {wanted} in another; they must agree"),
                argument="residuals",
            )

    def take(self, rows: NDArray[Any]) -> Self:
        """These windows only."""
        return type(self)(
            self.whitened[rows], self.standardised[rows], self.origins[rows], self.series[rows], self.patch_size
        )

    def thinned(self, most: int) -> Self:
        """Every k-th window, so that at most ``most`` are left."""
        return self if len(self) <= most else self.take(np.arange(0, len(self), ceil(len(self) / most)))

    def codes(self) -> NDArray[np.int64]:  # (n,)
        """The series as numbers 0, 1, …"""
        return np.unique(self.series, return_inverse=True)[1].astype(np.int64)

    def disjoint(self) -> int:
        """How many windows have targets that do not overlap, as many as can be found from the first on."""
        count, series, free = 0, None, 0
        for name, origin in zip(self.series.tolist(), self.origins.tolist(), strict=True):
            if name != series or origin >= free:
                count, series, free = count + 1, name, origin + self.horizon
        return count

    def apart_from(self, later: "Residuals") -> Self:
        """The windows whose targets share no row with a target of ``later`` (in the same series)."""
        keep = np.ones(len(self), dtype=bool)
        for name in np.intersect1d(self.series, later.series):
            own = np.flatnonzero(self.series == name)
            others = np.sort(later.origins[later.series == name])
            after = np.searchsorted(others, self.origins[own] - self.horizon, side="right")
            nearest = others[np.minimum(after, len(others) - 1)]
            keep[own] = (after == len(others)) | (nearest >= self.origins[own] + self.horizon)
        return self.take(np.flatnonzero(keep))

    def halves(self) -> tuple[Self, Self]:
        """The earlier and the later half, without overlap of targets: in time, or by series if there are many."""
        names = np.unique(self.series)
        if len(names) >= 20:  # exchangeable: whole series, alternating, so that both halves are alike
            first = np.isin(self.series, names[::2])
            return self.take(np.flatnonzero(first)), self.take(np.flatnonzero(~first))
        early = np.zeros(len(self), dtype=bool)
        for name in names:
            rows = np.flatnonzero(self.series == name)
            early[rows[: len(rows) // 2]] = True
        later = self.take(np.flatnonzero(~early))
        return self.take(np.flatnonzero(early)).apart_from(later), later

    def _in_order(self) -> Self:
        order = np.lexsort((self.origins, np.unique(self.series, return_inverse=True)[1]))
        return self if np.array_equal(order, np.arange(len(self))) else self.take(order)


def compute_residuals(
    distribution: Ellipsoid,  # batch (n, C), event (H,)
    truth: torch.Tensor,  # (n, H, C)
) -> tuple[Floats, Floats]:  # (n, C, H) twice
    """The whitened and the standardised residuals, in the distribution's own precision."""
    if not isinstance(distribution, Ellipsoid):
        raise FernError(argument="distribution", got=distribution, expected="a fern.transport.Ellipsoid")
    with torch.no_grad():
        mean, stddev = distribution.mean, distribution.stddev
        require_distribution_fits(distribution, truth.to(mean.device))
        target = truth.to(mean.device).transpose(1, 2)
        standardised = (wide(target) - wide(mean)) / wide(stddev)
        require_finite("distribution or y: standardised residual", standardised, CHANNEL_FIRST)
        whitened = distribution.inverse(target.to(mean.dtype)) / sqrt(distribution.base_variance)
        require_finite("distribution or y: whitened residual", whitened, CHANNEL_FIRST)
    return whitened.cpu().numpy(), standardised.to(mean.dtype).cpu().numpy()
