"""Layers that models share."""

import pytest
import torch
from torch import Generator, nn

from fern.errors import FernError
from fern.models.layers import Dropout, drawing_from


def test_dropout_keeps_the_mean_and_zeroes_at_its_rate() -> None:
    layer = Dropout(0.3)
    with drawing_from(layer, Generator().manual_seed(1)):
        out = layer(torch.ones(100_000))
    # 100,000 draws: the share zeroed is known to 0.0015.
    assert float((out == 0).float().mean()) == pytest.approx(0.3, abs=0.007)
    assert float(out.mean()) == pytest.approx(1.0, abs=0.01)


def test_dropout_draws_from_the_generator_it_is_handed_and_from_no_other() -> None:
    model = nn.Sequential(nn.Identity(), nn.Sequential(Dropout(0.5)))
    x, before = torch.ones(64), torch.get_rng_state()
    drawn = []
    for seed in (1, 1, 2):
        with drawing_from(model, Generator().manual_seed(seed)):
            drawn.append(model(x))
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    assert torch.equal(torch.get_rng_state(), before)
    assert model[1][0].generator is None


def test_dropout_is_the_identity_in_evaluation_and_at_rate_zero() -> None:
    x = torch.ones(64)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x


@pytest.mark.parametrize("rate", [-0.1, 1.0, float("nan")])
def test_a_rate_outside_its_range_is_refused(rate: float) -> None:
    with pytest.raises(FernError, match="dropout: got"):
        Dropout(rate)
