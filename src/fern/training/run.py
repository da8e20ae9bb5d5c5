"""The state of a run: everything that training changes, and its form in a checkpoint."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, get_args

import torch
from torch import Generator, Tensor
from torch.optim import AdamW

from fern.checks import require_number, require_whole
from fern.errors import FernError, show_value
from fern.models import Forecaster
from fern.models.storage import require_fit
from fern.training.history import EpochRecord, History, history_from_list
from fern.training.optimisation import AveragedWeights
from fern.training.random_state import foreign_state, set_foreign_state
from fern.training.runtime import gather_all
from fern.training.stopping import Reason, StoppingState, stopping_state

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
    compiled: bool = False
    kept: Tensors = field(default_factory=dict)  # the weights of the epoch the stopping rule keeps

    @property
    def history(self) -> History:
        """The epochs so far."""
        return History(self.records)

    def begin_epoch(self, epoch: int) -> None:
        """Set the sums of an epoch to zero."""
        self.epoch, self.step, self.loss_sum, self.norm_sum = epoch, 0, 0.0, 0.0
        self.seconds, self.processor_seconds = 0.0, 0.0

    def evaluated_weights(self) -> Tensors:
        """A copy of the weights that are evaluated: the averaged ones where there are any."""
        if self.average is None:
            return _copied(self.model.state_dict())
        with self.average.applied():
            return _copied(self.model.state_dict())

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
            "stopping": self.stopping.to_mapping(),
            "reason": self.reason,
            "compiled": self.compiled,
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
                (
                    f"the run had {len(plain['loss_sums'])} processes, this one has {fabric.world_size}; "
                    "needs the same, because each has its own noise"
                ),
                argument="resume",
            )
        self.epoch, self.step, self.steps = plain["epoch"], plain["step"], plain["steps"]
        self.loss_sum, self.norm_sum = plain["loss_sums"][fabric.global_rank], plain["norm_sum"]
        self.seconds, self.reason = plain["seconds"], plain["reason"]
        self.processor_seconds = plain.get("processor_seconds", 0.0)  # earlier checkpoints have none
        self.records = list(history_from_list(plain["history"]))
        self.stopping = stopping_state(plain["stopping"])
        weights = _part(tensors, "model.")
        require_fit(self.model, weights)
        self.model.load_state_dict(weights)
        self._restore_optimiser(_part(tensors, "optimiser."))
        if self.average is not None:
            self.average.restore(_part(tensors, "average."), steps=self.steps)
        # Cloned, because torch reads a generator's state from the start of the storage, whatever the view.
        self.noise.set_state(tensors["noise"][fabric.global_rank].clone())
        set_foreign_state(tensors["foreign"][fabric.global_rank].clone(), fabric.device)

    def _restore_optimiser(self, tensors: Tensors) -> None:
        whole = self.optimiser.state_dict()
        state: dict[int, Tensors] = {}
        for name, value in tensors.items():
            position, _, entry = name.partition(".")
            state.setdefault(int(position), {})[entry] = value
        parameters = [parameter for group in self.optimiser.param_groups for parameter in group["params"]]
        for place, entries in state.items():
            shapes = {"step": (), "exp_avg": parameters[place].shape, "exp_avg_sq": parameters[place].shape}
            stored = {name: value.shape for name, value in entries.items()}
            if stored != shapes:
                raise FernError(
                    f"the optimiser's state of parameter {place} is {stored}", argument="resume", expected=shapes
                )
            if not all(value.is_floating_point() for value in entries.values()):
                raise FernError(
                    f"the optimiser's state of parameter {place} needs floating-point numbers", argument="resume"
                )
        if self.steps and not state:
            raise FernError(f"the optimiser's state after {self.steps:,} steps is missing", argument="resume")
        self.optimiser.load_state_dict({**whole, "state": state})


def _check_plain(plain: dict[str, Any]) -> None:
    """Refuse values that `TrainingRun.snapshot` cannot have written."""
    require_whole("resume: epoch", plain["epoch"], 1)
    for name in ("step", "steps"):
        require_whole(f"resume: {name}", plain[name], 0)
    if not isinstance(plain["loss_sums"], list):
        raise FernError(
            f"loss_sums: got {show_value(plain['loss_sums'])}", argument="resume", expected="a list of numbers"
        )
    numbers = {f"loss_sums[{place}]": value for place, value in enumerate(plain["loss_sums"])}
    for name, value in {**numbers, "norm_sum": plain["norm_sum"], "seconds": plain["seconds"]}.items():
        require_number(f"resume: {name}", value, "a finite number", lambda _: True)
    if plain["reason"] not in (None, *get_args(Reason)):
        raise FernError(
            f"reason: got {show_value(plain['reason'])}",
            argument="resume",
            expected=f"one of {', '.join(get_args(Reason))}",
        )
    if not isinstance(plain["history"], list) or not isinstance(plain["stopping"], dict):
        raise FernError(argument="resume", expected="a history and the state of the stopping rule")


def _part(tensors: Tensors, prefix: str) -> Tensors:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _copied(tensors: Tensors) -> Tensors:
    return {name: value.detach().clone() for name, value in tensors.items()}
