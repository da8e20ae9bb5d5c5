"""Nothing that comes after a split border reaches what comes before it: windows, scaler, audit, cleaning."""

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fern.data.auditing.audit import audit
from fern.data.auditing.output import to_dict
from fern.data.cleaning import clean
from fern.data.scaling import fit_scaler
from fern.data.splits import split
from fern.data.windows import Windows

ROWS = 400
STAMPS = np.datetime64("2020-01-01", "ns") + np.arange(ROWS) * np.timedelta64(1, "h")


def series() -> np.ndarray:
    return np.random.default_rng(0).normal(10, 1, (ROWS, 2)).astype(np.float32)


changes = st.lists(
    st.tuples(st.integers(0, ROWS - 1), st.integers(0, 1), st.sampled_from([0.0, -9999.0, 1e6])), min_size=1
)


@given(changes=changes, preset=st.sampled_from(["shock", "detailed"]), lookback=st.booleans())
def test_changing_later_values_changes_nothing_earlier(
    changes: list[tuple[int, int, float]], preset: str, lookback: bool
) -> None:
    parts = split(ROWS, preset)
    for part in (parts.train, parts.validation):
        before, after = series(), series()
        for row, channel, value in changes:
            after[max(row, part.stop), channel] = value
        one, other = (
            Windows(values, context_length=12, horizon=6, part=part, lookback=lookback) for values in (before, after)
        )
        assert len(one) == len(other)
        everything = torch.arange(len(one))
        for a, b in zip(one.gather(everything), other.gather(everything), strict=True):
            assert torch.equal(a, b)
        for kind in ("standard", "robust"):
            a, b = (fit_scaler(kind, values, part=parts.train) for values in (before, after))
            assert np.array_equal(a.scale, b.scale)
            assert np.array_equal(a.shift, b.shift)


@pytest.mark.parametrize("value", [0.0, -9999.0, np.nan])
def test_changing_later_values_changes_no_earlier_audit_or_decision(value: float) -> None:
    part = split(ROWS, "shock").train
    tables = []
    for changed in (False, True):
        values = series().astype(np.float64)
        values[20:23, 0] = 0.0
        if changed:
            values[part.stop :: 2] = value
        tables.append(pa.table({"ds": STAMPS, "a": values[:, 0], "b": values[:, 1]}))
    before, after = (to_dict(audit(table, part=part)) for table in tables)
    assert before == after
    cleaned = [clean(table, part=part)[0] for table in tables]
    for column in ("a", "b"):
        a, b = (table[column].to_numpy()[: part.stop] for table in cleaned)
        np.testing.assert_array_equal(a, b)


def test_targets_of_a_part_never_lie_before_it() -> None:
    parts = split(ROWS, "detailed")
    rows = np.arange(ROWS, dtype=np.float32)[:, None]
    for part in (parts.validation, parts.test):
        windows = Windows(rows, context_length=30, horizon=7, part=part, lookback=True)
        _, future = windows.gather(torch.arange(len(windows)))
        assert int(future.min()) == part.start
        assert int(future.max()) == part.stop - 1
