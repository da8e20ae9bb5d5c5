"""The exponential mean of the weights."""

import torch
from torch import nn

from fern.training.optimisation import AveragedWeights


def mean_after(weights: list[float], *, decay: float) -> float:
    layer = nn.Linear(1, 1, bias=False)
    layer.weight.data.zero_()
    average = AveragedWeights(layer, decay=decay)
    for weight in weights:
        layer.weight.data.fill_(weight)
        average.update()
    return average.values[0].item()


def test_the_mean_halves_the_noise_of_weights_that_jump_about_a_value_and_follows_a_change() -> None:
    jumping = [3.0 + (-1.0) ** step for step in range(400)]
    assert abs(mean_after(jumping, decay=0.99) - 3.0) < 0.02
    assert 4.9 < mean_after([*jumping, *[5.0] * 400], decay=0.99) < 5.0
    assert 3.1 < mean_after([*jumping, *[5.0] * 10], decay=0.99) < 3.5


def test_a_short_run_forgets_where_it_started() -> None:
    assert mean_after([1.0] * 10, decay=0.999) > 0.99


def test_the_model_s_own_weights_come_back_to_the_bit_also_after_an_error() -> None:
    layer = nn.Linear(3, 3)
    average = AveragedWeights(layer, decay=0.9)
    with torch.no_grad():
        layer.weight.add_(1.0)
    own, mean = layer.weight.detach().clone(), average.values[0].clone()
    try:
        with average.applied():
            assert torch.equal(layer.weight, mean)
            raise RuntimeError
    except RuntimeError:
        pass
    assert torch.equal(layer.weight, own)
    assert torch.equal(average.values[0], mean)


def test_a_restored_mean_continues_to_the_same_bits() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(2, 2)
    average = AveragedWeights(layer, decay=0.99)
    average.update()
    other = AveragedWeights(layer, decay=0.99)
    other.restore(average.state(), steps=average.steps)
    with torch.no_grad():
        layer.weight.mul_(3.0)
    average.update()
    other.update()
    assert all(torch.equal(a, b) for a, b in zip(average.values, other.values, strict=True))


def test_the_mean_of_narrow_weights_moves_by_less_than_their_rounding() -> None:
    layer = nn.Linear(1, 1, bias=False).to(torch.bfloat16)
    layer.weight.data.fill_(1.0)
    average = AveragedWeights(layer, decay=0.999)
    average.steps = 100_000  # far beyond the quick start
    layer.weight.data.fill_(2.0)
    for _ in range(500):
        average.update()
    # 2 - 0.999^500 = 1.394, where steps of 0.001 in bfloat16 (spacing 2^-7) would have left 1.
    assert abs(average.values[0].item() - (2 - 0.999**500)) < 1e-3
    with average.applied():
        assert layer.weight.dtype == torch.bfloat16
        assert abs(layer.weight.item() - (2 - 0.999**500)) < 2**-7
