"""Parameters and multiply-adds."""

import torch
from torch import Tensor, nn

from fern.models import ModelConfig, PointForecaster
from fern.models.footprint import multiply_adds, parameter_count


class Mixed(PointForecaster):
    """A convolution, a linear map and a product of activations."""

    def __init__(self) -> None:
        super().__init__(ModelConfig(context_length=10, horizon=4, channels=3))
        self.convolution = nn.Conv1d(3, 5, 3)
        self.linear = nn.Linear(8, 4, bias=False)
        self.frozen = nn.Parameter(torch.zeros(7), requires_grad=False)

    def predict(self, past: Tensor) -> Tensor:
        features = self.convolution(past.transpose(1, 2))  # (B, 5, 8)
        mixed = features.transpose(1, 2) @ features  # (B, 8, 8)
        return self.linear(mixed)[:, :3].transpose(1, 2)


def test_convolutions_linear_maps_and_products_are_counted_once() -> None:
    model = Mixed().train()
    assert multiply_adds(model) == 5 * 8 * 3 * 3 + 8 * 5 * 8 + 8 * 8 * 4
    assert parameter_count(model) == 5 * 3 * 3 + 5 + 32
    assert model.training
