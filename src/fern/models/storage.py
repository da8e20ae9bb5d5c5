"""A model in one file: safetensors weights, with the model's name and settings as JSON in the header."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fern._version import __version__
from fern.errors import FernError
from fern.models.base import Forecaster
from fern.models.registry import model_entry, model_from_config, name_of
from fern.models.tensorfile import read_tensors, write_tensors
from fern.settings import from_mapping

FORMAT = "fern-model-1"


def save_model(model: Forecaster, path: Path) -> None:
    """Write the model to one file, whole or not at all.

    Example:
        >>> import tempfile
        >>> from fern.models import build_model
        >>> model = build_model("last-value", context_length=4, horizon=2, channels=1)
        >>> file = Path(tempfile.mkdtemp()) / "model.safetensors"
        >>> save_model(model, file)
        >>> load_model(file).config == model.config
        True
    """
    write_tensors(path, model.state_dict(), describe_model(name_of(model), model), format_=FORMAT)


def describe_model(name: str, model: Forecaster) -> dict[str, Any]:
    """What a model's file says about it beside the weights."""
    return {"model": name, "config": asdict(model.config), "version": __version__}


def load_model(path: Path) -> Forecaster:
    """Read a model that `save_model` wrote, on the CPU and in evaluation mode.

    Nothing in the file is executed. A file that is truncated, changed, or does not hold the weights its settings
    call for is a `FernError`.
    """
    described, tensors, _ = read_tensors(path, format_=FORMAT)
    entry = model_entry(str(described.get("model")))
    config = from_mapping(entry.config, described.get("config") or {}, where=str(path))
    model = model_from_config(entry, config, generator=None)
    fill_model(model, tensors, where=str(path))
    return model.eval()


def fill_model(model: Forecaster, tensors: dict[str, Tensor], *, where: str) -> None:
    """Copy the tensors into the model when names, shapes and dtypes all agree."""
    model.make_room({name: value.shape for name, value in tensors.items()})
    own = model.state_dict()
    missing, foreign = sorted(own.keys() - tensors.keys()), sorted(tensors.keys() - own.keys())
    if missing or foreign:
        raise FernError(
            f"{where}: the weights do not match {name_of(model)}: missing {missing[:3]}, unexpected {foreign[:3]}"
        )
    for name, value in own.items():
        if value.shape != tensors[name].shape:
            raise FernError(
                f"{where}: {name} has shape {tuple(tensors[name].shape)}, the settings need {tuple(value.shape)}"
            )
    floating = next((t.dtype for t in tensors.values() if t.is_floating_point()), torch.float32)
    model.to(floating).load_state_dict(tensors)
