"""From a task to its runs: every setting resolved, every mistake found before anything is computed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fern.benchmark.datasets import Dataset, Problem, load_dataset
from fern.benchmark.outside import outside_model, source_fingerprint
from fern.benchmark.provenance import code_version
from fern.benchmark.rows import RunSettings
from fern.benchmark.tasks import ORACLE, DatasetChoice, ModelChoice, Task, is_outside
from fern.errors import FernError, unknown_name
from fern.models import Forecaster, ModelConfig, build_model, model_entry, model_names
from fern.settings import from_mapping
from fern.training import TrainConfig
from fern.training.fingerprint import FREE_TO_CHANGE
from fern.training.presets import NEUTRAL

_NEUTRAL = {name: value for name, value in TrainConfig(**NEUTRAL).to_mapping().items() if name in NEUTRAL}


@dataclass(frozen=True)
class Run:
    """One run: the settings that identify it, where its data come from, and where and how fast it computes.

    ``computing`` are the training settings that do not change what is computed (`FREE_TO_CHANGE`).
    """

    settings: RunSettings
    source: DatasetChoice
    computing: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The run's name in a store."""
        return self.settings.key

    @property
    def accelerator(self) -> str:
        """Where the run computes: the CPU unless the task names another."""
        return str(self.computing.get("accelerator", "cpu"))

    def problem(self, dataset: Dataset) -> Problem:
        """What the run is about; the dataset must be the one it was planned for."""
        settings = self.settings
        if dataset.fingerprint != settings.data_fingerprint:
            raise FernError(
                f"{settings.dataset}: its values are not those the run was planned for (fingerprint "
                f"{dataset.fingerprint[:12]}…, needs {settings.data_fingerprint[:12]}…)"
            )
        scaling: Any = settings.scaling
        return Problem(dataset, settings.split, scaling, settings.context_length, settings.horizon)

    def model(self, *, channels: int) -> Forecaster:
        """The untrained model."""
        settings = self.settings
        if is_outside(settings.model):
            sizes = ModelConfig(context_length=settings.context_length, horizon=settings.horizon, channels=channels)
            return outside_model(settings.model, sizes, seed=settings.seed)
        return build_model(
            settings.model,
            context_length=settings.context_length,
            horizon=settings.horizon,
            channels=channels,
            preset=settings.preset,
            **settings.model_settings,
        )

    def train_config(self, *, threads: int) -> TrainConfig:
        """The training settings."""
        computing = {**self.computing, "accelerator": self.accelerator, "threads": threads}
        values = {**_NEUTRAL, **self.settings.train_settings, **computing, "seed": self.settings.seed}
        return from_mapping(TrainConfig, values, where=self.settings.describe())


@dataclass(frozen=True)
class Plan:
    """The runs of a task in the order they are done, and the datasets they need by their fingerprints."""

    task: Task
    runs: tuple[Run, ...]
    datasets: Mapping[str, Dataset]


def make_plan(task: Task, *, max_epochs: int | None = None) -> Plan:
    """The runs of a task: seed by seed, so that a table can be drawn early; then dataset, horizon, model.

    ``max_epochs`` caps the epochs of every run, and with them the grace period, which must be shorter.

    Example:
        >>> from fern.benchmark.tasks import read_task
        >>> plan = make_plan(read_task("quick").narrowed(datasets=["OU_PARAM"]), max_epochs=2)
        >>> sorted({run.settings.model for run in plan.runs})
        ['dlinear', 'fern', 'last-value', 'oracle']
    """
    if max_epochs is not None and max_epochs < 1:
        raise FernError(f"max_epochs: got {max_epochs}, needs at least 1")
    resolver = _Resolver(task, max_epochs)
    loaded = [(choice, load_dataset(choice)) for choice in task.datasets]
    runs: dict[str, Run] = {}
    for seed in task.seeds:
        for source, dataset in loaded:
            for horizon in source.horizons or task.horizons:
                for run in resolver.runs(source, dataset, horizon=horizon, seed=seed):
                    runs.setdefault(run.key, run)
    if not runs:
        raise FernError(f"task {task.name}: has no run; only simulated datasets have an oracle")
    return Plan(task, tuple(runs.values()), {dataset.fingerprint: dataset for _, dataset in loaded})


class _Resolver:
    """Completes the settings of runs; what does not depend on seed or data is resolved once."""

    def __init__(self, task: Task, max_epochs: int | None) -> None:
        self._task, self._max_epochs = task, max_epochs
        self._known: dict[tuple[object, ...], tuple[dict[str, Any], dict[str, Any]]] = {}
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
        found = []
        for choice in task.models:
            if choice.model == ORACLE and dataset.trajectory is None:
                continue  # nobody knows the true process of a published dataset
            resolved, computing = self._model(choice, place["context_length"], horizon, len(dataset.channels))
            version = code_version_of(choice.model)
            found.append(Run(RunSettings(**place, **resolved, code_version=version), source, computing))
        if found:
            problem = found[0].problem(dataset)
            _ = problem.train, problem.validation, problem.test  # an error where one has no window
        return found

    def _model(
        self, choice: ModelChoice, context_length: int, horizon: int, channels: int
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The model's part of the settings, and the training settings that identify nothing."""
        known = (self._task.models.index(choice), context_length, horizon, channels)
        if known not in self._known:
            self._known[known] = self._resolved(choice, context_length, horizon, channels)
        return self._known[known]

    def _resolved(
        self, choice: ModelChoice, context_length: int, horizon: int, channels: int
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        named: dict[str, Any] = {"model": choice.model, "preset": "default", "model_settings": choice.settings}
        if choice.model == ORACLE:
            return named, {}
        sizes: dict[str, Any] = {"context_length": context_length, "horizon": horizon, "channels": channels}
        given = {**self._task.train, **choice.train}
        computing = {name: value for name, value in given.items() if name in FREE_TO_CHANGE}
        if is_outside(choice.model):
            model = outside_model(choice.model, ModelConfig(**sizes), seed=0)
            # Only its builder knows how its weights begin.
            settings = {**self._train_settings(given), "start": "given"}
            return (named | {"train_settings": settings} if model.trainable else named), computing
        presets = model_entry(choice.model).presets
        named["preset"] = choice.preset or (
            self._task.model_preset if self._task.model_preset in presets else "default"
        )
        model = build_model(choice.model, **sizes, preset=named["preset"], **choice.settings)
        settings = self._train_settings(given)
        return (named | {"train_settings": settings} if model.trainable else named), computing

    def _train_settings(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The training settings that decide what is computed, where they are not neutral."""
        if given.get("start", "fresh") != "fresh":
            raise FernError(
                f"task {self._task.name}: train.start: got {given['start']!r}, runs start 'fresh' from a seed"
            )
        config = from_mapping(TrainConfig, given, where=f"task {self._task.name}: train")
        if self._max_epochs is not None and self._max_epochs < config.epochs:
            capped = {"epochs": self._max_epochs, "grace": min(config.grace, self._max_epochs - 1)}
            config = from_mapping(TrainConfig, {**given, **capped}, where=f"task {self._task.name}: train")
        return {
            name: value
            for name, value in config.to_mapping().items()
            if name != "seed" and name not in FREE_TO_CHANGE and (name not in _NEUTRAL or _NEUTRAL[name] != value)
        }


def code_version_of(model: str) -> str:
    """What a row's key says about code: fern's, and for an outside model also the file that it is in."""
    return f"{code_version()}+{source_fingerprint(model)}" if is_outside(model) else code_version()


def _require_model(choice: ModelChoice) -> None:
    if choice.model == ORACLE or is_outside(choice.model):
        if choice.preset is not None or choice.settings or choice.train:
            raise FernError(f"{choice.model}: has no presets and no settings")
        return
    if choice.model not in model_names():
        problem = unknown_name("model", choice.model, [*model_names(), ORACLE])
        own = f"; a model of your own: --with {choice.model}:{choice.preset}" if choice.preset else ""
        raise FernError(f"{problem}{own}")
    presets = model_entry(choice.model).presets
    if choice.preset is not None and choice.preset not in presets:
        raise unknown_name(f"preset of {choice.model}", choice.preset, presets)
