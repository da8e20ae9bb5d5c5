"""The forecast object and the checks of the contract."""

import torch
from tests.errors import raises_error
from torch import Generator, Tensor

from fern.models import Forecast, ModelConfig, PointForecaster
from fern.models.layers import Dropout
from fern.models.naive import LastValue
from fern.transport import Ellipsoid

CONFIG = ModelConfig(context_length=4, horizon=2, channels=1)


def test_quantiles_and_spread_come_from_the_ellipsoid_where_there_is_one() -> None:
    eigenvalues = torch.tensor([[[[1.0, 2.0]]], [[[3.0, 4.0]]]])  # (B=2, C=1, g=1, p=2)
    distribution = Ellipsoid(eigenvalues, torch.ones_like(eigenvalues), torch.zeros(2, 1, 1, 0, 2), base_variance=0.25)
    forecast = Forecast(mean=distribution.mean.transpose(1, 2), ellipsoid=distribution)
    assert torch.allclose(forecast.stddev, 0.5 * eigenvalues[:, 0, 0, :, None])
    quantiles = forecast.quantile([0.5, 0.8413447])  # the second is one standard deviation up
    assert quantiles.shape == (2, 2, 2, 1)
    assert torch.allclose(quantiles[1] - quantiles[0], forecast.stddev, rtol=1e-5)


def test_quantiles_and_spread_come_from_the_samples_otherwise() -> None:
    samples = torch.randn(500, 3, 2, 1, generator=Generator().manual_seed(1))
    forecast = Forecast(mean=samples.mean(0), samples=samples)
    assert torch.equal(forecast.stddev, samples.std(0))
    assert torch.equal(forecast.quantile([0.1])[0], samples.quantile(0.1, dim=0))


def test_a_bare_mean_has_no_spread_and_levels_are_checked() -> None:
    forecast = Forecast(mean=torch.zeros(1, 2, 1))
    with raises_error("stddev"):
        _ = forecast.stddev
    with raises_error("quantile"):
        forecast.quantile([0.5])
    for level in (0.0, 1.0, float("nan")):
        with raises_error("quantiles"):
            forecast.quantile([level])


def test_large_finite_numbers_pass_although_their_sum_overflows() -> None:
    past = torch.full((2, 4, 1), 3e38)
    assert torch.equal(LastValue(CONFIG)(past).mean, past[:, -2:])


class Dropped(PointForecaster):
    """A model whose only layer is dropout."""

    def __init__(self) -> None:
        super().__init__(CONFIG)
        self.dropout = Dropout(0.5)
        self.scale = torch.nn.Linear(1, 1)

    def predict(self, past: Tensor) -> Tensor:
        return self.dropout(self.scale(past[:, -2:]))


def test_the_generator_of_a_call_reaches_dropout() -> None:
    model, past = Dropped().train(), torch.ones(50, 4, 1)
    first = model(past, generator=Generator().manual_seed(1)).mean
    assert torch.equal(first, model(past, generator=Generator().manual_seed(1)).mean)
    assert not torch.equal(first, model(past, generator=Generator().manual_seed(2)).mean)


def test_a_past_of_another_precision_or_device_is_refused() -> None:
    with raises_error("past"):
        Dropped()(torch.zeros(1, 4, 1, dtype=torch.float64))
    with raises_error("past"):
        Dropped()(torch.zeros(1, 4, 1, device="meta"))


def test_trainable_says_whether_gradients_have_anything_to_do() -> None:
    assert Dropped().trainable
    assert not LastValue(CONFIG).trainable
    assert not Dropped().requires_grad_(False).trainable
