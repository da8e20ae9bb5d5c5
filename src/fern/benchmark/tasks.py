"""Tasks: what to run, as a file under a strict schema.

```toml
schema = 1
title = "Two models on a shocked Lorenz system"
models = ["fern", "dlinear", { model = "fern", preset = "no-rotation" }, "last-value", "oracle"]
datasets = ["LORENZ_PARAM", { dataset = "LORENZ_PARAM", noise = 0.01 }, { dataset = "ETTh1", cleaning = "paper" }]
context_length = 336
horizons = [96, 336]
seeds = [7, 1955]
split = "shock"             # a name of fern.data.splits.PRESETS
scaling = "none"            # none, standard or robust: the model and the metrics see scaled values

[train]                     # fern.training.TrainConfig
preset = "shock"
epochs = 20
```
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from fern.data.splits import PRESETS as SPLITS
from fern.errors import FernError, require_number, require_whole, unknown_name
from fern.settings import STRICT, from_mapping, read_toml

SCHEMA = 1
ORACLE = "oracle"
"""The name under which the best possible forecast stands among the models."""

_TASK_FILES = Path(__file__).parent / "task_files"

BY_DATASET = "dataset"
"""Stands for the preset that is called as the dataset is, in lower case: the authors' settings for it."""


def is_outside(model: str) -> bool:
    """Whether a model's name means ``module:callable`` or a folder; no registered model's name has a colon or slash."""
    return any(sign in model for sign in ":/\\")


Cleaning = Literal["none", "paper"]
Maker = Literal["fern", "author", "author-again"]
Scaling = Literal["none", "standard", "robust"]
EpochFigures = Literal["none", "validation", "test"]


@dataclass(frozen=True, kw_only=True)
class ModelChoice:
    """A model of a task.

    ``preset``    None takes the task's ``model_preset`` where the model has it, else ``default``. ``dataset`` takes
                  the model's preset for each dataset (``etth1`` for ETTh1).
    ``settings``  settings of the model over the preset's.
    ``train``     training settings over the task's.

    In a task a name alone will do, also with its preset: ``"fern:no-rotation"``.
    """

    __pydantic_config__ = STRICT

    model: str
    preset: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    train: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class DatasetChoice:
    """A dataset of a task: a scenario's id, a scenario file, or a published dataset (``Weather:air_parcel``).

    ``steps``     another length for a scenario.
    ``noise``     observation noise on a scenario, as a share of each channel's standard deviation: models learn from
                  and see noisy rows, and are judged by the true ones.
    ``start``     another initial state for a scenario without shocks: that which its own trajectory reaches after so
                  many times its length. Stretches of one long trajectory do not overlap.
    ``trajectory``  ``author``: the very rows of the paper's tables, see `fern.systems.author`; they have no oracle.
                  ``author-again``: as every model but the first saw them, without a parameter shock.
    ``cleaning``  ``paper`` applies the paper's policy to a published dataset (zeros filled or their rows removed).
    ``split``, ``scaling``, ``context_length``, ``horizons``  in place of the task's.

    In a task a name alone will do.
    """

    __pydantic_config__ = STRICT

    dataset: str
    steps: int | None = None
    noise: float = 0.0
    start: int = 0
    trajectory: Maker = "fern"
    cleaning: Cleaning = "none"
    split: str | None = None
    scaling: Scaling | None = None
    context_length: int | None = None
    horizons: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        require_number("noise", self.noise, "a share of the standard deviation, at least 0", lambda value: value >= 0)
        require_whole("start", self.start, 0)
        if self.trajectory != "fern" and (self.steps is not None or self.noise or self.start):
            raise FernError("has no other length, noise or start", argument=f"{self.dataset}: trajectory")


@dataclass(frozen=True, kw_only=True)
class Task:
    """What to run: all models on all datasets at all horizons under all seeds.

    ``train``          settings of `fern.training.TrainConfig`, the seed aside.
    ``epoch_figures``  whether results hold the figures of every epoch: of validation, or also of test.

    Example:
        >>> task = task_from_mapping(
        ...     {"schema": 1, "models": ["dlinear", "oracle"], "datasets": ["OU_BASE"], "horizons": [96], "seeds": [7]},
        ...     name="mine",
        ... )
        >>> task.models[1].model, task.context_length
        ('oracle', 336)
    """

    __pydantic_config__ = STRICT

    name: str
    models: tuple[ModelChoice, ...]
    datasets: tuple[DatasetChoice, ...]
    horizons: tuple[int, ...]
    seeds: tuple[int, ...]
    schema: int = SCHEMA
    title: str = ""
    context_length: int = 336
    split: str = "shock"
    scaling: Scaling = "none"
    model_preset: str = "paper"
    train: dict[str, Any] = field(default_factory=dict)
    epoch_figures: EpochFigures = "none"

    def __post_init__(self) -> None:
        if self.schema != SCHEMA:
            raise FernError(f"got {self.schema}, this version of fern reads {SCHEMA}", argument="schema")
        for name in ("models", "datasets", "horizons", "seeds"):
            if not getattr(self, name):
                raise FernError("is empty", argument=name, expected="at least one")
        for sizes in (self.horizons, *(choice.horizons or () for choice in self.datasets)):
            _require_distinct("horizons", sizes, least=1)
        _require_distinct("seeds", self.seeds, least=0)
        for length in (self.context_length, *(choice.context_length for choice in self.datasets)):
            if length is not None:
                require_whole("context_length", length, 1)
        for rule in (self.split, *(choice.split for choice in self.datasets)):
            if rule is not None and rule not in SPLITS:
                raise unknown_name("split", rule, SPLITS)
        if "seed" in self.train or any("seed" in choice.train for choice in self.models):
            raise FernError("the seed cannot be set here; use the task's seeds", argument="train")

    def narrowed(
        self,
        *,
        models: Sequence[str] | None = None,
        datasets: Sequence[str] | None = None,
        seeds: Sequence[int] | None = None,
        horizons: Sequence[int] | None = None,
        noise: Sequence[float] | None = None,
    ) -> "Task":
        """The task for these only. Names the task does not have are added: any model, any dataset.

        ``noise`` runs every dataset once with each of these shares, in place of its own.

        Example:
            >>> task = read_task("quick").narrowed(models=["dlinear", "seasonal-naive"], seeds=[3])
            >>> [choice.model for choice in task.models], task.seeds
            (['dlinear', 'seasonal-naive'], (3,))
        """
        changes: dict[str, Any] = {}
        if models is not None:
            changes["models"] = tuple(choice for name in models for choice in self._find_models(name))
        if datasets is not None:
            choices = {name: [choice for choice in self.datasets if choice.dataset == name] for name in datasets}
            changes["datasets"] = tuple(
                choice for name in datasets for choice in choices[name] or [DatasetChoice(dataset=name)]
            )
        if seeds is not None:
            changes["seeds"] = tuple(seeds)
        if horizons is not None:
            changes["horizons"] = tuple(horizons)
            kept = changes.get("datasets", self.datasets)
            changes["datasets"] = tuple(replace(choice, horizons=None) for choice in kept)
        if noise is not None:
            quiet = dict.fromkeys(replace(choice, noise=0.0) for choice in changes.get("datasets", self.datasets))
            changes["datasets"] = tuple(replace(choice, noise=share) for choice in quiet for share in noise)
        return replace(self, **changes)

    def beside(self, outside: Sequence[str]) -> "Task":
        """The task with models from outside, ``module:callable`` or a folder (see `fern.benchmark.adapters.outside`).

        Example:
            >>> [choice.model for choice in read_task("quick").beside(["my_models:forecast"]).models][-1]
            'my_models:forecast'
        """
        targets = [f"./{text}" if Path(text).is_dir() and not is_outside(text) else text for text in outside]
        for text in targets:
            if not Path(text).is_dir() and not all(text.partition(":")):
                raise FernError(
                    f"outside model: got {text!r}",
                    expected="module:callable, as in my_models:forecast, or the folder of a saved forecaster",
                )
        return replace(self, models=(*self.models, *(ModelChoice(model=text) for text in dict.fromkeys(targets))))

    def _find_models(self, name: str) -> list[ModelChoice]:
        model = _model_choice(name)
        choices = [
            choice for choice in self.models if choice.model == model.model and model.preset in (None, choice.preset)
        ]
        return choices or [model]


def task_names() -> list[str]:
    """The built-in tasks."""
    return sorted(path.stem for path in _TASK_FILES.glob("*.toml"))


def read_task(source: str | Path) -> Task:
    """A built-in task by name, or one from a TOML file.

    Example:
        >>> read_task("quik")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        fern.errors.FernError: unknown task 'quik': did you mean 'quick'? Known: ...
    """
    path = task_path(source)
    task = task_from_mapping(read_toml(path), name=path.stem, where=str(path))
    datasets = []
    for choice in task.datasets:  # a scenario file is looked for beside the task file first
        file = path.parent / choice.dataset
        beside = choice.dataset.endswith(".toml") and file.is_file()
        datasets.append(replace(choice, dataset=str(file)) if beside else choice)
    return replace(task, datasets=tuple(datasets))


def task_path(source: str | Path) -> Path:
    """The file of a task, by name or path."""
    path = Path(source)
    if path.suffix.lower() == ".toml" or path.is_file():
        return path
    known = task_names()
    if str(source) not in known:
        raise unknown_name("task", str(source), known)
    return _TASK_FILES / f"{source}.toml"


def task_from_mapping(values: Mapping[str, Any], *, name: str, where: str = "") -> Task:
    """The task of plain values, under the strict schema; ``where`` says where they came from."""
    prefix = f"{where}: " if where else ""
    if "schema" not in values:
        raise FernError(f"{prefix}schema: is missing", expected=f"schema = {SCHEMA}")
    whole = {"name": name, **values}
    for entry, read in (("models", _model_choice), ("datasets", _dataset_choice)):
        if isinstance(whole.get(entry), list):
            whole[entry] = tuple(
                read(value, where=f"{prefix}{entry}[{place}]") for place, value in enumerate(whole[entry])
            )
    return from_mapping(Task, whole, where=where)


def _model_choice(value: object, *, where: str = "models") -> ModelChoice:
    if isinstance(value, str):
        model, _, preset = value.partition(":")
        return ModelChoice(model=model, preset=preset or None)
    if not isinstance(value, Mapping):
        raise FernError(got=value, expected="a name or a table", where=where)
    choice = from_mapping(ModelChoice, value, where=where)
    if is_outside(choice.model):
        raise FernError(
            f"got the model {choice.model!r}; a task file cannot name code; use fern bench run --with", where=where
        )
    return choice


def _dataset_choice(value: object, *, where: str = "datasets") -> DatasetChoice:
    if isinstance(value, str):
        return DatasetChoice(dataset=value)
    if not isinstance(value, Mapping):
        raise FernError(got=value, expected="a name or a table", where=where)
    return from_mapping(DatasetChoice, value, where=where)


def _require_distinct(name: str, values: Sequence[object], *, least: int) -> None:
    for value in values:
        require_whole(name, value, least)
        if isinstance(value, int) and value >= 2**63:  # torch takes no more
            raise FernError(argument=name, got=value, expected="a whole number below 2^63")
    if len(set(values)) < len(values):
        raise FernError(f"{list(values)} contains duplicates", argument=name)
