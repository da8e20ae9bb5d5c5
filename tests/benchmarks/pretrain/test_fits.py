"""Default fits beside fits without the network, on the rows before the test parts."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from benchmarks.public.tasks import TASKS

from benchmarks.pretrain import fits
from fern import FernForecaster
from fern.forecaster import fit
from fern.models.pretrained.tuning import tune_network

HORIZON, LONG = 8, 120


def read():
    """A long series and one that is too short once the test part is gone."""
    rng = np.random.default_rng(1)
    parts = [
        pd.DataFrame(
            {"unique_id": name, "ds": pd.date_range("2020", periods=rows, freq="D"), "y": rng.normal(size=rows)}
        )
        for name, rows in (("long", LONG), ("short", 3 * HORIZON))
    ]
    return pd.concat(parts, ignore_index=True)


@pytest.fixture
def task():
    return replace(
        next(iter(TASKS.values())), name="made up", read=read, files=(), horizon=HORIZON, season=7, windows=1
    )


def test_the_test_part_and_series_that_are_too_short_without_it_are_gone(task):
    before = fits.before_test(task)
    assert before.read()["unique_id"].value_counts().to_dict() == {"long": LONG - HORIZON}
    assert before.windows == fits.WINDOWS


def test_a_fit_without_the_network_has_none_and_the_default_is_as_it_was():
    table = read().query("unique_id == 'long'")
    with fits.without_network():
        without = FernForecaster(HORIZON, epochs=1, progress="silent").fit(table)
    default = FernForecaster(HORIZON, epochs=1, progress="silent").fit(table)
    assert not any("pretrained network" in note for note in without.notes_)
    assert any("pretrained network" in note for note in default.notes_)


def test_half_of_the_training_has_half_the_steps_while_it_lasts():
    whole = fit.choose_steps(13_505, 1, epochs=None)
    with fits.half_training():
        half = fit.choose_steps(13_505, 1, epochs=None)
    assert np.prod(half) == pytest.approx(np.prod(whole) / 2, rel=0.02)
    assert fit.choose_steps(13_505, 1, epochs=None) == whole


def test_half_of_the_tuning_has_half_the_steps_while_it_lasts(monkeypatch):
    steps = []
    monkeypatch.setattr(fits.tuning, "tune_network", lambda *_, **options: steps.append(options.get("steps")))
    with fits.half_tuning():
        FernForecaster(HORIZON, progress="silent").fit(read().query("unique_id == 'long'"))
        assert fits.held_out.tune_network is not tune_network
    assert steps == [fits.tuning.STEPS // 2]
    assert fits.held_out.tune_network is tune_network


def test_the_table_has_what_all_variants_ran_and_their_means():
    def row(task, variant, size):
        return {"task": task, "variant": variant, "metrics": dict.fromkeys(("MASE", "WQL", "coverage_80"), size)} | {
            "fit_seconds": 10 * size
        }

    names = fits.TASKS[:2]
    rows = [row(name, variant, 1.0 + 0.5 * (variant != fits.DEFAULT)) for name in names for variant in fits.VARIANTS]
    table = fits.draw_fits([*rows, row(fits.TASKS[2], fits.DEFAULT, 1.0)])
    assert len(table) == 2 + len(names) + 1
    assert table[-1].count("1.500 / 1.500 / 1.500") == len(fits.VARIANTS) - 1
