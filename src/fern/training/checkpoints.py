"""The state of a run (everything that training changes), its checkpoints on disk, and the fingerprint (model, data,
settings, versions) that ties them to it.
"""

import hashlib
import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, get_args

import torch
from torch import Generator, Tensor
from torch.optim import AdamW

from fern._version import __version__
from fern.data.windows import Windows
from fern.errors import FernError, require_number, require_path, require_whole, show_value
from fern.files import make_folder
from fern.models import Forecaster
from fern.models.registry import name_of
from fern.models.storage import FORMAT as MODEL_FORMAT
from fern.models.storage import checksum_of, describe_model, read_tensors, require_fit, write_tensors
from fern.settings import from_mapping
from fern.training.config import TrainConfig
from fern.training.evaluation import EpochRecord, History, WindowSets, history_from_list
from fern.training.optimisation import AveragedWeights, Reason, StoppingState
from fern.training.runtime import foreign_state, gather_all, set_foreign_state

if TYPE_CHECKING:
    from lightning_fabric import Fabric

Tensors = dict[str, Tensor]


@dataclass
class TrainingRun:
    """A run between two steps."""

    model: Forecaster
    optimiser: AdamW
    average: AveragedWeights | None
    noise: Generator
    epoch: int = 1  # the epoch under way
    step: int = 0  # steps of it that are done
    steps: int = 0  # steps of the whole run that are done
    loss_sum: float = 0.0  # of this process's windows in this epoch
    norm_sum: float = 0.0
    seconds: float = 0.0  # spent on training in this epoch
    processor_seconds: float = 0.0
    records: list[EpochRecord] = field(default_factory=list)
    stopping: StoppingState = field(default_factory=StoppingState)
    reason: Reason | None = None
    kept: Tensors = field(default_factory=dict)  # the weights of the epoch the stopping rule keeps

    @property
    def history(self) -> History:
        """The epochs so far."""
        return History(self.records)

    def begin_epoch(self, epoch: int) -> None:
        """Set the sums of an epoch to zero."""
        self.epoch, self.step, self.loss_sum, self.norm_sum = epoch, 0, 0.0, 0.0
        self.seconds, self.processor_seconds = 0.0, 0.0

    def copy_evaluated_weights(self) -> Tensors:
        """A copy of the weights that are evaluated: the averaged ones where there are any."""
        if self.average is None:
            return _copy(self.model.state_dict())
        with self.average.apply():
            return _copy(self.model.state_dict())

    def snapshot(self, fabric: "Fabric") -> tuple[dict[str, Any], Tensors]:
        """All of it as plain values and tensors, the same on every process."""
        plain = {
            "epoch": self.epoch,
            "step": self.step,
            "steps": self.steps,
            "loss_sums": gather_all(self.loss_sum, fabric),
            "norm_sum": self.norm_sum,
            "seconds": self.seconds,
            "processor_seconds": self.processor_seconds,
            "history": self.history.to_list(),
            "stopping": asdict(self.stopping),
            "reason": self.reason,
        }
        tensors = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        for position, state in self.optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser.{position}.{name}": value for name, value in state.items()}
        if self.average is not None:
            tensors |= {f"average.{name}": value for name, value in self.average.state().items()}
        tensors["noise"] = torch.stack(gather_all(self.noise.get_state(), fabric))
        tensors["foreign"] = torch.stack(gather_all(foreign_state(fabric.device), fabric))
        return plain, tensors

    def restore(self, plain: dict[str, Any], tensors: Tensors, fabric: "Fabric") -> None:
        """Continue from what `snapshot` gave."""
        _check_plain(plain)
        if len(plain["loss_sums"]) != fabric.world_size:
            raise FernError(
                f"the run had {len(plain['loss_sums'])} processes, this one has {fabric.world_size}; needs the same, "
                "because each has its own noise",
                argument="resume",
            )
        self.epoch, self.step, self.steps = plain["epoch"], plain["step"], plain["steps"]
        self.loss_sum, self.norm_sum = plain["loss_sums"][fabric.global_rank], plain["norm_sum"]
        self.seconds, self.reason = plain["seconds"], plain["reason"]
        self.processor_seconds = plain.get("processor_seconds", 0.0)  # earlier checkpoints have none
        self.records = list(history_from_list(plain["history"]))
        self.stopping = from_mapping(StoppingState, plain["stopping"], where="stopping state")
        weights = _select_prefix(tensors, "model.")
        require_fit(self.model, weights)
        self.model.load_state_dict(weights)
        self._restore_optimiser(_select_prefix(tensors, "optimiser."))
        if self.average is not None:
            self.average.restore(_select_prefix(tensors, "average."), steps=self.steps)
        # Cloned, because torch reads a generator's state from the start of the storage, whatever the view.
        self.noise.set_state(tensors["noise"][fabric.global_rank].clone())
        set_foreign_state(tensors["foreign"][fabric.global_rank].clone(), fabric.device)

    def _restore_optimiser(self, tensors: Tensors) -> None:
        state_dict = self.optimiser.state_dict()
        state: dict[int, Tensors] = {}
        for name, value in tensors.items():
            position, _, entry = name.partition(".")
            state.setdefault(int(position), {})[entry] = value
        parameters = [parameter for group in self.optimiser.param_groups for parameter in group["params"]]
        for place, entries in state.items():
            shapes = {"step": (), "exp_avg": parameters[place].shape, "exp_avg_sq": parameters[place].shape}
            stored = {name: value.shape for name, value in entries.items()}
            if stored != shapes:
                problem = f"the optimiser's state of parameter {place} is {stored}"
                raise FernError(problem, argument="resume", expected=shapes)
            if not all(value.is_floating_point() for value in entries.values()):
                problem = f"the optimiser's state of parameter {place} needs floating-point numbers"
                raise FernError(problem, argument="resume")
        if self.steps and not state:
            raise FernError(f"the optimiser's state after {self.steps:,} steps is missing", argument="resume")
        self.optimiser.load_state_dict({**state_dict, "state": state})


def _check_plain(plain: dict[str, Any]) -> None:
    """Refuse values that `TrainingRun.snapshot` cannot have written."""
    require_whole("resume: epoch", plain["epoch"], 1)
    for name in ("step", "steps"):
        require_whole(f"resume: {name}", plain[name], 0)
    if not isinstance(plain["loss_sums"], list):
        problem = f"loss_sums: got {show_value(plain['loss_sums'])}"
        raise FernError(problem, argument="resume", expected="a list of numbers")
    numbers = {f"loss_sums[{place}]": value for place, value in enumerate(plain["loss_sums"])}
    for name, value in {**numbers, "norm_sum": plain["norm_sum"], "seconds": plain["seconds"]}.items():
        require_number(f"resume: {name}", value, "a finite number", lambda _: True)
    if plain["reason"] not in (None, *get_args(Reason)):
        problem, reasons = f"reason: got {show_value(plain['reason'])}", ", ".join(get_args(Reason))
        raise FernError(problem, argument="resume", expected=f"one of {reasons}")
    if not isinstance(plain["history"], list) or not isinstance(plain["stopping"], dict):
        raise FernError(argument="resume", expected="a history and the state of the stopping rule")


def _select_prefix(tensors: Tensors, prefix: str) -> Tensors:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _copy(tensors: Tensors) -> Tensors:
    return {name: value.detach().clone() for name, value in tensors.items()}


FREE_TO_CHANGE = (
    "threads",
    "accelerator",
    "compile",  # of earlier checkpoints
    "checkpoint_steps",
    "checkpoint_seconds",
    "evaluation_batch_size",
    "time_limit",
)
"""Settings that a resumed run may change: they decide where, how fast and how long it computes."""

ADDED: Mapping[str, Any] = {
    "normalise": "none",
    "skip": "none",
    "channels_seen": "own",
    "objective": {"crps": 0.0},
    "head_spread": 0.1,
    "validation_windows": None,
}
"""Settings younger than some checkpoints, and what a run without them was made by."""

_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class Fingerprint:
    """Model, data and settings of a run, and the versions that made it."""

    model: dict[str, Any]
    data: dict[str, Any]
    settings: dict[str, Any]
    versions: dict[str, str]

    def to_mapping(self) -> dict[str, Any]:
        """Plain values, as they come back from a JSON file."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return plain


def fingerprint(model: Forecaster, config: TrainConfig, data: WindowSets) -> Fingerprint:
    """The fingerprint of a run."""
    shapes = {name: list(value.shape) for name, value in model.state_dict().items()}
    return Fingerprint(
        model={"class": type(model).__name__, "config": asdict(model.config), "shapes": shapes},
        data={name: None if windows is None else describe(windows) for name, windows in data.to_dict().items()},
        settings=config.to_mapping(),
        versions={"fern": __version__, "torch": str(torch.__version__), "python": platform.python_version()},
    )


def describe(windows: Windows) -> dict[str, Any]:
    """The size of a window set, and a checksum of its series and of where its windows start."""
    digest = hashlib.sha256()
    for series in (windows.values,) if windows.targets is windows.values else (windows.values, windows.targets):
        values = series.cpu().contiguous()
        for first in range(0, len(values), _AT_ONCE):
            digest.update(values[first : first + _AT_ONCE].numpy().tobytes())
    for first in range(0, len(windows), _AT_ONCE):
        digest.update(windows.starts(torch.arange(first, min(first + _AT_ONCE, len(windows)))).numpy().tobytes())
    return {
        "windows": len(windows),
        "context_length": windows.context_length,
        "horizon": windows.horizon,
        "channels": windows.channels,
        "sha256": digest.hexdigest(),
    }


def require_same_run(saved: Mapping[str, Any], present: Mapping[str, Any], *, where: str) -> None:
    """Refuse to resume from a checkpoint of another model, other data or other settings; versions may differ."""
    was, now = saved["model"], present["model"]
    was = {**was, "config": _complete(was["config"], now["config"])}
    if was != now:
        changed = _differences(was["config"], now["config"]) or "other weights"
        more = f" ({changed})" if was["class"] == now["class"] else ""
        raise FernError(
            f"belongs to another model: {was['class']} there, {now['class']} here{more}", argument="resume", where=where
        )
    for name, described in saved["data"].items():
        if described != present["data"][name]:
            raise FernError(f"was trained on different data: {name} differ", argument="resume", where=where)
    completed = _complete(saved["settings"], present["settings"])
    was, now = ({k: v for k, v in s.items() if k not in FREE_TO_CHANGE} for s in (completed, present["settings"]))
    if was["schedule"] == now["schedule"] == "constant" and not now["warmup"]:
        for settings in (was, now):  # more epochs only continue a run whose learning rate does not depend on them
            settings.pop("epochs")
    if was != now:
        raise FernError(f"has different settings: {_differences(was, now)}", argument="resume", where=where)


def _complete(saved: Mapping[str, Any], present: Mapping[str, Any], added: Mapping[str, Any] = ADDED) -> dict[str, Any]:
    """The saved settings with those that did not exist yet."""
    complete = dict(saved)
    for name in added.keys() & present.keys():
        if name not in saved:
            complete[name] = added[name]
        elif isinstance(saved[name], Mapping) and isinstance(present[name], Mapping):
            complete[name] = _complete(saved[name], present[name], added[name])
    return complete


def _differences(was: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    names = [name for name in {**was, **now} if was.get(name) != now.get(name)]
    return ", ".join(f"{name} {was.get(name)!r} there, {now.get(name)!r} here" for name in names)


FORMAT = "fern-run-1"
Saved = tuple[dict[str, Any], Tensors]
"""The state of a run as plain values and tensors."""

LAST, BEST = "last.safetensors", "best.safetensors"


def resumable(directory: Path | str) -> bool:
    """Whether a run can be resumed here: ``train(..., directory=d, resume=d if resumable(d) else None)``.

    Example:
        >>> resumable("no/such/directory")
        False
    """
    return (require_path(directory, argument="directory") / LAST).is_file()


class Unresumable(FernError):  # noqa: N818 - what a checkpoint is
    """A checkpoint that this run cannot resume from: damaged, or of another model, other data or other settings."""

    @classmethod
    def of(cls, error: FernError) -> Self:
        """The same error as one of a checkpoint."""
        return cls(error.problem, argument=error.argument, got=error.got, expected=error.expected, where=error.where)


class Checkpoints:
    """The checkpoints of one run in one directory."""

    def __init__(self, directory: Path, fingerprint: Fingerprint) -> None:
        self.directory, self._fingerprint = directory, fingerprint
        self._best_checksum: str | None = None

    def begin(self) -> None:
        """Make the directory for a new run, and clear it; refuses one that holds a run already."""
        if resumable(self.directory):
            raise FernError(
                f"{self.directory} already holds a run; give resume={str(self.directory)!r} to continue it, or another "
                "directory",
                argument="directory",
            )
        make_folder(self.directory)
        self.clear()

    def save(self, plain: dict[str, Any], tensors: Tensors, *, model: Forecaster, new_best: Tensors | None) -> None:
        """Write the state, and the best weights where they are new."""
        if new_best is not None:
            self._best_checksum = checksum_of(new_best, describe_model(_model_name(model), model))
        header = {"run": plain, "best_sha256": self._best_checksum, "version": __version__}
        header["fingerprint"] = self._fingerprint.to_mapping()
        write_tensors(self.directory / LAST, tensors, header, format_=FORMAT)
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
            raise FernError(f"{self.directory} holds no checkpoint ({LAST}); nothing to continue", argument="resume")
        try:
            header, tensors, _ = read_tensors(path, format_=FORMAT)
            require_same_run(header["fingerprint"], self._fingerprint.to_mapping(), where=str(path))
            if not isinstance(header["run"], dict):
                raise FernError("holds no state of a run", argument="resume", where=path)
            self._best_checksum = header["best_sha256"]
        except FernError as error:
            raise Unresumable.of(error) from None
        except (KeyError, TypeError, AttributeError, ValueError) as error:  # forged: the checksum fits, the rest not
            problem = f"is no checkpoint of a run ({type(error).__name__}: {error})"
            raise Unresumable(problem, argument="resume", where=path) from None
        return header["run"], tensors

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
        weights, described = run.copy_evaluated_weights(), describe_model(_model_name(run.model), run.model)
        if checksum_of(weights, described) != self._best_checksum:
            lost = f"{problem}; the weights of epoch {run.stopping.kept_epoch} are lost"
            raise Unresumable(lost, argument="resume")
        if mend:
            self.save_best(run.model, weights)
        return weights


def _model_name(model: Forecaster) -> str:
    """The registered name, or the class's own: such a model is trained and resumed all the same."""
    try:
        return name_of(model)
    except FernError:
        return type(model).__name__
