"""Effective prediction time: the paper's definition by hand, its bounds, and its unit."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.errors import raises_error

from fern.metrics import ept, lyapunov_times

shapes = st.tuples(st.integers(1, 4), st.integers(1, 8), st.integers(1, 3))


def steps(errors: list[float], std: float = 1.0) -> float:
    pred = np.array(errors).reshape(1, -1, 1)
    return float(ept(pred, np.zeros_like(pred), [std]))


def test_it_is_the_first_step_beyond_the_threshold_counted_from_one() -> None:
    assert steps([2.0, 0.0, 0.0, 0.0]) == 1
    assert steps([0.0, 0.0, -1.5, 0.0]) == 3
    assert steps([0.0, 2.0, 0.0, 3.0]) == 2


def test_an_error_of_exactly_the_threshold_does_not_exceed_it() -> None:
    assert steps([1.0, -1.0, np.nextafter(1.0, 2.0), 0.0]) == 3
    assert steps([0.5, 0.0, 0.0, 0.5], std=0.5) == 4


def test_it_is_the_horizon_when_nothing_exceeds_and_when_only_the_last_step_does() -> None:
    assert steps([0.0, 0.0, 0.0, 0.0]) == 4
    assert steps([0.0, 0.0, 0.0, 9.0]) == 4


def test_each_channel_has_its_own_threshold_and_the_mean_is_over_windows_and_channels() -> None:
    error = torch.tensor([[[0.5, 0.5], [1.5, 1.5], [3.0, 3.0]], [[0.0, 9.0], [0.0, 0.0], [0.0, 0.0]]])
    # window 0: steps 2 and 3; window 1: steps 3 (never) and 1
    assert ept(error, torch.zeros_like(error), torch.tensor([1.0, 2.0])).item() == (2 + 3 + 3 + 1) / 4


def test_a_channel_that_never_moved_in_training_tolerates_no_error() -> None:
    assert steps([0.0, 1e-12, 0.0], std=0.0) == 2


@given(shapes, st.integers(0, 2**32 - 1))
def test_it_equals_a_plain_search_lies_in_1_to_H_and_grows_with_std(shape: tuple[int, int, int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    pred, true = rng.normal(size=(2, *shape))
    std = rng.uniform(0.2, 4.0, size=shape[2])
    found = [
        next((s + 1 for s in range(shape[1]) if abs(pred[b, s, c] - true[b, s, c]) > std[c]), shape[1])
        for b in range(shape[0])
        for c in range(shape[2])
    ]
    value = ept(pred, true, std)
    assert value == pytest.approx(np.mean(found), rel=1e-14)
    assert 1 <= value <= shape[1]
    assert value <= ept(pred, true, std * rng.uniform(1.0, 2.0, size=shape[2]))
    assert ept(torch.from_numpy(pred), torch.from_numpy(true), torch.from_numpy(std)).item() == value


def test_it_has_no_gradient() -> None:
    pred = torch.zeros(1, 3, 1, requires_grad=True)
    assert not ept(pred, torch.ones(1, 3, 1), [0.5]).requires_grad


def test_lyapunov_times_of_the_papers_horizon() -> None:
    """The paper: 720 steps of Lorenz-63 are roughly 6.5 Lyapunov times, over which errors grow about 650-fold."""
    times = lyapunov_times(720.0, dt=0.01, lyapunov_exponent=0.9056)
    assert times == pytest.approx(6.5, abs=0.05)
    assert np.exp(times) == pytest.approx(650, rel=0.05)


def test_lyapunov_times_keep_the_kind_of_the_steps() -> None:
    tensor = lyapunov_times(torch.tensor(10.0), dt=0.5, lyapunov_exponent=2.0)
    assert isinstance(tensor, torch.Tensor) and tensor.item() == 10.0
    assert lyapunov_times(np.float64(10.0), dt=0.5, lyapunov_exponent=1.0) == 5.0


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"dt": 0.0, "lyapunov_exponent": 1.0}, "dt"),
        ({"dt": 0.1, "lyapunov_exponent": -0.2}, "lyapunov_exponent"),
        ({"dt": float("nan"), "lyapunov_exponent": 1.0}, "dt"),
    ],
)
def test_a_system_without_a_lyapunov_time_is_refused(options, argument: str) -> None:
    with raises_error(argument):
        lyapunov_times(3.0, **options)


@pytest.mark.parametrize(
    ("std", "argument"),
    [
        ([1.0], "std"),
        ([1.0, -2.0], "std"),
        ([1.0, float("nan")], "std"),
        (1.0, "std"),
        (np.ones((1, 2)), "std"),
        (["a", "b"], "std"),
    ],
)
def test_bad_thresholds_are_refused(std, argument: str) -> None:
    with raises_error(argument):
        ept(torch.zeros(3, 5, 2), torch.zeros(3, 5, 2), std)
