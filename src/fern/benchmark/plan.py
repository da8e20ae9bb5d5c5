"""From a task to its runs: every setting resolved, every mistake found before anything is computed."""

import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from multiprocessing.connection import Connection
from typing import Any, Self

from fern.benchmark.adapters.outside import build_outside_model, source_fingerprint
from fern.benchmark.problem import Dataset, load_dataset
from fern.benchmark.runs import NEUTRAL_VALUES, REVISION, Run, RunSettings, canonical, code_version_of, outside_version
from fern.benchmark.tasks import BY_DATASET, ORACLE, DatasetChoice, ModelChoice, Task, is_outside
from fern.errors import FernError, unknown_name
from fern.models import ModelConfig, model_names
from fern.models.registry import model_entry, outline_model
from fern.processes import Servant, serve_alone
from fern.settings import from_mapping
from fern.training import TrainConfig
from fern.training.checkpoints import FREE_TO_CHANGE

LIMIT = 300.0
"""Seconds that a model from outside has to be imported, built or asked once."""


@dataclass(frozen=True)
class Inspection:
    """``fingerprint`` of its source, whether it is ``trainable``, and the ``trouble`` that keeps it from being run."""

    fingerprint: str
    trainable: bool = False
    trouble: str | None = None


Inspect = Callable[[str, ModelConfig], Inspection]
"""Finds out about the model that ``module:callable`` names, in these sizes. A mistake in the name is a `FernError`."""


def inspect_here(text: str, sizes: ModelConfig) -> Inspection:
    """In this process: quick, and whatever the model does happens here."""
    model = build_outside_model(text, sizes, seed=0)
    return Inspection(source_fingerprint(text), model.trainable)


class IsolatedInspector:
    """In a process of its own: a model that exits, crashes or hangs is in trouble, and nobody else."""

    def __init__(self, *, limit: float = LIMIT) -> None:
        self._servant: Servant | None = None
        self._limit = limit

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._servant is not None:
            self._servant.end()
            self._servant = None

    def __call__(self, text: str, sizes: ModelConfig) -> Inspection:
        """Ask the process, which is started where there is none."""
        if self._servant is None:
            self._servant = Servant(_serve_inspections, name="fern plan")
        self._servant.send((text, sizes))
        try:
            answer: Inspection | FernError = self._servant.take(self._limit)
        except (TimeoutError, EOFError) as late_or_dead:
            self.__exit__()
            late = f"was not ready within {self._limit:g} s of being asked"
            return _mark_unread(text, str(late_or_dead) if isinstance(late_or_dead, EOFError) else late)
        if isinstance(answer, FernError):
            raise answer
        return answer


def _serve_inspections(pipe: Connection) -> None:
    """The life of that process: an answer for each model that it is asked about."""
    serve_alone()
    with suppress(EOFError, OSError):
        while True:
            text, sizes = pipe.recv()
            try:
                answer: Inspection | FernError = inspect_here(text, sizes)
            except FernError as error:
                answer = FernError(str(error))
            except (SystemExit, KeyboardInterrupt) as error:
                answer = _mark_unread(text, f"raised {error!r}")
            pipe.send(answer)


def _mark_unread(text: str, reason: str) -> Inspection:
    """Of a model whose source was not read; its name stands for it."""
    name = hashlib.sha256(text.encode()).hexdigest()[:12]
    return Inspection(name, trouble=f"{reason} while the run was planned")


@dataclass(frozen=True)
class Plan:
    """The runs of a task in the order they are done, and the datasets they need by their fingerprints."""

    task: Task
    runs: tuple[Run, ...]
    datasets: Mapping[str, Dataset]


def make_plan(task: Task, *, max_epochs: int | None = None, inspect: Inspect = inspect_here) -> Plan:
    """The runs of a task: seed by seed, so that a table can be drawn early; then dataset, horizon, model.

    ``max_epochs`` caps the epochs of every run, and with them the grace period, which must be shorter. ``inspect``
    finds out about models from outside: in this process, unless it is a `fern.benchmark.plan.IsolatedInspector`.

    Example:
        >>> from fern.benchmark.tasks import read_task
        >>> plan = make_plan(read_task("quick").narrowed(datasets=["OU_PARAM"]), max_epochs=2)
        >>> sorted({run.settings.model for run in plan.runs})
        ['dlinear', 'fern', 'last-value', 'oracle']
    """
    if max_epochs is not None and max_epochs < 1:
        raise FernError(argument="max_epochs", got=max_epochs, expected="at least 1")
    resolver = _Resolver(task, max_epochs, inspect)
    datasets = [(choice, load_dataset(choice)) for choice in task.datasets]
    runs: dict[str, Run] = {}
    for seed in task.seeds:
        for source, dataset in datasets:
            for horizon in source.horizons or task.horizons:
                for run in resolver.runs(source, dataset, horizon=horizon, seed=seed):
                    runs.setdefault(run.key, run)
    if not runs:
        raise FernError(f"task {task.name}: has no runs; only simulated datasets have an oracle")
    return Plan(task, tuple(runs.values()), {dataset.fingerprint: dataset for _, dataset in datasets})


@dataclass(frozen=True)
class _Resolved:
    """The model's part of the settings, the training settings that identify nothing, its code, and what ails it."""

    settings: dict[str, Any]
    computing: dict[str, Any] = field(default_factory=dict)
    version: str = REVISION
    trouble: str | None = None


class _Resolver:
    """Completes the settings of runs; what does not depend on seed or data is resolved once."""

    def __init__(self, task: Task, max_epochs: int | None, inspect: Inspect) -> None:
        self._task, self._max_epochs, self._inspect = task, max_epochs, inspect
        self._known: dict[bytes, _Resolved] = {}
        for choice in task.models:
            _require_model(choice)

    def runs(self, source: DatasetChoice, dataset: Dataset, *, horizon: int, seed: int) -> list[Run]:
        """The runs of all models on one dataset at one horizon under one seed."""
        task = self._task
        place: dict[str, Any] = {
            "task": task.name,
            "dataset": dataset.name,
            "data_settings": dataset.settings,
            "data_fingerprint": dataset.fingerprint,
            "context_length": source.context_length or task.context_length,
            "horizon": horizon,
            "split": source.split or task.split,
            "scaling": source.scaling or task.scaling,
            "epoch_figures": task.epoch_figures,
            "seed": seed,
        }
        runs = []
        for choice in task.models:
            if choice.model == ORACLE and dataset.trajectory is None:
                continue  # nobody knows the true process of a published dataset
            if choice.preset == BY_DATASET:
                choice = replace(choice, preset=dataset.name.partition(":")[0].lower())
            sizes = {
                "context_length": place["context_length"],
                "horizon": horizon,
                "channels": len(dataset.channel_names),
            }
            known = canonical({**asdict(choice), **sizes})
            if known not in self._known:
                self._known[known] = self._resolve(choice, sizes)
            model = self._known[known]
            settings = RunSettings(**place, **model.settings, code_version=model.version)
            runs.append(Run(settings, source, model.computing, model.trouble))
        if runs:
            problem = runs[0].problem(dataset)
            _ = problem.train, problem.validation, problem.test  # an error where one has no window
        return runs

    def _resolve(self, choice: ModelChoice, sizes: dict[str, int]) -> _Resolved:
        fields: dict[str, Any] = {"model": choice.model, "preset": "default", "model_settings": choice.settings}
        if choice.model == ORACLE:
            return _Resolved(fields)
        train = {**self._task.train, **choice.train}
        computing = {name: value for name, value in train.items() if name in FREE_TO_CHANGE}
        settings, trouble = self._train_settings(train), None
        if is_outside(choice.model):
            sight = self._inspect(choice.model, ModelConfig(**sizes))
            trainable, version, trouble = sight.trainable, outside_version(sight.fingerprint), sight.trouble
            settings["start"] = "given"  # only its builder knows how its weights begin
        else:
            usual = self._task.model_preset
            fields["preset"] = choice.preset or (usual if usual in model_entry(choice.model).presets else "default")
            model = outline_model(choice.model, **sizes, preset=fields["preset"], **choice.settings)
            trainable, version = model.trainable, code_version_of(choice.model, fields["preset"])
        if trainable:
            fields["train_settings"] = settings
        return _Resolved(fields, computing, version, trouble)

    def _train_settings(self, train: Mapping[str, Any]) -> dict[str, Any]:
        """The training settings that decide what is computed, where they are not neutral."""
        where = f"task {self._task.name}: train"
        if train.get("start", "fresh") != "fresh":
            raise FernError(f"{where}.start: got {train['start']!r}, runs start 'fresh' from a seed")
        config = from_mapping(TrainConfig, train, where=where)
        if config.devices > 1:
            raise FernError(
                f"{where}.devices: got {config.devices}; a run of the benchmark computes in one process, and several "
                "runs at once: use --jobs"
            )
        if self._max_epochs is not None and self._max_epochs < config.epochs:
            limits = {"epochs": self._max_epochs, "grace": min(config.grace, self._max_epochs - 1)}
            config = from_mapping(TrainConfig, {**train, **limits}, where=where)
        return {
            name: value
            for name, value in config.to_mapping().items()
            if name != "seed"
            and name not in FREE_TO_CHANGE
            and (name not in NEUTRAL_VALUES or NEUTRAL_VALUES[name] != value)
        }


def _require_model(choice: ModelChoice) -> None:
    if choice.model == ORACLE or is_outside(choice.model):
        if choice.preset is not None or choice.settings or choice.train:
            raise FernError("has no presets and no settings", argument=choice.model)
        return
    if choice.model not in model_names():
        problem = unknown_name("model", choice.model, [*model_names(), ORACLE])
        hint = f"; a model of your own: --with {choice.model}:{choice.preset}" if choice.preset else ""
        raise FernError(f"{problem}{hint}")
    for name in ("name", "preset", "context_length", "horizon", "channels", "generator"):
        if name in choice.settings:
            raise FernError(f"got {name!r}", argument="settings", expected="settings of the model", where=choice.model)
    presets = model_entry(choice.model).presets
    if choice.preset not in (None, BY_DATASET, *presets):
        raise unknown_name(f"preset of {choice.model}", choice.preset, [*presets, BY_DATASET])
