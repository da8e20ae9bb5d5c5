"""Variants between the paper's text and its author's code: each is one change, run and shown in one table."""

import pytest
from benchmarks.paper import variants

from fern.models import model_config
from fern.models.fern import PRESETS
from fern.training import TrainConfig


@pytest.mark.parametrize("name", list(variants.VARIANTS))
def test_every_variant_is_one_that_the_model_and_training_have(name: str) -> None:
    choice = variants.VARIANTS[name]
    sizes = {"context_length": 336, "horizon": 336, "channels": 3}
    model_config("fern", preset=choice.preset, **sizes, **choice.settings)
    TrainConfig(preset="shock", **choice.train)
    starting = PRESETS[choice.preset]
    assert all(starting.get(setting, "its default") != value for setting, value in choice.settings.items())


def test_a_variant_is_chosen_by_validation_and_then_scored_on_test_windows() -> None:
    result = variants.run("OU_BASE", "no decoder layers", seed=7, epochs=1, steps=1200, length=48)
    base = variants.run("OU_BASE", "code", seed=7, epochs=1, steps=1200, length=48)
    assert result["parameters"] < base["parameters"]
    assert result["validation"]["mse"] != result["test"]["mse"]
    lines = variants.table([result, base]).splitlines()
    assert "| code |" in lines[2]
    assert "| no decoder layers |" in lines[3]
