"""The oracle beside the models."""

import numpy as np
import pytest
import torch
from tests.errors import raises_error

from fern.models.oracle import OracleForecaster
from fern.systems import oracle, simulate


def test_forecasts_are_the_systems_oracle_in_float64() -> None:
    trajectory = simulate("LORENZ_PARAM")
    starts = [100, 12_599, 30_000]
    found = OracleForecaster(trajectory).forecast_at(starts, 48)
    assert found.mean.dtype == torch.float64
    assert np.array_equal(found.mean.numpy(), oracle(trajectory, starts, 48))
    assert found.ellipsoid is None


def test_on_a_deterministic_system_its_error_is_rounding_alone() -> None:
    trajectory = simulate("LORENZ_BASE")
    found = OracleForecaster(trajectory).forecast_at([20_000], 96).mean[0]
    # float32 observations of magnitude 50: half a unit in the last place is 2e-6.
    assert torch.allclose(found, torch.from_numpy(trajectory.values[20_000:20_096]).double(), atol=5e-6)


@pytest.mark.parametrize(
    ("starts", "horizon", "argument"),
    [
        ([-1], 4, "starts"),
        ([10**6], 4, "starts"),
        ([5], 0, "horizon"),
        ([0.5], 4, "starts"),
    ],
)
def test_bad_rows_and_horizons_are_refused_by_name(starts: list[int], horizon: int, argument: str) -> None:
    with raises_error(argument):
        OracleForecaster(simulate("OU_BASE")).forecast_at(starts, horizon)


def test_it_does_not_pretend_to_forecast_from_a_context() -> None:
    assert not callable(OracleForecaster(simulate("OU_BASE")))
