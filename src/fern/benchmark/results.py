"""The result of a run and its file; the titles and units of its metrics, and which way is better."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from fern.benchmark.runs import SCHEMA, RunSettings, canonical
from fern.errors import FernError, require_number, require_whole
from fern.settings import from_mapping, read_json
from fern.training import EpochRecord, History
from fern.training.evaluation import LAST as LAST

Better = Literal["lower", "higher"]


@dataclass(frozen=True)
class Quantity:
    """A figure by its name in a row. ``better`` is None where neither way is; such figures are not ranked."""

    title: str
    better: Better | None = None


QUANTITIES: Mapping[str, Quantity] = MappingProxyType(
    {
        "mse": Quantity("MSE", "lower"),
        "mae": Quantity("MAE", "lower"),
        "wd": Quantity("WD", "lower"),
        "swd": Quantity("SWD", "lower"),
        "ept": Quantity("EPT", "higher"),
        "ept_lyapunov": Quantity("EPT in LT", "higher"),
        **{f"{LAST}{name}": Quantity(f"last batch {name.upper()}", "lower") for name in ("mse", "mae", "wd", "swd")},
        f"{LAST}ept": Quantity("last batch EPT", "higher"),
        "oracle_mse": Quantity("oracle MSE"),
        "excess_mse": Quantity("excess mse", "lower"),
        "regret": Quantity("regret", "lower"),
        "relative_regret": Quantity("relative regret", "lower"),
        "skill": Quantity("skill", "higher"),
        "crps": Quantity("CRPS", "lower"),
        "nll": Quantity("NLL", "lower"),
        "coverage_90": Quantity("90 % coverage"),
        "parameters": Quantity("parameters"),
        "multiply_adds": Quantity("multiply-adds"),
        "seconds_epoch": Quantity("seconds an epoch"),
        "seconds_train": Quantity("seconds of training"),
        "seconds_train_cpu": Quantity("processor seconds of training"),
        "validation_mse_epoch_1": Quantity("epoch 1: validation", "lower"),
        "test_mse_epoch_1": Quantity("epoch 1: test", "lower"),
        "epoch_by_validation": Quantity("best by validation: epoch"),
        "test_mse_by_validation": Quantity("best by validation: test", "lower"),
        "test_best_epoch": Quantity("best by test: epoch"),
        "validation_mse_best": Quantity("best by test: validation", "lower"),
        "test_mse_best": Quantity("best by test: test", "lower"),
        "test_difference": Quantity("best by test less epoch 1: test"),
    }
)
"""MSE and WD (a squared distance) are in squared units of the data, MAE and CRPS in units of the data, EPT in steps,
or in Lyapunov times (LT)."""


def title_of(name: str) -> str:
    """A figure's title; the name itself in words where the table has none.

    Example:
        >>> title_of("mse"), title_of("seconds_total")
        ('MSE', 'seconds total')
    """
    return QUANTITIES[name].title if name in QUANTITIES else name.replace("_", " ")


def direction_of(name: str) -> int:
    """1 where higher is better, -1 where lower is, 0 where it is neither or not known.

    Example:
        >>> direction_of("ept"), direction_of("mse"), direction_of("parameters")
        (1, -1, 0)
    """
    better = QUANTITIES[name].better if name in QUANTITIES else None
    return 0 if better is None else 1 if better == "higher" else -1


LARGEST = 1e150
"""Of a figure: its square is still a number, and so is a sum of many."""

Status = Literal["done", "failed", "diverged"]


@dataclass(frozen=True, kw_only=True)
class RunResult(RunSettings):
    """The record of one finished run; the fields are those of its JSON file.

    ``metrics``  only those that apply: ``mse mae wd swd ept``; with known truth ``oracle_mse excess_mse regret``
                 and, where the floor is not practically 0, ``relative_regret``; ``skill``; with a distribution
                 ``crps nll coverage_90``; under the split ``detailed`` ``last_mse`` and so on, of the last batch of
                 test windows alone (`Problem.last_batch`). See `fern.benchmark.scoring.References`.
    ``windows``  test windows scored, all there are.
    ``chosen``   the settings that a model fitted to rows chose on validation.
    ``history``  one mapping for each epoch where ``epoch_figures`` asks for it, without timings.
    """

    status: Status
    error: str | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    windows: int | None = None
    epochs: int | None = None
    best_epoch: int | None = None
    parameters: int | None = None
    multiply_adds: int | None = None
    chosen: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict)
    finished: str = ""

    def __post_init__(self) -> None:
        if self.status != "done" and not self.error:
            raise FernError(f"a run that {self.status} needs a reason, got {self.error!r}", argument="error")
        if self.status == "done" and "mse" not in self.metrics:
            raise FernError("a run that is done needs at least its mse", argument="metrics")
        for name, value in self.metrics.items():
            if not abs(value) <= LARGEST:  # also for nan
                raise FernError(
                    f"{name} is {value}", argument="metrics", expected=f"a finite number of at most {LARGEST:g} in size"
                )
        for place, record in enumerate(self.history or ()):
            _check_epoch(f"history[{place}]", record)

    def epoch_history(self) -> History:
        """The figures of every epoch, where the result has them; no epoch 0, which a model without training has."""
        return History(
            EpochRecord(
                epoch=record["epoch"],
                train_loss=record.get("train_loss"),
                learning_rate=None,
                gradient_norm=None,
                validation=record["validation"],
                test=record.get("test"),
                judged=record.get("judged"),
            )
            for record in self.history or ()
            if record["epoch"] > 0
        )


def _check_epoch(where: str, record: Mapping[str, Any]) -> None:
    """Refuse figures of an epoch that are none: a table of epochs could not be made of them."""
    require_whole(f"{where}: epoch", record.get("epoch"), 0)
    for name in ("validation", "test"):
        figures = record.get(name)
        if not isinstance(figures, dict) and not (figures is None and name == "test"):
            raise FernError(argument=name, got=figures, expected="a table of numbers", where=where)
        for metric, value in (figures or {}).items():
            require_number(f"{where}: {name}: {metric}", value, "a finite number", lambda _: True)
    for name in ("train_loss", "judged"):
        if record.get(name) is not None:
            require_number(f"{where}: {name}", record[name], "a finite number", lambda _: True)


_CIRCUMSTANCES = ("seconds", "machine", "finished")


def result_to_json(result: RunResult) -> bytes:
    """The result as it stands in its file: with its schema, its key and a checksum."""
    whole = {"schema": SCHEMA, "key": result.key, **asdict(result)}
    try:
        whole["checksum"] = _checksum(whole)
        return json.dumps(whole, indent=1, allow_nan=False, ensure_ascii=False).encode() + b"\n"
    except (TypeError, ValueError) as error:
        raise FernError(f"result {result.key}: cannot be written as JSON ({error})") from None


def result_from_json(text: bytes, *, where: str) -> RunResult:
    """The result that `result_to_json` wrote; anything else is an error that says what is wrong with it."""
    whole = read_json(text, where=where)
    if not isinstance(whole, dict):
        raise FernError(expected=f"a JSON object, got {type(whole).__name__}", where=where)
    schema, key, checksum = (whole.pop(name, None) for name in ("schema", "key", "checksum"))
    if type(schema) is not int or schema != SCHEMA:
        raise FernError(f"schema is {schema!r}, this version of fern reads {SCHEMA}", where=where)
    if checksum is None:
        raise FernError("has no checksum", where=where)
    if checksum != _checksum({"schema": schema, "key": key, **whole}):
        raise FernError("the checksum does not match: the file was changed after it was written", where=where)
    try:
        result = from_mapping(RunResult, whole, where=where)
    except FernError as error:
        raise (error if error.where.startswith(where) else error.within(where)) from None
    if result.key != key:
        raise FernError(f"its settings give the key {result.key}, but it says {key!r}", where=where)
    return result


def _checksum(whole: Mapping[str, Any]) -> str:
    """Of everything but timings and machine: results that agree have the same checksum."""
    content = {name: value for name, value in whole.items() if name not in ("checksum", *_CIRCUMSTANCES)}
    return hashlib.sha256(canonical(content)).hexdigest()
