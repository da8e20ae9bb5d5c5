"""Small data and models on which a run takes a fraction of a second."""

from collections.abc import Callable

import pytest
import torch

from fern.data.splits import Part
from fern.data.windows import Windows
from fern.models import Forecaster, build_model
from fern.training import TrainConfig

CONTEXT, HORIZON, CHANNELS = 12, 6, 2


@pytest.fixture(scope="session")
def series() -> torch.Tensor:
    """Two noisy waves, 200 rows."""
    time = torch.arange(200.0)
    noise = torch.randn(200, CHANNELS, generator=torch.Generator().manual_seed(1))
    return torch.stack((torch.sin(time / 5), torch.cos(time / 7)), dim=1) + 0.1 * noise


@pytest.fixture(scope="session")
def windows(series: torch.Tensor) -> dict[str, Windows]:
    """Train, validation and test windows of the series."""
    parts = {"train": Part(0, 120), "validation": Part(120, 160), "test": Part(160, 200)}
    return {name: Windows(series, context_length=CONTEXT, horizon=HORIZON, part=part) for name, part in parts.items()}


@pytest.fixture
def fern() -> Callable[[], Forecaster]:
    """Builds a small Fern."""
    return lambda: build_model(
        "fern",
        context_length=CONTEXT,
        horizon=HORIZON,
        channels=CHANNELS,
        hidden=8,
        latent=3,
        layers=2,
        patch_size=3,
        reflections=2,
    )


@pytest.fixture
def quick() -> TrainConfig:
    """Three epochs of a few steps, on one thread."""
    return TrainConfig(preset="shock", epochs=3, grace=0, batch_size=32, learning_rate=1e-2, threads=1)
