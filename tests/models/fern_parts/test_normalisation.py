"""Level and spread of contexts and of all rows; smoothed paths."""

import pytest
import torch
from tests.errors import raises_error
from torch import Generator, Tensor

from fern.models import build_model
from fern.models.fern_parts.normalisation import SPREAD_FLOOR, Normaliser, RowStatistics, smooth


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


def roughness(path: torch.Tensor) -> float:
    return float(path.diff(n=2).square().mean())


def test_a_line_stays_and_a_zigzag_goes() -> None:
    line = torch.linspace(-3, 5, 40).repeat(2, 3, 1)
    zigzag = 0.5 * (-1.0) ** torch.arange(40)
    assert torch.allclose(smooth(line, 5), line, atol=1e-5)
    assert roughness(smooth(line + zigzag, 5)[..., 4:-4]) < 0.01 * roughness(line + zigzag)
    assert torch.allclose(smooth(line + 0 * zigzag, 1), line)


@pytest.mark.parametrize("steps", [1, 2, 3, 7])
def test_a_path_shorter_than_the_window_is_averaged_as_far_as_it_reaches(steps: int) -> None:
    path = torch.randn(2, steps, generator=torch.Generator().manual_seed(0))
    made = smooth(path, 9)
    assert made.shape == path.shape
    assert made.isfinite().all()


def test_the_distribution_is_moved_and_keeps_its_shape() -> None:
    size = {"context_length": 48, "horizon": 30, "channels": 2, "patch_size": 12, "latent": 4}
    plain, smoothing = (build_model("fern", **size, smoothing=width).eval() for width in (1, 5))
    smoothing.load_state_dict(plain.state_dict())
    past = torch.randn(3, 48, 2, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        first, second = plain(past).ellipsoid, smoothing(past).ellipsoid
    assert first is not None
    assert second is not None
    assert torch.allclose(second.mean, smooth(first.mean, 5), atol=1e-5)
    assert torch.allclose(second.covariance_matrix, first.covariance_matrix)
    y = torch.zeros_like(first.mean)
    assert torch.allclose(second.log_prob(y), first.log_prob(y + first.mean - second.mean), atol=1e-3)


def test_training_is_that_of_a_model_without_it() -> None:
    plain, smoothing = (
        build_model("fern", context_length=24, horizon=12, channels=1, latent=4, smoothing=width).train()
        for width in (1, 5)
    )
    smoothing.load_state_dict(plain.state_dict())
    past, future = torch.randn(4, 24, 1), torch.zeros(4, 12, 1)
    losses = [
        model.loss(past, future, lambda f, y: (f.mean - y).square().mean(), generator=torch.Generator().manual_seed(0))
        for model in (plain, smoothing)
    ]
    assert losses[0] == losses[1]


@pytest.mark.parametrize("width", [4, 0, "5"])
def test_a_width_that_has_no_middle_is_refused(width: object) -> None:
    with raises_error("smoothing"):
        build_model("fern", context_length=24, horizon=12, channels=1, smoothing=width)
