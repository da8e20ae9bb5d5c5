"""The windows of a run, the metrics of a model over them, the record of its epochs, and the check that it has not
diverged.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial, reduce
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

import torch
from torch import Tensor, nn

from fern.data.windows import Windows
from fern.errors import FernError, require_choice, require_path
from fern.metrics import MetricAccumulator, sphere_directions
from fern.models import Forecaster
from fern.settings import STRICT, from_mapping
from fern.training.config import TrainConfig
from fern.training.optimisation import require_distribution
from fern.training.runtime import gather_all

MetricValues = dict[str, float]


@dataclass(frozen=True)
class EpochRecord:
    """One epoch. Two records are equal when their figures are, however long they took.

    ``train_loss``     the mean loss over the epoch's windows, each at the step it was seen.
    ``learning_rate``  at the epoch's last step.
    ``gradient_norm``  the mean norm over the epoch's steps, before clipping.
    ``validation``, ``test``  mse, mae, the distance and the objective of the weights after the epoch; in ``test`` also
                       those of the last test windows alone, ``last_mse`` and so on, where these were given.
    ``judged``         the objective the stopping rule saw (smoothed where that is asked for); None in the grace period.
    ``seconds``        training alone; ``evaluation_seconds``: validation and test. ``processor_seconds``: both, on
                       all threads of this process; on a busy machine it says what the run costs, and time does not.
    """

    __pydantic_config__ = STRICT

    epoch: int
    train_loss: float | None
    learning_rate: float | None
    gradient_norm: float | None
    validation: MetricValues
    test: MetricValues | None = None
    judged: float | None = None
    seconds: float = field(default=0.0, compare=False)
    evaluation_seconds: float = field(default=0.0, compare=False)
    processor_seconds: float = field(default=0.0, compare=False)


@dataclass(frozen=True)
class RecencyRow:
    """One way to choose an epoch, and what it costs: a row of the paper's ``tab:recency-etth1``.

    ``validation_change`` and ``test_change`` are the figures less those of epoch 1 (the paper's Δ).
    """

    choice: str
    epoch: int
    validation: float
    test: float
    validation_change: float
    test_change: float


class History(Sequence[EpochRecord]):
    """The epochs of a run in order.

    Example:
        >>> figures = [(6.49, 6.85), (8.0, 6.5), (9.24, 6.21)]
        >>> history = History(
        ...     EpochRecord(epoch, 1.0, 1e-3, 0.1, validation={"mse": val}, test={"mse": test})
        ...     for epoch, (val, test) in enumerate(figures, start=1)
        ... )
        >>> for row in history.recency("mse"):
        ...     print(row.choice, row.epoch, row.test, round(row.test_change, 2))
        epoch 1 1 6.85 0.0
        best by validation 1 6.85 0.0
        best by test 3 6.21 -0.64
    """

    def __init__(self, records: Iterable[EpochRecord] = ()) -> None:
        self._records = tuple(records)

    @overload
    def __getitem__(self, index: int) -> EpochRecord: ...
    @overload
    def __getitem__(self, index: slice) -> "History": ...
    def __getitem__(self, index: int | slice) -> "EpochRecord | History":
        """The record at a position (epoch 1 is at 0), or the history of a slice."""
        return History(self._records[index]) if isinstance(index, slice) else self._records[index]

    def __len__(self) -> int:
        return len(self._records)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, History) and self._records == other._records

    def __hash__(self) -> int:
        return hash(tuple(record.epoch for record in self._records))

    def __repr__(self) -> str:
        return f"History({len(self)} epochs)"

    def of_epoch(self, epoch: int) -> EpochRecord:
        """The record of this epoch, counted from 1."""
        for record in self._records:
            if record.epoch == epoch:
                return record
        raise FernError(f"got {epoch}, the history has {[record.epoch for record in self._records]}", argument="epoch")

    def recency(self, metric: str = "mse") -> list[RecencyRow]:
        """Epoch 1 versus best by validation versus best by test, as the paper's table of recency bias."""
        if not self._records:
            raise FernError("has no epochs", argument="history")
        if any(record.test is None for record in self._records):
            problem = "has no test figures; give train(..., windows_test=...) to study the choice"
            raise FernError(problem, argument="history")
        first = self._records[0]
        require_choice("metric", metric, first.validation)
        choices = {
            f"epoch {first.epoch}": first,
            "best by validation": min(self._records, key=lambda record: record.validation[metric]),
            "best by test": min(self._records, key=lambda record: _test(record)[metric]),
        }
        return [
            RecencyRow(
                choice,
                record.epoch,
                record.validation[metric],
                _test(record)[metric],
                record.validation[metric] - first.validation[metric],
                _test(record)[metric] - _test(first)[metric],
            )
            for choice, record in choices.items()
        ]

    def to_list(self) -> list[dict[str, Any]]:
        """Plain values for a JSON file, from which `history_from_list` restores the same bits."""
        return [asdict(record) for record in self._records]


def history_from_list(values: Sequence[Mapping[str, Any]]) -> History:
    """The history that `History.to_list` wrote down."""
    return History(from_mapping(EpochRecord, value, where="history") for value in values)


def _test(record: EpochRecord) -> MetricValues:
    if record.test is None:
        raise FernError(f"epoch {record.epoch} has no test figures", argument="history")
    return record.test


T = TypeVar("T")

LAST = "last_"
"""What the names of figures of the last test windows alone begin with."""


@dataclass(frozen=True)
class WindowSets:
    """The windows that train a model, choose its epoch and, where given, judge it; ``last`` are the last of these."""

    train: Windows
    validation: Windows
    test: Windows | None
    last: Windows | None = None

    def to_dict(self) -> dict[str, Windows | None]:
        """The sets under the names of ``train``'s arguments."""
        return {
            "windows_train": self.train,
            "windows_val": self.validation,
            "windows_test": self.test,
            "windows_last": self.last,
        }

    def to(self, device: torch.device) -> "WindowSets":
        """The same windows on another device."""
        test, last = (None if windows is None else windows.to(device) for windows in (self.test, self.last))
        return WindowSets(self.train.to(device), self.validation.to(device), test, last)

    def test_figures(self, figures: Callable[[Windows], MetricValues]) -> MetricValues | None:
        """The figures of the test windows, those of the last beside them; None without test windows."""
        if self.test is None:
            return None
        last = {} if self.last is None else figures(self.last)
        return figures(self.test) | {f"{LAST}{name}": value for name, value in last.items()}


def require_inputs_fit(model: Forecaster, config: TrainConfig, data: WindowSets) -> None:
    """Refuse a model, settings and window sets that do not belong together."""
    if not isinstance(model, Forecaster):
        raise FernError(argument="model", got=type(model), expected="a fern.models.Forecaster")
    if not isinstance(config, TrainConfig):
        raise FernError(argument="config", got=type(config), expected="a TrainConfig")
    for name, windows in data.to_dict().items():
        if windows is not None:
            _require_windows(name, windows, model)
    require_distribution(config.weights, model)


def _require_windows(name: str, windows: Windows, model: Forecaster) -> None:
    if not isinstance(windows, Windows):
        raise FernError(argument=name, got=type(windows), expected="fern.data.Windows")
    if len(windows) == 0:
        raise FernError("has no windows", argument=name, expected="at least one")
    for size in ("context_length", "horizon", "channels"):
        has, needs = getattr(windows, size), getattr(model.config, size)
        if has != needs:
            raise FernError(f"{size} is {has}, the model's is {needs}; needs the same", argument=name)


def require_methods(name: str, value: T, example: type, *, known: Iterable[str]) -> T:
    """The object, which must have the methods of the example; ``known`` are the names it could have been."""
    for method in (entry for entry in vars(example) if not entry.startswith("_")):
        if not callable(getattr(value, method, None)):
            names = ", ".join(repr(entry) for entry in known)
            raise FernError(argument=name, got=value, expected=f"{names}, or an object with a method {method!r}")
    return value


def run_directory(directory: Path | str | None, resume: Path | str | None) -> Path | None:
    """Where the run is kept: the directory, or the one it resumes from, which must be the same."""
    for name, value in (("directory", directory), ("resume", resume)):
        if value is not None:
            require_path(value, argument=name)
    if directory is None or resume is None:
        value = directory if resume is None else resume
        return None if value is None else Path(value)
    if Path(directory).resolve() != Path(resume).resolve():
        problem = f"got {directory} but resume is {resume}; a run resumes in its own directory; give one of them"
        raise FernError(problem, argument="directory")
    return Path(resume)


def batch_size_for(windows: int) -> int:
    """A batch size from the number of training windows: about 250 steps an epoch, between 16 and 128 windows each."""
    return max(16, min(128, 8 * round(windows / 250 / 8)))


if TYPE_CHECKING:
    from lightning_fabric import Fabric


Named = Iterable[tuple[str, nn.Parameter]]


class Diverged(FernError):  # noqa: N818 - what happened to the run, which is what the benchmark records
    """A loss, gradient, weight or forecast of a run became NaN or infinite.

    ``epoch`` and ``step`` (within the epoch) count from 1; ``step`` is None when validation showed it. ``group`` is
    the part of the model where the first bad number was found, None when only the loss is bad.

    Example:
        >>> raise Diverged("the loss is nan", epoch=2, step=17, group=None)
        Traceback (most recent call last):
            ...
        fern.training.evaluation.Diverged: diverged at epoch 2, step 17: the loss is nan
    """

    def __init__(self, what: str, *, epoch: int, step: int | None, group: str | None, remedy: str = "") -> None:
        place = f"epoch {epoch}" if step is None else f"epoch {epoch}, step {step}"
        super().__init__(f"diverged at {place}: {what}{remedy}")
        self.what, self.epoch, self.step, self.group, self.remedy = what, epoch, step, group, remedy

    def __reduce__(self) -> tuple[Any, ...]:
        """What a copy in another process is made of."""
        settings = {name: getattr(self, name) for name in ("epoch", "step", "group", "remedy")}
        return partial(Diverged, self.what, **settings), ()


class NotFinite(FernError):  # noqa: N818 - what was found, of which `Diverged` is made
    """A forecast of an evaluation is NaN or infinite."""


def find_diverged_gradients(named: Named, *, loss: float, epoch: int, step: int, remedy: str) -> Diverged:
    """The error for a step whose loss, or the norm of whose gradient, is not finite."""
    bad = _first_bad(((name, p.grad) for name, p in named if p.grad is not None), "gradient")
    group, what = bad or (None, "the norm of the gradient overflows" if isfinite(loss) else "")
    parts = [part for part in ("" if isfinite(loss) else f"the loss is {loss}", what) if part]
    return Diverged(", ".join(parts), epoch=epoch, step=step, group=group, remedy=remedy)


def find_diverged_weights(named: Named, *, epoch: int, step: int, remedy: str) -> Diverged:
    """The error for weights whose norm is not finite."""
    bad = _first_bad(((name, p.detach()) for name, p in named), "weight")
    group, what = bad or (None, "the norm of the weights overflows")
    return Diverged(what, epoch=epoch, step=step, group=group, remedy=remedy)


def _first_bad(tensors: Iterable[tuple[str, Tensor | None]], kind: str) -> tuple[str, str] | None:
    bad = [(name, value) for name, value in tensors if value is not None and not bool(torch.isfinite(value).all())]
    if not bad:
        return None
    name, value = bad[0]
    number = value[~torch.isfinite(value)][0].item()
    more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
    group = name.rsplit(".", 1)[0]  # the part of the model
    return group, f"the {kind} of {name}{more}, parameter group {group!r}, holds {number}"


class Evaluator:
    """Scores the forecasts of a model: mse, mae, the distance and the objective, every window once.

    Where the objective gives the CRPS a weight, it is that of the model's distribution, and a figure of its own; the
    CRPS of a model without a distribution is its absolute error.

    The directions of ``sliced_w2`` are drawn once, by seed 0, and serve all epochs and runs, so that
    objectives compare.
    """

    def __init__(self, config: TrainConfig, *, horizon: int) -> None:
        self._config = config
        self._metrics = ["mse", "mae", config.distance, "objective"]
        self._directions: Tensor | None = None
        if config.distance == "sliced_w2":
            generator = torch.Generator().manual_seed(0)
            self._directions = sphere_directions(horizon, config.projections, generator=generator)

    def figures(
        self, model: Forecaster, windows: Windows, fabric: "Fabric", *, most: int | None = None
    ) -> MetricValues:
        """The figures over all windows, or ``most`` of them evenly spread, each process taking its part of them."""
        accumulator = self._gather(model, windows, most, rank=fabric.global_rank, processes=fabric.world_size)
        if not all(gather_all(accumulator is not None, fabric)) or accumulator is None:  # all processes end together
            raise NotFinite("a forecast is not finite")
        # Merged in the order of the processes' ranks: the same bits on each of them.
        return reduce(MetricAccumulator.merge, gather_all(accumulator, fabric)).compute()

    @torch.no_grad()
    def _gather(
        self, model: Forecaster, windows: Windows, most: int | None, *, rank: int, processes: int
    ) -> MetricAccumulator | None:
        """The figures of this process's windows, None where a forecast is not finite."""
        config, judged = self._config, model.has_distribution and self._config.objective.crps > 0
        accumulator = MetricAccumulator(
            [*self._metrics, "crps"] if judged else self._metrics,
            directions=self._directions,
            distance=config.distance,
            weights=config.objective,
        )
        size = config.evaluation_batch_size
        count = min(len(windows), most or len(windows))
        start, stop = (count * edge // processes for edge in (rank, rank + 1))
        dtype = next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)
        was_training = model.training
        model.eval()
        try:
            for first in range(start, stop, size):
                places = torch.arange(first, min(first + size, stop))
                past, future = windows.gather(places * len(windows) // count)
                forecast = model(past.to(dtype))
                mean = forecast.mean.to(future.dtype)
                if not bool(torch.isfinite(mean.sum())) and not bool(torch.isfinite(mean).all()):
                    return None
                accumulator.update(mean, future, distribution=forecast.ellipsoid if judged else None)
        finally:
            model.train(was_training)
        return accumulator
