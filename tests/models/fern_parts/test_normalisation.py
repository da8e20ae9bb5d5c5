"""Level and spread: of contexts, taken off and floored; of all rows, however they are cut into batches."""

import pytest
import torch
from torch import Generator, Tensor

from fern.models.fern_parts.normalisation import SPREAD_FLOOR, Normaliser, RowStatistics


def contexts(seed: int = 1) -> Tensor:
    return 3 + 2 * torch.randn(4, 2, 30, generator=Generator().manual_seed(seed))


@pytest.mark.parametrize("kind", ["instance", "last"])
def test_level_and_scale_give_the_context_back(kind: str) -> None:
    x = contexts()
    normalised, frame = Normaliser(kind, channels=2).normalise(x)
    again = frame.level.unsqueeze(-1) + frame.scale.unsqueeze(-1) * normalised
    assert torch.allclose(again, x, rtol=1e-6, atol=1e-6)
    assert torch.allclose(normalised.std(-1, correction=0), torch.ones(4, 2), rtol=1e-5)


def test_instance_takes_the_mean_off_and_last_the_last_value() -> None:
    x = contexts()
    assert Normaliser("instance", channels=2).normalise(x)[0].mean(-1).abs().max() < 1e-6
    assert bool((Normaliser("last", channels=2).normalise(x)[0][..., -1] == 0).all())


def test_the_floor_is_a_share_of_the_mean_spread_in_training_and_one_where_nothing_moves() -> None:
    past = torch.stack((contexts()[:, 0], torch.full((4, 30), 7.0)), dim=-1)
    normaliser = Normaliser("instance", channels=2)
    normaliser.prepare([(past[:1], past), (past[1:], past)])
    spread = past[..., 0].std(1, correction=0).mean()
    assert normaliser.floor.tolist() == pytest.approx([SPREAD_FLOOR * float(spread), 1.0], rel=1e-6)
    flat, frame = normaliser.normalise(torch.full((1, 2, 30), 5.0))
    assert bool((flat == 0).all())
    # 5 has roundings of 5e-7, a thousand times less than the floor
    assert frame.scale[0].tolist() == pytest.approx(normaliser.floor.tolist(), rel=1e-5)


def test_without_a_floor_a_constant_is_divided_by_its_rounding_and_zero_by_one() -> None:
    _, frame = Normaliser("instance", channels=2).normalise(torch.tensor([[[0.0] * 30, [1e6] * 30]]))
    assert frame.scale[0, 0] == 1.0
    assert 0 < frame.scale[0, 1] < 1.0


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
