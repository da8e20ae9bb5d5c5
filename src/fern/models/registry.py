"""Models by name: registering, settings by name, building."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator

from fern.errors import FernError, unknown_name
from fern.models.base import Forecaster, ModelConfig
from fern.models.initialise import initialise
from fern.models.outlines import outline_of
from fern.settings import from_mapping

Presets = Mapping[str, Mapping[str, Any]]
"""Settings by name, as published for a paper or a dataset."""


@dataclass(frozen=True)
class ModelEntry:
    """A registered model."""

    name: str
    config: type[ModelConfig]
    model: type[Forecaster]
    presets: Presets


_ENTRIES: dict[str, ModelEntry] = {}


def register_model(
    name: str,
    config: type[ModelConfig],
    model: type[Forecaster],
    *,
    presets: Presets | None = None,
) -> None:
    """Make a model known to `build_model`, `load_model` and the benchmark.

    The preset ``default`` (no settings beyond the config's own defaults) always exists.
    """
    if name in _ENTRIES and _ENTRIES[name].model is not model:
        raise FernError(f"name: got {name!r}, which is registered for {_ENTRIES[name].model.__name__} already")
    _ENTRIES[name] = ModelEntry(name, config, model, {"default": {}, **(presets or {})})


def model_names() -> list[str]:
    """The names of all registered models."""
    return sorted(_ENTRIES)


def model_entry(name: str) -> ModelEntry:
    """What is registered under this name."""
    if name not in _ENTRIES:
        raise unknown_name("model", name, _ENTRIES)
    return _ENTRIES[name]


def name_of(model: Forecaster) -> str:
    """The name a model's class is registered under."""
    for entry in _ENTRIES.values():
        if entry.model is type(model):
            return entry.name
    raise FernError(f"model: got {type(model).__name__}, which is not registered; see register_model")


def build_model(
    name: str,
    *,
    context_length: int,
    horizon: int,
    channels: int,
    preset: str = "default",
    generator: Generator | None = None,
    **settings: Any,
) -> Forecaster:
    """A new model by name.

    ``settings`` are those of the model's config and override the preset's. The starting values of the parameters
    come from ``generator``, or from torch's default generator when there is none.

    Example:
        >>> model = build_model("fern", context_length=96, horizon=24, channels=2, reflections=2)
        >>> model(torch.zeros(5, 96, 2)).mean.shape
        torch.Size([5, 24, 2])
        >>> build_model("fern", context_length=96, horizon=24, channels=2, reflektions=2)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        fern.errors.FernError: fern: unknown setting 'reflektions': did you mean 'reflections'? Known: ...
    """
    sizes = {"context_length": context_length, "horizon": horizon, "channels": channels}
    config = model_config(name, **sizes, preset=preset, **settings)
    return model_from_config(model_entry(name), config, generator=generator)


def outline_model(
    name: str, *, context_length: int, horizon: int, channels: int, preset: str = "default", **settings: Any
) -> Forecaster:
    """`build_model` without weights: says whether the settings make a model and what it is like, at hardly any cost.

    Its parameters are on torch's ``meta`` device: they have shapes and no values. A model whose constructor looks at
    values is built in full.

    Example:
        >>> outline = outline_model("fern", context_length=336, horizon=336, channels=3)
        >>> outline.trainable, {parameter.device.type for parameter in outline.parameters()}
        (True, {'meta'})
    """
    sizes = {"context_length": context_length, "horizon": horizon, "channels": channels}
    entry, config = model_entry(name), model_config(name, **sizes, preset=preset, **settings)
    outline = outline_of(name, entry.model, config)
    if outline is not None:
        return outline
    with torch.random.fork_rng(devices=[]):
        return entry.model(config)


def model_config(
    name: str, *, context_length: int, horizon: int, channels: int, preset: str = "default", **settings: Any
) -> ModelConfig:
    """The complete settings of a model by name, without the model.

    Example:
        >>> model_config("fern", context_length=96, horizon=24, channels=2, channels_seen="all").sees
        'all'
    """
    entry = model_entry(name)
    if preset not in entry.presets:
        raise unknown_name(f"preset of {name}", preset, entry.presets)
    sizes = {"context_length": context_length, "horizon": horizon, "channels": channels}
    return from_mapping(entry.config, {**entry.presets[preset], **settings, **sizes}, where=name)


def model_from_config(entry: ModelEntry, config: ModelConfig, *, generator: Generator | None) -> Forecaster:
    """A model from its finished config."""
    outline_of(entry.name, entry.model, config)  # refuses what would not fit
    # torch's constructors draw starting values from the global generator: those are replaced, and its state kept.
    with torch.random.fork_rng(devices=[]):
        model = entry.model(config)
    initialise(model, generator)
    return model
