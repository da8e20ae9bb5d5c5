"""One pass in batches finds what NumPy finds with everything in memory."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fern.data.auditing.scan import STRETCHES, ColumnScan, ColumnStatistics, PictureScan, WalkScan
from fern.data.auditing.scan_runs import EXACT_LENGTHS, RunScan, runs_of
from fern.data.auditing.scan_values import NORMAL_MAD, ROOM, CommonValues, QuantileScan

# Few different values, zeros and holes: runs of every kind.
columns = st.lists(
    st.sampled_from([0.0, -0.0, 1.0, 2.5, -9999.0, 99.9, float("nan"), float("inf"), float("-inf")]),
    min_size=1,
    max_size=200,
).map(lambda values: np.array(values))
batches = st.integers(1, 50)


def scanned(values: np.ndarray, batch: int) -> ColumnStatistics:
    scan = ColumnScan("c")
    for first in range(0, len(values), batch):
        scan.add(values[first : first + batch])
    return scan.finish()


def runs_by_hand(values: np.ndarray, member: np.ndarray) -> list[int]:
    """Lengths of the runs of successive members."""
    lengths, run = [], 0
    for inside in [*member, False]:
        if inside:
            run += 1
        elif run:
            lengths.append(run)
            run = 0
    return lengths


@settings(max_examples=100)
@given(values=columns, batch=batches)
def test_zeros_and_holes_are_counted_as_by_hand(values: np.ndarray, batch: int) -> None:
    found = scanned(values, batch)
    for lengths, member in ((found.zeros, values == 0), (found.missing, ~np.isfinite(values))):
        runs = runs_by_hand(values, member)
        assert lengths.total == member.sum()
        assert lengths.isolated == runs.count(1)
        assert lengths.longest == max(runs, default=0)
        for limit in (0, 1, 2, 5.5):
            assert lengths.entries_longer_than(limit) == sum(run for run in runs if run > limit)
            assert lengths.runs_longer_than(limit) == sum(run > limit for run in runs)
        if runs:
            start = lengths.longest_start
            assert member[start : start + lengths.longest].all()
    assert found.infinite == np.isinf(values).sum()
    assert found.rows == len(values)


@settings(max_examples=100)
@given(values=columns, batch=batches)
def test_moments_limits_and_common_values_are_numpys(values: np.ndarray, batch: int) -> None:
    found = scanned(values, batch)
    there = values[np.isfinite(values)]
    if len(there) == 0:
        assert np.isnan(found.mean)
        assert found.outliers is None
        return
    # Sums run from the first value, up to 1e4 away from the others: 1e-16 · 1e8 in the squares.
    assert found.mean == pytest.approx(there.mean(), abs=1e-9)
    assert found.deviation == pytest.approx(there.std(), abs=1e-4)
    assert (found.low, found.high) == (there.min(), there.max())
    other = there[there != 0]
    expected = {value: int((other == value).sum()) for value in set(other.tolist())}
    assert found.distinct == len(expected)
    assert {v.value: v.count for v in found.common} == {v: n for v, n in expected.items() if n > 1}
    for value in found.common:
        assert value.longest_run == max(runs_by_hand(values, values == value.value))
    assert found.outliers is not None
    assert found.outliers.median == np.median(there)


@given(lengths=st.lists(st.integers(1, 10**7), min_size=1, max_size=20), limit=st.integers(0, 10**7))
def test_long_runs_are_known_to_three_per_cent(lengths: list[int], limit: int) -> None:
    scan = RunScan()
    # Runs far longer than memory would hold: fed as runs, not as rows.
    scan._enter(np.zeros(len(lengths)), np.array(lengths))
    _, zeros, _ = scan.finish()
    found = zeros.entries_longer_than(limit)
    slack = 0 if limit <= EXACT_LENGTHS else limit * 0.04
    assert sum(n for n in lengths if n > limit + slack) <= found <= sum(n for n in lengths if n > limit)
    assert zeros.longest == max(lengths)


def test_codes_count_only_where_they_stand_apart() -> None:
    rng = np.random.default_rng(0)
    pressures = rng.normal(990, 10, 1000).round(0)
    assert 999.0 in pressures
    assert scanned(pressures, 100).codes == ()
    pressures[[3, 4, 500]] = -9999.0
    (code,) = scanned(pressures, 100).codes
    assert (code.value, code.count, code.longest_run) == (-9999.0, 3, 2)
    temperatures = rng.normal(10, 8, 1000)
    temperatures[7] = np.float32(-99.9)  # as a float32 file holds it
    assert [round(code.value, 4) for code in scanned(temperatures, 100).codes] == [-99.9]
    assert scanned(np.full(10, -9999.0), 3).codes == ()  # nothing to stand apart from


def test_runs_of_codes_count_as_values_only_where_they_are_values() -> None:
    values = np.concatenate([np.full(50, -9999.0), np.linspace(0, 1, 100)])
    assert scanned(values, 30).values.longest == 1
    plain = np.concatenate([np.full(50, 999.0), np.linspace(990, 1010, 100)])
    assert scanned(plain, 30).values.longest == 50


def test_counts_of_common_values_keep_their_bound() -> None:
    rng = np.random.default_rng(1)
    values = rng.standard_normal(400_000)  # far more different values than slots
    values[rng.random(400_000) < 0.01] = 88.298
    common = CommonValues()
    for piece in np.split(values, 40):
        common.add(piece, np.ones(len(piece), np.int64))
    true = int((values == 88.298).sum())
    top = common.top(1)[0]
    assert top.value == 88.298
    assert true - common.slack <= top.count <= true
    # The table holds 24,576 counters; each thinning takes from half of them.
    assert 0 < common.slack <= 400_000 / 12_288
    assert common.distinct() is None


@pytest.mark.parametrize("batch", [1_000, 65_536, 1_000_000])
def test_quantiles_are_exact_for_short_columns_and_close_for_long_ones(batch: int) -> None:
    rng = np.random.default_rng(2)
    for size in (ROOM, 1_000_000):
        # A cycle that a regular sample could fall in step with.
        values = np.sin(np.arange(size) * (2 * np.pi / 128)) + 0.1 * rng.standard_normal(size)
        scan = QuantileScan()
        for first in range(0, size, batch):
            scan.add(values[first : first + batch])
        found = scan.outliers(5.0)
        mad = np.median(np.abs(values - np.median(values)))
        # Standard error of a sample median, 1 / (2 f(m) sqrt(n)) with f about 0.3 and n >= 65,536: 0.0065.
        tolerance = 0 if size == ROOM else 0.02
        assert found.median == pytest.approx(np.median(values), abs=tolerance)
        assert found.mad == pytest.approx(mad, abs=tolerance)
        assert found.exact


def test_rare_outliers_are_counted_exactly_in_a_long_column() -> None:
    rng = np.random.default_rng(3)
    values = rng.standard_normal(600_000)
    values[[5, 77_777, 500_000]] = [50.0, -60.0, 70.0]
    scan = QuantileScan()
    for piece in np.split(values, 10):
        scan.add(piece)
    found = scan.outliers(8.0)
    assert (found.count, found.exact) == (3, True)
    assert found.largest_z == pytest.approx(70 / (NORMAL_MAD * found.mad), rel=0.01)


def test_many_outliers_in_a_long_column_are_estimated_and_said_to_be() -> None:
    rng = np.random.default_rng(4)
    values = rng.standard_normal(600_000)
    values[rng.random(600_000) < 0.05] *= 100
    scan = QuantileScan()
    for piece in np.split(values, 10):
        scan.add(piece)
    found = scan.outliers(8.0)
    median = np.median(values)
    true = (np.abs(values - median) > 8 * NORMAL_MAD * np.median(np.abs(values - median))).sum()
    assert not found.exact
    # About 2,800 outliers in a sample of 75,000: standard error 2 %.
    assert found.count == pytest.approx(true, rel=0.08)


def test_outliers_are_undefined_where_half_the_values_are_equal() -> None:
    found = scanned(np.array([0.0] * 90 + [5.0] * 10), 10)
    assert found.outliers is not None
    assert found.outliers.count is None


@given(size=st.integers(1, 3_000), batch=st.integers(1, 700))
def test_the_picture_has_the_mean_and_limits_of_each_stretch(size: int, batch: int) -> None:
    values = np.random.default_rng(size).standard_normal(size)
    values[::7] = np.nan
    scan = PictureScan()
    for first in range(0, size, batch):
        scan.add(values[first : first + batch])
    picture = scan.finish()
    assert len(picture.mean) <= STRETCHES
    for i, (mean, low, high) in enumerate(zip(picture.mean, picture.low, picture.high, strict=True)):
        stretch = values[i * picture.rows : (i + 1) * picture.rows]
        stretch = stretch[np.isfinite(stretch)]
        if len(stretch) == 0:
            assert np.isnan(mean)
        else:
            assert mean == pytest.approx(stretch.mean())
            assert (low, high) == (stretch.min(), stretch.max())


def walk_of(values: np.ndarray, batch: int = 1000) -> WalkScan:
    scan = WalkScan()
    for first in range(0, len(values), batch):
        scan.add(values[first : first + batch])
    return scan


def test_variance_ratios_and_dickey_fuller_are_those_of_their_formulas() -> None:
    values = np.random.default_rng(5).standard_normal(3_000).cumsum()
    test = walk_of(values, 77).test()
    assert test is not None
    steps = {q: values[q:] - values[:-q] for q in (1, 2, 4, 8, 16)}
    expected = [steps[q].var() / (q * steps[1].var()) for q in (2, 4, 8, 16)]
    np.testing.assert_allclose(test.variance_ratios, expected, rtol=1e-9)
    design = np.column_stack([np.ones(2_999), values[:-1]])
    beta, residual, *_ = np.linalg.lstsq(design, steps[1], rcond=None)
    covariance = residual[0] / 2_997 * np.linalg.inv(design.T @ design)
    assert test.dickey_fuller == pytest.approx(beta[1] / np.sqrt(covariance[1, 1]), rel=1e-6)


def test_random_walks_are_told_from_series_that_can_be_forecast() -> None:
    rng = np.random.default_rng(6)
    walks = [rng.standard_normal(7_588).cumsum() for _ in range(40)]  # as long as Exchange
    rates = [np.exp(0.005 * walk) for walk in walks]
    found = [walk_of(values).test() for values in (*walks, *rates)]
    # The Dickey-Fuller test at 1 % lets one walk in a hundred go.
    assert sum(test is not None and test.near for test in found) >= 76
    day = np.sin(np.arange(7_588) * 2 * np.pi / 24)
    others = {
        "noise": rng.standard_normal(7_588),
        "cycle": day + 0.1 * rng.standard_normal(7_588),
        "smooth": np.convolve(rng.standard_normal(7_700), np.ones(40), "valid")[:7_588],
        "trend": np.arange(7_588) + rng.standard_normal(7_588),
    }
    for name, values in others.items():
        test = walk_of(values).test()
        assert test is not None, name
        assert not test.near, name


def test_holes_do_not_break_the_walk_test() -> None:
    values = np.random.default_rng(9).standard_normal(5_000).cumsum()
    values[np.random.default_rng(8).random(5_000) < 0.1] = np.nan
    test = walk_of(values).test()
    assert test is not None
    assert test.near


@pytest.mark.parametrize("values", [np.ones(1000), np.arange(50.0), np.full(1000, np.nan), np.arange(1000.0)])
def test_short_and_unmoving_columns_have_no_walk_test(values: np.ndarray) -> None:
    assert walk_of(values).test() is None


def test_runs_of_an_array_are_found_in_order() -> None:
    runs = runs_of(np.array([1.0, 0, 0, np.nan, np.inf, 2, 2, 2]))
    assert runs.firsts.tolist() == [0, 1, 3, 5]
    assert runs.lengths.tolist() == [1, 2, 2, 3]
    assert runs_of(np.empty(0)).lengths.tolist() == []
