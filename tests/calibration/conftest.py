"""What the calibration tests share."""

from collections.abc import Callable

import numpy as np
import pytest
from tests.calibration.processes import gaussian_distribution

from fern.transport import Ellipsoid


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(5)


@pytest.fixture
def make_distribution(rng: np.random.Generator) -> Callable[..., Ellipsoid]:
    """Random distributions of n windows and C channels over 10 steps in patches of 4."""

    def made(n: int = 60, channels: int = 2, horizon: int = 10) -> Ellipsoid:
        mixed = rng.normal(size=(horizon, horizon))
        return gaussian_distribution(
            rng.normal(size=(n, channels, horizon)),
            mixed @ mixed.T / horizon + np.eye(horizon),
            patch_size=4,
            scale=np.exp(0.3 * rng.normal(size=(n, channels))),
        )

    return made
