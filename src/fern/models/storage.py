"""A model in one file: safetensors weights, with the model's name and settings as JSON in the header."""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from fern._version import __version__
from fern.errors import FernError
from fern.files import written_whole
from fern.models.base import Forecaster
from fern.models.registry import model_entry, model_from_config, name_of
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
    tensors = {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}
    described = json.dumps(
        {"model": name_of(model), "config": asdict(model.config), "version": __version__}, sort_keys=True
    )
    header = {"format": FORMAT, "fern": described, "sha256": _digest(described, tensors)}
    with written_whole(Path(path)) as temporary:
        save_file(tensors, temporary, metadata=header)


def load_model(path: Path) -> Forecaster:
    """Read a model that `save_model` wrote, on the CPU and in evaluation mode.

    Nothing in the file is executed. A file that is truncated, changed, or does not hold the weights its settings
    call for is a `FernError`.
    """
    path = Path(path)
    header, tensors = _read(path)
    if header.get("format") != FORMAT or "fern" not in header:
        raise FernError(f"{path}: not a model written by fern, needs format {FORMAT!r}")
    if header.get("sha256") != _digest(header["fern"], tensors):
        raise FernError(f"{path}: the contents do not match their checksum; the file was changed or damaged")
    described = _as_object(header["fern"], path)
    entry = model_entry(str(described.get("model")))
    config = from_mapping(entry.config, described.get("config") or {}, where=str(path))
    model = model_from_config(entry, config, generator=None)
    _fill(model, tensors, where=str(path))
    return model.eval()


def _read(path: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    if not path.is_file():
        raise FernError(f"{path}: no such file")
    try:
        with safe_open(path, framework="pt") as file:
            return file.metadata() or {}, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise FernError(f"{path}: not a readable safetensors file ({error})") from None


def _as_object(text: str, path: Path) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise FernError(f"{path}: the settings in the header are not valid JSON ({error})") from None
    if not isinstance(value, dict):
        raise FernError(f"{path}: the settings in the header are {type(value).__name__}, need an object")
    return value


def _fill(model: Forecaster, tensors: dict[str, Tensor], *, where: str) -> None:
    """Copy the tensors into the model when names, shapes and dtypes all agree."""
    own = model.state_dict()
    missing, foreign = sorted(own.keys() - tensors.keys()), sorted(tensors.keys() - own.keys())
    if missing or foreign:
        raise FernError(
            f"{where}: the weights are not those of {name_of(model)}: missing {missing[:3]}, foreign {foreign[:3]}"
        )
    for name, value in own.items():
        if value.shape != tensors[name].shape:
            raise FernError(
                f"{where}: {name} has shape {tuple(tensors[name].shape)}, the settings need {tuple(value.shape)}"
            )
    floating = next((t.dtype for t in tensors.values() if t.is_floating_point()), torch.float32)
    model.to(floating).load_state_dict(tensors)


def _digest(described: str, tensors: dict[str, Tensor]) -> str:
    """SHA-256 of the settings and of every tensor's name, type, shape and bytes."""
    digest = hashlib.sha256(described.encode())
    for name in sorted(tensors):
        value = tensors[name].contiguous()
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
