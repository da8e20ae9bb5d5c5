"""Kernel regression of the whole horizon: against the dense formula, phases, volatility, and mistakes."""

from dataclasses import replace

import numpy as np
import pytest
from tests.errors import raises_error

from fern.models.kernel_regression import KernelRegressionConfig, fit_kernel_regression
from fern.models.lag_regression import RegressionSeries

S = 24


def prices(days: int = 120, *, noise: float = 0.05, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A price that bends with the load: the load's exponential, by the hour."""
    rng = np.random.default_rng(seed)
    load = rng.uniform(-1, 1, days).repeat(S) + 0.5 * np.sin(2 * np.pi * np.arange(days * S) / S)
    return np.exp(1.5 * load) + noise * rng.standard_normal(days * S), load[:, None]


def series(price, load, rows: int, phase: int = 0) -> RegressionSeries:
    return RegressionSeries(price[:rows], load[: rows + S], phase=phase)


CONFIG = KernelRegressionConfig(horizon=S, season=S, transform="none")


def test_it_equals_a_gaussian_process_with_the_same_kernel():
    price, load = prices(60)
    rows = 59 * S
    known = RegressionSeries(price[:rows], load[:rows])
    model = fit_kernel_regression(known, CONFIG, phase=0)
    at = np.arange(7 * S, rows - S + 1, S)

    def level(t):
        return np.mean([np.median(price[max(0, t - k * 7 * S) : t]) for k in (1, 6)])

    away = np.stack([price[t : t + S] - level(t) for t in at])
    unit = 1.4826 * np.median(np.abs(away))

    def features(t):
        lags = [(price[t - k * S : t - k * S + S] - level(t)) / unit for k in (1, 2, 3, 7)]
        now = load[t : t + S, 0]
        return np.concatenate([*lags, [level(t)], now, now - load[t - S : t, 0]])

    x = np.stack([features(t) for t in at])
    times = np.repeat([1.5, 0.5, 0.5, 0.5, 1.0], [S, S, S, S, 1 + 2 * S])
    z = times * (x - x.mean(0)) / x.std(0)
    new = times * (features(rows) - x.mean(0)) / x.std(0)
    size = x.shape[1]

    def kernel(a, b, days):
        distance = np.sqrt(3 * 0.3 / size * np.sum((a - b) ** 2))
        return (1 + a @ b / size + (1 + distance) * np.exp(-distance)) * (1 + 0.02 * np.exp(-abs(days) / 45))

    count = len(at)
    gram = np.array([[kernel(z[i], z[j], i - j) for j in range(count)] for i in range(count)])
    target = away / unit
    duals = np.linalg.solve(gram + CONFIG.penalty * np.eye(count), target)
    expected = np.array([kernel(new, z[j], count - j) for j in range(count)]) @ duals
    made, levels = model.predict(series(price, load, rows), np.array([rows]))
    np.testing.assert_allclose(made[0], expected, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose([levels[0], model.unit], [level(rows), unit])


def test_a_level_that_never_was_before_is_forecast_as_well_as_others():
    price, load = prices(200)
    errors = []
    for lift in (0.0, 40.0):
        moved = price.copy()
        moved[190 * S :] += lift
        known = series(moved, load, 198 * S)
        model = fit_kernel_regression(known.before(198 * S), CONFIG, phase=0)
        made, level = model.predict(known, np.array([198 * S]))
        errors.append(np.abs(level + model.unit * made[0] - moved[198 * S : 199 * S]).mean())
    assert errors[0] < 0.5 and errors[1] < 0.05 * 40.0


def test_it_follows_a_bend_that_a_line_cannot():
    price, load = prices(400)
    errors = {}
    for linear, width in ((1.0, 0.3), (1.0, 1e-9)):
        config = KernelRegressionConfig(horizon=S, season=S, transform="none", linear=linear, width=width)
        made, true = [], []
        for day in range(380, 400, 4):
            known = series(price, load, day * S)
            model = fit_kernel_regression(known.before(day * S), config, phase=0)
            ahead, level = model.predict(known, np.array([day * S]))
            made.append(level + model.unit * ahead[0])
            true.append(price[day * S : day * S + S])
        errors[width] = np.abs(np.array(made) - np.array(true)).mean()
    assert errors[0.3] < 0.75 * errors[1e-9]


def test_windows_of_the_origins_own_phase_are_learnt_from():
    price, load = prices()
    model = fit_kernel_regression(RegressionSeries(price, load, phase=3), CONFIG, phase=5)
    assert model.phase == 5
    at = np.array([len(price) - 2 * S, len(price) - 2 * S + 2])
    made, _ = model.predict(RegressionSeries(price, load, phase=3), at)
    assert np.isnan(made[0]).all()
    assert np.isfinite(made[1]).all()


def test_few_windows_of_a_phase_make_all_phases_count():
    price, load = prices(30)
    model = fit_kernel_regression(RegressionSeries(price, load), CONFIG, phase=0)
    assert model.phase is None
    assert np.isfinite(model.predict(RegressionSeries(price, load), np.array([600, 601]))[0]).all()


def test_wild_days_at_the_end_raise_the_volatility():
    price, load = prices(200)
    wild = price.copy()
    wild[-8 * S :] += 3 * np.random.default_rng(1).standard_normal(8 * S)
    at = np.array([100 * S, len(price)])
    calm, restless = (
        fit_kernel_regression(RegressionSeries(some, load), CONFIG, phase=0).volatility(at) for some in (price, wild)
    )
    assert calm.shape == (2, S)
    assert 0.5 < calm[1].mean() < 1.6
    assert restless[1].mean() > 2 * restless[0].mean()


def test_volatility_tells_the_hours_apart():
    price, load = prices(200)
    at = np.array([len(price)])
    price.reshape(-1, S)[-20:, 18] += 2 * np.random.default_rng(1).standard_normal(20)
    late = fit_kernel_regression(RegressionSeries(price, load), CONFIG, phase=0).volatility(at)[0]
    assert late.argmax() == 18
    assert late[18] > 1.5 * np.median(late)


@pytest.mark.parametrize(("season", "phase"), [(S, 0), (1, None)])
def test_the_past_is_forecast_from_the_windows_that_had_ended(season, phase):
    """As a regression of these windows alone does, in the units and weights of the whole."""
    price, load = prices(70)
    config = replace(CONFIG, season=season, windows=300)
    known = RegressionSeries(price, load)
    model = fit_kernel_regression(known, config, phase=phase, keep_factor=True)
    at = np.array([20 * S, 60 * S])
    made, level = model.hindcast(known, at)
    assert np.isnan(made[0]).all() == (season == S)  # by then 12 windows of the phase had ended
    assert np.isfinite(level[1])
    some = int(model.count_ended(at)[1])
    assert (model.origins[:some] + S <= at[1]).all() and model.origins[some] + S > at[1]
    factor = model.factor
    assert factor is not None
    gram, target = factor @ factor.T, factor @ (factor.T @ model.duals)
    across = model._across(known, at[1:])
    expected = across[:, :some] @ np.linalg.solve(gram[:some, :some], target[:some])
    np.testing.assert_allclose(made[1], expected[0], rtol=1e-6, atol=1e-8)


def test_long_horizons_enter_in_blocks():
    rng = np.random.default_rng(0)
    values, known = rng.standard_normal(900).cumsum(), rng.standard_normal((900, 2))
    config = KernelRegressionConfig(horizon=100, recent=10, transform="none")
    model = fit_kernel_regression(RegressionSeries(values, known), config)
    assert model.features.shape[1] == 10 + 1 + 2 * 34
    assert model.predict(RegressionSeries(values, known), np.array([700]))[0].shape == (1, 100)


def test_constant_columns_change_nothing():
    price, load = prices(60)
    more = RegressionSeries(price, np.concatenate([load, np.full_like(load, 7.0)], axis=1))
    model = fit_kernel_regression(more, CONFIG, phase=0)
    assert np.isfinite(model.predict(more, np.array([len(price) - S]))[0]).all()


@pytest.mark.parametrize(
    "settings",
    [
        {"horizon": 0},
        {"windows": 0},
        {"penalty": 0.0},
        {"width": -1.0},
        {"linear": -1},
        {"memory": 0.0},
        {"drift": -0.1},
    ],
)
def test_settings_out_of_range_are_refused(settings):
    with raises_error():
        KernelRegressionConfig(**{"horizon": 4, **settings})


def test_too_few_rows_are_refused():
    price, load = prices(3)
    with raises_error(argument="series"):
        fit_kernel_regression(RegressionSeries(price, load), CONFIG, phase=0)


def test_draws_of_two_futures_hold_the_true_effect_and_are_centred_on_the_forecasts():
    """y_t = 0.5 y_{t-1} + 2 x_t + noise: what x = 1 in place of 0 does to four steps."""
    truth, repetitions, held = 2.0 * np.cumsum(0.5 ** np.arange(4)), 40, []
    for seed in range(repetitions):
        rng = np.random.default_rng(seed)
        x, y = rng.standard_normal(400), np.zeros(400)
        for t in range(1, 400):
            y[t] = 0.5 * y[t - 1] + 2.0 * x[t] + rng.standard_normal()
        config = KernelRegressionConfig(horizon=4, recent=8, transform="none")
        model = fit_kernel_regression(RegressionSeries(y, x[:, None]), config, keep_factor=True)
        one, zero = (RegressionSeries(y, np.append(x, np.full(4, value))[:, None]) for value in (1.0, 0.0))
        drawn = np.stack(model.sample_pair(one, zero, 400, rng))
        means = np.stack([model.predict(side, np.array([400]))[0][0] for side in (one, zero)])
        np.testing.assert_allclose(drawn.mean(axis=1), means, atol=0.25 * drawn.std(axis=1).max())
        low, high = np.quantile(model.unit * (drawn[0] - drawn[1]), (0.1, 0.9), axis=0)
        held.append((low <= truth) & (truth <= high))
    # A Gaussian process's own uncertainty, not measured errors: it may be too wide, and hardly too narrow.
    assert np.mean(held) > 0.8 - 3 * np.sqrt(0.8 * 0.2 / repetitions)
