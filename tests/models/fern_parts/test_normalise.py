"""Level and spread of contexts: taken off, floored where there is none, learnt from training contexts."""

import pytest
import torch
from torch import Generator, Tensor

from fern.models.fern_parts.normalise import SPREAD_FLOOR, Normaliser


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
