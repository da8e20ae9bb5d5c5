"""The checkpoint score."""

import numpy as np
import pytest
import torch
from tests.errors import raises_error
from torch.autograd import gradcheck

from fern.errors import FernError
from fern.metrics import ObjectiveWeights, mae, mse, sliced_w2_squared, sphere_directions, w2_squared
from fern.metrics.objective import objective
from fern.settings import from_mapping


def test_it_is_the_papers_weighted_sum_with_either_distance(draw) -> None:
    pred, true = draw(6, 9, 2), draw(6, 9, 2)
    directions = sphere_directions(9, 33, generator=torch.Generator().manual_seed(4))
    points = 0.1 * mse(pred, true) + 1.0 * mae(pred, true)
    assert objective(pred, true).item() == pytest.approx(
        (points + 0.1 * sliced_w2_squared(pred, true)).item(), rel=1e-12
    )
    assert objective(pred, true, directions=directions).item() == pytest.approx(
        (points + 0.1 * sliced_w2_squared(pred, true, directions=directions)).item(), rel=1e-12
    )
    assert objective(pred, true, distance="w2").item() == pytest.approx(
        (points + 0.1 * w2_squared(pred, true)).item(), rel=1e-12
    )


def test_numpy_in_gives_a_numpy_float_out(rng: np.random.Generator) -> None:
    pred, true = rng.normal(size=(2, 6, 9, 2))
    value = objective(pred, true)
    assert type(value) is np.float64
    assert value == objective(torch.from_numpy(pred), torch.from_numpy(true)).item()


def test_weights_are_settings(draw) -> None:
    pred, true = draw(6, 9, 2), draw(6, 9, 2)
    only_mse = from_mapping(ObjectiveWeights, {"mse": 1.0, "mae": 0.0, "distance": 0.0})
    assert objective(pred, true, weights=only_mse).item() == mse(pred, true).item()
    with pytest.raises(FernError, match=r"unknown setting 'mea': did you mean .*'mae'"):
        from_mapping(ObjectiveWeights, {"mea": 1.0})


def test_the_crps_of_a_point_forecast_is_its_absolute_error(draw) -> None:
    pred, true = draw(6, 9, 2), draw(6, 9, 2)
    only_crps = ObjectiveWeights(mse=0.0, mae=0.0, distance=0.0, crps=2.0)
    assert objective(pred, true, weights=only_crps).item() == pytest.approx(2 * mae(pred, true).item(), rel=1e-12)
    assert ObjectiveWeights(crps=2.0).score(mse=0.0, mae=1.0, distance=0.0, crps=0.5) == 2.0


def test_no_weight_of_the_crps_leaves_the_settings_equal_to_the_papers() -> None:
    assert from_mapping(ObjectiveWeights, {"mse": 0.1, "mae": 1.0, "distance": 0.1}) == ObjectiveWeights()


@pytest.mark.parametrize("weight", [-0.1, float("nan"), float("inf")])
def test_a_weight_that_is_no_weight_is_refused(weight: float) -> None:
    with raises_error("mae"):
        ObjectiveWeights(mae=weight)


def test_gradients_equal_finite_differences(draw) -> None:
    pred, true = draw(4, 5, 1).requires_grad_(), draw(4, 5, 1)
    directions = sphere_directions(5, 6)
    assert gradcheck(lambda values: objective(values, true, directions=directions), (pred,))


def test_an_unknown_distance_is_named_and_directions_without_slices_are_refused() -> None:
    zeros = torch.zeros(2, 3, 1)
    with pytest.raises(FernError, match="unknown distance 'slicedw2': did you mean 'sliced_w2'"):
        objective(zeros, zeros, distance="slicedw2")
    with raises_error("directions"):
        objective(zeros, zeros, distance="w2", directions=torch.eye(3))
