"""What happened in a run, epoch by epoch, and what the choice of an epoch would have changed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, overload

from fern.errors import FernError, unknown_name
from fern.settings import STRICT, from_mapping

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
            raise FernError(
                "has no test figures; give train(..., windows_test=...) to study the choice", argument="history"
            )
        known = self._records[0].validation
        if metric not in known:
            raise unknown_name("metric", metric, known)
        first = self._records[0]
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

    def rows(self) -> list[dict[str, Any]]:
        """One flat mapping for each epoch, as a data frame takes them: ``validation_mse`` and so on."""
        return [_flat(asdict(record)) for record in self._records]

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


def _flat(record: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in record.items():
        if isinstance(value, dict):
            flat |= {f"{name}_{metric}": figure for metric, figure in value.items()}
        else:
            flat[name] = value
    return flat
