"""Lag regression: exact where the world is linear, honest about rows it may not read, indifferent to scale."""

import numpy as np
import pytest
from tests.errors import raises_error

from fern.models.lag_regression import LagRegression, LagRegressionConfig, RegressionSeries, fit_lag_regression


def driven(rows: int, *, seed: int = 0, noise: float = 0.0) -> RegressionSeries:
    """y_t = 0.6 y_{t-1} + 2 x_t, with x known ahead."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(rows)
    y = np.zeros(rows)
    for t in range(1, rows):
        y[t] = 0.6 * y[t - 1] + 2.0 * x[t] + noise * rng.standard_normal()
    return RegressionSeries(y, x[:, None])


def forecast_last(series: RegressionSeries, horizon: int, **settings) -> tuple[np.ndarray, np.ndarray]:
    known = RegressionSeries(
        series.values[:-horizon], series.known, series.past[:-horizon], series.static, series.phase
    )
    model = fit_lag_regression([known], LagRegressionConfig(horizon=horizon, **settings))
    return model.predict(known)[0], series.values[-horizon:]


def test_a_linear_system_with_known_inputs_is_forecast_nearly_exactly():
    forecast, truth = forecast_last(driven(1500), 4, recent=4, reach=4)
    assert np.abs(forecast - truth).max() < 0.05 * np.std(truth)


def test_forecasts_move_with_shift_and_scale_of_the_series():
    series = driven(600, noise=0.3)
    model = LagRegressionConfig(horizon=6, recent=6)
    plain = fit_lag_regression([series], model).predict(series, origins=np.array([500]))
    moved = RegressionSeries(1e4 + 50 * series.values, series.known)
    again = fit_lag_regression([moved], model).predict(moved, origins=np.array([500]))
    np.testing.assert_allclose(again, 1e4 + 50 * plain, rtol=1e-6)


@pytest.mark.parametrize("transform", ["none", "asinh"])
def test_values_after_the_origin_are_not_read(transform):
    series = driven(600, noise=0.3)
    model = fit_lag_regression([series], LagRegressionConfig(horizon=6, season=12, transform=transform))
    origin = np.array([400])
    changed = series.values.copy()
    changed[400:] = 1e3
    before = model.predict(series, origins=origin)
    after = model.predict(RegressionSeries(changed, series.known), origins=origin)
    np.testing.assert_array_equal(before, after)


def test_each_phase_of_a_season_has_its_own_weights_where_rows_suffice():
    rng = np.random.default_rng(1)
    t = np.arange(24 * 340)
    x = rng.standard_normal(len(t))
    y = np.where(t % 24 < 12, 3.0, -3.0) * x  # the effect of x depends on the hour
    series = RegressionSeries(y[:-24], x[:, None])
    model = fit_lag_regression([series], LagRegressionConfig(horizon=24, season=24))
    assert len(model.weights[0]) == 24
    assert np.abs(model.predict(series)[0] - y[-24:]).mean() < 0.1 * np.abs(y).mean()


def test_static_numbers_tell_series_apart():
    rng = np.random.default_rng(2)
    none = np.empty((60, 0))
    panel = [  # random walks whose drift is their static number, and small beside their steps
        RegressionSeries(
            np.cumsum(0.3 * drift + rng.standard_normal(60)), none, static=np.array([drift]), scale=(0.0, 1.0)
        )
        for drift in (-1.0, 1.0)
        for _ in range(20)
    ]
    model = fit_lag_regression(panel, LagRegressionConfig(horizon=10, recent=10, memories=(10.0,)))
    walk = panel[0].values
    down, up = (
        model.predict(RegressionSeries(walk, none, static=np.array([drift]), scale=(0.0, 1.0)))[0]
        for drift in (-1.0, 1.0)
    )
    assert (up - down)[-1] > 3.0  # 6 in truth


def test_noise_columns_cost_little():
    rng = np.random.default_rng(3)
    errors = []
    for extra in (0, 10):
        total = 0.0
        for seed in range(6):
            series = driven(500, seed=seed, noise=1.0)
            known = np.column_stack([series.known, rng.standard_normal((500, extra))])
            forecast, truth = forecast_last(RegressionSeries(series.values, known), 8, recent=4, reach=0)
            total += float(np.square(forecast - truth).mean())
        errors.append(total)
    assert errors[1] < 1.4 * errors[0]


def test_series_that_are_too_short_are_refused():
    with raises_error("series"):
        fit_lag_regression([RegressionSeries(np.arange(5.0), np.empty((5, 0)))], LagRegressionConfig(horizon=6))


@pytest.mark.parametrize(("name", "value"), [("horizon", 0), ("season", 0), ("memories", ()), ("transform", "log")])
def test_wrong_settings_are_refused(name, value):
    with raises_error(name):
        LagRegressionConfig(**{"horizon": 6, name: value})


def test_a_fitted_regression_is_its_weights():
    series = driven(300)
    model = fit_lag_regression([series], LagRegressionConfig(horizon=3, recent=3))
    copy = LagRegression(model.config, tuple(weights.copy() for weights in model.weights))
    np.testing.assert_array_equal(
        copy.predict(series, origins=np.array([200])), model.predict(series, origins=np.array([200]))
    )


def effects(rows: int, seed: int, settings: dict) -> tuple[np.ndarray, np.ndarray]:
    """Draws of what x = 1 in place of 0 does to four steps, and the truth."""
    whole = driven(rows, seed=seed, noise=1.0)
    model = fit_lag_regression([whole], LagRegressionConfig(horizon=4, season=7, **settings), influences=True)
    one, zero = (
        RegressionSeries(whole.values, np.concatenate((whole.known, np.full((4, 1), value)))) for value in (1.0, 0.0)
    )
    truth = 2.0 * np.cumsum(0.6 ** np.arange(4))
    return model.sample_effects(one, zero, 300, np.random.default_rng(seed)), truth


@pytest.mark.parametrize(
    ("settings", "repetitions"),
    [({"recent": 4, "cycles": (1,), "memories": (2.0,), "lean": True}, 150), ({}, 50)],
    ids=["few features", "all features"],
)
def test_eighty_percent_of_intervals_hold_the_true_effect(settings, repetitions):
    held = []
    for seed in range(repetitions):
        drawn, truth = effects(300, seed, settings)
        low, high = np.quantile(drawn, (0.1, 0.9), axis=0)
        held.append((low <= truth) & (truth <= high))
    # Steps of a repetition are dependent, so at worst each repetition counts once: three binomial deviations.
    tolerance = 3 * np.sqrt(0.8 * 0.2 / repetitions)
    assert abs(np.mean(held) - 0.8) < tolerance


def test_an_effect_is_surer_the_more_rows_there_are_and_draws_need_influences():
    few, many = (effects(rows, 1, {"memories": (2.0,)})[0].std(axis=0) for rows in (200, 1800))
    assert (many < 0.6 * few).all()  # three times as sure where weights do not forget
    whole = driven(300, noise=1.0)
    ahead = RegressionSeries(whole.values, np.concatenate((whole.known, np.ones((4, 1)))))
    low = RegressionSeries(whole.values, np.concatenate((whole.known, np.zeros((4, 1)))))
    plain = fit_lag_regression([whole], LagRegressionConfig(horizon=4))
    drawn = plain.sample_effects(ahead, low, 3, np.random.default_rng(0))
    np.testing.assert_allclose(drawn, np.tile(plain.predict(ahead) - plain.predict(low), (3, 1)))


def test_weights_are_the_same_with_and_without_influences():
    whole = driven(300, noise=1.0)
    one, other = (
        fit_lag_regression([whole], LagRegressionConfig(horizon=4), influences=flag) for flag in (True, False)
    )
    assert all(np.array_equal(a, b) for a, b in zip(one.weights, other.weights, strict=True))
