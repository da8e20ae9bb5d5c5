"""What tables call the models and datasets of results, so that runs which differ never stand under one name.

A model is called by its name, with its preset and settings where they are not the usual ones. Where results of one task
differ in more than that (trained for fewer epochs, on fewer steps, under another split), what differs is added:
``dlinear (epochs=1)``.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fern.benchmark.problem import NOISE, START, TRAJECTORY
from fern.benchmark.results import RunResult
from fern.benchmark.runs import RunSettings, canonical
from fern.benchmark.tasks import BY_DATASET, ORACLE, ModelChoice, Task, is_outside
from fern.errors import FernError

_USUAL = ("paper", "default", BY_DATASET)  # presets that go without saying


@dataclass(frozen=True)
class Names:
    """The names of a result's model and dataset in a table, and those without what was added to tell results apart."""

    model: str
    dataset: str
    plain_model: str
    plain_dataset: str


def model_label(settings: RunSettings) -> str:
    """The model's name, with its preset and settings where they are not the usual ones.

    Example:
        >>> model_label(RunSettings(task="mine", model="fern", preset="no-rotation", model_settings={"reflections": 4},
        ...     dataset="OU_BASE", data_fingerprint="ab", context_length=96, horizon=24, split="shock", scaling="none",
        ...     seed=7, code_version="1"))
        'fern:no-rotation (reflections=4)'
    """
    of_dataset = settings.preset == settings.dataset.partition(":")[0].lower()
    return _label(settings.model, BY_DATASET if of_dataset else settings.preset, settings.model_settings)


def labels_of_task(task: Task) -> list[str]:
    """The models of a task as `model_label` names them.

    Example:
        >>> from fern.benchmark.tasks import read_task
        >>> labels_of_task(read_task("ablation"))[:2]
        ['fern', 'fern:paper-compact']
    """
    labels = [_label(choice.model, _preset(choice, task), choice.settings) for choice in task.models]
    return list(dict.fromkeys(labels))


def dataset_label(name: str, noise: float, start: int = 0, trajectory: str = "fern") -> str:
    """A dataset's name, with its observation noise, start and trajectory where they are not the usual ones.

    Example:
        >>> dataset_label("LORENZ_BASE", 0.01), dataset_label("LORENZ_BASE", 0.0), dataset_label("LORENZ_BASE", 0.0, 3)
        ('LORENZ_BASE (noise=0.01)', 'LORENZ_BASE', 'LORENZ_BASE (start=3)')
    """
    source = None if trajectory == "fern" else trajectory
    return _append_settings(name, {NOISE: noise or None, START: start or None, TRAJECTORY: source})


def channels_seen(result: RunResult) -> str | None:
    """Which channels the model of a result sees, ``own``, ``near`` or ``all``.

    None where it is not known: for the oracle, for models from outside, and for settings of another version of fern.
    """
    if result.model == ORACLE or is_outside(result.model):
        return None
    from fern.models.registry import model_config

    sizes = {"context_length": result.context_length, "horizon": result.horizon, "channels": 1}
    try:
        return model_config(result.model, preset=result.preset, **sizes, **result.model_settings).sees
    except FernError:
        return None


def newest(results: Sequence[RunResult]) -> list[RunResult]:
    """The results without those of which a newer one has the same settings: they were of other data values or code."""
    last: dict[bytes, RunResult] = {}
    for result in sorted(results, key=lambda result: result.finished):
        settings = {
            "model": model_label(result),
            "train": result.train_settings,
            "data": _data(result),
            "dataset": _plain_dataset(result),
            "horizon": result.horizon,
            "seed": result.seed,
        }
        last[canonical(settings)] = result
    ids = set(map(id, last.values()))
    return [result for result in results if id(result) in ids]


def name_results(results: Sequence[RunResult]) -> dict[str, Names]:
    """The names of results of one task, by key.

    Example:
        >>> settings = dict(task="mine", model="dlinear", preset="paper", dataset="OU_BASE", data_fingerprint="ab",
        ...     context_length=96, horizon=24, split="shock", scaling="none", code_version="1", status="done",
        ...     metrics={"mse": 1.0})
        >>> results = [RunResult(**settings, seed=7, train_settings={"epochs": epochs}) for epochs in (1, 50)]
        >>> sorted(names.model for names in name_results(results).values())
        ['dlinear (epochs=1)', 'dlinear (epochs=50)']
    """
    models = _tell_apart(results, model_label, lambda result: result.train_settings)
    datasets = _tell_apart(results, _plain_dataset, _data)
    # The same settings and other values: the file or the simulation changed between two seeds.
    datasets = _tell_apart(
        results, lambda result: datasets[result.key], lambda result: {"data": result.data_fingerprint[:8]}
    )
    return {
        result.key: Names(models[result.key], datasets[result.key], model_label(result), _plain_dataset(result))
        for result in results
    }


def _plain_dataset(result: RunResult) -> str:
    settings = result.data_settings
    return dataset_label(
        result.dataset, settings.get(NOISE, 0.0), settings.get(START, 0), settings.get(TRAJECTORY, "fern")
    )


def _data(result: RunResult) -> dict[str, Any]:
    """What was done to a dataset before a model saw it, but what is part of its name."""
    names = ("context_length", "split", "scaling")
    done = {name: value for name, value in result.data_settings.items() if name not in (NOISE, START, TRAJECTORY)}
    return {**done, **{name: getattr(result, name) for name in names}}


def _tell_apart(
    results: Sequence[RunResult], plain: Callable[[RunResult], str], settings: Callable[[RunResult], Mapping[str, Any]]
) -> dict[str, str]:
    """By key the plain name, with the settings in which results of that name differ."""
    alike: dict[str, list[RunResult]] = {}
    for result in results:
        alike.setdefault(plain(result), []).append(result)
    labels = {}
    for name, group in alike.items():
        keys = list(dict.fromkeys(key for result in group for key in settings(result)))
        differ = [key for key in keys if len({canonical({key: settings(result).get(key)}) for result in group}) > 1]
        for result in group:
            labels[result.key] = _append_settings(name, {key: settings(result).get(key) for key in differ})
    return labels


def _append_settings(name: str, settings: Mapping[str, object]) -> str:
    """``name (a=1, b="x")``; a setting that is neutral is left out."""
    parts = ", ".join(
        f"{key}={value if isinstance(value, str) else json.dumps(value)}"
        for key, value in settings.items()
        if value is not None
    )
    if not parts:
        return name
    return f"{name.removesuffix(')')}, {parts})" if name.endswith(")") else f"{name} ({parts})"


def _preset(choice: ModelChoice, task: Task) -> str:
    """The preset that a run of this choice has."""
    if choice.preset is not None or choice.model == ORACLE or task.model_preset in _USUAL:
        return choice.preset or "default"
    from fern.models.registry import model_entry

    return task.model_preset if task.model_preset in model_entry(choice.model).presets else "default"


def _label(model: str, preset: str, settings: Mapping[str, object]) -> str:
    return _append_settings(model if preset in _USUAL else f"{model}:{preset}", settings)
