"""Forecasts without a fit, by the Fern that comes with the package: it was trained on synthetic series alone.

Example:
    >>> import numpy as np
    >>> from fern.pretrained import forecast
    >>> rng = np.random.default_rng(7)
    >>> sales = 20 + 5 * np.sin(2 * np.pi * np.arange(90) / 7) + rng.normal(0, 0.5, 90)
    >>> ahead = forecast(sales, 14)
    >>> ahead.mean.shape, ahead.quantile([0.1, 0.9]).shape
    ((14,), (14, 2))
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Generator

from fern.errors import FernError, require_flag, require_memory, require_number, require_whole, show_value
from fern.models.pretrained.averaging import forecast_averaged
from fern.models.pretrained.forecasting import READ, Contexts
from fern.models.pretrained.network import NEWEST, read_weights
from fern.models.pretrained.representation import HORIZON, SHORTEST
from fern.transport import Ellipsoid

Array = NDArray[np.float64]

__all__ = ["PretrainedForecast", "forecast", "training_record"]


MOST_STEPS = 1000 * HORIZON
"""A forecast is rolled on at most so far, which takes seconds."""


@dataclass(frozen=True, eq=False)
class PretrainedForecast:
    """What the pretrained model says about the steps after each series.

    ``distribution``   joint over the steps, one for each series.
    ``not_negative``   (N,), series whose values are all at least 0: so are their forecasts.
    ``single``         one series was given, not a list: arrays have no axis of series.
    """

    distribution: Ellipsoid  # of batch (N,)
    not_negative: NDArray[np.bool_]  # (N,)
    single: bool

    @property
    def mean(self) -> Array:  # (N, H), or (H,)
        """The point forecast."""
        return self._drop_axis(self._clip_below(self.distribution.mean.numpy()))

    @property
    def stddev(self) -> Array:  # (N, H), or (H,)
        """The standard deviation of each step."""
        stddev: Array = self.distribution.stddev.numpy()
        return self._drop_axis(stddev)

    def quantile(self, levels: Sequence[float] | Array) -> Array:  # (N, H, Q), or (H, Q)
        """The quantiles of each step on its own."""
        probabilities: Any = levels.tolist() if isinstance(levels, np.ndarray) else levels
        if not isinstance(probabilities, list | tuple) or not probabilities:
            raise FernError(argument="levels", got=levels, expected="a list of numbers between 0 and 1")
        for level in probabilities:
            require_number("levels", level, "numbers between 0 and 1", lambda value: 0.0 < value < 1.0)
        scores = np.array([NormalDist().inv_cdf(level) for level in probabilities])
        mean, stddev = self.distribution.mean.numpy(), self.distribution.stddev.numpy()
        return self._drop_axis(self._clip_below(mean[..., None] + stddev[..., None] * scores))

    def sample_paths(self, n_paths: int, *, seed: int = 0) -> Array:  # (paths, N, H), or (paths, H)
        """Joint paths over the steps: what sums and peaks over the horizon are read from."""
        require_whole("n_paths", n_paths, 1)
        require_whole("seed", seed, 0)
        values = self.distribution.mean.numel()
        require_memory(f"n_paths: {show_value(n_paths)} paths", 24.0 * min(n_paths, 10**30) * values)
        paths = self.distribution.sample((n_paths,), generator=Generator().manual_seed(seed % 2**63)).numpy()
        paths = np.where(self.not_negative[:, None], np.maximum(paths, 0.0), paths)
        return paths[:, 0] if self.single else paths

    def _clip_below(self, values: Array) -> Array:  # (N, H, ...)
        bound = self.not_negative.reshape(-1, *(1,) * (values.ndim - 1))
        return np.where(bound, np.maximum(values, 0.0), values)

    def _drop_axis(self, values: Array) -> Array:
        return values[0] if self.single else values


def forecast(
    series: ArrayLike | Sequence[ArrayLike],  # (T,), or several of any lengths
    horizon: int,
    *,
    season: int | None = None,
    flip: bool = True,
    log: bool = True,
    resample: bool = True,
) -> PretrainedForecast:
    """Forecast one series, or many of any lengths, without a fit.

    Parameters:
        series: the values in the order of time, at least 8 of them; of longer series the newest 8,576 are
            read, the older ones at coarser time steps alone. Gaps (NaN) are filled on a straight line.
        horizon: steps to forecast, at most 96,000; beyond 96 the distribution is rolled on.
        season: the period in rows where it is known; without it each series tells.
        flip: average with the forecast of the series upside down.
        log: average with the forecast of the logarithm, where all values of a series are well above zero.
        resample: average with forecasts at coarser time steps, weighed by how each did on the series itself.

    Example:
        >>> ahead = forecast([np.arange(30.0), np.ones(12)], 6)
        >>> ahead.mean.shape, bool(ahead.mean[0, 0] > 28)
        ((2, 6), True)
        >>> forecast([1.0, 2.0], 6)
        Traceback (most recent call last):
            ...
        fern.errors.FernError: series: got 2 rows, needs at least 8
    """
    require_whole("horizon", horizon, 1)
    if horizon > MOST_STEPS:
        raise FernError(argument="horizon", got=horizon, expected=f"at most {MOST_STEPS:,} steps")
    if season is not None:
        require_whole("season", season, 1)
        season = min(season, READ)  # a longer one is not seen
    for name, value in (("flip", flip), ("log", log), ("resample", resample)):
        require_flag(name, value)
    arrays, single = _read(series)
    network, _ = read_weights()
    contexts = Contexts.of(arrays, season=season)
    try:
        ahead = forecast_averaged(network, contexts, horizon, flip=flip, log=log, resample=resample)
        finite = bool(ahead.mean.isfinite().all() and ahead.stddev.isfinite().all())
    except FernError:  # what was read is finite: its sums are not
        finite = False
    if not finite:
        raise FernError("holds values beyond what the model can take", argument="series", expected="smaller ones")
    return PretrainedForecast(ahead, np.array([bool((values >= 0).all()) for values in arrays]), single)


def training_record(weights: str = NEWEST) -> Mapping[str, Any]:
    """How the weights were made: generator, settings, seed, hours and commit.

    Example:
        >>> training_record()["generator"]
        'fern.synthetic'
    """
    return read_weights(weights)[1]


def _read(series: ArrayLike | Sequence[ArrayLike]) -> tuple[list[Array], bool]:
    """The series as arrays without gaps, and whether it was one."""
    if isinstance(series, list | tuple) and len(series) and np.ndim(series[0]) == 1:
        return [_clean(values, f"series {i}") for i, values in enumerate(series)], False
    try:
        table = np.asarray(series)
    except ValueError:
        raise FernError(
            "its rows differ in kind", argument="series", expected="rows of numbers, or a list of such"
        ) from None
    if table.ndim == 1:
        return [_clean(table, "series")], True
    if table.ndim == 2 and len(table):
        return [_clean(values, f"series {i}") for i, values in enumerate(table)], False
    raise FernError(argument="series", got=f"shape {table.shape}", expected="rows of numbers, or a list of such")


def _clean(values: ArrayLike, name: str) -> Array:
    try:
        array = np.asarray(values)
        text = array.dtype.kind == "O" and any(isinstance(value, str) for value in array.flat)
        if array.ndim != 1 or text or array.dtype.kind not in "biufO":
            raise TypeError
        rows = array[-READ:].astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise FernError(argument=name, got=type(values).__name__, expected="numbers") from None
    if np.isinf(rows).any():
        raise FernError("has infinite values", argument=name, expected="finite numbers, or NaN where one is missing")
    known = np.flatnonzero(~np.isnan(rows))
    if len(known):
        rows = rows[known[0] :]
        known = known - known[0]
    if len(known) < SHORTEST:
        raise FernError(f"got {len(known)} rows", argument=name, expected=f"at least {SHORTEST}")
    return rows if len(known) == len(rows) else np.interp(np.arange(len(rows)), known, rows[known])
