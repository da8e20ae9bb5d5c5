"""Learning rates over a run."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.errors import raises_error

from fern.errors import FernError
from fern.training.optimisation import FIRST, SHAPES, Schedule


def test_constant_is_the_peak_at_every_step() -> None:
    schedule = Schedule("constant", peak=3e-4, warmup=0.0, steps=100)
    assert {schedule.rate(step) for step in range(100)} == {3e-4}


def test_one_cycle_is_torch_s() -> None:
    # The same two-phase cosine as torch.optim.lr_scheduler.OneCycleLR, written as a function of the step.
    steps, peak = 137, 2e-3
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    theirs = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, max_lr=peak, total_steps=steps, pct_start=0.3, div_factor=25, final_div_factor=400
    )
    ours = Schedule("one-cycle", peak=peak, warmup=0.3, steps=steps)
    # OneCycleLR counts its phases as share·steps - 1, ours as share·(steps - 1): they differ by under one step.
    slope = 3 * peak / (0.3 * steps)
    for step in range(steps):
        assert abs(optimiser.param_groups[0]["lr"] - ours.rate(step)) < slope
        optimiser.step()
        if step < steps - 1:
            theirs.step()


@given(st.sampled_from(SHAPES), st.floats(0.0, 0.9), st.integers(1, 500))
def test_rates_rise_to_the_peak_and_never_pass_it(shape: str, warmup: float, steps: int) -> None:
    schedule = Schedule(shape, peak=1.0, warmup=warmup, steps=steps)  # type: ignore[arg-type]
    rates = [schedule.rate(step) for step in range(steps)]
    top = rates.index(max(rates))
    assert all(0.0 <= rate <= 1.0 for rate in rates)
    assert rates[: top + 1] == sorted(rates[: top + 1])
    assert rates[top:] == sorted(rates[top:], reverse=True)
    if warmup * (steps - 1) >= 1:
        assert rates[0] == FIRST


def test_cosine_ends_at_zero_and_one_cycle_just_above() -> None:
    assert Schedule("cosine", peak=1.0, warmup=0.1, steps=50).rate(49) == pytest.approx(0.0, abs=1e-12)
    assert Schedule("one-cycle", peak=1.0, warmup=0.1, steps=50).rate(49) == pytest.approx(1e-4, rel=1e-6)


def test_unknown_shapes_and_warm_ups_are_refused() -> None:
    with pytest.raises(FernError, match="did you mean 'cosine'"):
        Schedule("cosin", peak=1.0, warmup=0.0, steps=1)  # type: ignore[arg-type]
    with raises_error("warmup"):
        Schedule("cosine", peak=1.0, warmup=1.5, steps=1)
