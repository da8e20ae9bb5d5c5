"""Wasserstein-2 distances against POT and optimal assignment, and their properties."""

import numpy as np
import ot
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from torch.autograd import gradcheck

from fern.errors import FernError
from fern.metrics import mse, sliced_w2_squared, sphere_directions, w2_squared

sizes = st.tuples(st.integers(1, 6), st.integers(1, 9), st.integers(1, 3))
seeds = st.integers(0, 2**32 - 1)


def windows(shape: tuple[int, ...], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two sets of windows on a coarse grid, so that ties occur."""
    return tuple(np.random.default_rng(seed).integers(-4, 5, size=(2, *shape)) / 2.0)


def test_w2_equals_pot_for_each_window_and_channel(rng: np.random.Generator) -> None:
    pred, true = rng.normal(size=(2, 6, 50, 3))
    expected = [ot.wasserstein_1d(pred[b, :, c], true[b, :, c], p=2) for b in range(6) for c in range(3)]
    assert w2_squared(pred, true) == pytest.approx(np.mean(expected), rel=1e-10)
    assert w2_squared(torch.from_numpy(pred), torch.from_numpy(true)).item() == pytest.approx(
        np.mean(expected), rel=1e-10
    )


def test_w2_is_the_cost_of_the_best_assignment(rng: np.random.Generator) -> None:
    pred, true = rng.normal(size=(2, 1, 12, 1))
    costs = (pred[0] - true[0].T) ** 2
    rows, columns = linear_sum_assignment(costs)
    assert w2_squared(pred, true) == pytest.approx(costs[rows, columns].mean(), rel=1e-12)


def test_w2_of_a_constant_shift_is_its_square() -> None:
    true = torch.linspace(-3, 7, 20).reshape(1, 20, 1).double()
    assert w2_squared(true + 1.5, true).item() == pytest.approx(2.25)


@given(sizes, seeds)
def test_w2_ignores_the_order_in_time_of_either_argument(shape: tuple[int, int, int], seed: int) -> None:
    pred, true = windows(shape, seed)
    shuffle = np.random.default_rng(seed).permutation(shape[1])
    value = w2_squared(pred, true)
    assert w2_squared(pred[:, shuffle], true) == value
    assert w2_squared(pred, true[:, shuffle]) == value


@given(sizes, seeds)
def test_w2_is_a_symmetric_distance_never_above_the_mse(shape: tuple[int, int, int], seed: int) -> None:
    pred, true = windows(shape, seed)
    value = w2_squared(pred, true)
    assert 0 <= value <= mse(pred, true) + 1e-12
    assert value == w2_squared(true, pred)
    assert (value == 0) == np.array_equal(np.sort(pred, axis=1), np.sort(true, axis=1))


@pytest.mark.parametrize("kind", ["numpy", "torch", "torch, float32"])
def test_sliced_w2_equals_the_square_of_pots_with_the_same_directions(kind: str, rng: np.random.Generator) -> None:
    """To the 1e-6 that is promised; float32 values are compared as the float64 they are equal to."""
    pred, true = rng.normal(size=(2, 40, 24, 3)).astype(np.float32)
    pred = pred + np.float32(10)
    directions = sphere_directions(24, 60, generator=rng)
    expected = np.mean(
        [
            ot.sliced_wasserstein_distance(
                pred[..., c].astype(float), true[..., c].astype(float), projections=directions.numpy()
            )
            ** 2
            for c in range(3)
        ]
    )
    if kind == "numpy":
        value = float(sliced_w2_squared(pred, true, directions=directions))
    elif kind == "torch":
        value = sliced_w2_squared(
            torch.tensor(pred).double(), torch.tensor(true).double(), directions=directions
        ).item()
    else:
        value = sliced_w2_squared(torch.tensor(pred), torch.tensor(true), directions=directions).item()
    assert value == pytest.approx(expected, rel=1e-10)


def test_sliced_w2_along_the_axes_is_w2_over_the_batch(rng: np.random.Generator) -> None:
    pred, true = rng.normal(size=(2, 15, 4, 1))
    expected = w2_squared(pred.transpose(2, 0, 1), true.transpose(2, 0, 1))
    assert sliced_w2_squared(pred, true, directions=np.eye(4)) == pytest.approx(expected, rel=1e-12)


@given(sizes, seeds)
def test_sliced_w2_is_zero_exactly_for_equal_sets_of_windows(shape: tuple[int, int, int], seed: int) -> None:
    """With as many random directions as steps, and more, equal projections mean equal sets almost surely."""
    rng = np.random.default_rng(seed)
    pred, _ = windows(shape, seed)
    directions = sphere_directions(shape[1], 2 * shape[1], generator=rng)
    # The order of the batch reaches the matrix product's blocking: projections may differ by rounding.
    assert sliced_w2_squared(pred, rng.permutation(pred, axis=0), directions=directions) < 1e-28
    other = pred.copy()
    other[rng.integers(shape[0]), rng.integers(shape[1]), rng.integers(shape[2])] += 0.25
    assert sliced_w2_squared(pred, other, directions=directions) > 1e-8


@given(sizes, seeds)
def test_sliced_w2_of_one_window_is_the_mean_squared_projection(shape: tuple[int, int, int], seed: int) -> None:
    pred, true = windows((1, *shape[1:]), seed)
    directions = sphere_directions(shape[1], 7)
    expected = np.mean(np.einsum("bhc,hl->bcl", pred - true, directions.numpy()) ** 2)
    assert sliced_w2_squared(pred, true, directions=directions) == pytest.approx(expected, rel=1e-9, abs=1e-15)


def test_sliced_w2_expects_the_mse_over_the_horizon_of_a_shift(draw) -> None:
    """A unit direction sees 1/H of a squared vector on average; 20,000 of them to within 5 %."""
    true = draw(30, 12, 1)
    value = sliced_w2_squared(true + 2.0, true, 20_000)
    assert value.item() == pytest.approx(4.0, rel=0.05)


def test_sliced_w2_repeats_itself_and_follows_its_generator(draw) -> None:
    pred, true = draw(6, 9, 2), draw(6, 9, 2)
    assert sliced_w2_squared(pred, true).item() == sliced_w2_squared(pred, true).item()
    seeded = [sliced_w2_squared(pred, true, generator=torch.Generator().manual_seed(s)).item() for s in (1, 1, 2)]
    assert seeded[0] == seeded[1] != seeded[2]
    explicit = sphere_directions(9, 500, generator=torch.Generator().manual_seed(1))
    assert sliced_w2_squared(pred, true, directions=explicit).item() == seeded[0]


def test_torchs_global_random_state_is_left_alone(draw) -> None:
    before = torch.random.get_rng_state()
    sliced_w2_squared(draw(6, 9, 2), draw(6, 9, 2))
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize("generator", [torch.Generator().manual_seed(5), np.random.default_rng(5)])
def test_directions_are_uniform_on_the_sphere(generator) -> None:
    """The mean is 0 and the second moment I/H, to about 4/sqrt(40,000) of 1/sqrt(H)."""
    directions = sphere_directions(5, 40_000, generator=generator)
    assert directions.shape == (5, 40_000) and directions.dtype == torch.float64
    assert torch.allclose(directions.norm(dim=0), torch.ones(40_000, dtype=torch.float64), atol=1e-12)
    assert directions.mean(dim=1).abs().max() < 0.01
    second = directions @ directions.T / 40_000
    assert (second - torch.eye(5, dtype=torch.float64) / 5).abs().max() < 0.01


def test_sorting_with_and_without_gradients_gives_the_same_value(draw) -> None:
    pred, true = draw(6, 9, 2), draw(6, 9, 2)
    tracked = pred.clone().requires_grad_()
    assert w2_squared(tracked, true).item() == w2_squared(pred, true).item()
    assert sliced_w2_squared(tracked, true).item() == sliced_w2_squared(pred, true).item()


@pytest.mark.parametrize("metric", [w2_squared, lambda pred, true: sliced_w2_squared(pred, true, 8)])
def test_gradients_equal_finite_differences(metric, draw) -> None:
    pred, true = draw(4, 5, 2).requires_grad_(), draw(4, 5, 2)
    assert gradcheck(lambda values: metric(values, true), (pred,))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"projections": 0}, "projections: "),
        ({"directions": torch.eye(4)}, "directions: "),
        ({"directions": 2 * torch.eye(5)}, "directions: "),
        ({"directions": torch.eye(5)[0]}, "directions: "),
        ({"directions": torch.eye(5) / 0}, "directions: "),
        ({"directions": torch.eye(5), "generator": torch.Generator()}, "generator: "),
        ({"directions": torch.eye(5), "projections": 7}, "projections: "),
    ],
)
def test_bad_directions_are_refused(options, words: str) -> None:
    with pytest.raises(FernError, match=words):
        sliced_w2_squared(torch.zeros(3, 5, 2), torch.zeros(3, 5, 2), **options)
