"""Losses by name against their definitions, alone and mixed, and what they do to a distribution."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from tests.errors import raises_error
from tests.transport.reference import dense_rotation, random_distribution
from torch import Tensor
from torch.distributions import Independent, Normal
from torch.nn import functional

from fern.data.windows import Windows
from fern.metrics import crps, energy_score, nll
from fern.models import Forecast, Forecaster
from fern.training import TrainConfig, train
from fern.training.losses import LOSSES, criterion, loss_weights
from fern.transport import Ellipsoid

B, H, C = 4, 6, 2


@pytest.fixture
def forecast() -> Forecast:
    generator = torch.Generator().manual_seed(3)
    distribution = Ellipsoid(
        torch.rand(B, C, 2, 3, generator=generator) + 0.5,
        torch.randn(B, C, 2, 3, generator=generator),
        torch.randn(B, C, 2, 2, 3, generator=generator),
    )
    return Forecast(mean=distribution.mean.mT + 0.3, ellipsoid=distribution)


@pytest.fixture
def future() -> Tensor:
    return torch.randn(B, H, C, generator=torch.Generator().manual_seed(4)) * 2


def along_axes(distribution: Ellipsoid, future: Tensor) -> tuple[Tensor, Independent]:
    """U (y - μ) by dense rotations, and its distribution: in float64."""
    apart = (future.mT - distribution.mean).double().unflatten(-1, distribution.eigenvalues.shape[-2:])
    sets = distribution.reflections.flatten(0, 2)
    turned = [dense_rotation(v) @ x for v, x in zip(sets, apart.flatten(0, 2), strict=True)]
    stddev = distribution.base_variance**0.5 * distribution.eigenvalues.double().flatten(-2)
    return torch.stack(turned).reshape(stddev.shape), Independent(Normal(torch.zeros_like(stddev), stddev), 1)


def test_each_loss_is_what_its_name_says(forecast: Forecast, future: Tensor) -> None:
    assert forecast.ellipsoid is not None
    draws = torch.Generator().manual_seed(5)
    rotated, axes = along_axes(forecast.ellipsoid, future)
    expected = {
        "huber": functional.huber_loss(forecast.mean, future, delta=0.7),
        "mse": (forecast.mean - future).square().mean(),
        "mae": (forecast.mean - future).abs().mean(),
        "nll": nll(forecast.ellipsoid, future),
        "crps": crps(forecast.ellipsoid, future),
        "whitened_crps": crps(axes, rotated.mT),
        "beta_nll": -(axes.stddev * axes.base_dist.log_prob(rotated)).mean(),
        "energy": energy_score(forecast.ellipsoid, future, samples=8, generator=draws),
    }
    assert set(expected) == set(LOSSES)
    for name, value in expected.items():
        ours = criterion({name: 1.0}, huber_delta=0.7, energy_samples=8, generator=torch.Generator().manual_seed(5))(
            forecast, future
        )
        assert ours.dtype == future.dtype
        # float32 against the metrics' float64
        assert ours.item() == pytest.approx(value.item(), rel=1e-5), name


@pytest.mark.parametrize("name", ["nll", "crps", "whitened_crps"])
def test_a_distribution_that_is_true_scores_better_than_one_that_is_not(name: str) -> None:
    truth = random_distribution(torch.Generator().manual_seed(1), (1, 1, 2, 4), 3, horizon=7, placed_by="offset")
    drawn = truth.sample((20_000,), generator=torch.Generator().manual_seed(2))[:, 0].mT  # (draws, H, 1)

    def score(distribution: Ellipsoid) -> float:
        return criterion({name: 1.0})(
            Forecast(mean=drawn, ellipsoid=distribution.expand((len(drawn), 1))), drawn
        ).item()

    turned = Ellipsoid(truth.eigenvalues, None, truth.reflections.roll(1, -1), offset=truth.offset, horizon=7)
    others = [truth.affine(1.3), truth.affine(0.7), truth.affine(1.0, 0.2)]
    # Scores of marginals do not see how steps go together, but these turns change the marginals too.
    assert all(score(truth) < score(other) for other in (*others, turned))


@pytest.mark.parametrize("name", ["crps", "whitened_crps"])
@pytest.mark.parametrize("placed_by", ["shift", "offset", "both"])
def test_gradients_equal_finite_differences(name: str, placed_by: str) -> None:
    distribution = random_distribution(
        torch.Generator().manual_seed(1), (2, 1, 2, 4), 3, horizon=7, placed_by=placed_by
    )
    future = torch.randn(2, 7, 1, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    parts = [
        part.clone().requires_grad_()
        for part in (distribution.eigenvalues, distribution.reflections, distribution.shift)
    ]

    def loss(eigenvalues: Tensor, reflections: Tensor, place: Tensor) -> Tensor:
        shift, offset = (None, place) if placed_by == "offset" else (place, distribution.offset)
        made = Ellipsoid(eigenvalues, shift, reflections, offset=offset, horizon=7)
        return criterion({name: 1.0})(Forecast(mean=future, ellipsoid=made), future)

    assert torch.autograd.gradcheck(loss, parts)
    assert torch.autograd.gradgradcheck(loss, parts)


def test_a_mixture_is_the_weighted_sum(forecast: Forecast, future: Tensor) -> None:
    parts = {name: criterion({name: 1.0})(forecast, future).item() for name in ("huber", "nll", "crps")}
    mixed = criterion({"huber": 1.0, "nll": 0.1, "crps": 0.5})(forecast, future).item()
    assert mixed == pytest.approx(parts["huber"] + 0.1 * parts["nll"] + 0.5 * parts["crps"], rel=1e-6)


def test_a_loss_is_the_mean_of_its_windows_losses(forecast: Forecast, future: Tensor) -> None:
    distribution = forecast.ellipsoid
    assert distribution is not None
    for name in ("huber", "mse", "mae", "nll", "crps", "whitened_crps", "beta_nll"):
        loss = criterion({name: 1.0})
        alone = []
        for window in range(B):
            own = Ellipsoid(
                distribution.eigenvalues[window : window + 1],
                distribution.shift[window : window + 1],
                distribution.reflections[window : window + 1],
            )
            one = Forecast(mean=forecast.mean[window : window + 1], ellipsoid=own)
            alone.append(loss(one, future[window : window + 1]).item())
        assert loss(forecast, future).item() == pytest.approx(sum(alone) / B, rel=1e-5), name


def test_a_loss_of_the_distribution_makes_the_distribution_better(
    windows: dict[str, Windows], fern: Callable[[], Forecaster], quick: TrainConfig
) -> None:
    past, future = windows["validation"].gather(torch.arange(len(windows["validation"])))
    score = {}
    for name, loss in {"huber": "huber", "mixed": {"huber": 1.0, "nll": 0.1}}.items():
        config = replace(quick, loss=loss_weights(loss), epochs=12)
        model = train(fern(), windows["train"], windows["validation"], config, progress="silent").model
        with torch.no_grad():
            distribution = model(past).ellipsoid
        assert distribution is not None
        score[name] = nll(distribution, future).item()
    # Huber alone lets the ellipsoid shrink until the truth is far outside it.
    assert score["mixed"] < score["huber"] - 1.0


def test_a_forecast_without_an_ellipsoid_has_no_loss_of_the_distribution(future: Tensor) -> None:
    with raises_error("loss"):
        criterion({"crps": 1.0})(Forecast(mean=future), future)
