"""Online calibration: always finite, follows a change of scale, long-run coverage."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.calibration.processes import ar_covariance, ar_series, gaussian_distribution, windows_of
from tests.errors import raises_error

from fern.calibration import OnlineCalibration, OnlineSettings, Residuals, fit_calibration
from fern.errors import FernError

PHI, HORIZON, PATCH, STRIDE = 0.8, 24, 12, 3
COVARIANCE = ar_covariance(PHI, HORIZON)


def distribution_of(mean: np.ndarray):
    return gaussian_distribution(mean, COVARIANCE, patch_size=PATCH)


def static(rng: np.random.Generator, series: np.ndarray | None = None):
    series = ar_series(rng, PHI, 1500) if series is None else series
    parts = []
    for origins in (np.arange(1, 700, STRIDE), np.arange(730, 1450, STRIDE)):
        y, mean = windows_of(series, PHI, origins, HORIZON)
        parts.append(Residuals.of(distribution_of(mean), y, origins=origins))
    return fit_calibration(parts[1], parts[0])


CALIBRATION = static(np.random.default_rng(0))


@given(st.lists(st.floats(-1e30, 1e30), min_size=1, max_size=60), st.integers(1, 24))
def test_radii_stay_finite_and_positive_under_any_sequence(values: list[float], stride: int) -> None:
    n = len(values)
    online = OnlineCalibration.start(CALIBRATION, settings=OnlineSettings(stride=stride))
    online = online.update(
        distribution_of(np.zeros((n, 1, HORIZON))), np.tile(np.reshape(values, (n, 1, 1)), (1, HORIZON, 1))
    )
    assert np.isfinite(online.factors).all() and (online.factors > 0).all()
    found = online.apply(distribution_of(np.zeros((1, 1, HORIZON))))
    ends = [found.interval(level) for level in (10, 50, 90, 99.95)]
    assert np.isfinite(ends).all()
    assert (np.diff([high - low for low, high in ends], axis=0) >= 0).all()
    np.testing.assert_allclose(online.weights.sum(axis=-1), 1)


def test_coverage_returns_after_the_scale_of_errors_doubles() -> None:
    """Nominal 90 %, 4 series, the scale doubled at row 2200; each window learns of outcomes 12 rows later."""
    covered: dict[str, list[float]] = {"before": [], "static": [], "soon": [], "later": []}
    for seed in range(4):
        rng = np.random.default_rng(seed)
        series = rng.normal(size=(3000 + HORIZON, 1))
        series[2200:] *= 2
        for t in range(1, len(series)):
            series[t] += PHI * series[t - 1]
        online = OnlineCalibration.start(static(rng, series), settings=OnlineSettings(stride=STRIDE))
        plain = online.calibration.radii.patch.at(90)
        origins = np.arange(1500, 3000, STRIDE)
        y, mean = windows_of(series, PHI, origins, HORIZON)
        distribution = distribution_of(mean)
        distances = online.calibration.shape.distances(Residuals.of(distribution, y, origins=origins).whitened)[:, 0]
        inside = np.zeros(len(origins))
        delay = PATCH // STRIDE
        for first in range(0, len(origins), delay):  # what one block of windows learns, the next but one can use
            block = slice(first, first + delay)
            inside[block] = distances[block, 0] <= plain[0] * online.factors[1, 0, 2]
            if first:
                known = slice(first - delay, first)
                online = online.update(distribution_of(mean[known]), y[known, :PATCH])
        since = origins - 2200
        covered["before"].append(inside[since < -PATCH].mean())
        covered["static"].append((distances[since >= 96, 0] <= plain[0]).mean())
        covered["soon"].append(inside[(since >= 48) & (since < 192)].mean())
        covered["later"].append(inside[since >= 192].mean())
    means = {name: np.mean(values) for name, values in covered.items()}
    assert means["static"] < 0.2
    assert means["before"] == pytest.approx(0.9, abs=0.03)
    assert means["soon"] == pytest.approx(0.9, abs=0.08)
    assert means["later"] == pytest.approx(0.9, abs=0.04)


def test_with_less_than_a_patch_known_margins_alone_learn() -> None:
    online = OnlineCalibration.start(CALIBRATION, settings=OnlineSettings(stride=STRIDE))
    distribution = distribution_of(np.zeros((5, 1, HORIZON)))
    learnt = online.update(distribution, np.full((5, 6, 1), 50.0))
    assert (learnt.factors[0] > 1).all() and (learnt.factors[1] == 1).all()
    assert (online.update(distribution, np.full((5, PATCH, 1), 50.0)).factors > 1).all()
    assert learnt.arrivals == 5 and online.arrivals == 0


def test_steps_beyond_the_first_patch_do_not_count() -> None:
    online = OnlineCalibration.start(CALIBRATION, settings=OnlineSettings(stride=STRIDE))
    distribution, y = distribution_of(np.zeros((5, 1, HORIZON))), np.zeros((5, HORIZON, 1))
    y[:, PATCH:] = 100
    np.testing.assert_allclose(
        online.update(distribution, y).factors, online.update(distribution, y[:, :PATCH]).factors, rtol=1e-12
    )


def test_one_window_at_a_time_is_the_same_as_many(rng) -> None:
    settings = OnlineSettings(stride=STRIDE, levels=(80.0, 95.0))
    together = alone = OnlineCalibration.start(CALIBRATION, settings=settings)
    y, mean = rng.normal(size=(6, HORIZON, 1)), rng.normal(size=(6, 1, HORIZON))
    together = together.update(distribution_of(mean), y)
    for i in range(6):
        alone = alone.update(distribution_of(mean[i : i + 1]), y[i : i + 1])
    np.testing.assert_allclose(alone.factors, together.factors, rtol=1e-12)


def test_parts_give_the_state_back_exactly(rng) -> None:
    online = OnlineCalibration.start(CALIBRATION).update(
        distribution_of(np.zeros((30, 1, HORIZON))), rng.normal(size=(30, HORIZON, 1))
    )
    plain, arrays = online.to_parts()
    again = OnlineCalibration.from_parts(CALIBRATION, json.loads(json.dumps(plain)), arrays)
    assert again.settings == online.settings and again.arrivals == 30
    np.testing.assert_array_equal(again.factors, online.factors)
    for name in arrays:
        with raises_error(name):
            OnlineCalibration.from_parts(CALIBRATION, plain, {key: arrays[key] for key in arrays if key != name})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("weights", np.nan),
        ("weights", 1e300),
        ("weights", -1.0),
        ("weights", 0.0),
        ("log_factors", 1e6),
        ("log_factors", np.inf),
        ("past", np.nan),
        ("squared_loss", -1.0),
    ],
)
def test_a_forged_state_is_refused_by_name(name: str, value: float) -> None:
    plain, arrays = OnlineCalibration.start(CALIBRATION).to_parts()
    with raises_error(name):
        OnlineCalibration.from_parts(CALIBRATION, plain, {**arrays, name: np.full(arrays[name].shape, value)})


@pytest.mark.parametrize("change", [{"arrivals": -1}, {"arrivals": "3"}, {"settings": None}, {"format": 9}])
def test_forged_settings_of_a_state_are_refused_by_name(change: dict) -> None:
    plain, arrays = OnlineCalibration.start(CALIBRATION).to_parts()
    with raises_error(*change):
        OnlineCalibration.from_parts(CALIBRATION, plain | change, arrays)


@pytest.mark.parametrize(
    ("y", "argument"),
    [
        (np.zeros((5, HORIZON + 1, 1)), "y"),
        (np.zeros((4, HORIZON, 1)), "y"),
        (np.full((5, 3, 1), np.nan), "y"),
    ],
)
def test_bad_input_is_named(y, argument) -> None:
    with raises_error(argument):
        OnlineCalibration.start(CALIBRATION).update(distribution_of(np.zeros((5, 1, HORIZON))), y)


def test_settings_are_checked() -> None:
    for wrong in ({"levels": ()}, {"levels": (90, 80)}, {"levels": (90, 100)}, {"rates": (0.0,)}, {"stride": 0}):
        with pytest.raises(FernError):
            OnlineSettings(**wrong)
