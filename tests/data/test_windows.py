"""Windows are views of one series; their forecast rows stay in their part and they never cross a border."""

import itertools
import multiprocessing
import re
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.errors import raises_error

from fern.data.splits import Part, split
from fern.data.windows import Windows
from fern.errors import FernError


def counting(rows: int, channels: int = 2) -> torch.Tensor:
    """Row r, channel c holds r + c/10: a value says where it came from."""
    return torch.arange(rows, dtype=torch.float32)[:, None] + torch.arange(channels) / 10


@pytest.mark.parametrize(("lookback", "count"), [(True, 2545), (False, 2209)])
def test_etth1_has_the_standard_number_of_test_windows(lookback: bool, count: int) -> None:
    part = split(17_420, "ett_hourly").test
    windows = Windows(counting(17_420, 7), context_length=336, horizon=336, part=part, lookback=lookback)
    assert len(windows) == count
    assert sum(len(past) for past, _ in windows.batches(128)) == count


@given(
    rows=st.integers(2, 60),
    context=st.integers(1, 12),
    horizon=st.integers(1, 12),
    stride=st.integers(1, 4),
    data=st.data(),
)
def test_windows_equal_slices_of_the_series(
    rows: int, context: int, horizon: int, stride: int, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, rows))
    part = Part(start, data.draw(st.integers(start, rows)))
    breaks = data.draw(st.lists(st.integers(0, rows), max_size=3))
    lookback = data.draw(st.booleans())
    series = counting(rows)
    first = max(0, start - context) if lookback else start
    expected, cuts = [], sorted({first, *(b for b in breaks if first < b < part.stop), part.stop})
    for low, high in itertools.pairwise(cuts):
        expected += range(low, high - context - horizon + 1, stride)
    if not expected:
        with pytest.raises(FernError, match="fewer than one window"):
            Windows(series, context_length=context, horizon=horizon, part=part, lookback=lookback, breaks=breaks)
        return
    windows = Windows(
        series,
        context_length=context,
        horizon=horizon,
        part=part,
        lookback=lookback,
        breaks=breaks,
        stride=stride,
    )
    assert len(windows) == len(expected)
    past, future = windows.gather(torch.arange(len(windows)))
    for i, place in enumerate(expected):
        assert torch.equal(past[i], series[place : place + context])
        assert torch.equal(future[i], series[place + context : place + context + horizon])
        assert all(torch.equal(a, b) for a, b in zip(windows[i], (past[i], future[i]), strict=True))
        assert part.start <= place + context
        assert place + context + horizon <= part.stop


@given(lengths=st.lists(st.integers(1, 20), min_size=1, max_size=6), stride=st.integers(1, 3))
def test_windows_never_cross_from_one_series_into_another(lengths: list[int], stride: int) -> None:
    series = [torch.full((rows, 1), float(i)) for i, rows in enumerate(lengths)]
    if max(lengths) < 5:
        with pytest.raises(FernError, match="fewer than one window of 5"):
            Windows.over(series, context_length=3, horizon=2, stride=stride)
        return
    windows = Windows.over(series, context_length=3, horizon=2, stride=stride)
    assert len(windows) == sum(max(0, (rows - 5) // stride + 1) for rows in lengths)
    past, future = windows.gather(torch.arange(len(windows)))
    whole = torch.cat([past, future], dim=1)
    assert torch.equal(whole, whole[:, :1].expand_as(whole))


def test_each_of_several_series_has_its_own_part_and_breaks() -> None:
    series = [counting(30), counting(30) + 100]
    windows = Windows.over(
        series,
        context_length=4,
        horizon=2,
        parts=[Part(20, 30), Part(10, 20)],
        breaks=[[25], []],
    )
    _, future = windows.gather(torch.arange(len(windows)))
    firsts = future[:, 0, 0].tolist()
    # Series 0: contexts from row 16; forecast rows from 20 up to the break at 25; none fits after it (5 rows < 6).
    assert firsts == [20, 21, 22, 23, *range(110, 119)]


@given(seed=st.integers(0, 2**31), batch=st.integers(1, 50))
def test_batches_hold_every_window_once_in_any_order(seed: int, batch: int) -> None:
    windows = Windows(counting(60), context_length=5, horizon=3)
    firsts = [past[:, 0, 0] for past, _ in windows.batches(batch, generator=torch.Generator().manual_seed(seed))]
    assert sum(map(len, firsts)) == len(windows) == 53
    assert torch.equal(torch.cat(firsts).sort().values, torch.arange(53.0))
    assert all(len(f) == batch for f in firsts[:-1])


def test_the_generator_alone_decides_the_order() -> None:
    windows = Windows(counting(200), context_length=5, horizon=3)

    def order(seed: int) -> list[float]:
        generator = torch.Generator().manual_seed(seed)
        return torch.cat([p[:, 0, 0] for p, _ in windows.batches(16, generator=generator)]).tolist()

    assert order(1) == order(1) != order(2)
    generator = torch.Generator().manual_seed(1)
    epochs = [torch.cat([p[:, 0, 0] for p, _ in windows.batches(16, generator=generator)]).tolist() for _ in range(2)]
    assert epochs[0] != epochs[1]  # a new epoch is a new order


def test_float32_series_are_not_copied() -> None:
    array = np.random.default_rng(0).standard_normal((100, 3)).astype(np.float32)
    windows = Windows(array, context_length=10, horizon=5)
    assert windows.values.data_ptr() == array.ctypes.data
    past, _ = windows[7]
    assert past.data_ptr() == array[7:].ctypes.data


def test_a_slice_of_a_longer_tensor_is_placed_right() -> None:
    series = counting(50)[10:40]
    past, future = Windows(series, context_length=3, horizon=2).gather(torch.tensor([0]))
    assert past[0, 0, 0] == 10
    assert future[0, -1, 0] == 14


def test_values_after_a_part_change_none_of_its_windows() -> None:
    parts = split(1000, "shock")
    series = counting(1000)
    changed = series.clone()
    changed[parts.train.stop :] += 1e6
    for part in (parts.train,):
        a, b = (
            Windows(s, context_length=50, horizon=20, part=part).gather(torch.arange(631)) for s in (series, changed)
        )
        assert torch.equal(a[0], b[0])
        assert torch.equal(a[1], b[1])
    changed = series.clone()
    changed[parts.validation.stop :] += 1e6
    validation = [Windows(s, context_length=50, horizon=20, part=parts.validation) for s in (series, changed)]
    everything = torch.arange(len(validation[0]))
    for one, other in zip(*(w.gather(everything) for w in validation), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Windows(torch.zeros(10), context_length=1, horizon=1), r"shape \(10,\)"),
        (lambda: Windows(torch.zeros(0, 2), context_length=1, horizon=1), "both non-empty"),
        (lambda: Windows(counting(671), context_length=336, horizon=336), "671 rows, fewer than one window of 672"),
        (lambda: Windows(counting(9), context_length=0, horizon=3), "context_length: got 0"),
        (lambda: Windows(counting(9), context_length=3, horizon=0), "horizon: got 0"),
        (lambda: Windows(counting(9), context_length=3, horizon=3, stride=0), "stride: got 0"),
        (
            lambda: Windows(counting(9), context_length=2, horizon=2, part=Part(0, 10)),
            "ends at row 10, the series has 9",
        ),
        (lambda: Windows(counting(9), context_length=2, horizon=2).batches(0), "batch_size: got 0"),
        (lambda: Windows(counting(9), context_length=2, horizon=2).gather(torch.tensor([6])), "windows 0 to 5"),
        (lambda: Windows(counting(9), context_length=2, horizon=2).gather(torch.tensor([-1])), "got -1"),
        (lambda: Windows(torch.zeros(9, 1, dtype=torch.complex64), context_length=2, horizon=2), "real numbers"),
        (lambda: Windows.over([counting(9, 1), counting(9, 2)], context_length=2, horizon=2), "channel counts"),
        (lambda: Windows.over([], context_length=2, horizon=2), "needs at least one series"),
        (lambda: Windows.over([counting(9)], context_length=2, horizon=2, parts=[]), "needs one of each per series"),
        (
            lambda: Windows.over([counting(9)], context_length=2, horizon=2, parts=[Part(0, 10)]),
            "its series has 9",
        ),
    ],
)
def test_bad_windows_are_refused(make: object, message: str) -> None:
    with pytest.raises(FernError, match=message):
        make()  # type: ignore[operator]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_values_that_are_not_finite_are_named_by_their_place(value: float) -> None:
    series = counting(100_000, 2)
    series[70_001, 1] = value
    with pytest.raises(FernError, match="at row 70,001, channel 1"):
        Windows(series, context_length=3, horizon=2)


def test_a_number_beyond_float32_is_refused() -> None:
    with pytest.raises(FernError, match=r"1e\+300 at row 1"):
        Windows(np.array([[0.0], [1e300], [0.0]]), context_length=1, horizon=1)


def test_index_errors_are_those_of_a_sequence() -> None:
    windows = Windows(counting(9), context_length=2, horizon=2)
    with pytest.raises(IndexError):
        windows[6]
    assert torch.equal(windows[-1][0], windows[5][0])
    assert len(list(iter(windows))) == 6


# VmHWM and not getrusage: the latter counts the memory of the process that started this one.
def peak_memory() -> int:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def measure_windows(pipe: Connection) -> None:
    before = peak_memory()
    series = np.ones((4_000_000, 4), np.float32)
    windows = Windows(series, context_length=336, horizon=336)
    batches = windows.batches(128, generator=torch.Generator().manual_seed(0))
    for _ in range(50):
        next(batches)
    pipe.send(((peak_memory() - before) / series.nbytes, len(windows)))


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from Linux's /proc")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_peak_memory_stays_within_twice_the_series() -> None:
    context = multiprocessing.get_context("fork")  # whose peak begins with what this process has now
    ours, theirs = context.Pipe()
    child = context.Process(target=measure_windows, args=(theirs,))
    child.start()
    try:
        assert ours.poll(120)
        ratio, count = ours.recv()
    finally:
        child.kill()
        child.join()
    assert count == 4_000_000 - 671
    assert 0.9 < ratio < 2.0  # below 1 the series itself would not have been counted


def test_targets_stand_in_for_the_futures_and_nothing_else() -> None:
    series = counting(30)
    windows = Windows(series, targets=series + 100.0, context_length=4, horizon=3, part=Part(10, 30))
    past, future = windows.gather(torch.tensor([2]))
    assert torch.equal(past[0], series[8:12])
    assert torch.equal(future[0], series[12:15] + 100.0)
    assert torch.equal(windows[2][1], future[0])
    assert torch.equal(windows.to("cpu").gather(torch.tensor([2]))[1], future)
    assert torch.equal(torch.cat(windows.stretches()), series[6:])


def test_targets_of_another_shape_are_refused_by_name() -> None:
    with raises_error("targets"):
        Windows(counting(30), targets=counting(29), context_length=4, horizon=3)


def test_stretches_are_the_rows_between_breaks() -> None:
    windows = Windows(counting(30), context_length=4, horizon=3, breaks=[12, 15])
    assert [rows[0, 0].item() for rows in windows.stretches()] == [0.0, 15.0]  # three rows hold no window
    assert [len(rows) for rows in windows.stretches()] == [12, 15]
