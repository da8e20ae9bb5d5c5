"""Monomials: each once, in the order of their degrees, and with gradients."""

from itertools import combinations_with_replacement

import pytest
import torch
from torch import Generator

from fern.models.monomials import monomial_count, monomials


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
