"""The part of `FernForecaster` that leaves the process: folders, the Hub, exported programs."""

import inspect
import json
from pathlib import Path
from typing import Any, Self, get_type_hints

import pyarrow as pa
from pydantic import TypeAdapter, ValidationError

from fern.errors import FernError, unknown_name
from fern.forecaster.arguments import Arguments
from fern.forecaster.saving.export import export_mean
from fern.forecaster.saving.folder import MANIFEST, Missing, Place, read_folder, write_folder
from fern.forecaster.saving.hub import fetched, pushed
from fern.forecaster.saving.parts import state_from, state_parts
from fern.forecaster.saving.weights import describe_weights, model_of
from fern.forecaster.state import State

_BROKEN = (KeyError, IndexError, TypeError, AttributeError, ValidationError, OverflowError, pa.ArrowException)
"""What a manifest of the right checksum but of wrong contents can lead to; ValueError is handled apart."""


class Stored(Arguments):
    """Saving, loading, publishing and exporting of a fitted forecaster."""

    _state: State | None = None
    """What a fit left behind."""

    def _fitted(self) -> State:
        if self._state is None:
            raise FernError("this forecaster is not fitted yet; call fit(df) first")
        return self._state

    def save(self, path: str | Path) -> None:
        """Write the forecaster to a folder: ``forecaster.json`` and safetensors files, with checksums, no pickle.

        A forecaster that is there already is replaced at once when all is written: killed at any moment, the folder
        holds the old one or the new one whole. A folder with other contents is refused. The newest rows of every
        series (context and horizon) are part of it.

        Example:
            >>> import tempfile
            >>> import pandas as pd
            >>> from fern.forecaster import FernForecaster
            >>> frame = pd.DataFrame({"ds": pd.date_range("2020", periods=90), "y": [0.0, 1.0, 4.0] * 30})
            >>> forecaster = FernForecaster(horizon=3, model="dlinear", epochs=1, progress="silent").fit(frame)
            >>> folder = Path(tempfile.mkdtemp()) / "model"
            >>> forecaster.save(folder)
            >>> FernForecaster.load(folder).predict().equals(forecaster.predict())
            True
        """
        state = self._fitted()
        self._settings()  # refuses arguments that were changed into nonsense since the fit
        plain, arrays = state_parts(state)
        described: dict[str, Any] = {"params": _params(self.get_params()), "state": plain}
        files = {"state": arrays}
        if state.model is not None:
            described["model"], files["model"] = describe_weights(state.model)
        write_folder(Path(path), described, files)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a forecaster that `save` wrote; its forecasts are equal to the last bit.

        Nothing in the folder is executed and nothing outside it is read. What is foreign, was changed since it was
        saved, or was saved by a newer fern is an error that says which.
        """
        folder = Path(path)
        if not folder.is_dir():
            raise FernError(f"{folder}: no such folder" if not folder.exists() else f"{folder}: is not a folder")
        if not (folder / MANIFEST).is_symlink() and not (folder / MANIFEST).exists():
            raise FernError(f"holds no {MANIFEST}, so no saved forecaster", where=folder)

        def place(name: str) -> Path:
            return folder / name

        try:
            return cls._from(place, where=str(folder))
        except Missing:  # a save in another process may just have replaced the files: then a new manifest names others
            return cls._from(place, where=str(folder))

    def push_to_hub(
        self, repo_id: str, *, private: bool = True, token: str | None = None, message: str = "Fern forecaster"
    ) -> str:
        """Save to a repository of the Hugging Face Hub (the extra ``hub``), made if need be; gives its address.

        The newest rows of every series and residuals are part of what is pushed, hence ``private`` unless told
        otherwise (a repository that exists stays as it is).
        """
        self._fitted()
        return pushed(self.save, repo_id, private=private, token=token, message=message)

    @classmethod
    def from_pretrained(cls, source: str | Path, *, revision: str | None = None, token: str | None = None) -> Self:
        """Load from a folder or, where there is none of this name, from a repository of the Hugging Face Hub.

        Only the files that the manifest names are fetched; see `load` for what is refused.
        """
        if Path(source).is_dir():
            return cls.load(source)
        return cls._from(fetched(str(source), revision=revision, token=token), where=str(source))

    def export(self, path: str | Path) -> None:
        """Write the point forecast as a program of `torch.export` (``.pt2``) that runs without fern.

        The program takes contexts in the units of the data, float32 (N, L, C) with any N, and gives the mean
        (N, H, C): as `predict_array`, with the scale of the series inside where one was fitted; where several were,
        each context is scaled by itself. Intervals are not part of it.
        """
        export_mean(self._fitted(), Path(path))

    @classmethod
    def _from(cls, place: Place, *, where: str) -> Self:
        body, read = read_folder(place, where=where)
        try:
            made = cls(**_checked_params(cls, body["params"], where=where))
            arrays = read("state")
            model = model_of(body["model"], read("model"), where=where) if "model" in body else None
            made._state = state_from(body["state"], arrays, model)
            made._settings()
        except FernError as error:
            raise error if error.where.startswith(where) else error.within(where) from None
        except (*_BROKEN, ValueError, RuntimeError) as error:
            raise FernError(f"a part is missing or of the wrong kind ({str(error)[:200]})", where=where) from None
        return made


def _params(params: dict[str, Any]) -> dict[str, Any]:
    """The constructor's arguments as JSON has them."""
    for name, value in params.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise FernError(
                f"{value!r} cannot be saved ({error}); needs plain numbers, texts and lists", argument=name
            ) from None
    return params


def _checked_params(cls: type[Stored], params: Any, *, where: str) -> dict[str, Any]:
    """Arguments of the constructor, each of the type it declares."""
    known = [name for name in inspect.signature(cls.__init__).parameters if name != "self"]
    hints = get_type_hints(cls.__init__)
    for name, value in params.items():
        if name not in known:
            raise FernError(f"{unknown_name('parameter', name[:60], known)}", where=where)
        try:
            TypeAdapter(hints[name]).validate_python(value)
        except ValidationError:
            raise FernError(f"got {str(value)[:60]!r}, which is not of its type", argument=name, where=where) from None
    return dict(params)
