"""Tensors and a JSON description in one safetensors file, with a checksum over both."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from fern.errors import FernError, NotWritten
from fern.files import written_whole


def write_tensors(path: Path, tensors: Mapping[str, Tensor], described: Mapping[str, Any], *, format_: str) -> str:
    """Write the file whole or not at all, down to the disk, and give its checksum.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "two.safetensors"
        >>> checksum = write_tensors(file, {"w": torch.ones(2)}, {"made": "by hand"}, format_="example-1")
        >>> described, tensors, found = read_tensors(file, format_="example-1")
        >>> described, tensors["w"], found == checksum
        ({'made': 'by hand'}, tensor([1., 1.]), True)
    """
    path = Path(path)
    plain = _separate(tensors)
    text = json.dumps(described, sort_keys=True)
    checksum = _digest(text, plain)
    with written_whole(path) as temporary:
        try:
            save_file(plain, temporary, metadata={"format": format_, "fern": text, "sha256": checksum})
        except SafetensorError as error:
            raise NotWritten(f"{path}: was not written ({error})") from None
    return checksum


def read_tensors(path: Path, *, format_: str) -> tuple[dict[str, Any], dict[str, Tensor], str]:
    """The description, the tensors (on the CPU) and the checksum of a file that `write_tensors` wrote.

    Nothing in the file is executed. A file that is truncated, changed or of another format is a `FernError`.
    """
    path = Path(path)
    header, tensors = _read(path)
    if header.get("format") != format_ or "fern" not in header:
        raise FernError(f"{path}: needs format {format_!r} as written by fern, got {header.get('format')!r}")
    if header.get("sha256") != _digest(header["fern"], tensors):
        raise FernError(f"{path}: the contents do not match their checksum; the file was changed or damaged")
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


def _digest(described: str, tensors: dict[str, Tensor]) -> str:
    """SHA-256 of the description and of every tensor's name, type, shape and bytes."""
    digest = hashlib.sha256(described.encode())
    for name in sorted(tensors):
        value = tensors[name].contiguous()
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
