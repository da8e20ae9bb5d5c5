"""The mixture of families: one table of weights, and series of all of them in random order.

Example:
    >>> batch = generate(4, length=64, seed=7)
    >>> batch.values.shape, batch.values.dtype.name, len(batch.families)
    ((4, 64), 'float32', 4)
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fern.errors import FernError, require_flag, require_memory, require_whole, show_value, unknown_name
from fern.synthetic import families
from fern.synthetic.dynamics import dynamics

Array = NDArray[np.float64]

BLOCK = 256
"""Series that are drawn together: each block has its own random numbers, by the seed and its place."""

SHORTEST = 16
"""Rows that a series has at least."""


@dataclass(frozen=True)
class Family:
    """A kind of series: its share in the mixture and what draws it, ``(rng, count, length) -> (count, length)``."""

    weight: float
    draw: Callable[[Generator, int, int], Array]

    @property
    def purpose(self) -> str:
        """What it is, in one line."""
        return (self.draw.__doc__ or "").strip().splitlines()[0]


FAMILIES: Mapping[str, Family] = {
    "trend_seasons": Family(0.15, families.trend_seasons),
    "multiplicative": Family(0.08, families.multiplicative),
    "exponential_smoothing": Family(0.13, families.exponential_smoothing),
    "arma": Family(0.06, families.arma),
    "integrated": Family(0.10, families.integrated),
    "threshold": Family(0.03, families.threshold),
    "gaussian_process": Family(0.08, families.gaussian_process),
    "long_memory": Family(0.04, families.long_memory),
    "mean_reversion": Family(0.07, families.mean_reversion),
    "regimes": Family(0.05, families.regimes),
    "counts": Family(0.03, families.counts),
    "intermittent": Family(0.02, families.intermittent),
    "pulses": Family(0.02, families.pulses),
    "sensors": Family(0.06, families.sensors),
    "weekly_demand": Family(0.04, families.weekly_demand),
    "dynamics": Family(0.08, dynamics),
}
"""All families, by name, with their shares."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Series and the family that each comes from."""

    values: NDArray[np.float32]  # (count, length)
    families: tuple[str, ...]


def generate(count: int, *, length: int, seed: int, only: Sequence[str] | None = None, artefacts: bool = True) -> Batch:
    """Draw ``count`` series of ``length`` rows; the same arguments give the same series.

    ``only`` names the families to draw from, in the proportions of `FAMILIES`; ``artefacts`` lets some series be
    recorded badly: censored, rounded, stuck, with outliers.

    Example:
        >>> a, b = (generate(3, length=100, seed=1, only=["arma"]) for _ in range(2))
        >>> a.families, bool((a.values == b.values).all())
        (('arma', 'arma', 'arma'), True)
    """
    require_whole("count", count, 1)
    require_whole("length", length, SHORTEST)
    request = f"count: {show_value(count)} series of {show_value(length)} rows"
    require_memory(request, 8.0 * min(count, 10**30) * min(length, 10**30))
    values: list[NDArray[np.float32]] = []
    names: list[str] = []
    for batch in stream(length=length, seed=seed, only=only, artefacts=artefacts):
        values.append(batch.values)
        names += batch.families
        if len(names) >= count:
            return Batch(np.concatenate(values)[:count], tuple(names[:count]))
    raise AssertionError  # a stream has no end


def stream(
    *, length: int, seed: int, only: Sequence[str] | None = None, artefacts: bool = True, first: int = 0
) -> Iterator[Batch]:
    """Blocks of 256 series without end, families interleaved; ``first`` starts at a later block.

    Example:
        >>> blocks = stream(length=32, seed=3)
        >>> _ = next(blocks)
        >>> bool((next(blocks).values == next(stream(length=32, seed=3, first=1)).values).all())
        True
    """
    require_whole("length", length, SHORTEST)
    require_whole("seed", seed, 0)
    require_whole("first", first, 0)
    require_memory(f"length: {BLOCK} series of {show_value(length)} rows", 32.0 * BLOCK * min(length, 10**30))
    require_flag("artefacts", artefacts)
    if isinstance(only, str) or not isinstance(only, Collection | None) or (only is not None and not only):
        raise FernError(argument="only", got=only, expected="a list of families, or None for all")
    names = tuple(FAMILIES) if only is None else tuple(only)
    for name in names:
        if not isinstance(name, str) or name not in FAMILIES:
            raise unknown_name("family", name, FAMILIES, argument="only")
    return _blocks(length, seed, names, artefacts, first)


def _blocks(length: int, seed: int, names: tuple[str, ...], artefacts: bool, first: int) -> Iterator[Batch]:
    weights = np.array([FAMILIES[name].weight for name in names])
    block = first
    while True:
        rng = np.random.default_rng([seed, block])
        counts = rng.multinomial(BLOCK, weights / weights.sum())
        parts = [
            _finite(rng, FAMILIES[name].draw, int(count), length)
            for name, count in zip(names, counts, strict=True)
            if count
        ]
        order = rng.permutation(BLOCK)
        values = np.concatenate(parts)[order]
        if artefacts:
            record_badly(rng, values)
        yield Batch(values.astype(np.float32), tuple(np.repeat(names, counts)[order].tolist()))
        block += 1


def _finite(rng: Generator, draw: Callable[[Generator, int, int], Array], count: int, length: int) -> Array:
    """The draw, rows that left the range of numbers drawn anew."""
    values, bad = np.empty((count, length)), np.arange(count)
    while len(bad):
        values[bad] = draw(rng, len(bad), length)
        bad = bad[~np.isfinite(values[bad]).all(1) | (np.abs(values[bad]).max(1) > 1e12)]
    return values


def record_badly(rng: Generator, values: Array) -> None:  # (count, length), changed
    """Let a share of the series be recorded by a bad device.

    5 % are censored at a quantile, 6 % rounded to a few levels, 3 % stuck for runs of rows, 4 % have outliers. Limits
    are those of the first quarter, so that the end of a series tells nothing about its future.
    """
    length = values.shape[1]
    kind = rng.random(len(values))
    early = max(8, length // 4)
    for i in np.flatnonzero(kind < 0.18):
        row = values[i]
        low, high = float(row[:early].min()), float(row[:early].max())
        if kind[i] < 0.05:
            share = rng.uniform(0.03, 0.3)
            if rng.random() < 0.6:
                np.maximum(row, np.quantile(row[:early], share), out=row)
            else:
                np.minimum(row, np.quantile(row[:early], 1 - share), out=row)
        elif kind[i] < 0.11:
            step = (high - low) / rng.integers(8, 256)
            if step > 0:
                np.multiply(np.round(row / step), step, out=row)
        elif kind[i] < 0.14:
            run = int(rng.choice([2, 3, 4, 8]))
            row[:] = np.repeat(row[::run], run)[:length]
        else:
            at = rng.integers(0, length, rng.integers(1, 2 + length // 100))
            row[at] += rng.normal(0, rng.uniform(1, 6), len(at)) * row[:early].std()
