"""Losses by name against their definitions, alone and mixed, and what they do to a law."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from fern.data.windows import Windows
from fern.errors import FernError
from fern.metrics import crps, energy_score, nll
from fern.models import Forecast, Forecaster
from fern.training import TrainConfig, train
from fern.training.losses import LOSSES, criterion, loss_weights
from fern.transport import Ellipsoid

B, H, C = 4, 6, 2


@pytest.fixture
def forecast() -> Forecast:
    generator = torch.Generator().manual_seed(3)
    law = Ellipsoid(
        torch.rand(B, C, 2, 3, generator=generator) + 0.5,
        torch.randn(B, C, 2, 3, generator=generator),
        torch.randn(B, C, 2, 2, 3, generator=generator),
    )
    return Forecast(mean=law.mean.mT + 0.3, ellipsoid=law)


@pytest.fixture
def future() -> Tensor:
    return torch.randn(B, H, C, generator=torch.Generator().manual_seed(4)) * 2


def test_each_loss_is_what_its_name_says(forecast: Forecast, future: Tensor) -> None:
    assert forecast.ellipsoid is not None
    draws = torch.Generator().manual_seed(5)
    expected = {
        "huber": functional.huber_loss(forecast.mean, future, delta=0.7),
        "mse": (forecast.mean - future).square().mean(),
        "mae": (forecast.mean - future).abs().mean(),
        "nll": nll(forecast.ellipsoid, future),
        "crps": crps(forecast.ellipsoid, future),
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


def test_a_mixture_is_the_weighted_sum(forecast: Forecast, future: Tensor) -> None:
    parts = {name: criterion({name: 1.0})(forecast, future).item() for name in ("huber", "nll", "crps")}
    mixed = criterion({"huber": 1.0, "nll": 0.1, "crps": 0.5})(forecast, future).item()
    assert mixed == pytest.approx(parts["huber"] + 0.1 * parts["nll"] + 0.5 * parts["crps"], rel=1e-6)


def test_a_loss_is_the_mean_of_its_windows_losses(forecast: Forecast, future: Tensor) -> None:
    law = forecast.ellipsoid
    assert law is not None
    for name in ("huber", "mse", "mae", "nll", "crps"):
        loss = criterion({name: 1.0})
        alone = []
        for window in range(B):
            own = Ellipsoid(
                law.eigenvalues[window : window + 1],
                law.shift[window : window + 1],
                law.reflections[window : window + 1],
            )
            one = Forecast(mean=forecast.mean[window : window + 1], ellipsoid=own)
            alone.append(loss(one, future[window : window + 1]).item())
        assert loss(forecast, future).item() == pytest.approx(sum(alone) / B, rel=1e-5), name


def test_a_loss_of_the_law_makes_the_law_better(
    windows: dict[str, Windows], fern: Callable[[], Forecaster], quick: TrainConfig
) -> None:
    past, future = windows["validation"].gather(torch.arange(len(windows["validation"])))
    score = {}
    for name, loss in {"huber": "huber", "mixed": {"huber": 1.0, "nll": 0.1}}.items():
        config = replace(quick, loss=loss_weights(loss), epochs=12)
        model = train(fern(), windows["train"], windows["validation"], config, progress="silent").model
        with torch.no_grad():
            law = model(past).ellipsoid
        assert law is not None
        score[name] = nll(law, future).item()
    # Huber alone lets the ellipsoid shrink until the truth is far outside it.
    assert score["mixed"] < score["huber"] - 1.0


def test_a_forecast_without_an_ellipsoid_has_no_loss_of_the_law(future: Tensor) -> None:
    with pytest.raises(FernError, match="loss: crps needs a model whose forecasts have an ellipsoid"):
        criterion({"crps": 1.0})(Forecast(mean=future), future)
