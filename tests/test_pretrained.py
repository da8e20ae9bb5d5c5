"""Forecasts without a fit: any length, any horizon, calibrated on series like those it learnt from."""

import numpy as np
import pytest
from tests.errors import raises_error

from fern.errors import FernError
from fern.models import build_model
from fern.models.pretrained.network import FOLDER, WEIGHTS
from fern.pretrained import forecast, training_record
from fern.synthetic import generate

RNG = np.random.default_rng(7)


def test_seasonal_series_are_forecast_better_than_by_their_last_value():
    t = np.arange(480 + 48)
    values = 10 + 3 * np.sin(2 * np.pi * t / 24) + np.where(t % 168 < 48, 1.0, 0.0) + 0.1 * RNG.normal(size=len(t))
    ahead = forecast(values[:480], 48)
    error = np.abs(ahead.mean - values[480:]).mean()
    assert error < 0.25 * np.abs(values[479] - values[480:]).mean()


@pytest.mark.parametrize("length", [8, 20, 100, 600, 3000])
@pytest.mark.parametrize("horizon", [1, 30, 96, 97, 250])
def test_any_length_and_horizon(length, horizon):
    ahead = forecast(np.cumsum(RNG.normal(size=length)), horizon)
    assert ahead.mean.shape == ahead.stddev.shape == (horizon,)
    assert np.isfinite(ahead.mean).all()
    assert (ahead.stddev > 0).all()


def test_series_of_unlike_lengths_are_forecast_as_each_alone():
    several = [np.cumsum(RNG.normal(size=n)) for n in (12, 90, 700)]
    together = forecast(several, 20)
    for i, values in enumerate(several):
        alone = forecast(values, 20)
        assert np.allclose(together.mean[i], alone.mean, rtol=1e-3, atol=1e-3)
        assert np.allclose(together.stddev[i], alone.stddev, rtol=1e-2)


@pytest.mark.parametrize(("scale", "level"), [(1e-5, 0.0), (1e6, -3e7), (-1.0, 0.0)])
def test_unit_level_and_sign_do_not_matter(scale, level):
    values = np.sin(np.arange(200) / 5) + 0.2 * RNG.normal(size=200)
    plain, other = forecast(values, 24), forecast(scale * values + level, 24)
    spread = abs(scale) * values.std()
    assert np.allclose(other.mean, scale * plain.mean + level, atol=2e-3 * spread)
    assert np.allclose(other.stddev, abs(scale) * plain.stddev, atol=2e-2 * spread)


def test_quantiles_are_in_order_and_amounts_stay_above_zero():
    demand = RNG.poisson(1.0, size=120).astype(float)
    quantiles = forecast(demand, 12).quantile([0.05, 0.5, 0.95])
    assert (np.diff(quantiles, axis=-1) >= 0).all()
    assert (quantiles >= 0).all()
    assert (forecast(demand, 12).sample_paths(50) >= 0).all()
    assert (forecast(demand - 5, 12).quantile([0.05]) < 0).any()


@pytest.mark.parametrize(("length", "horizon"), [(20, 6), (60, 18), (352, 48)])
def test_intervals_of_eighty_percent_hold_eighty_percent_of_unseen_synthetic_series(length, horizon):
    pool = generate(600, length=400, seed=987_654_321).values.astype(float)[:, -length - horizon :]
    ahead = forecast(list(pool[:, :length]), horizon)
    low, high = np.moveaxis(ahead.quantile([0.1, 0.9]), -1, 0)
    inside = ((pool[:, length:] >= low) & (pool[:, length:] <= high)).mean()
    assert 0.72 < inside < 0.88


def test_sample_paths_have_the_spread_of_the_distribution():
    ahead = forecast(np.cumsum(RNG.normal(size=300)), 40)
    paths = ahead.sample_paths(4000, seed=3)
    assert paths.shape == (4000, 40)
    assert np.allclose(paths.std(0), ahead.stddev, rtol=0.1)
    assert np.array_equal(paths, ahead.sample_paths(4000, seed=3))
    assert not np.array_equal(paths, ahead.sample_paths(4000, seed=4))


def test_uncertainty_grows_when_a_walk_is_rolled_on():
    ahead = forecast(np.cumsum(RNG.normal(size=500)), 400)
    assert ahead.stddev[300:].mean() > ahead.stddev[:96].mean()


def test_a_constant_stays():
    ahead = forecast(np.full(50, 7.0), 10)
    assert np.allclose(ahead.mean, 7.0, atol=1e-5)
    assert (ahead.stddev < 1e-3).all()


def test_gaps_are_filled():
    values = np.sin(np.arange(120) / 4)
    holed = values.copy()
    holed[[0, 1, 30, 31, 77]] = np.nan
    assert np.allclose(forecast(holed, 12).mean, forecast(values, 12).mean, atol=0.1)


def test_the_registered_model_says_the_same():
    import torch

    values = np.cumsum(RNG.normal(size=(300, 2)), axis=0)
    model = build_model("fern-pretrained", context_length=300, horizon=40, channels=2).eval()
    mean = model(torch.from_numpy(values[None]).float()).mean[0].numpy()
    ahead = forecast(list(values.T), 40)
    assert np.allclose(mean, ahead.mean.T, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("series", "said"),
    [
        ([1.0] * 7, "series"),
        (np.zeros((2, 3, 4)), "series"),
        (["a"] * 10, "series"),
        ([np.inf] * 10, "series"),
        ([np.nan] * 10, "series"),
        ([np.arange(10.0), np.arange(3.0)], "series 1"),
    ],
)
def test_what_cannot_be_forecast_is_refused_by_name(series, said):
    with raises_error(argument=said):
        forecast(series, 5)


def test_a_horizon_and_a_season_must_be_whole():
    for options in ({"horizon": 0}, {"horizon": 5, "season": 0}):
        with pytest.raises(FernError):
            forecast(np.arange(20.0), **options)


def test_weights_are_small_and_say_how_they_were_made():
    for file in WEIGHTS.values():
        assert (FOLDER / file).stat().st_size < 8_000_000
    record = training_record()
    assert {"generator", "families", "settings", "commit", "steps", "hours"} <= set(record)
    assert record["settings"]["seed"] >= 0
