"""Windows of a series as views: context and forecast rows are gathered by index, never copied.

Their random order takes no memory per window.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fern.data.splits import Part, require_rows
from fern.errors import FernError

ROUNDS = 6
"""Keys a permutation takes. Four rounds are the textbook minimum; six cost nothing here."""

Integers = NDArray[np.int64]


class Permutation:
    """A keyed pseudo-random permutation of ``0 … size-1``, computed where it is asked for.

    A stored permutation holds 8 bytes for each item; this holds its keys. A balanced Feistel network permutes
    ``0 … 4^k-1 >= size``; a result outside the range is permuted again until it falls inside (cycle walking),
    which keeps it a permutation of the range (Black & Rogaway 2002, "Ciphers with arbitrary finite domains").

    Example:
        >>> order = Permutation(5, keys=[3, 1, 4, 1, 5, 9])
        >>> sorted(order(np.arange(5)).tolist())
        [0, 1, 2, 3, 4]
    """

    def __init__(self, size: int, *, keys: Sequence[int]) -> None:
        self.size = size
        self._half_bits = max(1, math.ceil(math.log2(max(size, 2)) / 2))
        self._keys = keys

    def __call__(self, positions: Integers) -> Integers:  # (n,) -> (n,)
        """The items at the given positions of the order."""
        items = self._network(positions)
        outside = items >= self.size
        while outside.any():
            items[outside] = self._network(items[outside])
            outside = items >= self.size
        return items

    def _network(self, numbers: Integers) -> Integers:
        """One pass through the Feistel rounds: a permutation of ``0 … 4^half_bits-1``."""
        mask = (1 << self._half_bits) - 1
        left, right = numbers >> self._half_bits, numbers & mask
        for key in self._keys:
            left, right = right, left ^ (_hash(right, key) & mask)
        return (left << self._half_bits) | right


def _hash(numbers: Integers, key: int) -> Integers:
    """A 32-bit integer hash (Prospector's ``lowbias32`` shape): every input bit reaches the low output bits."""
    word = (numbers ^ key).astype(np.uint32)
    word ^= word >> np.uint32(16)
    word *= np.uint32(0x7FEB352D)
    word ^= word >> np.uint32(15)
    word *= np.uint32(0x846CA68B)
    word ^= word >> np.uint32(16)
    return word.astype(np.int64)


Values = Tensor | NDArray[np.floating[Any]]


class Windows:
    """All windows of ``context_length + horizon`` rows whose forecast rows lie in ``part`` (default: the whole series).

    The series is held once, ``(T, C)`` float32; a window is a place in it, so the memory does not depend on
    the number of windows. float32 input in row order is not copied.

    ``lookback``: contexts may reach into the rows before ``part`` (forecast rows never do).
    ``breaks``: rows at which the time grid starts anew after a gap; no window crosses one.
    ``stride``: rows from one window to the next.
    ``targets``: where futures are taken from, row for row, in place of ``values``: the truth behind noisy rows.

    Example:
        >>> series = np.arange(10, dtype=np.float32)[:, None]
        >>> windows = Windows(series, context_length=3, horizon=2, part=Part(6, 10))
        >>> len(windows)
        3
        >>> past, future = windows.gather(torch.tensor([2, 0]))
        >>> past[..., 0].tolist(), future[..., 0].tolist()
        ([[5.0, 6.0, 7.0], [3.0, 4.0, 5.0]], [[8.0, 9.0], [6.0, 7.0]])
    """

    def __init__(
        self,
        values: Values,  # (T, C)
        *,
        context_length: int,
        horizon: int,
        part: Part | None = None,
        lookback: bool = True,
        breaks: Sequence[int] = (),
        stride: int = 1,
        targets: Values | None = None,  # (T, C)
    ) -> None:
        self.values = _as_series(values)
        self.targets = self.values if targets is None else _as_series(targets)
        if self.targets.shape != self.values.shape:
            problem = f"got shape {tuple(self.targets.shape)}, values have {tuple(self.values.shape)}; needs the same"
            raise FernError(problem, argument="targets")
        rows = Part(0, len(self.values)) if part is None else part
        if rows.stop > len(self.values):
            raise FernError(f"ends at row {rows.stop:,}, the series has {len(self.values):,} rows", argument="part")
        stretches = _stretches(rows, context_length=context_length, lookback=lookback, breaks=breaks)
        self._place(stretches, context_length=context_length, horizon=horizon, stride=stride)

    @classmethod
    def over(
        cls,
        series: Sequence[Values],  # each (T_i, C)
        *,
        context_length: int,
        horizon: int,
        parts: Sequence[Part] | None = None,
        lookback: bool = True,
        breaks: Sequence[Sequence[int]] | None = None,
        stride: int = 1,
    ) -> "Windows":
        """The windows of several series with the same channels; none crosses from one series into the next.

        ``parts`` and ``breaks`` have one entry for each series, in its own row numbers. A series too short
        for a window adds none; that all are too short is an error.

        Example:
            >>> two = [np.zeros((6, 1), np.float32), np.ones((5, 1), np.float32)]
            >>> len(Windows.over(two, context_length=3, horizon=2))
            3
        """
        tensors = [_as_series(values) for values in series]
        if len({tensor.shape[1] for tensor in tensors}) != 1:
            shapes = sorted({tensor.shape[1] for tensor in tensors})
            expected = "at least one series, all with the same number of channels"
            raise FernError(f"got channel counts {shapes}", argument="series", expected=expected)
        parts = [Part(0, len(tensor)) for tensor in tensors] if parts is None else parts
        breaks = [()] * len(tensors) if breaks is None else breaks
        if not len(parts) == len(breaks) == len(tensors):
            problem = f"got {len(tensors)} with {len(parts)} parts and {len(breaks)} lists of breaks"
            raise FernError(problem, argument="series", expected="one of each per series")
        stretches, offset = [], 0
        for tensor, part, cuts in zip(tensors, parts, breaks, strict=True):
            if part.stop > len(tensor):
                raise FernError(f"ends at row {part.stop:,}, its series has {len(tensor):,} rows", argument="part")
            pieces = _stretches(part, context_length=context_length, lookback=lookback, breaks=cuts)
            stretches += [Part(offset + rows.start, offset + rows.stop) for rows in pieces]
            offset += len(tensor)
        windows = cls.__new__(cls)
        windows.values = windows.targets = tensors[0] if len(tensors) == 1 else torch.cat(tensors)
        windows._place(stretches, context_length=context_length, horizon=horizon, stride=stride)
        return windows

    def _place(self, stretches: Sequence[Part], *, context_length: int, horizon: int, stride: int) -> None:
        """Find where windows start: one entry for each unbroken stretch of rows, none for each window."""
        for name, value in (("context_length", context_length), ("horizon", horizon), ("stride", stride)):
            require_rows(name, value)
            if value < 1:
                raise FernError(got=value, expected="at least 1", where=name)
        self.context_length, self.horizon, self.stride = context_length, horizon, stride
        self.channels = int(self.values.shape[1])
        span = context_length + horizon
        self._stretches = [rows for rows in stretches if len(rows) >= span]
        if not self._stretches:
            longest = max((len(rows) for rows in stretches), default=0)
            raise FernError(
                f"the longest stretch without a break has {longest:,} rows, fewer than one window of {span:,} "
                f"(context_length {context_length:,} + horizon {horizon:,})",
                argument="windows",
            )
        self._starts = np.array([rows.start for rows in self._stretches])
        counts = np.array([(len(rows) - span) // stride + 1 for rows in self._stretches])
        self._ends = counts.cumsum()  # numbers of windows up to the end of each stretch
        self._firsts = self._ends - counts
        self._size = int(counts.sum())
        self._pasts = _rows_as_one(self.values, context_length)
        self._futures = _rows_as_one(self.targets, horizon)

    def __len__(self) -> int:
        return self._size

    def stretches(self) -> list[Tensor]:  # each (T_i, C)
        """The rows that windows are cut from, in order, as views: one entry for each stretch without a break.

        Example:
            >>> windows = Windows(np.zeros((9, 1), np.float32), context_length=2, horizon=1, breaks=[4])
            >>> [len(rows) for rows in windows.stretches()]
            [4, 5]
        """
        return [self.values[rows.start : rows.stop] for rows in self._stretches]

    def starts(
        self,
        indices: Tensor,  # (n,) integers
    ) -> Tensor:  # (n,) int64
        """The row at which each window's context starts; its forecast rows start ``context_length`` later."""
        return torch.from_numpy(self._starts_of(torch.as_tensor(indices).cpu().numpy()))

    def _starts_of(self, indices: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """As `starts`; in NumPy, whose small operations cost a tenth of torch's."""
        if len(indices) and not (indices.min() >= 0 and indices.max() < self._size):
            span = f"{indices.min()} to {indices.max()}"
            raise FernError(f"got {span}, there are windows 0 to {self._size - 1}", argument="indices")
        if len(self._stretches) == 1:
            return np.asarray(indices * self.stride + self._stretches[0].start, dtype=np.int64)
        stretch = np.searchsorted(self._ends, indices, side="right")
        return np.asarray(self._starts[stretch] + (indices - self._firsts[stretch]) * self.stride, dtype=np.int64)

    def gather(
        self,
        indices: Tensor,  # (n,) integers
    ) -> tuple[Tensor, Tensor]:  # (n, L, C), (n, H, C)
        """Contexts and futures of the windows with these numbers, in this order, each in one block of memory."""
        starts = self._starts_of(torch.as_tensor(indices).cpu().numpy())
        past, future = torch.from_numpy(starts), torch.from_numpy(starts + self.context_length)
        if self.values.device.type != "cpu":
            past, future = past.to(self.values.device), future.to(self.values.device)
        count, channels = len(starts), self.channels
        return (
            self._pasts.index_select(0, past).view(count, self.context_length, channels),
            self._futures.index_select(0, future).view(count, self.horizon, channels),
        )

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:  # (L, C), (H, C)
        """One window as two views of the series: nothing is copied."""
        size = len(self)
        if not -size <= index < size:
            raise IndexError(f"window {index}: there are {size:,}")
        start = int(self._starts_of(np.array([index % size]))[0])
        border = start + self.context_length
        return self.values[start:border], self.targets[border : border + self.horizon]

    def batches(
        self,
        batch_size: int,
        *,
        generator: torch.Generator | None = None,
    ) -> Iterator[tuple[Tensor, Tensor]]:  # (n, L, C), (n, H, C)
        """Every window once, in order of time or, with a generator, in random order; the last batch may be smaller.

        Example:
            >>> windows = Windows(np.zeros((10, 1), np.float32), context_length=3, horizon=2)
            >>> [len(past) for past, _ in windows.batches(4, generator=torch.Generator().manual_seed(0))]
            [4, 2]
        """
        if batch_size < 1:
            raise FernError(argument="batch_size", got=batch_size, expected="at least 1")
        order = None
        if generator is not None:
            keys = torch.randint(2**32, (ROUNDS,), generator=generator, device=generator.device)
            order = Permutation(len(self), keys=keys.tolist())
        return self._batches(batch_size, order)

    def _batches(self, batch_size: int, order: Permutation | None) -> Iterator[tuple[Tensor, Tensor]]:
        for first in range(0, len(self), batch_size):
            positions = np.arange(first, min(first + batch_size, len(self)))
            yield self.gather(torch.from_numpy(positions if order is None else order(positions)))

    def to(self, device: torch.device | str) -> "Windows":
        """The same windows over a series on another device (itself when it is there already)."""
        moved = type(self).__new__(type(self))
        moved.values = self.values.to(device)
        moved.targets = moved.values if self.targets is self.values else self.targets.to(device)
        moved._place(self._stretches, context_length=self.context_length, horizon=self.horizon, stride=self.stride)
        return moved


def _rows_as_one(
    series: Tensor,  # (T, C)
    length: int,
) -> Tensor:  # (T - length + 1, length * C)
    """Every ``length`` successive rows as one long row, a view: index_select copies such a row in one go."""
    rows, channels = series.shape
    return series.as_strided((rows - length + 1, length * channels), (channels, 1))


def _stretches(part: Part, *, context_length: int, lookback: bool, breaks: Sequence[int]) -> list[Part]:
    """The unbroken stretches of rows that windows of ``part`` may read."""
    rows = part.rows(context_length=context_length, lookback=lookback)
    cuts = sorted({row for row in breaks if rows.start < row < rows.stop})
    return [Part(start, stop) for start, stop in pairwise([rows.start, *cuts, rows.stop])]


_CHECKED_AT_ONCE = 1 << 16


def _as_series(values: Values) -> Tensor:  # (T, C) float32
    """The series as a float32 tensor in row order; refuses other shapes and values that are not finite."""
    tensor = torch.as_tensor(values)
    if tensor.ndim != 2 or 0 in tensor.shape:
        raise FernError(
            f"got shape {tuple(tensor.shape)}", argument="values", expected="(time, channels), both non-empty"
        )
    if tensor.is_complex():
        raise FernError(argument="values", got=tensor.dtype, expected="real numbers")
    series = tensor.to(torch.float32).contiguous()
    for first in range(0, len(series), _CHECKED_AT_ONCE):
        finite = torch.isfinite(series[first : first + _CHECKED_AT_ONCE])
        if not bool(finite.all()):
            row, channel = (~finite).nonzero()[0].tolist()
            value = float(tensor[first + row, channel])
            raise FernError(
                f"{value} at row {first + row:,}, channel {channel}; windows need finite numbers within float32's "
                "range (fern clean fills or removes missing values)",
                argument="values",
            )
    return series
