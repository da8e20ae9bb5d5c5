"""The filter and its estimation, against another implementation and by simulation."""

import json
from pathlib import Path

import numpy as np
import pytest

from fern.models.classical.seasonality import seasonal_indices, seasonal_ratio, seasonal_strength
from fern.models.classical.smoothing import (
    ADDITIVE,
    DAMPED,
    LINEAR,
    MULTIPLICATIVE,
    NONE,
    estimate,
    filter_series,
    forecast_smoothing,
)

REFERENCE = json.loads(Path(__file__).with_name("reference.json").read_text())
TRENDS = {"N": NONE, "Ad": DAMPED, "A": LINEAR}


def fit(values, season, name):
    seasonal = {"N": NONE, "A": ADDITIVE, "M": MULTIPLICATIVE}[name[-1]]
    trend, multiplicative = TRENDS[name[1:-1]], name[0] == "M"
    first, adjusted = np.zeros(season), values.copy()
    if seasonal != NONE:
        seasonal_indices(values, season, multiplicative, first)
        by_row = first[np.arange(len(values)) % season]
        adjusted = values / by_row if multiplicative else values - by_row
    errors, states = np.empty(len(values)), np.empty(2 + season)
    x = np.full(1 + (trend != NONE) + (seasonal != NONE) + (trend == DAMPED), 0.3)
    estimate(values, adjusted, first, trend, seasonal, multiplicative, 300, errors, states, x)
    return x, errors, states, (trend, seasonal, multiplicative), (first, adjusted)


@pytest.mark.parametrize(
    ("row", "name"),
    [pytest.param(row, name, id=f"{row['name']}-{name}") for row in REFERENCE for name in row["mse"] if name[0] == "A"],
)
def test_the_errors_are_as_small_as_statsforecast_finds_them(row, name):
    _, errors, *_ = fit(np.array(row["values"]), row["season"], name)
    # Its season's first indices are estimated by likelihood, too; ours come from a decomposition and stay.
    assert np.mean(errors**2) < row["mse"][name] * (1.06 if row["season"] == 1 else 1.25)


@pytest.mark.parametrize("name", ["ANN", "AAN", "AAdN", "ANA", "AAdA", "MNN", "MAdM"])
def test_mean_and_spread_are_those_of_simulated_paths(name):
    rng = np.random.default_rng(1)
    season = 4 if name[-1] != "N" else 1
    t = np.arange(80)
    values = 100 + 0.3 * t + (15 * np.sin(np.pi * t / 2) if season > 1 else 0) + rng.normal(0, 4, 80)
    x, errors, states, (trend, seasonal, multiplicative), _ = fit(values, season, name)
    mean, stddev, response = np.empty(10), np.empty(10), np.empty(10)
    variance = float(np.mean(errors**2))
    forecast_smoothing(80, states, x, trend, seasonal, multiplicative, variance, mean, stddev, response)
    paths = np.stack([run_on(states, x, (trend, seasonal, multiplicative), rng, variance) for _ in range(4000)])
    assert paths.mean(axis=0) == pytest.approx(mean, abs=4 * stddev.max() / 60)
    assert paths.std(axis=0) == pytest.approx(stddev, rel=0.06)


def run_on(states, x, specification, rng, variance, start=80, steps=10):
    from fern.models.classical.smoothing import smoothing_parameters

    trend, seasonal, multiplicative = specification
    alpha, beta, gamma, phi = smoothing_parameters(x, trend, seasonal)
    level, slope, index = states[0], states[1], states[2:].copy()
    path = []
    for h in range(steps):
        phase, error = (start + h) % len(index), rng.normal(0, variance**0.5)
        base = level + phi * slope
        if multiplicative:
            season = index[phase] if seasonal == MULTIPLICATIVE else 1.0
            path.append(base * season * (1 + error))
            level, slope = base * (1 + alpha * error), phi * slope + beta * base * error
            index[phase] *= 1 + gamma * error
        else:
            path.append(base + index[phase] + error)
            level, slope = base + alpha * error, phi * slope + beta * error
            index[phase] += gamma * error
    return path


def test_the_likelihood_is_that_of_its_errors():
    values = np.array(REFERENCE[0]["values"])
    errors, states, x = np.empty(len(values)), np.empty(3), np.array([0.4])
    value = filter_series(values, values, np.zeros(1), x, NONE, NONE, False, errors, states)
    assert value == pytest.approx(len(values) * np.log(np.mean(errors**2)))
    level = values[0] - errors[0]
    for actual, error in zip(values, errors, strict=True):  # the recursion by hand
        assert error == pytest.approx(actual - level)
        level += 0.4 * error


def test_a_season_is_seen_where_there_is_one():
    rng = np.random.default_rng(2)
    t = np.arange(48)
    noise, walk = rng.normal(0, 1, 48), np.cumsum(rng.normal(0, 1, 48))
    seasonal = 3 * np.sin(2 * np.pi * t / 12) + noise
    assert seasonal_ratio(seasonal, 12) > 3 > max(seasonal_ratio(noise, 12), seasonal_ratio(walk, 12))
    assert seasonal_strength(seasonal, 12) > seasonal_strength(noise + 0.5 * t, 12)
    assert seasonal_ratio(seasonal[:20], 12) == seasonal_strength(seasonal[:20], 12) == 0


@pytest.mark.parametrize("multiplicative", [False, True])
def test_indices_of_an_exact_season_are_found(multiplicative):
    true = np.array([0.8, 1.1, 1.3, 0.8]) if multiplicative else np.array([-3.0, 1.0, 4.0, -2.0])
    trend = 50 + 0.5 * np.arange(24)
    season = true[np.arange(24) % 4]
    indices = np.empty(4)
    seasonal_indices(trend * season if multiplicative else trend + season, 4, multiplicative, indices)
    assert indices == pytest.approx(true, rel=0.02)
