"""Models without weights, put together to see what they are like before any memory is taken for them."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)

from fern.checks import is_whole, require_memory, shown
from fern.errors import FernError
from fern.models.base import Forecaster, ModelConfig

MOST_PARTS = 200_000
"""Modules, parameters and buffers of a model; more take hours to put together, and no model here has thousands."""

_TOO_LARGE = ("overflow", "too large", "invalid shape", "unpack", "out of range", "maximum", "not enough memory")


def outline_of(name: str, build: Callable[[Any], Forecaster], config: ModelConfig) -> Forecaster | None:
    """The model on torch's ``meta`` device, which takes no memory; None where its constructor looks at values.

    Sizes that this machine cannot hold are a `FernError`.
    """
    sizes = _sizes(config)
    try:
        with (
            registering(MOST_PARTS, None, refusal=f"{name}: its settings ask for sizes beyond any machine ({sizes})"),
            torch.random.fork_rng(devices=[]),
            torch.device("meta"),
        ):
            outline = build(config)
    except FernError:
        raise
    except (NotImplementedError, RuntimeError, TypeError, OverflowError, MemoryError) as error:
        if isinstance(error, OverflowError | MemoryError) or any(sign in str(error).lower() for sign in _TOO_LARGE):
            raise FernError(f"{name}: its settings ask for sizes beyond any machine ({sizes})") from None
        return None
    values = [*outline.parameters(), *outline.buffers()]
    needed = sum(float(value.numel()) * value.element_size() for value in values if value.device.type == "meta")
    window = 4.0 * config.channels * (config.context_length + config.horizon)  # a model without weights sees one, too
    require_memory(f"{name}: a model of these sizes ({sizes})", needed + window)
    return outline


@contextmanager
def registering(parts: int, numbers: int | None, *, refusal: str) -> Iterator[None]:
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


def _sizes(config: ModelConfig) -> str:
    """The largest numbers among the settings, which are those to look at."""
    numbers = [(name, value) for name, value in asdict(config).items() if is_whole(value, least=1)]
    largest = sorted(numbers, key=lambda entry: -entry[1])[:3]
    return ", ".join(f"{name} {shown(value)}" for name, value in largest)
