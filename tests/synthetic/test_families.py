"""What each family of synthetic series is known for."""

import numpy as np
import pytest

from fern.synthetic import families, generate

RNG = np.random.default_rng


def correlation(values, lag):
    centred = values - values.mean(1, keepdims=True)
    return (centred[:, lag:] * centred[:, :-lag]).mean(1) / ((centred**2).mean(1) + 1e-30)


def draw(name, count=128, length=2048, seed=21):
    return generate(count, length=length, seed=seed, only=[name], artefacts=False).values.astype(float)


def test_seasons_repeat_after_their_period():
    out = np.zeros((64, 400))
    families.add_seasons(RNG(1), np.full(64, 24.0), np.ones(64), out, modulated=0.0)
    assert np.allclose(out[:, 24:], out[:, :-24])
    assert np.allclose(out[:, :24].std(1), 1.0, atol=1e-6)


def test_a_week_of_days_has_the_day_within():
    out = np.zeros((200, 168 * 3))
    families.add_seasons(RNG(2), np.full(200, 168.0), np.ones(200), out, inner=np.full(200, 24.0), modulated=0.0)
    assert np.allclose(out[:, 168:], out[:, :-168])
    assert (correlation(out, 24) > 0.5).mean() > 0.4


def test_fractional_periods_come_back_on_average():
    out = np.zeros((32, 1000))
    families.add_seasons(RNG(3), np.full(32, 12.5), np.ones(32), out, modulated=0.0)
    assert np.allclose(out[:, 25:], out[:, :-25], atol=1e-6)


def test_trends_are_drawn_as_excursions_and_not_as_slopes():
    rise = [np.ptp(families.draw_trends(RNG(4), 400, length), axis=1) for length in (256, 2048)]
    assert 0.3 < np.median(rise[0]) / np.median(rise[1]) < 3.0


def test_noise_has_deviation_one_and_some_heavy_tails():
    noise = families.draw_noise(RNG(5), 400, 4000)
    assert abs(np.median(noise.std(1)) - 1) < 0.03
    kurtosis = (noise**4).mean(1) / noise.var(1) ** 2
    assert 0.1 < (kurtosis > 4).mean() < 0.3


def test_some_noise_varies_with_the_phase_of_the_season():
    factors = families.draw_deviations_by_phase(RNG(6), np.full(400, 24.0), 2400)
    plain = (factors == 1).all(1)
    assert 0.5 < plain.mean() < 0.8
    assert np.allclose((factors**2).mean(1), 1.0, atol=1e-6)
    assert np.allclose(factors[:, 24:], factors[:, :-24], atol=1e-9)
    assert 0.2 < (factors[~plain] == 0).any(1).mean() < 0.5
    assert (families.draw_deviations_by_phase(RNG(6), np.ones(50), 100) == 1).all()  # without a season


def test_autoregressions_are_stationary():
    values = draw("arma")
    first, second = values[:, :1024].std(1), values[:, 1024:].std(1)
    assert 0.8 < np.median(first / second) < 1.25
    assert (np.abs(values).max(1) / values.std(1) < 60).all()


def test_integrated_series_wander():
    values = draw("integrated")
    early, late = (np.abs(values[:, n] - values[:, 0]) for n in (100, 1900))
    assert np.median(late / (early + 1e-9)) > 2


def test_long_memory_has_persistent_and_anti_persistent_series():
    values = families.long_memory(RNG(6), 400, 2048)
    assert (correlation(values, 50) > 0.2).mean() > 0.25
    assert (correlation(values, 1) < 0.0).mean() > 0.1


def test_gaussian_processes_have_unit_variance_and_all_degrees_of_smoothness():
    values = draw("gaussian_process")
    roughness = np.diff(values, axis=1).std(1) / values.std(1)
    assert 0.7 < np.median(values.std(1)) < 1.5
    assert np.quantile(roughness, 0.1) < 0.15 < 0.4 < np.quantile(roughness, 0.9)


def test_volatility_clusters_under_mean_reversion():
    steps = np.abs(np.diff(draw("mean_reversion", count=256), axis=1))
    assert (correlation(steps, 5) > 0.05).mean() > 0.3


def test_regimes_jump():
    values = draw("regimes", count=256)
    means = np.abs(values[:, :200].mean(1) - values[:, -200:].mean(1))
    assert np.median(means / values.std(1)) > 0.3


@pytest.mark.parametrize("name", ["counts", "intermittent"])
def test_counts_are_whole_and_not_negative(name):
    values = draw(name)
    assert (values >= 0).all()
    assert (values == np.round(values)).all()


def test_demand_now_and_then_is_mostly_zero():
    assert 0.3 < (draw("intermittent") == 0).mean() < 0.95


def test_counts_vary_at_least_as_much_as_poisson():
    values = draw("counts", count=256)
    assert np.median(values.var(1) / (values.mean(1) + 1e-9)) > 1


def test_multiplicative_series_are_positive_and_their_noise_grows_with_the_level():
    values = draw("multiplicative", count=256)
    assert (values > 0).all()
    half = values[:, :1024], values[:, 1024:]
    level = np.log(half[1].mean(1) / half[0].mean(1))
    noise = np.log(np.diff(half[1]).std(1) / np.diff(half[0]).std(1))
    assert np.corrcoef(level, noise)[0, 1] > 0.6


def test_exponential_smoothing_has_seasons_of_months_and_quarters():
    steps = np.diff(draw("exponential_smoothing", count=256), axis=1)
    assert (correlation(steps, 12) > 0.3).mean() > 0.2


def test_demand_by_the_day_has_a_week():
    steps = np.diff(np.log1p(draw("weekly_demand", count=256)), axis=1)
    assert np.median(correlation(steps, 7)) > 0.15


def test_sensors_have_nights():
    assert ((draw("sensors", count=256) == 0).mean(1) > 0.2).mean() > 0.2


def test_pulses_are_rare_and_high():
    values = draw("pulses", count=256)
    deviation = np.abs(values - np.median(values, axis=1, keepdims=True))
    assert np.median(deviation.max(1) / (np.median(deviation, axis=1) + 1e-9)) > 8


def test_thresholds_make_two_regimes():
    values = draw("threshold", count=256)
    skew = ((values - values.mean(1, keepdims=True)) ** 3).mean(1) / values.std(1) ** 3
    assert (np.abs(skew) > 0.3).mean() > 0.3  # a linear process would have none
