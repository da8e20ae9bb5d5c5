"""Losses against their definitions, learning rates, averaged weights, and stopping rules on scripted values."""

import json
import math
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.errors import raises_error
from tests.transport.reference import dense_rotation, random_distribution
from torch import Tensor, nn
from torch.distributions import Normal
from torch.nn import functional

from fern.data.windows import Windows
from fern.errors import FernError
from fern.metrics import crps, energy_score, nll
from fern.metrics.probabilistic import gaussian_crps
from fern.models import Forecast, Forecaster
from fern.settings import from_mapping
from fern.training import TrainConfig, train
from fern.training.optimisation import (
    FIRST,
    LOSSES,
    AveragedWeights,
    Reason,
    Schedule,
    Shape,
    StoppingRule,
    StoppingState,
    criterion,
    loss_weights,
)
from fern.transport import Ellipsoid

B, H, C = 4, 6, 2


@pytest.fixture
def forecast() -> Forecast:
    generator = torch.Generator().manual_seed(3)
    distribution = Ellipsoid(
        torch.rand(B, C, 2, 3, generator=generator) + 0.5,
        torch.randn(B, C, 2, 3, generator=generator),
        torch.randn(B, C, 2, 2, 3, generator=generator),
    )
    return Forecast(mean=distribution.mean.mT + 0.3, ellipsoid=distribution)


@pytest.fixture
def future() -> Tensor:
    return torch.randn(B, H, C, generator=torch.Generator().manual_seed(4)) * 2


def along_axes(distribution: Ellipsoid, future: Tensor) -> tuple[Tensor, Tensor]:
    """U (y - μ) by dense rotations, and its deviations: in float64."""
    apart = (future.mT - distribution.mean).double().unflatten(-1, distribution.eigenvalues.shape[-2:])
    sets = distribution.reflections.flatten(0, 2)
    turned = [dense_rotation(v) @ x for v, x in zip(sets, apart.flatten(0, 2), strict=True)]
    stddev = distribution.base_variance**0.5 * distribution.eigenvalues.double().flatten(-2)
    return torch.stack(turned).reshape(stddev.shape), stddev


def test_each_loss_is_what_its_name_says(forecast: Forecast, future: Tensor) -> None:
    assert forecast.ellipsoid is not None
    draws = torch.Generator().manual_seed(5)
    rotated, stddev = along_axes(forecast.ellipsoid, future)
    expected = {
        "huber": functional.huber_loss(forecast.mean, future, delta=0.7),
        "mse": (forecast.mean - future).square().mean(),
        "mae": (forecast.mean - future).abs().mean(),
        "nll": nll(forecast.ellipsoid, future),
        "crps": crps(forecast.ellipsoid, future),
        "whitened_crps": gaussian_crps(rotated, stddev).mean(),
        "beta_nll": -(stddev * Normal(0.0, stddev).log_prob(rotated)).mean(),
        "energy": energy_score(forecast.ellipsoid, future, samples=8, generator=draws),
    }
    assert set(expected) == set(LOSSES)
    for name, value in expected.items():
        ours = criterion({name: 1.0}, huber_delta=0.7, energy_samples=8, generator=torch.Generator().manual_seed(5))(
            forecast, future
        )
        assert ours.dtype == future.dtype
        # float32 against the metrics' float64
        assert ours.item() == pytest.approx(value.item(), rel=1e-5), name


@pytest.mark.parametrize("name", ["nll", "crps", "whitened_crps"])
def test_a_distribution_that_is_true_scores_better_than_one_that_is_not(name: str) -> None:
    truth = random_distribution(torch.Generator().manual_seed(1), (1, 1, 2, 4), 3, horizon=7, placed_by="offset")
    drawn = truth.sample((20_000,), generator=torch.Generator().manual_seed(2))[:, 0].mT  # (draws, H, 1)

    def score(distribution: Ellipsoid) -> float:
        return criterion({name: 1.0})(
            Forecast(mean=drawn, ellipsoid=distribution.expand((len(drawn), 1))), drawn
        ).item()

    turned = Ellipsoid(truth.eigenvalues, None, truth.reflections.roll(1, -1), offset=truth.offset, horizon=7)
    others = [truth.affine(1.3), truth.affine(0.7), truth.affine(1.0, 0.2)]
    # Scores of marginals do not see how steps go together, but these turns change the marginals too.
    assert all(score(truth) < score(other) for other in (*others, turned))


@pytest.mark.parametrize("name", ["crps", "whitened_crps"])
@pytest.mark.parametrize("placed_by", ["shift", "offset", "both"])
def test_gradients_equal_finite_differences(name: str, placed_by: str) -> None:
    distribution = random_distribution(
        torch.Generator().manual_seed(1), (2, 1, 2, 4), 3, horizon=7, placed_by=placed_by
    )
    future = torch.randn(2, 7, 1, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    parts = [
        part.clone().requires_grad_()
        for part in (distribution.eigenvalues, distribution.reflections, distribution.shift)
    ]

    def loss(eigenvalues: Tensor, reflections: Tensor, place: Tensor) -> Tensor:
        shift, offset = (None, place) if placed_by == "offset" else (place, distribution.offset)
        made = Ellipsoid(eigenvalues, shift, reflections, offset=offset, horizon=7)
        return criterion({name: 1.0})(Forecast(mean=future, ellipsoid=made), future)

    assert torch.autograd.gradcheck(loss, parts)


def test_a_mixture_is_the_weighted_sum(forecast: Forecast, future: Tensor) -> None:
    parts = {name: criterion({name: 1.0})(forecast, future).item() for name in ("huber", "nll", "crps")}
    mixed = criterion({"huber": 1.0, "nll": 0.1, "crps": 0.5})(forecast, future).item()
    assert mixed == pytest.approx(parts["huber"] + 0.1 * parts["nll"] + 0.5 * parts["crps"], rel=1e-6)


def test_a_loss_is_the_mean_of_its_windows_losses(forecast: Forecast, future: Tensor) -> None:
    distribution = forecast.ellipsoid
    assert distribution is not None
    for name in ("huber", "mse", "mae", "nll", "crps", "whitened_crps", "beta_nll"):
        loss = criterion({name: 1.0})
        alone = []
        for window in range(B):
            own = Ellipsoid(
                distribution.eigenvalues[window : window + 1],
                distribution.shift[window : window + 1],
                distribution.reflections[window : window + 1],
            )
            one = Forecast(mean=forecast.mean[window : window + 1], ellipsoid=own)
            alone.append(loss(one, future[window : window + 1]).item())
        assert loss(forecast, future).item() == pytest.approx(sum(alone) / B, rel=1e-5), name


def test_a_loss_of_the_distribution_makes_the_distribution_better(
    windows: dict[str, Windows], fern: Callable[[], Forecaster], quick: TrainConfig
) -> None:
    past, future = windows["validation"].gather(torch.arange(len(windows["validation"])))
    score = {}
    for name, loss in {"huber": "huber", "mixed": {"huber": 1.0, "nll": 0.1}}.items():
        config = replace(quick, loss=loss_weights(loss), epochs=12)
        model = train(fern(), windows["train"], windows["validation"], config, progress="silent").model
        with torch.no_grad():
            distribution = model(past).ellipsoid
        assert distribution is not None
        score[name] = nll(distribution, future).item()
    # Huber alone lets the ellipsoid shrink until the truth is far outside it.
    assert score["mixed"] < score["huber"] - 1.0


def test_a_forecast_without_an_ellipsoid_has_no_loss_of_the_distribution(future: Tensor) -> None:
    with raises_error("loss"):
        criterion({"crps": 1.0})(Forecast(mean=future), future)


def test_constant_is_the_peak_at_every_step() -> None:
    schedule = Schedule("constant", peak=3e-4, warmup=0.0, steps=100)
    assert {schedule.rate(step) for step in range(100)} == {3e-4}


def test_one_cycle_is_torch_s() -> None:
    # The same two-phase cosine as torch.optim.lr_scheduler.OneCycleLR, written as a function of the step.
    steps, peak = 137, 2e-3
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    theirs = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, max_lr=peak, total_steps=steps, pct_start=0.3, div_factor=25, final_div_factor=400
    )
    ours = Schedule("one-cycle", peak=peak, warmup=0.3, steps=steps)
    # OneCycleLR counts its phases as share·steps - 1, ours as share·(steps - 1): they differ by under one step.
    slope = 3 * peak / (0.3 * steps)
    for step in range(steps):
        assert abs(optimiser.param_groups[0]["lr"] - ours.rate(step)) < slope
        optimiser.step()
        if step < steps - 1:
            theirs.step()


@given(st.sampled_from(get_args(Shape)), st.floats(0.0, 0.9), st.integers(1, 500))
def test_rates_rise_to_the_peak_and_never_pass_it(shape: str, warmup: float, steps: int) -> None:
    schedule = Schedule(shape, peak=1.0, warmup=warmup, steps=steps)  # type: ignore[arg-type]
    rates = [schedule.rate(step) for step in range(steps)]
    top = rates.index(max(rates))
    assert all(0.0 <= rate <= 1.0 for rate in rates)
    assert rates[: top + 1] == sorted(rates[: top + 1])
    assert rates[top:] == sorted(rates[top:], reverse=True)
    if warmup * (steps - 1) >= 1:
        assert rates[0] == FIRST


def test_cosine_ends_at_zero_and_one_cycle_just_above() -> None:
    assert Schedule("cosine", peak=1.0, warmup=0.1, steps=50).rate(49) == pytest.approx(0.0, abs=1e-12)
    assert Schedule("one-cycle", peak=1.0, warmup=0.1, steps=50).rate(49) == pytest.approx(1e-4, rel=1e-6)


def test_unknown_shapes_and_warm_ups_are_refused() -> None:
    with pytest.raises(FernError, match="did you mean 'cosine'"):
        Schedule("cosin", peak=1.0, warmup=0.0, steps=1)  # type: ignore[arg-type]
    with raises_error("warmup"):
        Schedule("cosine", peak=1.0, warmup=1.5, steps=1)


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
        with average.apply():
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
    with average.apply():
        assert layer.weight.dtype == torch.bfloat16
        assert abs(layer.weight.item() - (2 - 0.999**500)) < 2**-7


VALUES = st.lists(st.floats(0.0, 100.0), min_size=1, max_size=30)


def play(rule: StoppingRule, values: list[float]) -> tuple[StoppingState, Reason | None]:
    """The state and reason after as many of the values as the rule takes."""
    state, reason = StoppingState(), None
    for value in values:
        state, reason = rule.after_epoch(state, value)
        if reason is not None:
            break
    return state, reason


def test_patience_stops_after_so_many_epochs_without_a_new_best() -> None:
    state, reason = play(StoppingRule(epochs=50, patience=3), [5.0, 4.0, 4.5, 4.2, 4.1, 1.0])
    assert (state.epoch, state.kept_epoch, reason) == (5, 2, "patience")


def test_a_new_best_starts_the_patience_anew() -> None:
    state, reason = play(StoppingRule(epochs=50, patience=2), [5.0, 6.0, 4.0, 6.0, 3.0, 6.0, 6.0])
    assert (state.epoch, state.kept_epoch, reason) == (7, 5, "patience")


def test_an_equal_value_is_not_a_new_best() -> None:
    state, reason = play(StoppingRule(epochs=50, patience=2), [2.0, 2.0, 2.0])
    assert (state.epoch, state.kept_epoch, reason) == (3, 1, "patience")


def test_the_grace_period_can_neither_be_kept_nor_use_up_the_patience() -> None:
    # Epoch 1 is deceptively good, as the paper found on ETTh1: without grace it is kept and the run ends at epoch 3.
    values = [1.0, 9.0, 8.0, 7.0, 6.0, 6.5, 6.4]
    naive, why = play(StoppingRule(epochs=50, patience=2), values)
    assert (naive.epoch, naive.kept_epoch, why) == (3, 1, "patience")
    state, reason = play(StoppingRule(epochs=50, patience=2, grace=3), values)
    assert (state.epoch, state.kept_epoch, reason) == (7, 5, "patience")


def test_the_first_epoch_after_the_grace_period_is_kept_whatever_its_value() -> None:
    state, reason = play(StoppingRule(epochs=9, patience=5, grace=2), [1.0, 1.0, 50.0])
    assert (state.epoch, state.kept_epoch, state.waited, reason) == (3, 3, 0, None)


def test_smoothing_rides_over_an_oscillation_that_would_stop_the_run() -> None:
    values = [10.0, 4.0, 8.0, 8.0, 3.0, 3.0, 9.0, 9.0]
    plain, why = play(StoppingRule(epochs=8, patience=2), values)
    assert (plain.epoch, plain.kept_epoch, why) == (4, 2, "patience")
    # s = 10, 7, 7.5, 7.75, 5.375, 4.1875, 6.59375, 7.796875: two epochs without a new best at the very end.
    smooth, reason = play(StoppingRule(epochs=8, patience=3, smoothing=0.5), values)
    assert (smooth.epoch, smooth.kept_epoch, reason) == (8, 6, "epochs")
    assert smooth.judged == 7.796875
    assert smooth.best == 4.1875


def test_smoothing_starts_after_the_grace_period() -> None:
    state, _ = play(StoppingRule(epochs=9, grace=2, smoothing=0.5), [100.0, 100.0, 4.0, 2.0])
    assert state.judged == 3.0


def test_a_tolerance_keeps_the_earlier_of_two_epochs_that_validation_hardly_tells_apart() -> None:
    # 1 % of 4.0 is 0.04: 3.97 is no new best, 3.95 is, and 3.92 again is not.
    values = [4.0, 3.97, 3.95, 3.92, 3.92, 3.92]
    state, reason = play(StoppingRule(epochs=50, patience=3, tolerance=0.01), values)
    assert (state.epoch, state.kept_epoch, state.best, reason) == (6, 3, 3.95, "patience")
    exact, _ = play(StoppingRule(epochs=50, patience=3), values)
    assert exact.kept_epoch == 4


def test_a_fixed_number_of_epochs_runs_to_its_end_and_keeps_the_best_or_the_last() -> None:
    values = [3.0, 1.0, 2.0, 5.0]
    best, why = play(StoppingRule(epochs=4), values)
    assert (best.epoch, best.kept_epoch, why) == (4, 2, "epochs")
    last, reason = play(StoppingRule(epochs=4, keep="last"), values)
    assert (last.epoch, last.kept_epoch, reason) == (4, 4, "epochs")


@given(VALUES, st.integers(1, 6), st.integers(0, 4), st.none() | st.floats(0.05, 0.95))
def test_the_kept_epoch_is_the_first_lowest_after_the_grace_period(
    values: list[float], patience: int, grace: int, smoothing: float | None
) -> None:
    rule = StoppingRule(epochs=40, patience=patience, grace=grace, smoothing=smoothing)
    judged: list[float] = []
    state = StoppingState()
    for value in values:
        state, reason = rule.after_epoch(state, value)
        if state.epoch > grace and state.judged is not None:
            judged.append(state.judged)
        if reason is not None:
            break
    if not judged:
        assert state.kept_epoch is None
        return
    lowest = judged.index(min(judged))
    assert state.kept_epoch == grace + 1 + lowest
    assert (reason == "patience") == (len(judged) - 1 - lowest >= patience)


@given(VALUES, st.integers(0, 30), st.none() | st.floats(0.05, 0.95))
def test_a_state_written_as_json_continues_to_the_same_bits(
    values: list[float], cut: int, smoothing: float | None
) -> None:
    rule = StoppingRule(epochs=40, patience=4, grace=2, smoothing=smoothing)
    whole, reason = play(rule, values)
    state = StoppingState()
    resumed: Reason | None = None
    for position, value in enumerate(values):
        if position == cut:
            state = from_mapping(StoppingState, json.loads(json.dumps(asdict(state))))
        state, resumed = rule.after_epoch(state, value)
        if resumed is not None:
            break
    assert (state, resumed) == (whole, reason)


def test_a_value_that_is_not_finite_is_refused() -> None:
    with raises_error("validation objective", where="epoch 1"):
        StoppingRule(epochs=2).after_epoch(StoppingState(), math.nan)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": 0}, "epochs: "),
        ({"epochs": 5, "patience": 0}, "patience: "),
        ({"epochs": 3, "grace": 3}, "grace: "),
        ({"epochs": 3, "grace": -1}, "grace: "),
        ({"epochs": 3, "smoothing": 1.0}, "smoothing: "),
        ({"epochs": 3, "tolerance": 1.0}, "tolerance: "),
        ({"epochs": 3, "tolerance": -0.1}, "tolerance: "),
        ({"epochs": 3, "keep": "bets"}, "unknown keep 'bets': did you mean 'best'"),
    ],
)
def test_rules_that_cannot_work_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(FernError, match=message):
        StoppingRule(**settings)  # type: ignore[arg-type]
