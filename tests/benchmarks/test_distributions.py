"""The measurements of distributions run, at sizes that take no time; what they measure is not judged, and nothing is
written.
"""

import json
import math

import pytest
import torch
from benchmarks.distributions import compare, coverage, latent, shock, short, single
from benchmarks.sections import distributions as sections

from fern.data import Windows
from fern.models import build_model
from fern.training import TrainConfig

SMALL = compare.Sizes(context=24, horizon=12, epochs=1, steps_per_epoch=2, judged=16, paths=4, rows=600)
FEW = coverage.Sizes(
    series=1,
    epochs=1,
    steps_per_epoch=2,
    context=24,
    horizon=12,
    rows=1000,
    fresh_rows=1200,
    calibration_rows=900,
    stride=8,
    paths=4,
)


@pytest.mark.parametrize("variant", ["paper, huber", "last, whitened_crps", "last, huber, then whitened_crps"])
def test_a_way_to_train_is_measured_and_shown(variant):
    row = compare.compare("OU_BASE", variant, 7, SMALL)
    assert all(math.isfinite(value) for value in row["judged"].values())
    assert json.loads(json.dumps(row)) == row
    assert f"| OU_BASE | {variant} | {row['judged']['mse']:.4f} |" in sections.loss_part([row]).markdown()


def test_training_the_widths_leaves_the_mean_as_it_was():
    values, _ = compare.series_before_test("OU_BASE", rows=400)
    windows = Windows(values, context_length=24, horizon=12)
    model = build_model("fern", preset="level", context_length=24, horizon=12, channels=1).eval()
    model.prepare(windows.batches(64))
    past, _ = windows.gather(torch.arange(8))
    before = model(past)
    config = TrainConfig(preset="distribution", epochs=1, steps_per_epoch=5, start="given", threads=1, averaging=None)
    compare.train_widths(model, windows, windows, config)
    after = model.eval()(past)
    torch.testing.assert_close(after.mean, before.mean, rtol=0, atol=0)
    assert not torch.allclose(after.ellipsoid.variance, before.ellipsoid.variance)


@pytest.mark.parametrize("system", [coverage.SYSTEMS[0], coverage.SYSTEMS[-1]], ids=lambda system: system.scenario)
def test_coverage_of_a_system_is_measured_and_shown(system):
    row = coverage.measured(system, FEW, seed=7)
    assert all(0 <= value <= 1 for name, value in row["mean"].items() if "/" in name)
    assert all(math.isfinite(value) for value in row["mean"].values())
    assert ("crps oracle's distribution" in row["mean"]) == (system.scenario == "OU_BASE")
    shown = sections.many_series_part([row]).markdown()
    assert f"{100 * row['mean']['band/80']:.1f} ± {100 * row['spread']['band/80 (sd over series)']:.1f}" in shown


def test_coverage_after_a_shock_is_measured():
    course = shock.Course(calibrated_until=500, first=520, shock=560, rows=700)
    row = shock.measured(FEW, course, seed=7)
    assert all(0 <= share <= 1 for name in ("static", "online") for share in row[name])
    shown = sections.after_shock_part([json.loads(json.dumps(row))]).markdown()
    assert f"| online | {100 * row['online'][0]:.1f} |" in shown


def test_coverage_on_one_series_has_its_error_bar(monkeypatch):
    monkeypatch.setattr(single, "SPLITS", {"OU_BASE": "shock"})
    sizes = single.Sizes(context=24, horizon=12, epochs=1, steps_per_epoch=2, stride=6, rows=1500)
    row = single.measured("OU_BASE", sizes, seed=7)
    assert all(one["error_bar"] >= 0 and one["n_eff"] <= one["n"] for one in row["coverage"])
    shown = sections.one_series_part([json.loads(json.dumps(row))]).markdown()
    assert f"{100 * row['coverage'][0]['coverage']:.1f} ± {100 * row['coverage'][0]['error_bar']:.1f}" in shown


def test_intervals_of_short_series_are_measured_and_shown():
    row = short.measured("trend", series=1, epochs=1)
    assert row["distribution_windows"]["0"]["crps_ratio"] == 1.0
    for counted, one in row["distribution_windows"].items():
        assert one["crps_ratio"] > 0 and 0 <= one["coverage_80"] <= one["coverage_95"] <= 1
        assert f"| trend | 1 | {counted} | {one['crps_ratio']:.3f} |" in sections.short_part([row]).markdown()


def test_the_latent_is_compared_at_zero_and_drawn(monkeypatch):
    monkeypatch.setattr(latent, "LENGTH", 24)
    monkeypatch.setattr(latent, "STEPS_PER_EPOCH", 2)
    row = latent.compare("OU_BASE", seed=7, epochs=1, stride=200)
    assert set(row["mse"]) == {"z drawn", "z = 0 for half"}
    shown = sections.latent_part([row]).markdown()
    for training, errors in row["mse"].items():
        assert set(errors) == {"z = 0", "mean of 1 draws of z", "mean of 16 draws of z"}
        assert all(math.isfinite(value) for value in errors.values())
        assert f"| OU_BASE | {training} | {errors['z = 0']:.4g} |" in shown
