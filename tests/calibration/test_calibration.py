"""Fitting a calibration: pooling, small data, saving, bad input."""

import json

import numpy as np
import pytest
from tests.errors import raises_error

from fern.calibration import Calibration, CalibrationSettings, Residuals, fit_calibration
from fern.errors import FernError


def held_out(
    make_distribution, rng, n: int = 200, *, channels: int = 2, scale: float = 1.0, start: int = 0
) -> Residuals:
    distribution = make_distribution(n=n, channels=channels)
    y = distribution.mean.numpy() + scale * distribution.stddev.numpy() * rng.normal(size=distribution.mean.shape)
    return Residuals.of(distribution, y.swapaxes(1, 2), origins=range(start, start + 10 * n, 10))


def test_channels_are_calibrated_apart_where_windows_suffice(make_distribution, rng) -> None:
    assert fit_calibration(held_out(make_distribution, rng)).group.tolist() == [0, 1]
    few = fit_calibration(held_out(make_distribution, rng, n=20))
    assert few.group.tolist() == [0, 0]
    assert "all channels share their radii" in " ".join(few.notes)


def test_one_set_is_split_where_it_is_long_and_shared_where_it_is_short(make_distribution, rng) -> None:
    assert fit_calibration(held_out(make_distribution, rng, n=100)).windows == 50
    short = fit_calibration(held_out(make_distribution, rng, n=20))
    assert short.windows == 20 and "gave both scales and quantiles" in short.notes[0] and not short.shape.full


@pytest.mark.parametrize("n", [1, 2, 5])
def test_a_few_windows_give_finite_regions_that_say_what_they_lack(make_distribution, rng, n: int) -> None:
    calibration = fit_calibration(held_out(make_distribution, rng, n=n))
    assert not calibration.calibrated(95)["band"]
    with pytest.raises(
        FernError, match=r"too few held-out windows: band at 99 %: needs n_eff >= 99, has .* are needed"
    ):
        calibration.require(99, kind="band")
    forecast = calibration.apply(make_distribution(n=3))
    for ends in (forecast.interval(95), forecast.band(99.99)):
        assert all(np.isfinite(end).all() for end in ends)
    assert np.isfinite(forecast.sample(7)).all()


def test_without_any_window_every_region_is_the_distributions_own(make_distribution) -> None:
    calibration = fit_calibration(Residuals.none(channels=2, horizon=10, patch_size=4))
    distribution = make_distribution(n=3)
    low, high = calibration.apply(distribution).interval(95)
    np.testing.assert_allclose((high - low) / 2, 1.959964 * distribution.stddev.numpy().swapaxes(1, 2), rtol=1e-5)
    assert calibration.calibrated(50) == dict.fromkeys(("margin", "patch", "band", "region"), False)
    assert "no held-out windows" in calibration.notes[0]
    forecast = calibration.apply(distribution)
    assert not forecast.functional(np.ones(10)).calibrated
    spread = forecast.sample(4000).std(axis=0)
    np.testing.assert_allclose(spread, distribution.stddev.numpy().swapaxes(1, 2), rtol=0.08)


def test_parts_give_the_calibration_back_exactly(make_distribution, rng) -> None:
    first = fit_calibration(held_out(make_distribution, rng), settings=CalibrationSettings(correlation="none"))
    plain, arrays = first.to_parts()
    second = Calibration.from_parts(json.loads(json.dumps(plain)), arrays)
    assert second.settings == first.settings and second.notes == first.notes
    distribution = make_distribution(n=3)
    for level in (33.3, 90, 99.95):
        one, two = first.apply(distribution), second.apply(distribution)
        np.testing.assert_array_equal(one.interval(level), two.interval(level))
        np.testing.assert_array_equal(one.band(level), two.band(level))
        np.testing.assert_array_equal(one.region(level).radius, two.region(level).radius)
    np.testing.assert_array_equal(one.sample(5), two.sample(5))
    again, same = second.to_parts()
    assert again == plain and all(np.array_equal(same[name], arrays[name]) for name in arrays)


def test_settings_of_an_earlier_version_are_read_where_they_mean_the_same(make_distribution, rng) -> None:
    plain, arrays = fit_calibration(held_out(make_distribution, rng)).to_parts()
    former = {"pooling": "auto", "most_paths": 1000, "symmetric": True, "forgetting": 1.0, "law_windows": 3.0}
    read = Calibration.from_parts(plain | {"settings": former}, arrays)
    assert read.settings == CalibrationSettings(distribution_windows=3.0)
    for name, value in (("symmetric", False), ("forgetting", 0.9), ("pooled_steps", 12)):
        with raises_error(name):
            Calibration.from_parts(plain | {"settings": {name: value}}, arrays)


def test_parts_that_are_not_whole_are_refused(make_distribution, rng) -> None:
    plain, arrays = fit_calibration(held_out(make_distribution, rng)).to_parts()
    with raises_error("calibration"):
        Calibration.from_parts(plain | {"format": 7}, arrays)
    for name in plain:
        with raises_error():
            Calibration.from_parts({key: value for key, value in plain.items() if key != name}, arrays)


FORGERIES = {
    "missing": lambda array: None,
    "of another shape": lambda array: array[:-1] if len(array) else array[None],
    "flat": lambda array: array.reshape(-1)[None],
    "text": lambda array: np.full(array.shape, "x"),
    "complex": lambda array: array.astype(np.complex128),
    "not a number": lambda array: np.full(array.shape, np.nan),
    "infinite": lambda array: np.full(array.shape, np.inf),
}


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=FORGERIES)
def test_forged_arrays_are_refused_by_name(make_distribution, rng, forge) -> None:
    plain, arrays = fit_calibration(held_out(make_distribution, rng)).to_parts()
    for name, array in arrays.items():
        changed = {key: value for key, value in {**arrays, name: forge(array)}.items() if value is not None}
        with raises_error() as caught:
            Calibration.from_parts(plain, changed)
        assert caught.value.argument in (*arrays, "calibration")


def test_bias_is_reported(make_distribution, rng) -> None:
    distribution = make_distribution(n=200)
    y = distribution.mean.numpy() + distribution.stddev.numpy() * (1 + rng.normal(size=distribution.mean.shape))
    notes = fit_calibration(Residuals.of(distribution, y.swapaxes(1, 2), origins=range(0, 2000, 10))).notes
    assert any("off by +" in note for note in notes)


def test_distributions_of_another_shape_are_refused(make_distribution, rng) -> None:
    calibration = fit_calibration(held_out(make_distribution, rng))
    with pytest.raises(FernError, match=r"are \(3, 10, 4\), the calibration was fitted for \(2, 10, 4\)"):
        calibration.apply(make_distribution(n=3, channels=3))
    with pytest.raises(FernError, match="they must agree"):
        fit_calibration(held_out(make_distribution, rng), held_out(make_distribution, rng, channels=3))


@pytest.mark.parametrize("level", [0, 100, -5, 120, float("nan")])
def test_levels_outside_0_to_100_are_refused(make_distribution, rng, level: float) -> None:
    forecast = fit_calibration(held_out(make_distribution, rng)).apply(make_distribution(n=2))
    for call in (forecast.interval, forecast.band, forecast.region, forecast.calibrated):
        with raises_error("level"):
            call(level)


def test_settings_are_checked() -> None:
    with raises_error("correlation"):
        CalibrationSettings(correlation="nome")
    with raises_error("distribution_windows"):
        CalibrationSettings(distribution_windows=-1.0)
    with raises_error("unseen_variance"):
        CalibrationSettings(unseen_variance=0.0)
