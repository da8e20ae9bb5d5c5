"""Checkpoints on disk: the last state of a run and its best weights, each one file that is whole or absent.

A run's directory holds

``last.safetensors``  all a run needs to go on: weights, optimiser, averaged weights, generators, place in the data,
                      stopping state, history, and the settings, data and model it belongs to;
``best.safetensors``  the weights to keep so far, as `fern.models.load_model` reads them.

``last`` is written before ``best`` and names it by its checksum. So a kill between the two is found out, and then
mended: right after an epoch ``last`` itself holds the weights of that epoch.
"""

from pathlib import Path
from typing import Any

from fern._version import __version__
from fern.errors import FernError
from fern.files import made_folder
from fern.models import Forecaster
from fern.models.registry import name_of
from fern.models.storage import FORMAT as MODEL_FORMAT
from fern.models.storage import describe_model
from fern.models.tensorfile import checksum_of, read_tensors, write_tensors
from fern.training.run import Tensors, TrainingRun
from fern.training.saving.fingerprint import Fingerprint, require_same

FORMAT = "fern-run-1"
Saved = tuple[dict[str, Any], Tensors]
"""The state of a run as plain values and tensors."""

LAST, BEST = "last.safetensors", "best.safetensors"


def resumable(directory: Path | str) -> bool:
    """Whether the directory holds a run to go on with: ``train(..., directory=d, resume=d if resumable(d) else None)``.

    Example:
        >>> resumable("no/such/directory")
        False
    """
    return (Path(directory) / LAST).is_file()


class Unresumable(FernError):  # noqa: N818 - what a checkpoint is
    """A checkpoint that this run cannot go on from: damaged, or of another model, other data or other settings."""


class Checkpoints:
    """The checkpoints of one run in one directory."""

    def __init__(self, directory: Path, fingerprint: Fingerprint) -> None:
        self.directory, self._fingerprint = directory, fingerprint
        self._best_checksum: str | None = None

    def begin(self) -> None:
        """Make the directory for a new run, and clear it; refuses one that holds a run already."""
        if resumable(self.directory):
            raise FernError(
                f"directory: {self.directory} already holds a run; give resume={str(self.directory)!r} to continue "
                "it, or another directory"
            )
        made_folder(self.directory)
        self.clear()

    def save(self, plain: dict[str, Any], tensors: Tensors, *, model: Forecaster, new_best: Tensors | None) -> None:
        """Write the state, and the best weights where they are new."""
        if new_best is not None:
            self._best_checksum = checksum_of(new_best, describe_model(_model_name(model), model))
        whole = {
            "run": plain,
            "best_sha256": self._best_checksum,
            "fingerprint": self._fingerprint.to_mapping(),
            "version": __version__,
        }
        write_tensors(self.directory / LAST, tensors, whole, format_=FORMAT)
        if new_best is not None:
            self.save_best(model, new_best)

    def save_best(self, model: Forecaster, weights: Tensors) -> None:
        """Write the weights to keep, as a file of the model."""
        described = describe_model(_model_name(model), model)
        write_tensors(self.directory / BEST, weights, described, format_=MODEL_FORMAT)

    def clear(self) -> None:
        """Remove what a write that was killed left behind."""
        for name in (LAST, BEST):
            for stale in self.directory.glob(f".{Path(name).stem}.*.safetensors"):
                stale.unlink(missing_ok=True)

    def load(self) -> Saved:
        """The last state, checked to be of the same model, data and settings; `Unresumable` where it is not."""
        path = self.directory / LAST
        if not path.is_file():
            raise FernError(f"resume: {self.directory} holds no checkpoint ({LAST}); nothing to continue")
        try:
            whole, tensors, _ = read_tensors(path, format_=FORMAT)
            require_same(whole["fingerprint"], self._fingerprint.to_mapping(), where=str(path))
            if not isinstance(whole["run"], dict):
                raise FernError(f"resume: {path} holds no state of a run")
            self._best_checksum = whole["best_sha256"]
        except FernError as error:
            raise Unresumable(str(error)) from None
        except (KeyError, TypeError, AttributeError, ValueError) as error:  # forged: the checksum fits, the rest not
            raise Unresumable(f"resume: {path} is no checkpoint of a run ({type(error).__name__}: {error})") from None
        return whole["run"], tensors

    def load_best(self, run: TrainingRun, *, mend: bool) -> Tensors:
        """The weights to keep of a run that was just restored.

        Where a kill kept them from being written they are found in the run itself; ``mend`` writes them then.
        """
        if self._best_checksum is None:
            return {}
        path = self.directory / BEST
        try:
            _, tensors, checksum = read_tensors(path, format_=MODEL_FORMAT)
            problem = None if checksum == self._best_checksum else f"{path}: holds other weights than {LAST} names"
        except FernError as error:
            tensors, problem = {}, str(error)
        if problem is None:
            return tensors
        own, described = run.evaluated_weights(), describe_model(_model_name(run.model), run.model)
        if checksum_of(own, described) != self._best_checksum:
            raise Unresumable(f"resume: {problem}; the weights of epoch {run.stopping.kept_epoch} are lost")
        if mend:
            self.save_best(run.model, own)
        return own


def _model_name(model: Forecaster) -> str:
    """The registered name, or the class's own: such a model is trained and resumed all the same."""
    try:
        return name_of(model)
    except FernError:
        return type(model).__name__
