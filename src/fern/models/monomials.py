"""The monomials of several values, which polynomials of a state are sums of."""

from functools import cache
from math import comb

import torch
from torch import Tensor


def monomial_count(variables: int, degree: int) -> int:
    """How many monomials so many variables have up to a degree, the constant among them."""
    return comb(variables + degree, degree)


def monomials(
    values: Tensor,  # (..., v, n)
    degree: int,
) -> Tensor:  # (..., monomials, n)
    """1, the values, their products of two, …, up to the degree, each monomial once."""
    *others, variables, width = values.shape
    products = [values.new_ones(*others, 1, width)]
    for lower, variable in _recipe(variables, degree, values.device):
        products.append(products[-1].index_select(-2, lower) * values.index_select(-2, variable))
    return torch.cat(products, dim=-2)


@cache
def _recipe(variables: int, degree: int, device: torch.device) -> tuple[tuple[Tensor, Tensor], ...]:
    """For each degree, of which monomial of the degree below and which variable its monomials are the products."""
    layers, last = [], [0]  # the least variable that each of the last may be multiplied by
    for _ in range(degree):
        made = [(lower, variable) for lower, least in enumerate(last) for variable in range(least, variables)]
        layers.append(tuple(torch.tensor(entries, device=device) for entries in zip(*made, strict=True)))
        last = [variable for _, variable in made]
    return tuple((lower, variable) for lower, variable in layers)
