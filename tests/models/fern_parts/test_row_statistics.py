"""Statistics of rows do not depend on how the rows are cut into batches, nor on how far from 0 they are."""

import pytest
import torch
from torch import Generator, Tensor

from fern.models.fern_parts.row_statistics import RowStatistics


def in_pieces(rows: Tensor, size: int) -> RowStatistics:
    first, *others = torch.split(rows, size)
    seen = RowStatistics.of(first)
    for piece in others:
        seen = seen.and_of(piece)
    return seen


@pytest.mark.parametrize("size", [1, 7, 60])
@pytest.mark.parametrize("level", [0.0, -3.0, 1e9])
def test_level_deviation_and_range_are_those_of_all_rows(size: int, level: float) -> None:
    rows = level + 100.0 * torch.randn(60, 3, generator=Generator().manual_seed(2), dtype=torch.float64)
    seen = in_pieces(rows, size)
    assert seen.count == 60
    torch.testing.assert_close(seen.level, rows.mean(dim=0), rtol=1e-12, atol=1e-9)
    # Where the deviation is a ten-millionth of the level, float64 keeps nine of its digits.
    torch.testing.assert_close(seen.scale, rows.std(dim=0, correction=0), rtol=1e-8, atol=0.0)
    assert torch.equal(seen.low, rows.amin(dim=0))
    assert torch.equal(seen.high, rows.amax(dim=0))


def test_a_channel_that_never_moves_has_the_deviation_one() -> None:
    seen = in_pieces(torch.full((50, 2), 0.1), 9)
    assert seen.scale.tolist() == [1.0, 1.0]
