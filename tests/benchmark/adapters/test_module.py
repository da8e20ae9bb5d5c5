"""A torch module of anybody's under the contract of every model."""

import pytest
import torch
from torch import nn

from fern.benchmark.adapters import ModuleForecaster
from fern.errors import FernError
from fern.models import Forecast

SIZES = {"context_length": 6, "horizon": 3, "channels": 2}


class Map(nn.Module):
    def __init__(self, give=lambda made: made):
        super().__init__()
        self.linear, self.give = nn.Linear(6, 3), give

    def forward(self, past):
        return self.give(self.linear(past.transpose(1, 2)).transpose(1, 2))


def test_a_module_forecasts_and_its_gradients_flow():
    model = ModuleForecaster(Map(), **SIZES)
    past = torch.randn(4, 6, 2)
    forecast = model(past)
    assert isinstance(forecast, Forecast)
    torch.testing.assert_close(forecast.mean, model.module(past))
    forecast.mean.sum().backward()
    assert model.trainable
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize(
    ("give", "message"),
    [
        (lambda made: made[:, :2], r"Map: returned shape \(4, 2, 2\), needs \(4, 3, 2\)"),
        (lambda made: (made, None), r"Map: returned tuple, needs a tensor of shape \(4, 3, 2\)"),
    ],
)
def test_what_a_module_gives_must_be_a_forecast(give, message):
    with pytest.raises(FernError, match=message):
        ModuleForecaster(Map(give), **SIZES)(torch.randn(4, 6, 2))


def test_other_things_than_modules_are_refused():
    with pytest.raises(FernError, match="got function, needs a torch"):
        ModuleForecaster(lambda past: past, **SIZES)
