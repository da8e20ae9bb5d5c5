"""Point forecasts: errors by hand, Wasserstein distances against POT, prediction time, and arrays that are refused."""

from collections.abc import Callable

import numpy as np
import ot
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from tests.errors import raises_error
from torch import Tensor
from torch.autograd import gradcheck

from fern.errors import FernError
from fern.metrics import (
    MetricAccumulator,
    coverage,
    crps,
    energy_score,
    ept,
    mae,
    mse,
    point,
    sliced_w2_squared,
    sphere_directions,
    w2_squared,
)
from fern.metrics.point import absolute_errors, first_exceeding_steps, squared_errors, w2_squared_per_window


def accumulated(pred: Tensor, true: Tensor) -> None:
    MetricAccumulator(["mse"]).update(pred, true)


OF_FORECASTS: dict[str, Callable[..., object]] = {
    "mse": mse,
    "mae": mae,
    "w2": w2_squared,
    "sliced_w2": sliced_w2_squared,
    "ept": lambda pred, true: ept(pred, true, [1.0, 1.0]),
    "accumulator": accumulated,
}
OF_SAMPLES: dict[str, Callable[..., object]] = {
    "crps": crps,
    "energy_score": energy_score,
    "coverage": coverage,
}
forecasts = pytest.mark.parametrize("metric", OF_FORECASTS.values(), ids=OF_FORECASTS)
samples = pytest.mark.parametrize("metric", OF_SAMPLES.values(), ids=OF_SAMPLES)


@forecasts
def test_shapes_are_never_broadcast(metric) -> None:
    with raises_error("pred"):
        metric(torch.zeros(4, 1, 2), torch.zeros(4, 6, 2))


@forecasts
@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("name", ["pred", "true"])
def test_what_is_not_finite_is_named_with_its_place(metric, bad: float, name: str) -> None:
    values = {"pred": torch.zeros(4, 6, 2), "true": torch.zeros(4, 6, 2)}
    values[name][2, 5, 1] = bad
    values[name][3, 0, 0] = -bad
    with pytest.raises(FernError, match=rf"{name}: {bad} at batch 2, horizon 5, channels 1 .*1 more"):
        metric(values["pred"], values["true"])
    with pytest.raises(FernError, match=f"{name}: {bad} at batch 2, horizon 5, channels 1"):
        metric(values["pred"].numpy(), values["true"].numpy())


def test_infinities_that_would_cancel_in_a_sum_are_found() -> None:
    pred = torch.tensor([torch.inf, -torch.inf]).reshape(1, 2, 1)
    with raises_error("pred"):
        mse(pred, torch.zeros(1, 2, 1))


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_a_single_bad_value_is_found(bad: float) -> None:
    true = torch.zeros(1, 2, 1)
    true[0, 1, 0] = bad
    with pytest.raises(FernError, match=rf"true: {bad} at batch 0, horizon 1, channels 0 \(counted from 0\); every"):
        mse(torch.zeros(1, 2, 1), true)


def test_finite_values_whose_float32_sum_overflows_are_accepted() -> None:
    large = torch.full((1, 4, 1), 3e38)
    assert mae(large, torch.zeros(1, 4, 1)).item() == pytest.approx(3e38, rel=1e-6)


@pytest.mark.parametrize(
    "metric",
    [mse, w2_squared, sliced_w2_squared, accumulated],
    ids=["mse", "w2", "sliced_w2", "stream"],
)
def test_an_overflow_of_float64_is_an_error_and_not_an_infinity(metric) -> None:
    large = torch.full((2, 3, 1), 1e300, dtype=torch.float64)
    with pytest.raises(FernError, match="overflows float64"):
        metric(large, -large)


@forecasts
def test_wrong_rank_is_refused(metric) -> None:
    with raises_error("pred"):
        metric(torch.zeros(4, 6), torch.zeros(4, 6))


@forecasts
@pytest.mark.parametrize("shape", [(0, 6, 2), (4, 0, 2), (4, 6, 0)])
def test_empty_arrays_are_refused(metric, shape: tuple[int, ...]) -> None:
    with raises_error("pred"):
        metric(torch.zeros(shape), torch.zeros(shape))


@forecasts
def test_mixed_kinds_are_refused(metric) -> None:
    with raises_error("pred"):
        metric(torch.zeros(4, 6, 2), np.zeros((4, 6, 2)))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([[[0.0]]], "needs a torch tensor or a NumPy array"),
        (np.array([[["a"]]]), "needs real numbers"),
        (np.array([[[True]]]), "needs real numbers"),
        (torch.tensor([[[True]]]), "needs real numbers"),
        (torch.tensor([[[1j]]]), "needs real numbers"),
        (np.ma.masked_less(np.array([[[-1.0], [1.0]]]), 0), "masked array"),
    ],
)
def test_what_is_no_array_of_numbers_is_refused(values, words: str) -> None:
    with pytest.raises(FernError, match=f"pred: .*{words}"):
        mse(values, values)


def test_numpy_arrays_of_any_layout_are_read() -> None:
    base = np.arange(24.0).reshape(2, 4, 3)
    frozen = base.copy()
    frozen.setflags(write=False)
    for values in (base[::-1, ::-1], frozen, base.astype(">f8"), base.astype(np.int16), np.asfortranarray(base)):
        assert mse(values, values + 2.0) == 4.0


@pytest.mark.parametrize("block", [1, 40, 10**9])
def test_blocks_of_any_size_give_the_same_value_and_gradient(
    block: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    pred, true = torch.from_numpy(rng.normal(size=(2, 11, 6, 2)))
    scores = (
        squared_errors,
        absolute_errors,
        w2_squared_per_window,
        lambda a, b: first_exceeding_steps(a, b, torch.tensor([1.0, 0.5])),
    )
    expected = [score(pred, true) for score in scores]
    monkeypatch.setattr(point, "BLOCK_VALUES", block)
    pred.requires_grad_()
    values = [score(pred, true) for score in scores]
    assert all(map(torch.equal, values, expected))
    values[0].sum().backward()
    assert pred.grad is not None
    assert torch.allclose(pred.grad, (pred.detach() - true) * 2 / 6, rtol=1e-12)


def test_values_on_another_device_are_refused() -> None:
    with raises_error("distribution"):
        point.require_device("distribution", torch.empty(1, device="meta"), torch.empty(1))


@pytest.mark.parametrize("metric", [mse, w2_squared, sliced_w2_squared, energy_score])
def test_automatic_mixed_precision_does_not_touch_the_sums(metric, rng: np.random.Generator) -> None:
    shape = (3, 4, 6, 2) if metric is energy_score else (4, 6, 2)
    pred, true = torch.from_numpy(rng.normal(size=shape)).float(), torch.zeros(4, 6, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = metric(pred, true)
    assert mixed.item() == metric(pred, true).item()


@samples
def test_samples_must_fit_the_truth(metric) -> None:
    with raises_error("distribution"):
        metric(torch.zeros(5, 4, 7, 2), torch.zeros(4, 6, 2))
    with raises_error("distribution"):
        metric(torch.zeros(4, 6, 2), torch.zeros(4, 6, 2))
    with raises_error("distribution"):
        metric(np.zeros((5, 4, 6, 2)), torch.zeros(4, 6, 2))


@samples
def test_nan_in_samples_or_in_their_truth_is_named(metric) -> None:
    paths, true = np.zeros((5, 4, 6, 2)), np.zeros((4, 6, 2))
    paths[1, 2, 3, 0] = np.nan
    with raises_error("distribution"):
        metric(paths, true)
    with raises_error("true"):
        metric(np.zeros((5, 4, 6, 2)), paths[1])


def test_hand_worked_values() -> None:
    pred = torch.tensor([[[1.0, 0.0], [2.0, 0.0]]])
    true = torch.tensor([[[1.0, 3.0], [4.0, 1.0]]])
    assert mse(pred, true).item() == pytest.approx((0 + 4 + 9 + 1) / 4)
    assert mae(pred, true).item() == pytest.approx((0 + 2 + 3 + 1) / 4)


def test_torch_gives_a_tensor_and_numpy_a_float_of_the_same_value(rng: np.random.Generator) -> None:
    pred, true = rng.normal(size=(2, 7, 11, 3))
    for metric, expected in ((mse, np.mean((pred - true) ** 2)), (mae, np.mean(np.abs(pred - true)))):
        from_torch = metric(torch.from_numpy(pred), torch.from_numpy(true))
        from_numpy = metric(pred, true)
        assert from_torch.shape == () and from_torch.dtype == torch.float64
        assert type(from_numpy) is np.float64
        assert from_torch.item() == from_numpy == pytest.approx(expected, rel=1e-12)


def test_float32_input_is_summed_in_float64(rng: np.random.Generator) -> None:
    """A large offset and a million values: in float32 sums the error would be of order 1e-4."""
    true = (1e4 + rng.normal(size=(100, 3400, 3))).astype(np.float32)
    pred = (true + rng.normal(scale=0.1, size=true.shape)).astype(np.float32)
    exact = np.mean((pred.astype(np.float64) - true.astype(np.float64)) ** 2)
    assert mse(torch.from_numpy(pred), torch.from_numpy(true)).item() == pytest.approx(exact, rel=1e-12)
    assert mse(pred, true) == pytest.approx(exact, rel=1e-12)


def test_squares_beyond_float32_are_scored() -> None:
    pred, true = torch.full((1, 2, 1), 1e30), torch.zeros(1, 2, 1)
    assert mse(pred, true).item() == pytest.approx(1e60, rel=1e-6)  # 1e30 itself is rounded in float32


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int64])
def test_narrow_and_integer_tensors_are_read(dtype: torch.dtype) -> None:
    pred, true = torch.tensor([[[1], [2]]], dtype=dtype), torch.tensor([[[3], [2]]], dtype=dtype)
    assert mse(pred, true).item() == 2.0


@pytest.mark.parametrize("metric", [mse, mae])
def test_gradients_equal_finite_differences(metric, draw) -> None:
    pred, true = draw(3, 5, 2).requires_grad_(), draw(3, 5, 2)
    assert gradcheck(lambda values: metric(values, true), (pred,))


def test_gradient_returns_in_the_models_precision() -> None:
    pred = torch.ones(1, 4, 1, requires_grad=True)
    mse(pred, torch.zeros(1, 4, 1)).backward()
    assert pred.grad is not None and pred.grad.dtype == torch.float32
    assert torch.equal(pred.grad, torch.full((1, 4, 1), 0.5))


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
def test_gradients_of_distances_equal_finite_differences(metric, draw) -> None:
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
