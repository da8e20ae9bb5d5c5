"""The polynomial of a rolled Fern: made of channels where they are few, else of leading components; told by windows."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fern.models.fern_parts.polynomial import LEAST_DEGREE, MOST_TERMS, PolynomialTerms


@given(channels=st.integers(1, 600), degree=st.integers(0, 5))
def test_there_are_never_too_many_terms_and_components_only_where_channels_do_not_fit(
    channels: int, degree: int
) -> None:
    found = PolynomialTerms.of(channels, degree=degree)
    assert len(found.terms) <= MOST_TERMS
    assert found.degree <= degree
    assert found.variables <= channels
    if found.reduced:
        assert found.degree == min(degree, LEAST_DEGREE)
        more = PolynomialTerms(channels, found.variables + 1, found.degree)
        assert len(more.terms) > MOST_TERMS


@pytest.mark.parametrize(
    ("channels", "made"), [(3, (3, 3)), (12, (12, 3)), (13, (13, 2)), (30, (30, 2)), (31, (30, 2))]
)
def test_the_degree_is_cut_before_channels_are(channels: int, made: tuple[int, int]) -> None:
    found = PolynomialTerms.of(channels, degree=3)
    assert (found.variables, found.degree) == made


def test_terms_that_windows_cannot_tell_stay_zero() -> None:
    make_up = PolynomialTerms.of(2, degree=3)
    values = torch.randn(59, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    found = make_up.fit(make_up.features(values), values)
    assert make_up.told_by(59) == [0, 1, 2]
    assert torch.allclose(found[1:3], torch.eye(2, dtype=torch.float64))
    assert not found[3:].any()


def test_few_windows_leave_components_out_and_keep_the_degree() -> None:
    make_up = PolynomialTerms.of(64, degree=3)
    told = [make_up.terms[place] for place in make_up.told_by(60)]
    assert told == [(), (0,), (1,), (0, 0), (0, 1), (1, 1)]
    assert make_up.told_by(1) == [0]
    assert len(make_up.told_by(10_000)) == len(make_up.terms) == 496


def test_axes_are_orthogonal_and_the_largest_component_has_deviation_one() -> None:
    generator = torch.Generator().manual_seed(2)
    states = torch.randn(500, 40, dtype=torch.float64, generator=generator) * torch.linspace(3.0, 0.01, 40)
    make_up = PolynomialTerms.of(40, degree=2)
    axes = make_up.axes(states)
    products = axes.T @ axes
    assert torch.allclose(products, products[0, 0] * torch.eye(30, dtype=torch.float64), atol=1e-12)
    sizes = (states @ axes).square().mean(0)
    assert sizes[0] == pytest.approx(1.0)
    assert bool((sizes.diff() <= 0).all())


def test_axes_of_a_state_that_never_moves_stay_within_float32() -> None:
    axes = PolynomialTerms.of(40, degree=2).axes(torch.zeros(500, 40, dtype=torch.float64))
    assert bool(torch.isfinite(axes.float().square()).all())


def test_a_ridge_of_components_moves_what_can_be_told_by_next_to_nothing() -> None:
    generator = torch.Generator().manual_seed(5)
    make_up = PolynomialTerms.of(31, degree=1)
    plain = PolynomialTerms(40, 31, 1)
    values = torch.randn(2000, 31, dtype=torch.float64, generator=generator)
    wanted = values @ torch.randn(31, 4, dtype=torch.float64, generator=generator)
    features = make_up.features(values)
    assert plain.reduced
    assert torch.allclose(plain.fit(features, wanted), make_up.fit(features, wanted), atol=1e-8)
