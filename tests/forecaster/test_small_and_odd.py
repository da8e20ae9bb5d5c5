"""Short, skewed, positive, intermittent: what most people have, from frame to frame."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from fern.errors import FernError
from fern.forecaster import FernForecaster, FernWarning

QUICK = {"time_limit": 1.0, "progress": "silent"}
DECILES = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
SMALL = json.loads(
    (Path(__file__).parents[2] / "benchmarks" / "small_series" / "results" / "auto_ets.json").read_text()
)


def frame_of(series, frequency="D"):
    parts = [
        pd.DataFrame({"unique_id": f"s{k:04d}", "ds": pd.date_range("2000", periods=len(y), freq=frequency), "y": y})
        for k, y in enumerate(series)
    ]
    return pd.concat(parts, ignore_index=True)


DRAWS = {
    "lognormal": lambda rng, n: rng.lognormal(0, 1, n),
    "exponential": lambda rng, n: rng.exponential(1, n),
    "poisson": lambda rng, n: rng.poisson(0.3, n).astype(float),
    "zero-inflated": lambda rng, n: np.where(rng.random(n) < 0.6, 0.0, rng.gamma(2.0, 3.0, n)),
}


CHANCES = {
    "lognormal": lambda x: stats.lognorm.cdf(x, 1.0),
    "exponential": stats.expon.cdf,
    "poisson": lambda x: stats.poisson.cdf(x, 0.3),
    "zero-inflated": lambda x: np.where(x < 0, 0.0, 0.6 + 0.4 * stats.gamma.cdf(x, 2.0, scale=3.0)),
}


def most_off(name, forecaster, series=120):
    """By how much the chance of a value below a decile is off at most: by the process itself, so that nothing but the
    fitted rows is drawn and 120 series leave a standard error of half a point."""
    rng = np.random.default_rng(0)
    forecaster.fit(frame_of([DRAWS[name](rng, 340) for _ in range(series)]))
    quantiles = forecaster.predict(quantiles=DECILES)[[f"Fern-ql{share}" for share in DECILES]].to_numpy()
    assert quantiles.min() >= 0
    below, upto = (CHANCES[name](quantiles + side).mean(axis=0) for side in (-1e-9, 1e-9))
    return max((below - DECILES).max(), (DECILES - upto).max())  # a discrete value's decile takes in its chance


@pytest.mark.parametrize("name", DRAWS)
def test_deciles_of_a_skewed_panel_hold_their_share_and_are_not_negative(name):
    assert most_off(name, FernForecaster(20, **QUICK)) < 0.02


@pytest.mark.slow
@pytest.mark.parametrize("name", DRAWS)
def test_deciles_of_a_skewed_panel_hold_their_share_with_the_model_too(name):
    assert most_off(name, FernForecaster(20, progress="silent"), series=40) < 0.03


@pytest.mark.parametrize("name", DRAWS)
def test_totals_of_skewed_panels_are_right_on_average(name):
    expected = {"lognormal": np.exp(0.5), "exponential": 1.0, "poisson": 0.3, "zero-inflated": 2.4}[name]
    rng = np.random.default_rng(0)
    answer = FernForecaster(10, **QUICK).fit(frame_of([DRAWS[name](rng, 200) for _ in range(100)])).total()
    assert answer["Fern"].mean() / 10 == pytest.approx(expected, rel=0.05)


def test_a_panel_of_every_length_is_forecast_whole_and_told_once():
    rng = np.random.default_rng(0)
    lengths = [1, 1, 2, 3, 5, 8, 13, 40, 200, 2000]
    panel = frame_of([50 + np.cumsum(rng.normal(0, 1, n)) for n in lengths], "MS" if max(lengths) < 1000 else "h")
    forecaster = FernForecaster(12, **QUICK).fit(panel)
    answer = forecaster.predict(level=[80])
    assert len(answer) == 12 * len(lengths)
    assert (answer["Fern-lo-80"] < answer["Fern-hi-80"]).all()
    assert sum("classical" in note for note in forecaster.notes_) == 1


def test_short_months_beside_long_ones_are_months():
    answer = FernForecaster(2, **QUICK).fit(frame_of([[1.0], [1.0, 2.0], np.arange(30.0)], "ME")).predict()
    assert answer["ds"].dt.is_month_end.all()


def test_positive_is_as_asked():
    rng = np.random.default_rng(0)
    frame = frame_of([rng.exponential(1, 60) + 0.01])

    def lowest(positive):
        answer = FernForecaster(6, positive=positive, **QUICK).fit(frame).predict(level=[99])
        return answer["Fern-lo-99"].min()

    assert lowest("auto") >= 0 and lowest(True) >= 0
    with pytest.raises(FernError) as caught:
        FernForecaster(6, positive="yes", **QUICK).fit(frame)
    assert caught.value.argument == "positive"


def test_paths_sums_and_quantiles_are_of_one_distribution():
    rng = np.random.default_rng(0)
    forecaster = FernForecaster(8, **QUICK).fit(frame_of([rng.lognormal(1, 0.7, 150)]))
    quantiles = forecaster.predict(quantiles=[0.1, 0.5, 0.9]).filter(like="ql").to_numpy()
    paths = forecaster.simulate(n_paths=4000)["Fern"].to_numpy().reshape(4000, 8)
    np.testing.assert_allclose(np.quantile(paths, [0.1, 0.5, 0.9], axis=0).T, quantiles, rtol=0.12)
    total = forecaster.total(level=[80])
    low, high = np.quantile(paths.sum(axis=1), [0.1, 0.9])
    assert total["Fern-lo-80"].item() == pytest.approx(low, rel=0.08)
    assert total["Fern-hi-80"].item() == pytest.approx(high, rel=0.08)
    assert total["Fern"].item() == pytest.approx(forecaster.predict()["Fern"].sum())


def test_what_was_chosen_is_kept_on_disk(tmp_path):
    rng = np.random.default_rng(0)
    frame = frame_of([rng.lognormal(1, 0.9, n) for n in (5, 60, 150)])
    forecaster = FernForecaster(8, **QUICK).fit(frame)
    forecaster.save(tmp_path / "kept")
    again = FernForecaster.load(tmp_path / "kept")
    pd.testing.assert_frame_equal(again.predict(level=[80]), forecaster.predict(level=[80]))


def test_rows_that_come_later_are_forecast_from():
    frame = frame_of([np.arange(30.0)])
    forecaster = FernForecaster(3, **QUICK).fit(frame.iloc[:20])
    before = forecaster.predict()["Fern"].to_numpy()
    after = forecaster.update(frame.iloc[20:25]).predict()["Fern"].to_numpy()
    assert after[0] == pytest.approx(before[0] + 5, abs=1.0)


@pytest.mark.parametrize("entry", [row for row in SMALL if row["values"]][::4], ids=lambda row: row["name"])
def test_small_series_are_forecast_about_as_well_as_auto_ets_does(entry):
    shares = np.arange(1, 20) / 20
    forecaster = FernForecaster(entry["horizon"], season=entry["season"], **QUICK)
    answer = forecaster.cross_validation(
        frame_of([entry["values"]], "MS"), n_windows=3, step_size=entry["step"], quantiles=shares.tolist()
    )
    error = answer["y"].to_numpy()[:, None] - answer.filter(like="ql").to_numpy()
    crps = 2 * np.maximum(shares * error, (shares - 1) * error).mean()
    assert crps < 1.3 * np.mean(entry["auto_ets"])


def test_an_absurd_forecast_is_not_released():
    rng = np.random.default_rng(0)
    y = 300 + 10 * rng.standard_normal(160)
    forecaster = FernForecaster(4, epochs=1, classical=False, progress="silent", threads=1).fit(frame_of([y]))
    state = forecaster._require_fitted()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(state.model), "forward", _shifted(type(state.model).forward, 50.0))
        with pytest.warns(FernWarning, match="far outside"):
            answer = forecaster.predict(level=[80])
        paths = forecaster.simulate(n_paths=50)
    assert answer["Fern"].between(250, 350).all()
    assert paths["Fern"].between(150, 450).all()


def _shifted(forward, by):
    def moved(self, past):
        return forward(self, past + by)

    return moved
