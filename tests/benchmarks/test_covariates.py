"""The benchmark of covariates at tiny sizes: what it writes, and that its oracle knows the equation."""

import json
from functools import partial

import numpy as np
from benchmarks.covariates import TINY, driven, etth1, main

from benchmarks import covariates
from fern.forecaster import FernForecaster


def test_the_oracle_of_the_driven_series_misses_nothing_but_the_shocks():
    frame, shocks = driven(np.random.default_rng(0), 50)
    y, x = frame["y"].to_numpy() - 20, frame["x"].to_numpy()
    np.testing.assert_allclose(y[1:] - 0.5 * y[:-1] - 2 * x[1:], shocks[1:], atol=1e-12)


def test_a_run_writes_ratios_with_their_spread_and_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(covariates, "PANELS", {"OU": covariates.PANELS["OU"]})
    monkeypatch.setattr(covariates, "FernForecaster", partial(FernForecaster, classical=False))
    result = tmp_path / "results" / "covariates.json"
    main(["--model", "last-value"], effort=TINY, result=result)
    found = json.loads(result.read_text())
    assert set(found["noise"]["crps_ratio"]) == set(found["noise"]["crps_ratio_to_calendar"]) == {"OU"}
    for entry in (*found["noise"]["crps_ratio"].values(), found["driven"]["rmse_ratio"]):
        assert len(entry["draws"]) == TINY.draws and 0 < entry["mean"] < 3 and entry["standard_error"] >= 0
    assert found["driven"]["command"] == "python -m benchmarks.covariates --only driven --draws 2 --model last-value"
    assert capsys.readouterr().out.count("draw") == 2 * TINY.draws


def test_the_newest_rows_of_etth1_are_a_series_for_each_column(published_path):
    published_path("ETTh1")
    frame = etth1(np.random.default_rng(0), TINY)
    assert frame["unique_id"].nunique() == 7 and len(frame) == 7 * TINY.rows
