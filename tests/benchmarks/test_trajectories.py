"""Coverage over several trajectories: what is counted, and what the spread is said to be worth."""

import numpy as np
import pytest
from benchmarks.forecasters import trajectories
from benchmarks.forecasters.trajectories import LEVELS, measured, summary, table
from benchmarks.sections.libraries import trajectories_part

from fern.forecaster import FernForecaster
from fern.systems import scenario, simulate


def test_number_0_is_the_scenario_itself_and_the_others_start_elsewhere() -> None:
    own, other = table(0, rows=50), table(1, rows=50)
    assert own["unique_id"].unique().tolist() == ["x", "y", "z"]
    values = simulate(scenario("LORENZ_BASE", steps=50)).values
    np.testing.assert_array_equal(own["y"].to_numpy(), values.T.reshape(-1).astype(float))
    assert not np.isclose(own["y"], other["y"]).any()


def test_a_row_has_the_coverage_of_the_windows_after_the_rows_that_were_learnt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trajectories, "FIRST", 2)
    forecaster = FernForecaster(4, context_length=8, season=1, epochs=1, progress="silent", threads=1)
    frame = table(2, rows=400)
    row = measured(forecaster, frame, windows=5)
    assert all(one.rows == 400 - 5 * 4 for one in forecaster._require_fitted().recent)
    learnt = frame.groupby("unique_id", sort=False).head(380)
    truth = frame.groupby("unique_id", sort=False).tail(20).groupby("unique_id", sort=False).head(4)
    first = forecaster.predict(learnt, level=list(LEVELS))
    inside = (truth["y"].to_numpy() >= first["Fern-lo-80"]) & (truth["y"].to_numpy() <= first["Fern-hi-80"])
    assert 0 <= 2 * 12 * row["first_coverage_80"] - inside.sum() <= 12  # the other half is the second window's
    assert row["own_coverage_80"] == pytest.approx(0.8, abs=0.06)
    assert row["coverage_80"] <= row["coverage_95"]


def test_a_spread_is_worth_as_many_windows_as_would_have_it() -> None:
    rng = np.random.default_rng(0)
    names = [f"{kind}coverage_{level}" for level in LEVELS for kind in ("first_", "", "own_", "half_")]
    rows = [{"n_eff": 25.0, **dict.fromkeys(names, share)} for share in rng.binomial(25, 0.8, 4000) / 25]
    line = next(line for line in summary(rows).splitlines() if line.startswith("coverage_80"))
    assert float(line.split()[-3]) == pytest.approx(25, rel=0.1)


def test_the_page_shows_the_mean_over_trajectories_and_its_range() -> None:
    shares = {"first_coverage_80": 0.7, "coverage_80": 0.8, "first_coverage_95": 0.9, "coverage_95": 0.95}
    text = trajectories_part([shares, {name: share + 0.02 for name, share in shares.items()}]).markdown()
    assert "| 80 % | the first 40 windows | 71.0 % | 70.0 % | 72.0 % |" in text
    assert "| 95 % | all windows | 96.0 % | 95.0 % | 97.0 % |" in text
