"""A model from its name, settings and weights, none of which is trusted."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)

from fern.errors import FernError
from fern.models import Forecaster
from fern.models.registry import model_entry, model_from_config, name_of
from fern.models.storage import fill_model
from fern.settings import from_mapping

SPARE = 4
"""A model may register so many times what its file holds while it is put together (a weight that is replaced, say)."""
LEAST_PARTS, LEAST_NUMBERS = 1000, 100_000


def describe_weights(model: Forecaster) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """A model's name and settings, and its weights."""
    return (
        {"name": name_of(model), "config": asdict(model.config)},
        {name: value.detach().cpu().numpy() for name, value in model.state_dict().items()},
    )


def model_of(described: Mapping[str, Any], weights: Mapping[str, NDArray[Any]], *, where: str) -> Forecaster:
    """The model in evaluation mode.

    It is first put together without memory (torch's ``meta`` device) and given up as soon as it has more parts or
    numbers than the weights account for: settings that claim a huge model cost next to nothing.
    """
    entry = model_entry(str(described.get("name")))
    config = from_mapping(entry.config, described.get("config") or {}, where=where)
    tensors = {name: torch.from_numpy(values) for name, values in weights.items()}
    numbers = sum(value.numel() for value in tensors.values())
    # Starting values are drawn from the global generator, then replaced: its state is the user's.
    with _within(len(tensors), numbers, where=where), torch.random.fork_rng(devices=[]):
        with torch.device("meta"):
            outline = entry.model(config)
            outline.make_room({name: value.shape for name, value in tensors.items()})
        _require_shapes(outline, tensors, where=where)
        model = model_from_config(entry, config, generator=None)
    fill_model(model, tensors, where=where)
    return model.eval()


def _require_shapes(outline: Forecaster, tensors: Mapping[str, torch.Tensor], *, where: str) -> None:
    for name, value in outline.state_dict().items():
        if name not in tensors or tensors[name].shape != value.shape:
            found = tuple(tensors[name].shape) if name in tensors else None
            raise FernError(f"{where}: {name} has shape {found}, the settings need {tuple(value.shape)}")


@contextmanager
def _within(parts: int, numbers: int, *, where: str) -> Iterator[None]:
    """Give up a model that registers many times more than these parts and numbers."""
    most_parts = SPARE * parts + LEAST_PARTS
    most_numbers = SPARE * numbers + LEAST_NUMBERS
    counted = {"parts": 0, "numbers": 0}
    here = threading.get_ident()

    def count(module: nn.Module, name: str, part: Any) -> None:
        if threading.get_ident() != here:  # hooks are global, other threads may build models of their own
            return
        counted["parts"] += 1
        if isinstance(part, torch.Tensor):
            counted["numbers"] += part.numel()
        if counted["parts"] > most_parts or counted["numbers"] > most_numbers:
            raise FernError(
                f"{where}: the settings claim a model far larger than the {numbers:,} numbers of its weights"
            )

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
