"""The energy score of whole paths, against scoringrules and by its properties."""

import math

import numpy as np
import pytest
import scoringrules
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.errors import raises_error
from torch import Tensor
from torch.autograd import gradcheck

from fern.errors import FernError
from fern.metrics import crps, energy_score, paths
from fern.transport import Ellipsoid

SHAPE = (25, 4, 9, 2)


@pytest.fixture
def samples(rng: np.random.Generator) -> np.ndarray:
    """Random walks far from zero, which is hard on distances taken from squares."""
    return 100 + rng.normal(size=SHAPE).cumsum(axis=2)


@pytest.fixture
def true(rng: np.random.Generator) -> np.ndarray:
    return 100 + rng.normal(size=SHAPE[1:]).cumsum(axis=1)


def by_channel(values: np.ndarray) -> np.ndarray:
    """Steps last, channels among the windows: what scoringrules takes as variables."""
    return np.moveaxis(values, -2, -1)


@pytest.mark.parametrize("estimator", ["fair", "nrg"])
@pytest.mark.parametrize("chunk", [1, 10_000, 10**9])
def test_energy_score_equals_scoringrules(
    estimator, chunk: int, samples: np.ndarray, true: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "CHUNK_VALUES", chunk)
    expected = scoringrules.es_ensemble(
        by_channel(true), by_channel(samples), m_axis=0, estimator=estimator, backend="numpy"
    ).mean()
    assert energy_score(samples, true, estimator=estimator) == pytest.approx(expected, rel=1e-9)
    value = energy_score(torch.from_numpy(samples), torch.from_numpy(true), estimator=estimator)
    assert value.shape == () and value.item() == pytest.approx(expected, rel=1e-9)


def test_energy_score_of_a_horizon_of_one_step_is_the_crps(rng: np.random.Generator) -> None:
    samples, true = rng.normal(size=(12, 5, 1, 3)), rng.normal(size=(5, 1, 3))
    for estimator in ("fair", "nrg"):
        assert energy_score(samples, true, estimator=estimator) == pytest.approx(
            crps(samples, true, estimator=estimator), rel=1e-9
        )


@given(st.floats(-1e3, 1e3), st.floats(1e-2, 1e2), st.integers(0, 2**32 - 1))
def test_the_score_moves_and_scales_with_the_series(shift: float, scale: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    samples, true = rng.normal(size=(6, 2, 5, 1)), rng.normal(size=(2, 5, 1))
    energy = energy_score(samples, true, estimator="nrg")
    assert energy >= 0
    # At a shift of 1e3 the values themselves are rounded by 1e-13.
    moved = energy_score(scale * samples + shift, scale * true + shift, estimator="nrg")
    assert moved == pytest.approx(scale * energy, rel=1e-6, abs=1e-9)


def test_paths_of_the_true_correlation_score_best(rng: np.random.Generator) -> None:
    """Shuffling each step's samples keeps the marginals and breaks the dependence: only this score sees it."""
    generator = torch.Generator().manual_seed(1)
    walk = torch.randn(200, 60, 8, 1, generator=generator).cumsum(dim=2).double()
    true = torch.randn(60, 8, 1, generator=generator).cumsum(dim=1).double()
    shuffled = torch.stack([walk[torch.randperm(200, generator=generator), :, step] for step in range(8)], dim=2)
    assert crps(shuffled, true).item() == pytest.approx(crps(walk, true).item(), rel=1e-12)
    assert energy_score(walk, true) < energy_score(shuffled, true)


def test_equal_samples_are_no_distance_apart() -> None:
    path, true = torch.rand(1, 2, 6, 1, dtype=torch.float64), torch.zeros(2, 6, 1)
    repeated = path.repeat(50, 1, 1, 1)
    expected = torch.linalg.vector_norm(path[0], dim=1).mean().item()
    # The roots of rounding errors: 1e-8 of the paths' spread, here 0, at most.
    assert energy_score(repeated, true).item() == pytest.approx(expected, rel=1e-9)


def test_an_ellipsoid_is_scored_by_paths_drawn_with_the_generator(ellipsoid: Ellipsoid, truth: Tensor) -> None:
    drawn = ellipsoid.rsample((30,), generator=torch.Generator().manual_seed(4)).transpose(-1, -2)
    by_distribution = energy_score(ellipsoid, truth, samples=30, generator=torch.Generator().manual_seed(4))
    assert by_distribution.item() == energy_score(drawn, truth).item()
    assert energy_score(ellipsoid, truth).item() == energy_score(ellipsoid, truth, samples=100).item()
    assert by_distribution.item() != energy_score(ellipsoid, truth, samples=30).item()
    assert energy_score(ellipsoid, truth.numpy(), samples=30) == energy_score(ellipsoid, truth, samples=30).item()


def test_energy_score_of_an_ellipsoid_converges_to_the_known_value() -> None:
    """N(0, I) in R^H at y = 0: E‖X‖ (1 − 1/√2), E‖X‖ = √2 Γ((H+1)/2)/Γ(H/2).

    150 windows of 500 paths, to 4 standard errors.
    """
    horizon = 6
    distribution = Ellipsoid(
        torch.ones(150, 1, 1, horizon), torch.zeros(150, 1, 1, horizon), torch.zeros(150, 1, 1, 0, horizon),
        base_variance=1.0,
    )  # fmt: skip
    norm = math.sqrt(2) * math.gamma((horizon + 1) / 2) / math.gamma(horizon / 2)
    value = energy_score(
        distribution, torch.zeros(150, horizon, 1), samples=500, generator=torch.Generator().manual_seed(6)
    )
    assert value.item() == pytest.approx(norm * (1 - 1 / math.sqrt(2)), abs=4 * 1.0 / math.sqrt(150 * 500))


@pytest.mark.parametrize("estimator", ["fair", "nrg"])
def test_gradients_equal_finite_differences(estimator, draw) -> None:
    samples, true = draw(5, 2, 4, 2).requires_grad_(), draw(2, 4, 2)
    assert gradcheck(lambda values: energy_score(values, true, estimator=estimator), (samples,))


def test_gradients_flow_through_the_drawn_paths_to_the_distributions_parameters(draw) -> None:
    parameters = [draw(1, 1, 2, 3).abs() + 0.3, draw(1, 1, 2, 3), draw(1, 1, 2, 2, 3)]
    for values in parameters:
        values.requires_grad_()
    true = draw(1, 6, 1)
    assert gradcheck(lambda *parts: energy_score(Ellipsoid(*parts), true, samples=4), parameters)


def test_gradients_stay_finite_where_samples_coincide() -> None:
    samples = torch.ones(4, 1, 3, 1, dtype=torch.float64, requires_grad=True)
    energy_score(samples, torch.zeros(1, 3, 1, dtype=torch.float64)).backward()
    assert samples.grad is not None and torch.isfinite(samples.grad).all()


def test_gradients_are_right_where_some_samples_coincide(draw) -> None:
    """Against distances of each pair taken by subtraction; the root's gradient there is taken as 0 by both."""
    samples, true = draw(5, 1, 6, 1), draw(1, 6, 1)
    samples[3] = samples[1]
    samples.requires_grad_()
    energy_score(samples, true).backward()
    paths = samples.detach().squeeze().requires_grad_()
    apart = torch.cdist(paths, paths, compute_mode="donot_use_mm_for_euclid_dist").sum() / 20
    (torch.linalg.vector_norm(paths - true[0, :, 0], dim=-1).mean() - 0.5 * apart).backward()
    assert samples.grad is not None and paths.grad is not None
    # Where two coincide the squares' rounding (1e-16) is divided by its root (1e-8).
    assert torch.allclose(samples.grad.squeeze(), paths.grad, rtol=0, atol=1e-7)


def test_torchs_global_random_state_is_never_drawn_from(ellipsoid: Ellipsoid, truth: Tensor, draw) -> None:
    before = torch.random.get_rng_state()
    energy_score(ellipsoid, truth)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_bad_options_are_refused(ellipsoid: Ellipsoid, truth: Tensor) -> None:
    given = truth[None].repeat(3, 1, 1, 1)
    with raises_error("samples"):
        energy_score(ellipsoid, truth, samples=0)
    for options in ({"samples": 5}, {"generator": torch.Generator()}):
        with pytest.raises(FernError, match="the distribution is given as samples, nothing is drawn"):
            energy_score(given, truth, **options)
    with pytest.raises(FernError, match=r"do not fit true of shape \(4, 10, 2\)"):
        energy_score(ellipsoid, truth[:4])
    with pytest.raises(FernError, match="fair estimator needs at least 2, got 1"):
        energy_score(given[:1], truth)
