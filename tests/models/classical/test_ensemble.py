"""The classical ensemble: any length, any scale, positive where it should be, and as good as what it is made of."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fern.errors import FernError
from fern.models.classical import ClassicalSettings, fit_members, forecast_panel

MONTHS = ClassicalSettings(season=12)
REFERENCE = json.loads(Path(__file__).with_name("reference.json").read_text())
NAMES = [row["name"] for row in REFERENCE]


def sales(rng, rows, level=100.0):
    t = np.arange(rows)
    return level * (1 + 0.3 * np.sin(2 * np.pi * t / 12)) * np.exp(0.1 * rng.standard_normal(rows))


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 8, 12, 15, 25, 30, 60, 700])
def test_a_series_of_any_length_is_forecast(rows, rng):
    made = forecast_panel([sales(rng, rows)], 18, MONTHS)
    low, high = made.quantile([0.1, 0.9])
    assert np.isfinite(made.table).all()
    assert (low < high).all()


def test_one_row_is_its_own_forecast_with_the_spread_of_its_panel(rng):
    panel = [100 + rng.normal(0, 2, 60) for _ in range(20)]
    alone = forecast_panel([np.array([50.0])], 6, ClassicalSettings())
    together = forecast_panel([*panel, np.array([50.0])], 6, ClassicalSettings())
    assert (together.mean[-1] == 50).all()
    width = np.ptp(together.quantile([0.1, 0.9])[:, -1, 0])
    assert 1 < width < 6  # 2 % of the level, as in the panel
    assert np.ptp(alone.quantile([0.1, 0.9])[:, 0, 0]) > width


def test_a_constant_series_stays_constant():
    made = forecast_panel([np.full(40, 7.0), np.zeros(40)], 12, MONTHS)
    assert made.table == pytest.approx(np.array([[[7.0]], [[0.0]]]) * np.ones((2, 12, 45)))


@given(st.sampled_from([1e-6, 0.25, 3.0, 1e5]), st.integers(20, 80))
def test_the_forecast_scales_with_the_series(factor, rows):
    y = sales(np.random.default_rng(rows), rows)
    plain, scaled = (forecast_panel([values], 6, MONTHS) for values in (y, factor * y))
    assert scaled.table == pytest.approx(factor * plain.table, rel=1e-5)


@given(arrays(np.float64, st.integers(1, 40), elements=st.floats(-1e6, 1e6, allow_subnormal=False)))
def test_no_series_of_numbers_is_too_odd(values):
    made = forecast_panel([values], 5, ClassicalSettings(season=4))
    assert np.isfinite(made.table).all()
    assert (np.diff(made.table, axis=-1) >= -1e-9 * np.abs(made.table).max()).all()


def test_series_do_not_know_of_each_other_when_they_are_long(rng):
    panel = [sales(rng, rows) for rows in (30, 50, 90, 40)]
    forward, backward = forecast_panel(panel, 6, MONTHS), forecast_panel(panel[::-1], 6, MONTHS)
    assert (forward.table == backward.table[::-1]).all()
    assert (forecast_panel(panel[2:3], 6, MONTHS).table[0] == forward.table[2]).all()


def test_a_series_that_was_never_negative_has_no_negative_quantile(rng):
    panel = [rng.lognormal(0, 1.5, 60), rng.lognormal(0, 1.5, 60) - 1]
    auto = forecast_panel(panel, 12, ClassicalSettings())
    assert auto.table[0].min() >= 0 > auto.table[1].min()
    assert forecast_panel(panel, 12, ClassicalSettings(positive=True)).table.min() >= 0
    assert forecast_panel(panel, 12, ClassicalSettings(positive=False)).table[0].min() < 0
    assert auto.sample(50, rng)[:, 0].min() >= 0


def test_many_zeros_give_quantiles_at_zero_and_the_mean_of_demand(rng):
    panel = [rng.poisson(0.3, 200).astype(float) for _ in range(40)]
    made = forecast_panel(panel, 8, ClassicalSettings())
    assert (made.quantile([0.5]) == 0).all()
    assert set(np.unique(made.quantile([0.8, 0.9, 0.95]))) <= {0.0, 1.0, 2.0}
    assert made.mean.mean() == pytest.approx(0.3, rel=0.1)


@pytest.mark.parametrize("make", ["lognormal", "exponential", "normal"])
def test_deciles_of_skewed_series_hold_their_share(make, rng):
    draw = {
        "lognormal": lambda n: rng.lognormal(0, 0.8, n),
        "exponential": lambda n: rng.exponential(1.0, n),
        "normal": lambda n: rng.normal(10, 1, n),
    }[make]
    rows = [draw(320) for _ in range(200)]
    made = forecast_panel([one[:300] for one in rows], 20, ClassicalSettings())
    future = np.stack([one[300:] for one in rows])
    shares = (future[None] < made.quantile(np.arange(1, 10) / 10)).mean(axis=(1, 2))
    assert shares == pytest.approx(np.arange(1, 10) / 10, abs=0.04)


@pytest.mark.parametrize("row", REFERENCE, ids=NAMES)
def test_smoothing_and_theta_forecast_what_statsforecast_does(row):
    values = np.array(row["values"])
    members = fit_members([values], 12, ClassicalSettings(season=row["season"]))
    size = np.abs(values).mean()
    assert np.abs(members.means[0, 0] - row["auto_ets"]).mean() < 0.03 * size
    assert np.abs(members.means[0, 1] - row["theta"]).mean() < 0.03 * size
    theirs = np.array(row["auto_ets_hi_80"]) - row["auto_ets"]
    assert 1.2816 * members.stddevs[0, 0] == pytest.approx(theirs, rel=0.35)


def test_the_ensemble_beats_each_member_on_seasonal_walks(rng):
    t = np.arange(72)
    panel = [100 + np.cumsum(rng.normal(0.3, 2, 72)) + 15 * np.sin(2 * np.pi * t / 12) for _ in range(200)]
    future = np.stack([one[60:] for one in panel])
    members = fit_members([one[:60] for one in panel], 12, MONTHS)
    errors = np.abs(members.means - future[:, None]).mean(axis=(0, 2))
    assert np.abs(members.combine(MONTHS).mean - future).mean() < errors.min() * 1.01


@pytest.mark.parametrize(
    ("series", "argument"),
    [([np.array([])], "series"), ([np.array([1.0, np.nan])], "series"), ([np.ones((3, 2))], "series")],
)
def test_series_that_cannot_be_forecast_are_refused(series, argument):
    with pytest.raises(FernError) as caught:
        forecast_panel(series, 3, MONTHS)
    assert caught.value.argument == argument


@pytest.mark.parametrize(
    "wrong", [{"season": 0}, {"weights": (1.0,)}, {"weights": (0.0, 0.0, 0.0)}, {"positive": "no"}, {"rows": 0}]
)
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(FernError) as caught:
        ClassicalSettings(**wrong)
    assert caught.value.argument in wrong


def test_no_series_at_all_is_an_empty_forecast():
    assert forecast_panel([], 3, MONTHS).table.shape == (0, 3, 45)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("kind", ["positive", "signed"])
def test_long_forecasts_are_no_wider_than_the_changes_of_the_series(kind):
    rng = np.random.default_rng(3)
    noise = np.convolve(rng.standard_normal(700), 0.9 ** np.arange(60))[:600]
    rows = np.exp(0.4 * noise) if kind == "positive" else noise
    made = forecast_panel([rows], 480, ClassicalSettings(season=24))
    width = np.ptp(made.quantile([0.1, 0.9])[:, 0, -1])
    assert width < 2 * 1.2816 * np.abs(np.sqrt(2 * 480 / 150) * rows.std()) * 1.2


def test_a_random_walk_is_as_uncertain_as_it_is():
    rng = np.random.default_rng(4)
    walks = np.cumsum(rng.standard_normal((60, 640)), axis=1)
    made = forecast_panel(list(walks[:, :600]), 40)
    low, high = made.quantile([0.1, 0.9])
    assert ((low <= walks[:, 600:]) & (walks[:, 600:] <= high)).mean() == pytest.approx(0.8, abs=0.08)
