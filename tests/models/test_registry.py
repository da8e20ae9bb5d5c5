"""Models by name."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import torch
from tests.errors import raises_error
from torch import Tensor

from fern.errors import FernError
from fern.models import ModelConfig, PointForecaster, build_model, model_names, register_model, registry
from fern.models.naive import LastValue
from fern.models.registry import outline_model

SIZES = {"context_length": 4, "horizon": 2, "channels": 1}


@dataclass(frozen=True, kw_only=True)
class LevelConfig(ModelConfig):
    level: float = 1.0
    extra: float = 0.0


class Level(PointForecaster):
    config: LevelConfig

    def predict(self, past: Tensor) -> Tensor:
        return past.new_full((past.shape[0], 2, 1), self.config.level + self.config.extra)


@pytest.fixture
def _level(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))
    register_model("level", LevelConfig, Level, presets={"high": {"level": 9.0, "extra": 0.5}})
    yield


@pytest.mark.usefixtures("_level")
def test_an_own_model_is_built_by_name_and_settings_override_presets() -> None:
    past = torch.zeros(1, 4, 1)
    assert "level" in model_names()
    assert float(build_model("level", **SIZES)(past).mean[0, 0, 0]) == 1.0
    assert float(build_model("level", preset="high", **SIZES)(past).mean[0, 0, 0]) == 9.5
    assert float(build_model("level", preset="high", extra=1.0, **SIZES)(past).mean[0, 0, 0]) == 10.0


@pytest.mark.usefixtures("_level")
def test_a_name_cannot_be_taken_twice() -> None:
    with raises_error("name"):
        register_model("level", ModelConfig, LastValue)
    register_model("level", LevelConfig, Level)  # the same model again is no conflict


def test_an_unknown_model_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(FernError, match="unknown model 'last_value': did you mean 'last-value'"):
        build_model("last_value", **SIZES)


def test_building_leaves_the_global_generator_alone_and_uses_it_without_one_of_its_own() -> None:
    sizes = {"context_length": 12, "horizon": 4, "channels": 1}
    before = torch.get_rng_state()
    build_model("fern", generator=torch.Generator().manual_seed(1), **sizes)
    assert torch.equal(torch.get_rng_state(), before)
    first = build_model("fern", **sizes)
    assert not torch.equal(torch.get_rng_state(), before)
    torch.set_rng_state(before)
    second = build_model("fern", **sizes)
    torch.set_rng_state(before)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


@pytest.mark.parametrize("name", model_names())
def test_the_outline_of_a_model_has_its_shapes_and_no_weights(name: str) -> None:
    sizes = {"context_length": 96, "horizon": 24, "channels": 2}
    before = torch.get_rng_state()
    outline, built = outline_model(name, **sizes), build_model(name, **sizes, generator=torch.Generator())
    assert torch.equal(torch.get_rng_state(), before)
    assert {k: v.shape for k, v in outline.named_parameters()} == {k: v.shape for k, v in built.named_parameters()}
    assert all(parameter.is_meta for parameter in outline.parameters())
    assert outline.trainable == built.trainable


class Looking(PointForecaster):
    """A model whose constructor looks at a value."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.level = torch.nn.Parameter(torch.ones(1))
        self.start = float(self.level)

    def predict(self, past: Tensor) -> Tensor:
        return self.level * past[:, -1:].expand(-1, 2, -1)


def test_a_model_that_needs_values_to_be_made_is_outlined_by_building_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))
    register_model("looking", ModelConfig, Looking)
    assert outline_model("looking", **SIZES).trainable
