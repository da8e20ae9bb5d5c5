"""A run: the settings that identify it, its key, and where its result comes from (versions, commit, machine)."""

import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cache, cached_property
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from fern._version import __version__
from fern.benchmark.adapters.outside import build_outside_model, source_fingerprint
from fern.benchmark.problem import Dataset, Problem
from fern.benchmark.tasks import ORACLE, DatasetChoice, is_outside
from fern.errors import FernError
from fern.models import Forecaster, ModelConfig, build_model
from fern.models.registry import model_config, model_entry
from fern.settings import STRICT, from_mapping
from fern.training import TrainConfig
from fern.training.config import NEUTRAL
from fern.training.runtime import usable_cores

REVISION = "0.1.0.dev0+r1"
"""The revision of what computes results, part of every run's key: changed when a change of code changes results.

It is a frozen text and not the package's version, so that a release keeps every committed result. Whoever changes what
a kernel, a model or the training computes raises it: ``tests/benchmark/test_revision.py`` has small runs that notice.
"""
PRESETS_OF_REVISION = "presets.json"
"""What every preset stood for when the revision was frozen: the settings of ``model:preset``."""


@cache
def versions() -> dict[str, str]:
    """Versions of what computes, and the commit where the package runs from a checkout.

    ``sources`` is a fingerprint of the files that compute results: two results of the same settings with the same one,
    versions and processor are equal to the last bit, whatever their commits are called.

    Example:
        >>> sorted(versions().keys() - {"commit"})
        ['fern', 'numba', 'numpy', 'python', 'sources', 'torch']
    """
    known = {"fern": __version__, "python": platform.python_version(), "sources": _fingerprint_sources()}
    known |= {name: version(name) for name in ("numba", "numpy", "torch")}
    commit = _commit()
    return known | ({"commit": commit} if commit else {})


def describe_machine(*, threads: int, accelerator: str = "cpu") -> dict[str, Any]:
    """What a run was computed on.

    Example:
        >>> describe_machine(threads=1)["threads"]
        1
    """
    return {
        "system": platform.system(),
        "processor": _processor(),
        "cores": usable_cores(),
        "threads": threads,
        "accelerator": accelerator,
    }


def _fingerprint_sources() -> str:
    """Of systems, data, models and their training, by name and bytes."""
    package = Path(__file__).resolve().parents[1]
    digest = hashlib.sha256()
    for folder in ("data", "metrics", "models", "systems", "training", "transport"):
        for path in sorted((package / folder).rglob("*.py")):
            digest.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def _commit() -> str | None:
    """The commit of the checkout that holds this file, or None when it is an installed copy."""
    folder = Path(__file__).resolve().parents[3]
    if not (folder / ".git").exists():
        return None
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--exclude", "*"]
    try:
        quiet = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}  # looking must not stand in another git's way
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30, env=quiet)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


@cache
def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


SCHEMA = 1
"""The version of the result's fields and of what its key is made of."""

KEY_LENGTH = 16

NEUTRAL_VALUES = {name: value for name, value in TrainConfig(**NEUTRAL).to_mapping().items() if name in NEUTRAL}
"""The neutral training settings as plain values: a run's settings leave them out."""


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """All that decides the figures of a run: one model on one dataset at one horizon under one seed.

    ``preset``, ``model_settings``  the model's preset and what is put over it.
    ``data_settings``               what was done to the data before they were split: ``steps``, ``cleaning``, and the
                                    whole scenario where a file defines it.
    ``data_fingerprint``            SHA-256 of the values, before scaling.
    ``train_settings``              the settings of `fern.training.TrainConfig` that are not `NEUTRAL`, but the seed and
                                    those that only say where and how fast it computes; empty for models with nothing
                                    to train. A setting that is added later, neutral where it is not asked for, leaves
                                    earlier results valid.
    ``epoch_figures``               whether it holds figures of every epoch: ``none``, ``validation`` or ``test``.
    ``code_version``                see `REVISION`; with the source's fingerprint for a model from outside.
    """

    __pydantic_config__ = STRICT

    task: str
    model: str
    preset: str
    model_settings: dict[str, Any] = field(default_factory=dict)
    dataset: str
    data_settings: dict[str, Any] = field(default_factory=dict)
    data_fingerprint: str
    context_length: int
    horizon: int
    split: str
    scaling: str
    train_settings: dict[str, Any] = field(default_factory=dict)
    epoch_figures: str = "none"
    seed: int
    code_version: str

    @cached_property
    def key(self) -> str:
        """The run's name in a store: 16 hexadecimal digits of the SHA-256 of these settings.

        Example:
            >>> settings = dict(task="mine", model="dlinear", preset="paper", dataset="OU_BASE", data_fingerprint="ab",
            ...     context_length=96, horizon=24, split="shock", scaling="none", code_version="1")
            >>> RunSettings(**settings, seed=7).key
            '201366fe8e25b604'
        """
        values = {entry.name: getattr(self, entry.name) for entry in fields(RunSettings)}
        return hashlib.sha256(canonical({"schema": SCHEMA, **values})).hexdigest()[:KEY_LENGTH]

    def describe(self) -> str:
        """The run in a few words.

        Example:
            >>> RunSettings(task="mine", model="fern", preset="paper", dataset="OU_BASE", data_fingerprint="ab",
            ...     context_length=96, horizon=24, split="shock", scaling="none", seed=7, code_version="1").describe()
            'fern on OU_BASE, 96 to 24, seed 7'
        """
        variant = "" if self.preset in ("paper", "default") else f":{self.preset}"
        sizes = f"{self.context_length} to {self.horizon}"
        return f"{self.model}{variant} on {self.dataset}, {sizes}, seed {self.seed}"


@dataclass(frozen=True)
class Run:
    """One run: the settings that identify it, where its data come from, and where and how fast it computes.

    ``computing`` are the training settings that do not change what is computed (`FREE_TO_CHANGE`). ``trouble`` is why
    it cannot be done: such a run fails without being begun.
    """

    settings: RunSettings
    source: DatasetChoice
    computing: dict[str, Any] = field(default_factory=dict)
    trouble: str | None = None

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
                (f"its values differ from those the run was planned for (fingerprint {dataset.fingerprint[:12]}…"),
                argument=settings.dataset,
                expected=f"{settings.data_fingerprint[:12]}…)",
            )
        scaling: Any = settings.scaling
        return Problem(dataset, settings.split, scaling, settings.context_length, settings.horizon)

    def model(self, *, channels: int) -> Forecaster:
        """The untrained model."""
        settings = self.settings
        if is_outside(settings.model):
            sizes = ModelConfig(context_length=settings.context_length, horizon=settings.horizon, channels=channels)
            return build_outside_model(settings.model, sizes, seed=settings.seed)
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
        values = {**NEUTRAL_VALUES, **self.settings.train_settings, **computing, "seed": self.settings.seed}
        return from_mapping(TrainConfig, values, where=self.settings.describe())


def code_version_of(model: str, preset: str) -> str:
    """What a result's key says about code: fern's, and for an outside model also the file that it is in.

    A key names a preset and not its settings. One whose settings are not those of `PRESETS_OF_REVISION`, or that is
    newer, brings their fingerprint along, so that results of other settings are never taken for its own. A setting
    that a config gained later and that the preset does not name is neutral: it changes nothing.

    Example:
        >>> code_version_of("dlinear", "paper") == REVISION
        True
    """
    if is_outside(model):
        return outside_version(source_fingerprint(model))
    if model == ORACLE:
        return REVISION
    contents, frozen = preset_contents(model, preset), _read_frozen_presets().get(f"{model}:{preset}")
    if frozen is not None:
        values = model_entry(model).presets[preset]
        if values.keys() <= frozen.keys() and all(contents.get(name) == value for name, value in frozen.items()):
            return REVISION
    return f"{REVISION}+{hashlib.sha256(canonical(contents)).hexdigest()[:12]}"


def preset_contents(model: str, preset: str) -> dict[str, Any]:
    """All settings of a model under a preset as plain values, without its sizes.

    Example:
        >>> preset_contents("dlinear", "paper")["individual"]
        True
    """
    sizes = {"context_length": 336, "horizon": 336, "channels": 3}
    settings = asdict(model_config(model, preset=preset, **sizes))
    chosen = {name: value for name, value in settings.items() if name not in sizes}
    plain: dict[str, Any] = json.loads(json.dumps(chosen, default=repr))
    return plain


@cache
def _read_frozen_presets() -> dict[str, dict[str, Any]]:
    text = files("fern.benchmark").joinpath(PRESETS_OF_REVISION).read_text(encoding="utf-8")
    frozen: dict[str, dict[str, Any]] = json.loads(text)
    return frozen


def outside_version(fingerprint: str) -> str:
    """The same for an outside model whose source has this fingerprint."""
    return f"{REVISION}+{fingerprint}"


def canonical(value: Mapping[str, Any]) -> bytes:
    """JSON bytes that depend on the values alone: sorted keys, no spaces.

    Example:
        >>> canonical({"b": (1, 2.0), "a": None})
        b'{"a":null,"b":[1,2.0]}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode()
