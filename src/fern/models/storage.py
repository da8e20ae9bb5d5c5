"""A model in one safetensors file: weights, and the model's name and settings as JSON in the header. Checksummed."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from fern._version import __version__
from fern.errors import FernError, NotWritten, require_path, show_value
from fern.files import write_whole
from fern.models.base import Forecaster
from fern.models.registry import build_outline, limit_registrations, model_entry, model_from_config, name_of
from fern.settings import from_mapping


def write_tensors(
    path: Path | str, tensors: Mapping[str, Tensor], described: Mapping[str, Any], *, format_: str
) -> str:
    """Write the file whole or not at all, down to the disk, and give its checksum."""
    path = require_path(path)
    plain = _separate(tensors)
    text = json.dumps(described, sort_keys=True)
    checksum = _digest(text, plain)
    with write_whole(path) as temporary:
        try:
            save_file(plain, temporary, metadata={"format": format_, "fern": text, "sha256": checksum})
        except SafetensorError as error:
            raise NotWritten(f"was not written ({error})", where=path) from None
    return checksum


def read_tensors(path: Path | str, *, format_: str) -> tuple[dict[str, Any], dict[str, Tensor], str]:
    """The description, the tensors (on the CPU) and the checksum of a file that `write_tensors` wrote.

    Nothing in the file is executed. A file that is truncated, changed or of another format is a `FernError`.
    """
    path = require_path(path)
    header, tensors = _read(path)
    if header.get("format") != format_ or "fern" not in header:
        expected = f"{format_!r}, as fern writes it"
        raise FernError(argument="format", got=header.get("format"), expected=expected, where=path)
    if header.get("sha256") != _digest(header["fern"], tensors):
        raise FernError("the contents do not match their checksum; the file was changed or damaged", where=path)
    return _as_object(header["fern"], path), tensors, header["sha256"]


def checksum_of(tensors: Mapping[str, Tensor], described: Mapping[str, Any]) -> str:
    """The checksum that `write_tensors` would give."""
    return _digest(json.dumps(described, sort_keys=True), _separate(tensors))


def _separate(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors on the CPU, each in memory of its own (safetensors refuses tied weights)."""
    separate: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, value in tensors.items():
        plain = value.detach().cpu().contiguous()
        place = plain.untyped_storage().data_ptr()
        separate[name] = plain.clone() if place in seen else plain
        seen.add(place)
    return separate


def _read(path: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    if not path.is_file():
        raise FernError("no such file", where=path)
    try:
        with safe_open(path, framework="pt") as file:
            return file.metadata() or {}, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise FernError(f"not a readable safetensors file ({error})", where=path) from None


def _as_object(text: str, path: Path) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise FernError(f"the settings in the header are not valid JSON ({error})", where=path) from None
    if not isinstance(value, dict):
        raise FernError(f"the settings in the header are {type(value).__name__}, need an object", where=path)
    return value


def _digest(described: str, tensors: dict[str, Tensor]) -> str:
    """SHA-256 of the description and of every tensor's name, type, shape and bytes."""
    digest = hashlib.sha256(described.encode())
    for name in sorted(tensors):
        value = tensors[name].contiguous()
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


FORMAT = "fern-model-1"
SPARE = 4
"""A model may register so many times what its file holds while it is put together (a weight that is replaced, say)."""
LEAST_PARTS, LEAST_NUMBERS = 1000, 100_000

FLOATING = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
"""The types that weights may have; eight bits are no type to compute in."""


def save_model(model: Forecaster, path: Path | str) -> None:
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
    if not isinstance(model, Forecaster):
        raise FernError(argument="model", got=model, expected="a fern.models.Forecaster")
    write_tensors(path, model.state_dict(), describe_model(name_of(model), model), format_=FORMAT)


def describe_model(name: str, model: Forecaster) -> dict[str, Any]:
    """What a model's file says about it beside the weights."""
    return {"model": name, "config": asdict(model.config), "version": __version__}


def load_model(path: Path | str) -> Forecaster:
    """Read a model that `save_model` wrote, on the CPU and in evaluation mode.

    Nothing in the file is executed. A file that is truncated, changed, or does not hold the weights its settings
    call for is a `FernError`.
    """
    described, tensors, _ = read_tensors(path, format_=FORMAT)
    return model_of(described.get("model"), described.get("config"), tensors, where=str(path))


def model_of(name: object, settings: object, tensors: dict[str, Tensor], *, where: str) -> Forecaster:
    """The model of that name, settings and weights in evaluation mode; none of them is trusted.

    It is first put together without memory and given up as soon as it has more parts or numbers than the weights
    account for: settings that claim a huge model cost next to nothing.
    """
    if not isinstance(name, str) or not isinstance(settings, dict):
        got = f"got {show_value(name)} and {show_value(settings)}"
        raise FernError(got, argument="model", expected="a model's name and its settings", where=where)
    try:
        entry = model_entry(name)
    except FernError as error:
        raise error.within(where) from None
    config = from_mapping(entry.config, settings, where=where)
    numbers = sum(value.numel() for value in tensors.values())
    refusal = f"the settings claim a model far larger than the {numbers:,} numbers of its weights"
    try:
        with limit_registrations(SPARE * len(tensors) + LEAST_PARTS, SPARE * numbers + LEAST_NUMBERS, refusal=refusal):
            outline = build_outline(name, entry.model, config)
            if outline is not None:
                outline.make_room({name: value.shape for name, value in tensors.items()})
                require_fit(outline, tensors)
            # Starting values are replaced; the state of the global generator is the user's.
            model = model_from_config(entry, config, generator=torch.Generator())
        model.make_room({name: value.shape for name, value in tensors.items()})
        require_fit(model, tensors)
        floating = next((t.dtype for t in tensors.values() if t.is_floating_point()), torch.float32)
        model.to(floating).load_state_dict(tensors)
    except FernError as error:
        raise error.within(where) from None
    return model.eval()


def require_fit(model: Forecaster, tensors: dict[str, Tensor]) -> None:
    """Refuse tensors that are not the model's weights: other names, shapes or types."""
    weights = model.state_dict()
    missing, foreign = sorted(weights.keys() - tensors.keys()), sorted(tensors.keys() - weights.keys())
    if missing or foreign:
        problem = f"do not match {name_of(model)}: missing {missing[:3]}, unexpected {foreign[:3]}"
        raise FernError(problem, argument="weights")
    for name, value in weights.items():
        if value.shape != tensors[name].shape:
            problem = f"has shape {tuple(tensors[name].shape)}"
            raise FernError(problem, argument=name, expected=f"{tuple(value.shape)} by the settings")
    for name, value in weights.items():
        got = tensors[name].dtype
        if value.is_floating_point() != got.is_floating_point or (got.is_floating_point and got not in FLOATING):
            needs = "one of float32, float64, bfloat16, float16" if value.is_floating_point() else str(value.dtype)
            raise FernError(f"is {_plain(got)}", argument=name, expected=needs.removeprefix("torch."))
        if not value.is_floating_point() and got != value.dtype:
            raise FernError(f"is {_plain(got)}", argument=name, expected=_plain(value.dtype))
    kinds = sorted({_plain(t.dtype) for t in tensors.values() if t.is_floating_point()})
    if len(kinds) > 1:
        raise FernError(f"are of several types ({', '.join(kinds)})", argument="weights", expected="one")


def _plain(kind: torch.dtype) -> str:
    return str(kind).removeprefix("torch.")
