"""Models by name: registration, presets, building, and starting values drawn from a generator."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from math import sqrt
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Generator, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)

from fern.errors import FernError, is_whole, require_memory, show_value, unknown_name
from fern.models.base import Forecaster, ModelConfig
from fern.settings import from_mapping


@runtime_checkable
class StartsItself(Protocol):
    """A part that draws the starting values of its own parameters."""

    def initialise_parameters(self, generator: Generator | None) -> None:
        """Set every parameter that belongs to this part itself (not to its children)."""


def initialise(module: nn.Module, generator: Generator | None) -> None:
    """Draw all parameters of a module anew: the same generator state gives the same bits.

    Linear maps and convolutions start as PyTorch's defaults do: weights and biases uniform within ±1/√(fan in).
    Normalisations start as the identity. Any other part with parameters of its own must have a method
    ``initialise_parameters(generator)``, which takes precedence.
    """
    with torch.no_grad():
        for part in module.modules():
            if next(part.parameters(recurse=False), None) is not None:
                _initialise_part(part, generator)


def _initialise_part(part: nn.Module, generator: Generator | None) -> None:
    if isinstance(part, StartsItself):
        part.initialise_parameters(generator)
    elif isinstance(part, nn.Linear | _ConvNd):
        bound = 1.0 / sqrt(part.weight[0].numel())
        for parameter in part.parameters(recurse=False):
            parameter.uniform_(-bound, bound, generator=generator)
    elif isinstance(part, nn.LayerNorm | nn.GroupNorm | nn.RMSNorm | _BatchNorm | _InstanceNorm):
        part.reset_parameters()  # draws nothing
    elif isinstance(part, nn.Embedding):
        part.weight.normal_(generator=generator)
    else:
        raise TypeError(f"{type(part).__name__} has parameters of its own: give it initialise_parameters(generator)")


MOST_PARTS = 20_000
"""Modules, parameters and buffers of a model; more take hours to put together, and no model here has thousands."""

_TOO_LARGE = ("overflow", "too large", "invalid shape", "unpack", "out of range", "maximum", "not enough memory")


def build_outline(name: str, build: Callable[[Any], Forecaster], config: ModelConfig) -> Forecaster | None:
    """The model on torch's ``meta`` device, which takes no memory; None where its constructor looks at values.

    Sizes that this machine cannot hold are a `FernError`.
    """
    numbers = [(key, value) for key, value in asdict(config).items() if is_whole(value, least=1)]
    largest = sorted(numbers, key=lambda entry: -entry[1])[:3]
    sizes = ", ".join(f"{key} {show_value(value)}" for key, value in largest)
    refusal = f"its settings ask for sizes beyond any machine ({sizes})"
    limit = limit_registrations(MOST_PARTS, None, refusal=f"{name}: {refusal}")
    try:
        with limit, torch.random.fork_rng(devices=[]), torch.device("meta"):
            outline = build(config)
    except FernError:
        raise
    except (NotImplementedError, RuntimeError, TypeError, OverflowError, MemoryError) as error:
        if isinstance(error, OverflowError | MemoryError) or any(sign in str(error).lower() for sign in _TOO_LARGE):
            raise FernError(refusal, argument=name) from None
        return None
    values = [*outline.parameters(), *outline.buffers()]
    needed = sum(float(value.numel()) * value.element_size() for value in values if value.device.type == "meta")
    window = 4.0 * config.channels * (config.context_length + config.horizon)  # a model without weights sees one, too
    require_memory(f"{name}: a model of these sizes ({sizes})", needed + window)
    return outline


@contextmanager
def limit_registrations(parts: int, numbers: int | None, *, refusal: str) -> Iterator[None]:
    """Give up a model that registers more than these parts or numbers (None: any) within the block."""
    counted = {"parts": 0, "numbers": 0}
    here = threading.get_ident()

    def count(module: nn.Module, name: str, part: Any) -> None:
        if threading.get_ident() != here:  # hooks are global, other threads may build models of their own
            return
        counted["parts"] += 1
        if isinstance(part, torch.Tensor):
            counted["numbers"] += part.numel()
        if counted["parts"] > parts or (numbers is not None and counted["numbers"] > numbers):
            raise FernError(refusal)

    hooks = [
        register_module_parameter_registration_hook(count),
        register_module_buffer_registration_hook(count),
        register_module_module_registration_hook(count),
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


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
    name: str, config: type[ModelConfig], model: type[Forecaster], *, presets: Presets | None = None
) -> None:
    """Make a model known to `build_model`, `load_model` and the benchmark.

    The preset ``default`` (no settings beyond the config's own defaults) always exists.
    """
    if name in _ENTRIES and _ENTRIES[name].model is not model:
        problem = f"got {name!r}, which is registered for {_ENTRIES[name].model.__name__} already"
        raise FernError(problem, argument="name")
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
    raise FernError(f"got {type(model).__name__}, which is not registered; see register_model", argument="model")


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
        fern.errors.FernError: fern: unknown setting 'reflektions': did you mean 'reflections' or ...
    """
    sizes = {"context_length": context_length, "horizon": horizon, "channels": channels}
    config = model_config(name, **sizes, preset=preset, **settings)
    return model_from_config(model_entry(name), config, generator=generator)


def outline_model(
    name: str, *, context_length: int, horizon: int, channels: int, preset: str = "default", **settings: Any
) -> Forecaster:
    """`build_model` without weights: checks settings and shows sizes at hardly any cost.

    Its parameters are on torch's ``meta`` device: they have shapes and no values. A model whose constructor looks at
    values is built in full.
    """
    sizes = {"context_length": context_length, "horizon": horizon, "channels": channels}
    entry, config = model_entry(name), model_config(name, **sizes, preset=preset, **settings)
    outline = build_outline(name, entry.model, config)
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
    build_outline(entry.name, entry.model, config)  # refuses what would not fit
    # torch's constructors draw starting values from the global generator: those are replaced, and its state kept.
    with torch.random.fork_rng(devices=[]):
        model = entry.model(config)
    initialise(model, generator)
    return model
