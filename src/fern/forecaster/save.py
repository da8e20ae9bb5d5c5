"""A fitted forecaster leaves the process: folders, the Hugging Face Hub, exported programs. No pickle."""

import inspect
import io
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

import numpy as np
import pyarrow as pa
import torch
from pydantic import TypeAdapter, ValidationError
from torch import Tensor, nn

from fern.errors import FernError, unknown_name
from fern.extras import import_optional
from fern.files import check_writable, write_whole
from fern.forecaster.saved_folder import MANIFEST, Missing, Place, read_folder, write_folder
from fern.forecaster.saved_state import describe_weights, join_state, restore_model, split_state
from fern.forecaster.state import State
from fern.models import Forecaster

if TYPE_CHECKING:
    from fern.forecaster.forecaster import FernForecaster

T = TypeVar("T", bound="FernForecaster")

_BROKEN = (KeyError, IndexError, TypeError, AttributeError, ValidationError, OverflowError, pa.ArrowException)
"""What a manifest of the right checksum but of wrong contents can lead to; ValueError is handled apart."""

OWN_FILES = ["model-*.safetensors", "state-*.safetensors"]


def save_forecaster(forecaster: "FernForecaster", folder: Path) -> None:
    """See `FernForecaster.save`."""
    state = forecaster._require_fitted()
    plain, arrays = split_state(state)
    described: dict[str, Any] = {"params": _require_plain(forecaster.get_params()), "state": plain}
    files = {"state": arrays}
    if state.model is not None:
        described["model"], files["model"] = describe_weights(state.model)
    write_folder(folder, described, files)


def load_forecaster(cls: type[T], folder: Path) -> T:
    """See `FernForecaster.load`."""
    if not folder.is_dir():
        raise FernError("no such folder" if not folder.exists() else "is not a folder", where=folder)
    if not (folder / MANIFEST).is_symlink() and not (folder / MANIFEST).exists():
        raise FernError(f"holds no {MANIFEST}, so no saved forecaster", where=folder)

    try:
        return _restore(cls, folder.joinpath, where=str(folder))
    except Missing:  # a save in another process may just have replaced the files: then a new manifest names others
        return _restore(cls, folder.joinpath, where=str(folder))


def load_from_hub(cls: type[T], repo_id: str, *, revision: str | None, token: str | None) -> T:
    """See `FernForecaster.from_pretrained`."""
    return _restore(cls, _fetch(repo_id, revision=revision, token=token), where=repo_id)


def pack_forecaster(forecaster: "FernForecaster") -> dict[str, bytes]:
    """The files of its folder by name: a forecaster on its way to another process, without pickle."""
    with tempfile.TemporaryDirectory() as folder:
        forecaster.save(folder)
        return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}


def unpack_forecaster(cls: type[T], files: Mapping[str, bytes]) -> T:
    """The forecaster of `pack_forecaster`."""
    with tempfile.TemporaryDirectory() as folder:
        for name, data in files.items():
            (Path(folder) / Path(name).name).write_bytes(data)
        return cls.load(folder)


def _restore(cls: type[T], place: Place, *, where: str) -> T:
    body, read = read_folder(place, where=where)
    try:
        forecaster = cls(**_check_params(cls, body["params"], where=where))
        arrays = read("state")
        model = restore_model(body["model"], read("model"), where=where) if "model" in body else None
        forecaster._state = join_state(body["state"], arrays, model)
        forecaster._settings()
    except FernError as error:
        raise error if error.where.startswith(where) else error.within(where) from None
    except (*_BROKEN, ValueError, RuntimeError) as error:
        raise FernError(f"a part is missing or of the wrong kind ({str(error)[:200]})", where=where) from None
    return forecaster


def _require_plain(params: dict[str, Any]) -> dict[str, Any]:
    """The constructor's arguments as JSON has them."""
    for name, value in params.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            problem, expected = f"{value!r} cannot be saved ({error})", "plain numbers, texts and lists"
            raise FernError(problem, argument=name, expected=expected) from None
    return params


def _check_params(cls: "type[FernForecaster]", params: Any, *, where: str) -> dict[str, Any]:
    """Arguments of the constructor, each of the type it declares."""
    hints = get_type_hints(cls.__init__)
    known = list(inspect.signature(cls).parameters)
    for name, value in params.items():
        if name not in known:
            raise unknown_name("parameter", name[:60], known, where=where)
        try:
            TypeAdapter(hints[name]).validate_python(value)
        except ValidationError:
            raise FernError(f"got {str(value)[:60]!r}, which is not of its type", argument=name, where=where) from None
    return dict(params)


# --- the Hub ------------------------------------------------------------------------------------------------


def push_to_hub(forecaster: "FernForecaster", repo_id: str, *, private: bool, token: str | None, message: str) -> str:
    """Save to a temporary folder, and that to the repository, in one commit that drops the former files."""
    forecaster._require_fitted()
    api = import_optional("huggingface_hub", extra="hub").HfApi(token=token)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "forecaster"
        forecaster.save(folder)
        api.create_repo(repo_id, private=private, exist_ok=True)
        commit = api.upload_folder(
            repo_id=repo_id,
            folder_path=str(folder),
            allow_patterns=[MANIFEST, *OWN_FILES],
            delete_patterns=OWN_FILES,
            commit_message=message,
        )
    return str(commit)


def _fetch(repo_id: str, *, revision: str | None, token: str | None) -> Place:
    """Where the files of a repository lie, fetched into the Hub's cache one by one as they are asked for.

    The cache holds links to its own blobs: they are resolved here, because a saved forecaster has none.
    """
    try:
        hub = import_optional("huggingface_hub", extra="hub")
    except FernError as error:
        raise error.within(f"{repo_id} is no folder here") from None

    def place(name: str) -> Path:
        try:
            return Path(hub.hf_hub_download(repo_id=repo_id, filename=name, revision=revision, token=token)).resolve()
        except (OSError, ValueError) as error:  # the Hub's errors are of these two families
            raise FernError(f"{name} cannot be fetched from the Hub ({error})", argument=repo_id) from None

    return place


# --- exported programs --------------------------------------------------------------------------------------


class MeanPath(nn.Module):
    """Contexts in the units of the data to means in the same: (y − shift) / spread, the model, and back.

    Without ``shift`` and ``spread`` each context is scaled by its own mean and deviation, as `predict_array` does.
    """

    shift: Tensor | None
    spread: Tensor | None

    def __init__(self, model: Forecaster, shift: Tensor | None, spread: Tensor | None) -> None:
        super().__init__()
        self.model = model
        self.register_buffer("shift", shift)
        self.register_buffer("spread", spread)

    def forward(self, past: Tensor) -> Tensor:  # (N, L, C) -> (N, H, C)
        """The mean."""
        wide = past.double()  # a series near 1e6 has no digits left in float32
        if self.shift is None or self.spread is None:
            spread, shift = torch.std_mean(wide, dim=1, keepdim=True, correction=0)
            spread = torch.where(spread > 0, spread, 1.0)
        else:
            shift, spread = self.shift, self.spread
        scaled = ((wide - shift) / spread).to(past.dtype)
        mean = self.model.forecast(scaled, samples=0, generator=None).mean
        return (mean.double() * spread + shift).to(past.dtype)


def export_mean(state: State, path: Path) -> None:
    """Write the program; see `FernForecaster.export`."""
    if state.model is None:
        raise FernError("every series was too short to learn from; there is no model", argument="export")
    if path.suffix != ".pt2":
        raise FernError(f"an exported program ends in .pt2, got {path.suffix or 'no ending'!r}", where=path)
    check_writable(path)
    program = io.BytesIO()  # on a full disk PyTorch's own writer ends the process
    torch.export.save(_export(state), program)
    with write_whole(path) as temporary:
        temporary.write_bytes(program.getvalue())


def _export(state: State) -> "torch.export.ExportedProgram":
    """The mean path of a state as a program for any number of windows."""
    assert state.model is not None
    shift = spread = None
    if len(state.scales) == 1:
        scale = next(iter(state.scales.values()))
        shift, spread = (torch.from_numpy(np.array(value)) for value in (scale.shift, scale.spread))
    module = MeanPath(state.model, shift, spread).eval()
    # Two windows: a batch of one would be taken for a constant.
    example = torch.zeros(2, state.context_length, len(state.channel_names))
    windows = torch.export.Dim("windows", min=1)
    with torch.no_grad():
        try:
            return torch.export.export(module, (example,), dynamic_shapes={"past": {0: windows}}, strict=False)
        except Exception as error:  # torch.export has no family of errors of its own
            problem = f"{type(state.model).__name__} cannot be exported by torch.export ({str(error)[:300]})"
            raise FernError(problem, argument="export") from error
