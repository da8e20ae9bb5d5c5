"""What the tests of the metrics share."""

import sys
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from fern.transport import Ellipsoid

# With Numba in sight scoringrules compiles its kernels at every import, for seconds in every worker; the tests ask for
# its NumPy ones.
with pytest.MonkeyPatch.context() as without_numba:
    without_numba.setitem(sys.modules, "numba", None)
    import scoringrules  # noqa: F401

Draw = Callable[..., Tensor]


@pytest.fixture
def draw() -> Draw:
    """Standard normal float64 tensors from one generator of the test's own."""
    generator = torch.Generator().manual_seed(20)

    def normal(*shape: int, scale: float = 1.0) -> Tensor:
        return scale * torch.randn(shape, generator=generator, dtype=torch.float64)

    return normal


@pytest.fixture
def ellipsoid(draw: Draw) -> Ellipsoid:
    """A distribution for 5 windows of 10 steps (patches of 4, 4 and 2) and 2 channels, in float64."""
    return Ellipsoid(draw(5, 2, 3, 4).abs() + 0.2, draw(5, 2, 3, 4), draw(5, 2, 3, 3, 4), base_variance=0.3, horizon=10)


@pytest.fixture
def truth(ellipsoid: Ellipsoid) -> Tensor:
    """One draw of that distribution, (5, 10, 2)."""
    return ellipsoid.sample(generator=torch.Generator().manual_seed(3)).transpose(1, 2)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)
