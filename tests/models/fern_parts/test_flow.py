"""The flow that a rolled Fern starts from: its polynomial, and when earlier rows are taken beside it."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Generator, Tensor

from fern.models.fern_parts.flow import JUDGED, LEAST_DEGREE, MOST_TERMS, PolynomialFlow, PolynomialTerms, _EvenSample
from fern.models.polynomial import Ring
from fern.systems import scenario, simulate

SIZES: dict[str, Any] = {"seen": 8, "step": 4, "degree": 3, "earlier": "chosen", "margin": 0.1, "ring": None}


def lorenz(*, noise: float = 0.0, rows: int = 4000) -> Tensor:  # (n, 68, 3): 8 rows seen, 60 to come
    values = torch.from_numpy(simulate(scenario("LORENZ_BASE", steps=rows)).values).float()
    values = values + noise * values.std(0) * torch.randn(values.shape, generator=Generator().manual_seed(1))
    return values.unfold(0, 68, 3).mT


def learnt(windows: Tensor, **settings: Any) -> PolynomialFlow:
    flow = PolynomialFlow(channels=windows.shape[2], **SIZES | settings)
    flow.learn([(part[:, :8], part[:, 8:]) for part in windows.split(100)])
    return flow


def missed(flow: PolynomialFlow, windows: Tensor) -> float:
    """By one patch, standardised."""
    made = flow(flow.standardise(windows[:, :8]))
    return float((made - flow.standardise(windows[:, 8:12])).square().mean().sqrt())


def test_without_noise_the_newest_row_is_the_state() -> None:
    flow = learnt(lorenz())
    assert not flow.linear.any()
    assert missed(flow, lorenz()) < 0.01


def test_under_noise_earlier_rows_average_it_out_of_the_newest() -> None:
    noisy = lorenz(noise=0.05)
    flow, alone = learnt(noisy), learnt(noisy, seen=1)
    assert bool(flow.linear.any()) and not len(alone.linear)
    made = alone(alone.standardise(noisy[:, 7:8]))
    before = float((made - alone.standardise(noisy[:, 8:12])).square().mean().sqrt())
    # The noise of the target, 0.05, is in both; of the context's noise most is gone.
    assert missed(flow, noisy) ** 2 - 0.05**2 < 0.5 * (before**2 - 0.05**2)
    assert float(flow.unit) == pytest.approx(missed(flow, noisy), rel=0.05)


def test_a_constant_alone_reads_no_row() -> None:
    flow = learnt(lorenz(noise=0.05), degree=0)
    assert not len(flow.linear)
    moved = flow(torch.zeros(2, 8, 3)) - flow(torch.ones(2, 8, 3))
    assert torch.allclose(moved, -torch.ones(2, 4, 3), atol=1e-5)


def test_earlier_rows_can_be_left_out() -> None:
    assert not len(learnt(lorenz(noise=0.05), earlier="none").linear)


def test_windows_too_few_to_tell_earlier_rows_leave_them_out() -> None:
    noisy = lorenz(noise=0.05)
    assert not learnt(noisy[:400]).linear.any()  # 20 terms and 21 of earlier rows need 410
    assert learnt(noisy[:410]).linear.any()


def test_on_a_ring_every_channel_teaches_the_same_coefficients() -> None:
    generator = Generator().manual_seed(2)
    still = torch.rand(60, 1, 6, generator=generator)
    noisy = still + 0.3 * torch.randn(60, 68, 6, generator=generator)  # levels that stay, seen with noise
    flow = learnt(noisy, degree=1, ring=Ring(6, reach=1))
    assert flow.polynomial.shape == (4, 4) and flow.linear.shape == (21, 4)
    assert bool(flow.linear.any())
    x = flow.standardise(noisy[:5, :8])
    assert torch.allclose(flow(x.roll(2, 2)), flow(x).roll(2, 2), atol=1e-5)
    level = flow.standardise(still[:, 0].expand(60, 6))
    ahead, last = flow(flow.standardise(noisy[:, :8]))[:, 0], flow.standardise(noisy[:, 7])
    assert float((ahead - level).square().mean()) < 0.4 * float((last - level).square().mean())


def field(rows: int) -> Tensor:  # (n, 68, 64)
    values = torch.from_numpy(simulate(scenario("KS_BASE", steps=rows)).values).float()
    return values[500:].unfold(0, 68, 4).mT


def test_on_a_smooth_ring_the_flow_misses_by_its_unit_in_float32_too() -> None:
    windows = field(1500)
    flow = learnt(windows, ring=Ring(64, reach=8))
    x, came = (flow.without_weak_waves(flow.standardise(part)) for part in (windows[:, :8], windows[:, 8:12]))
    left = float((flow.without_weak_waves(flow(x)) - came).square().mean().sqrt())
    assert left == pytest.approx(float(flow.unit), rel=0.1)
    assert left < 1e-3
    assert float(flow.polynomial.abs().max()) < 100.0


def test_the_windows_that_ways_are_judged_by_are_taken_evenly_and_are_neither_few_nor_many() -> None:
    for total in (1, 255, 256, 511, 512, 3000):
        even = _EvenSample()
        for part in torch.arange(total).view(-1, 1, 1).split(100):
            even.add(part, part)
        taken = even.windows()[0].flatten()
        assert min(total, JUDGED) <= len(taken) < 2 * JUDGED
        assert len(taken) == 1 or len(taken.diff().unique()) == 1


@pytest.mark.parametrize("ring", [None, Ring(3, reach=1)])
def test_windows_in_float64_are_learnt_as_well(ring: Ring | None) -> None:
    flow, wide = learnt(lorenz(), ring=ring), learnt(lorenz().double(), ring=ring)
    assert torch.allclose(flow.polynomial, wide.polynomial, rtol=1e-3, atol=1e-4)


def test_what_was_learnt_before_does_not_stay() -> None:
    noisy, clean = lorenz(noise=0.05), lorenz()
    flow = PolynomialFlow(channels=3, **SIZES)
    flow.learn([(noisy[:, :8], noisy[:, 8:])])
    flow.learn([(clean[:, :8], clean[:, 8:])])
    fresh = PolynomialFlow(channels=3, **SIZES)
    fresh.learn([(clean[:, :8], clean[:, 8:])])
    for name, value in fresh.state_dict().items():
        assert torch.equal(flow.state_dict()[name], value), name


def test_a_network_reads_the_newest_row_and_differences_of_size_one() -> None:
    windows = lorenz()
    flow = learnt(windows)
    x = flow.standardise(windows[:, :8])
    read = flow.context(x)
    assert torch.equal(read[:, -1], x[:, -1])
    assert torch.allclose(read[:, :-1].square().mean(dim=(0, 2)).sqrt(), torch.ones(7), atol=1e-3)
    still = PolynomialFlow(channels=3, **SIZES)
    still.learn([(torch.zeros(5, 8, 3), torch.zeros(5, 60, 3))])
    assert bool(still.context(torch.rand(2, 8, 3, generator=Generator().manual_seed(3))).isfinite().all())


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
    basis = PolynomialTerms.of(2, degree=3)
    values = torch.randn(59, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    found = basis.fit(basis.features(values), values)
    assert basis.select_terms(59) == [0, 1, 2]
    assert torch.allclose(found[1:3], torch.eye(2, dtype=torch.float64))
    assert not found[3:].any()


def test_few_windows_leave_components_out_and_keep_the_degree() -> None:
    basis = PolynomialTerms.of(64, degree=3)
    told = [basis.terms[place] for place in basis.select_terms(60)]
    assert told == [(), (0,), (1,), (0, 0), (0, 1), (1, 1)]
    assert basis.select_terms(1) == [0]
    assert len(basis.select_terms(10_000)) == len(basis.terms) == 496


def test_axes_are_orthogonal_and_the_largest_component_has_deviation_one() -> None:
    generator = torch.Generator().manual_seed(2)
    states = torch.randn(500, 40, dtype=torch.float64, generator=generator) * torch.linspace(3.0, 0.01, 40)
    basis = PolynomialTerms.of(40, degree=2)
    axes = basis.axes(states)
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
    basis = PolynomialTerms.of(31, degree=1)
    plain = PolynomialTerms(40, 31, 1)
    values = torch.randn(2000, 31, dtype=torch.float64, generator=generator)
    wanted = values @ torch.randn(31, 4, dtype=torch.float64, generator=generator)
    features = basis.features(values)
    assert plain.reduced
    assert torch.allclose(plain.fit(features, wanted), basis.fit(features, wanted), atol=1e-8)
