"""The benchmark of roughness measures what it says."""

import pytest
import torch
from benchmarks.distributions.roughness import PATCH, roughness
from benchmarks.sections.distributions import roughness_part


def test_the_truth_is_as_smooth_as_itself_and_noise_adds_six_variances() -> None:
    drawn = torch.Generator().manual_seed(0)
    truth = torch.randn(50, 240, 2, generator=drawn).cumsum(dim=1)
    assert roughness(truth, truth)["roughness"] == pytest.approx(1.0)
    noisy = truth + 2.0 * torch.randn(truth.shape, generator=drawn)
    second = float(truth.diff(n=2, dim=1).square().mean())
    found = roughness(noisy, truth)
    assert found["roughness"] == pytest.approx(1 + 6 * 4 / second, rel=0.05)
    assert found["mse_of_the_first_steps"] == pytest.approx(4.0, rel=0.1)


def test_a_step_at_every_border_is_seen_there_and_nowhere_else() -> None:
    truth = torch.randn(4, 240, 1, generator=torch.Generator().manual_seed(0)).cumsum(dim=1)
    steps = (torch.arange(240) // PATCH % 2).float()[:, None] * 50
    found = roughness(truth + steps, truth)
    assert found["roughness_at_borders"] > 100
    assert found["roughness_within"] == pytest.approx(1.0, abs=1e-3)


def test_rows_of_roughness_are_shown() -> None:
    truth = torch.randn(2, 3 * PATCH, 1, generator=torch.Generator().manual_seed(1))
    row = {
        "mean": "direct",
        "epochs": 1,
        "seed": 7,
        "smoothing": 5,
        "validation_mse": 2.0,
        "test_mse": 3.0,
        **roughness(truth, truth),
    }
    assert "| direct | 5 | 2 | 3 | 1 | 1 | 1 |" in roughness_part([{"rows": [row]}]).markdown()
