"""Monomials, each once; channels on a ring: who is near whom, and the waves that rows have."""

from itertools import combinations_with_replacement

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Generator

from fern.models.polynomial import Ring, monomial_count, monomials, strong_waves


def test_monomials_are_the_products_of_up_to_so_many_values_each_once() -> None:
    values = torch.randn(4, 6, generator=Generator().manual_seed(1), dtype=torch.float64)
    wanted = [
        torch.stack([values[i] for i in chosen]).prod(0) if chosen else torch.ones(6, dtype=torch.float64)
        for degree in range(4)
        for chosen in combinations_with_replacement(range(4), degree)
    ]
    assert torch.allclose(monomials(values, 3), torch.stack(wanted), rtol=1e-14)


@pytest.mark.parametrize(("variables", "degree"), [(1, 4), (3, 0), (3, 2), (30, 2)])
def test_there_are_as_many_monomials_as_are_counted(variables: int, degree: int) -> None:
    assert monomials(torch.ones(2, variables, 5), degree).shape == (2, monomial_count(variables, degree), 5)


def test_gradients_go_through_monomials() -> None:
    values = torch.randn(3, 4, generator=Generator().manual_seed(2), dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda given: monomials(given, 3), (values,))


@given(channels=st.integers(1, 20), reach=st.integers(0, 25))
def test_every_channel_sees_itself_and_its_neighbours_once_each(channels: int, reach: int) -> None:
    ring = Ring(channels, reach)
    seen = ring.around(torch.arange(channels))
    assert seen.shape == (channels, ring.width)
    assert torch.equal(seen[:, (ring.width - 1) // 2], torch.arange(channels))
    for own, row in enumerate(seen.tolist()):
        assert len(set(row)) == len(row)
        away = {min((other - own) % channels, (own - other) % channels) for other in row}
        assert away == set(range(min(reach, channels // 2) + 1))


@given(channels=st.integers(2, 16), shift=st.integers(0, 16), seed=st.integers(0, 1000))
def test_what_is_near_and_which_waves_are_strong_look_alike_from_every_channel(
    channels: int, shift: int, seed: int
) -> None:
    rows = torch.randn(5, channels, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    ring = Ring(channels, reach=2)
    assert torch.equal(ring.around(rows.roll(shift, 1)), ring.around(rows).roll(shift, 1))
    waves = strong_waves(rows, least=0.3)
    assert torch.allclose(rows.roll(shift, 1) @ waves, (rows @ waves).roll(shift, 1))


@given(channels=st.integers(1, 16), least=st.floats(0.0, 1.0), seed=st.integers(0, 1000))
def test_strong_waves_are_an_orthogonal_projection_that_takes_off_little(
    channels: int, least: float, seed: int
) -> None:
    rows = torch.randn(7, channels, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    waves = strong_waves(rows, least=least)
    assert torch.allclose(waves @ waves, waves, atol=1e-12)
    assert torch.allclose(waves, waves.T, atol=1e-12)
    strongest = torch.fft.rfft(rows, dim=1).abs().square().mean(0).max()
    # Parseval: each of the C waves that is taken off has less than ``least`` of the strongest.
    taken = (rows - rows @ waves).square().sum(1).mean()
    assert float(taken) <= least * float(strongest) + 1e-12
    if least == 0.0:
        assert torch.allclose(waves, torch.eye(channels, dtype=torch.float64), atol=1e-12)
