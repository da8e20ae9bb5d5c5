"""What a forecaster says of itself: profile, warnings, rates and coverage, as frames of the kind that came in."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from fern.forecaster import FernForecaster


@pytest.fixture(scope="module")
def wide() -> FernForecaster:
    """Two channels with enough rows for rules."""
    time, rng = np.arange(900), np.random.default_rng(0)
    frame = pl.DataFrame(
        {
            "when": list(pd.date_range("2021", periods=900, freq="h")),
            "a": 50 + 10 * np.sin(time / 4) + rng.standard_normal(900),
            "b": np.cos(time / 9) + 0.1 * rng.standard_normal(900),
        }
    )
    return FernForecaster(horizon=8, context_length=32, epochs=2, progress="silent", threads=1).fit(frame)


def test_the_profile_is_in_the_units_of_the_data(wide: FernForecaster) -> None:
    profile = wide.diagnose().profile
    assert isinstance(profile, pl.DataFrame)
    assert profile.columns == [
        *("when", "channel", "forecast", "truth", "error", "spectral_radius", "trace", "log_det"),
    ]
    a = profile.filter(pl.col("channel") == "a")
    assert 45 < a["truth"].mean() < 55
    assert 45 < a["forecast"].mean() < 55
    assert (a["error"] > 0).all()
    assert a["when"].is_sorted()


def test_rates_are_those_where_rules_were_learnt_and_later(wide: FernForecaster) -> None:
    rates = wide.diagnose().rates
    assert set(rates["rule"]) == {"variance collapse", "rising spectral radius"}
    assert set(rates["rows"]) == {"learnt", "later"}
    assert rates["hit_rate"].is_between(0, 1).all()
    warnings = wide.diagnose().warnings
    assert warnings.columns == ["channel", "rule", "rows", "hit_rate", "false_alarm_rate", "first", "last"]
    assert (warnings["first"] <= warnings["last"]).all()


def test_coverage_comes_with_its_error_bar(wide: FernForecaster) -> None:
    coverage = wide.diagnose().coverage
    assert set(coverage["kind"]) == {"margin", "patch", "band", "region"}
    row = coverage.filter((pl.col("kind") == "margin") & (pl.col("level") == 80.0))
    assert 0.5 < row["coverage"][0] <= 1.0
    assert row["n_eff"][0] <= row["n"][0]


def test_other_rows_can_be_diagnosed(fitted: FernForecaster, panel: pd.DataFrame) -> None:
    found = fitted.diagnose(panel.loc[panel["unique_id"] != "zeta"])
    assert found.profile["unique_id"].unique().tolist() == ["alpha", "mid"]
    assert len(found.coverage) == 16
    new = panel.loc[panel["unique_id"] == "mid"].assign(unique_id="new", y=lambda rows: 1e4 * rows["y"])
    assert fitted.diagnose(new).profile["truth"].mean() == pytest.approx(1e4, rel=0.01)


def test_a_model_without_a_distribution_has_its_coverage_alone(panel: pd.DataFrame) -> None:
    forecaster = FernForecaster(horizon=7, model="dlinear", epochs=1, progress="silent", threads=1).fit(panel)
    found = forecaster.diagnose()
    assert found.profile is None
    assert found.warnings is None
    assert len(found.coverage) == 16


@pytest.mark.filterwarnings("ignore::fern.forecaster.FernWarning")
def test_a_short_series_has_nothing_to_say() -> None:
    frame = pd.DataFrame({"ds": pd.date_range("2020", periods=9), "y": np.arange(9.0)})
    found = FernForecaster(horizon=3, progress="silent").fit(frame).diagnose()
    assert (found.profile, found.warnings, found.rates, found.coverage) == (None, None, None, None)
