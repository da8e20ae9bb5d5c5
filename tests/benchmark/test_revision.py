"""A key says all that changes results: the same run gives the same bits, and other settings have other keys."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tests.benchmark.support import reproducible, tiny_plan

from fern.benchmark import runs
from fern.benchmark.execute import RunCache, RunContext, execute_run
from fern.benchmark.runs import REVISION, code_version_of, preset_contents
from fern.caching import kernels_enabled
from fern.models import model_names
from fern.models.registry import model_entry

FIGURES = Path(__file__).with_name("revision_figures.json")
NAMES = [name for name in model_names() if model_entry(name).model.__module__.startswith("fern.")]
WITH_DROPOUT = ("koopa", "moderntcn", "patchtst", "timemixer")
EVERY_MODEL = pytest.mark.parametrize("model", [*NAMES, "fern:paper-compact"])
# A tiny series is outside of what a polynomial was fitted to.
pytestmark = pytest.mark.filterwarnings("ignore:polymap. .* windows had values held:RuntimeWarning")


def tiny_result(model):
    outcome = execute_run(tiny_plan(models=[model], context_length=96).runs[0], RunContext(), RunCache())
    assert outcome.result.status == "done", outcome.result.error
    return outcome


@cache
def first_result(model):
    return tiny_result(model)


@EVERY_MODEL
def test_a_run_done_twice_has_the_same_bits_wherever_its_arrays_lie_in_memory(model):
    first = first_result(model)
    kept = [np.empty(size) for size in (3, 1_001, 65_537, 17)]  # the second run finds other addresses
    second = tiny_result(model)
    assert len(kept) == 4
    assert reproducible(first.result) == reproducible(second.result)
    for name, values in first.windows.items():
        np.testing.assert_array_equal(values, second.windows[name])


@EVERY_MODEL
def test_a_change_of_what_is_computed_raises_the_revision(model):
    """The figures were written under the revision that stands in them; ``rewrite_figures`` writes them anew.

    The last bits differ from processor to processor, and the tolerance is for them.
    """
    recorded = json.loads(FIGURES.read_text())
    assert recorded["revision"] == REVISION, (
        "the revision was raised: run tests.benchmark.test_revision.rewrite_figures"
    )
    if not kernels_enabled() and model in WITH_DROPOUT:
        pytest.skip("without compiled kernels dropout draws other masks")
    if model not in recorded["mse"]:
        pytest.skip("no figures: a model that is new, or whose weights come with the package")
    said = "what a run computes has changed: raise fern.benchmark.runs.REVISION, or undo the change"
    assert first_result(model).result.metrics["mse"] == pytest.approx(recorded["mse"][model], rel=1e-3), said


def rewrite_figures():
    figures = {model: float(f"{tiny_result(model).result.metrics['mse']:.9g}") for model in NAMES}
    FIGURES.write_text(json.dumps({"revision": REVISION, "mse": figures}, indent=1) + "\n")


@pytest.fixture
def frozen(monkeypatch):
    """Presets of the revision that a test may change."""
    contents = {f"dlinear:{preset}": dict(preset_contents("dlinear", preset)) for preset in ("default", "paper")}
    monkeypatch.setattr(runs, "_read_frozen_presets", lambda: contents)
    return contents


def test_a_preset_as_it_was_has_the_revision_alone(frozen):
    assert code_version_of("dlinear", "paper") == REVISION


def test_a_preset_whose_settings_have_changed_has_another_key(frozen):
    before = tiny_plan(models=["dlinear"], model_preset="paper").runs[0].key
    frozen["dlinear:paper"]["kernel"] = 7
    assert code_version_of("dlinear", "paper").startswith(f"{REVISION}+")
    assert tiny_plan(models=["dlinear"], model_preset="paper").runs[0].key != before


def test_a_setting_that_is_newer_than_the_revision_changes_a_key_only_where_the_preset_names_it(frozen, monkeypatch):
    del frozen["dlinear:default"]["kernel"]
    assert code_version_of("dlinear", "default") == REVISION
    entry = model_entry("dlinear")
    monkeypatch.setattr(runs, "model_entry", lambda name: replace(entry, presets={"default": {"kernel": 25}}))
    assert code_version_of("dlinear", "default") != REVISION


def test_a_preset_that_is_newer_than_the_revision_has_its_settings_in_its_key(frozen):
    assert code_version_of("dlinear", "etth1") != REVISION
    assert code_version_of("dlinear", "etth1") == code_version_of("dlinear", "etth2")  # the same settings


def test_every_recorded_preset_is_as_it_was():
    changed = [name for name in runs._read_frozen_presets() if code_version_of(*name.split(":")) != REVISION]
    assert not changed
