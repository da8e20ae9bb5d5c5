"""Mean squared and mean absolute error."""

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

from fern.metrics import mae, mse


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
