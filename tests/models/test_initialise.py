"""Starting values."""

import pytest
import torch
from torch import Generator, nn

from fern.models.registry import initialise


@pytest.mark.parametrize(
    "layer",
    [nn.Linear(50, 40), nn.Conv1d(6, 30, 9), nn.Conv2d(8, 32, 3, groups=4), nn.Linear(50, 40, bias=False)],
    ids=["linear", "conv1d", "grouped conv2d", "no bias"],
)
def test_linear_maps_and_convolutions_start_as_pytorchs_defaults(layer: nn.Module) -> None:
    default = [parameter.detach().clone() for parameter in layer.parameters()]
    initialise(layer, Generator().manual_seed(1))
    bound = layer.weight[0].numel() ** -0.5  # PyTorch's: uniform up to 1/√(numbers that enter an output)
    for ours, theirs in zip((p.detach() for p in layer.parameters()), default, strict=True):
        assert not torch.equal(ours, theirs)
        assert float(theirs.abs().max()) <= bound
        assert 0.9 * bound < float(ours.abs().max()) <= bound
        # The standard deviation of n uniform draws is known to about 0.45/√n of itself: n is 30 or more here.
        assert float(ours.std()) == pytest.approx(bound / 3**0.5, rel=0.3)


def test_the_generator_decides_every_bit_and_the_global_one_is_not_touched() -> None:
    model = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 3), nn.Embedding(3, 2))
    before = torch.get_rng_state()
    states = []
    for seed in (1, 1, 2):
        initialise(model, Generator().manual_seed(seed))
        states.append(torch.cat([parameter.detach().flatten() for parameter in model.parameters()]))
    assert torch.equal(states[0], states[1])
    assert not torch.equal(states[0], states[2])
    assert torch.equal(torch.get_rng_state(), before)


def test_normalisations_start_as_the_identity() -> None:
    for layer in (nn.LayerNorm(3), nn.BatchNorm1d(3), nn.GroupNorm(1, 3), nn.InstanceNorm1d(3, affine=True)):
        with torch.no_grad():
            layer.weight.fill_(7.0)
            layer.bias.fill_(7.0)
        initialise(layer, Generator().manual_seed(1))
        assert layer.weight.tolist() == [1.0] * 3
        assert layer.bias.tolist() == [0.0] * 3


def test_a_part_with_parameters_of_its_own_must_start_itself() -> None:
    class Level(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.level = nn.Parameter(torch.zeros(2))

    with pytest.raises(TypeError, match="Level has parameters of its own"):
        initialise(nn.Sequential(Level()), None)

    class Started(Level):
        def initialise_parameters(self, generator: Generator | None) -> None:
            self.level.normal_(generator=generator)

    started = Started()
    initialise(started, Generator().manual_seed(1))
    assert (started.level != 0).all()
