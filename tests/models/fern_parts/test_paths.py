"""Smoothing takes off what changes from step to step, and moves the distribution without changing its shape."""

import pytest
import torch

from fern.errors import FernError
from fern.models import build_model
from fern.models.fern_parts.paths import smoothed


def roughness(path: torch.Tensor) -> float:
    return float(path.diff(n=2).square().mean())


def test_a_line_stays_and_a_zigzag_goes() -> None:
    line = torch.linspace(-3, 5, 40).repeat(2, 3, 1)
    zigzag = 0.5 * (-1.0) ** torch.arange(40)
    assert torch.allclose(smoothed(line, 5), line, atol=1e-5)
    assert roughness(smoothed(line + zigzag, 5)[..., 4:-4]) < 0.01 * roughness(line + zigzag)
    assert torch.allclose(smoothed(line + 0 * zigzag, 1), line)


@pytest.mark.parametrize("steps", [1, 2, 3, 7])
def test_a_path_shorter_than_the_window_is_averaged_as_far_as_it_reaches(steps: int) -> None:
    path = torch.randn(2, steps, generator=torch.Generator().manual_seed(0))
    made = smoothed(path, 9)
    assert made.shape == path.shape
    assert made.isfinite().all()


def test_the_distribution_is_moved_and_keeps_its_shape() -> None:
    size = {"context_length": 48, "horizon": 30, "channels": 2, "patch_size": 12, "latent": 4}
    plain, smooth = (build_model("fern", **size, smoothing=width).eval() for width in (1, 5))
    smooth.load_state_dict(plain.state_dict())
    past = torch.randn(3, 48, 2, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        first, second = plain(past).ellipsoid, smooth(past).ellipsoid
    assert first is not None
    assert second is not None
    assert torch.allclose(second.mean, smoothed(first.mean, 5), atol=1e-5)
    assert torch.allclose(second.covariance_matrix, first.covariance_matrix)
    y = torch.zeros_like(first.mean)
    assert torch.allclose(second.log_prob(y), first.log_prob(y + first.mean - second.mean), atol=1e-3)


def test_training_is_that_of_a_model_without_it() -> None:
    plain, smooth = (
        build_model("fern", context_length=24, horizon=12, channels=1, latent=4, smoothing=width).train()
        for width in (1, 5)
    )
    smooth.load_state_dict(plain.state_dict())
    past, future = torch.randn(4, 24, 1), torch.zeros(4, 12, 1)
    losses = [
        model.loss(past, future, lambda f, y: (f.mean - y).square().mean(), generator=torch.Generator().manual_seed(0))
        for model in (plain, smooth)
    ]
    assert losses[0] == losses[1]


@pytest.mark.parametrize(("width", "message"), [(4, "needs an odd number"), (0, "got 0"), ("5", "got .5")])
def test_a_width_that_has_no_middle_is_refused(width: object, message: str) -> None:
    with pytest.raises(FernError, match=message):
        build_model("fern", context_length=24, horizon=12, channels=1, smoothing=width)
