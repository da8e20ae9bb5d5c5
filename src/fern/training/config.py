"""The settings of a training run, and its presets."""

import functools
from collections.abc import Mapping
from dataclasses import InitVar, asdict, dataclass, fields
from typing import Any, Literal, TypeVar, cast, get_args

from fern.errors import FernError, require_choice, require_number, require_whole, unknown_name
from fern.metrics import ObjectiveWeights
from fern.metrics.streaming import Distance
from fern.settings import STRICT
from fern.training.optimisation import Keep, Schedule, Shape, StoppingRule, loss_weights

NEUTRAL: Mapping[str, Any] = {
    "weight_decay": 0.0,
    "warmup": 0.0,
    "loss": "huber",
    "huber_delta": 1.0,
    "energy_samples": 16,
    "schedule": "constant",
    "clip_norm": None,
    "averaging": None,
    "smoothing": None,
    "tolerance": 0.0,
    "keep": "best",
    "objective": ObjectiveWeights(),
    "projections": 500,
    "evaluation_batch_size": 512,
    "validation_windows": None,
    "seed": 7,
    "start": "fresh",
    "threads": None,
    "accelerator": "auto",
    "devices": 1,
    "strategy": "auto",
    "precision": "32-true",
    "checkpoint_steps": None,
    "checkpoint_seconds": 60.0,
    "steps_per_epoch": None,
    "time_limit": None,
}
"""The plain protocol that every preset starts from: what is not named there is switched off or the paper's."""

_DEFAULT: Mapping[str, Any] = {
    **NEUTRAL,
    "learning_rate": 2e-3,
    "schedule": "one-cycle",
    "warmup": 0.1,
    "clip_norm": 1.0,
    "averaging": 0.995,
    "batch_size": None,
    "epochs": 20,
    "patience": 5,
    "tolerance": 0.005,
    "grace": 0,
    "distance": "w2",
}

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "shock": {
        **NEUTRAL,
        "learning_rate": 3e-4,
        "batch_size": 95,
        "epochs": 50,
        "patience": 5,
        "grace": 3,
        "distance": "w2",
    },
    "detailed": {
        **NEUTRAL,
        "learning_rate": 9e-4,
        "batch_size": 128,
        "epochs": 50,
        "patience": 5,
        "grace": 0,
        "distance": "sliced_w2",
    },
    "default": _DEFAULT,
    "chaos": {
        **_DEFAULT,
        "epochs": 20,
        "steps_per_epoch": 250,
        "batch_size": 256,
        "loss": "mse",
        "patience": 20,
        "tolerance": 0.0,
        "evaluation_batch_size": 1024,
        "validation_windows": 1000,
    },
    "distribution": {
        **_DEFAULT,
        "epochs": 10,
        "loss": "whitened_crps",
        "objective": ObjectiveWeights(mse=0.0, mae=0.0, distance=0.0, crps=1.0),
    },
}
"""``shock`` and ``detailed`` are the paper's protocols, ``default`` is ours for people's own data. ``distribution`` is
``default`` for models with a distribution: a proper score of it is what is minimised, and its CRPS judges an epoch.
``chaos`` is for flow maps that are rolled on (``fern-rolled``): their error falls as long as one trains, and squared
error is what a smooth map is fitted by; rolling over all validation windows would take longer than an epoch's
training."""


C = TypeVar("C", bound=type)

Start = Literal["fresh", "given"]
Precision = Literal["32-true", "64-true", "bf16-mixed", "bf16-true"]


class _FromPreset:
    """Stands for "not given"."""

    def __repr__(self) -> str:
        return "from the preset"


NOT_GIVEN: Any = _FromPreset()


def _strict(cls: C) -> C:
    """Make an unknown keyword of a settings dataclass a `FernError` with the nearest right name."""
    plain = cls.__init__  # type: ignore[misc]
    known = [entry.name for entry in fields(cast("Any", cls))]

    @functools.wraps(plain)
    def initialise(self: object, *args: object, **values: object) -> None:
        if args:
            raise FernError(f"training settings: got {args[0]!r} without a name, as in preset={args[0]!r}")
        for name in values:
            if name not in (*known, "_finished"):
                raise unknown_name("training setting", name, known)
        plain(self, **values)

    cls.__init__ = initialise  # type: ignore[misc]
    return cls


@_strict
@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """The settings of a training run. Unset values come from the preset; a built config holds every value.

    Optimisation:
        ``epochs``, ``steps_per_epoch`` (None: every window once), ``batch_size`` (None: from the number of windows),
        ``learning_rate`` (the peak), ``weight_decay``, ``schedule`` (constant, cosine, one-cycle) and ``warmup`` (a
        fraction of the steps), ``loss`` (a name or a mapping of names to weights, see `fern.training.optimisation`),
        ``huber_delta``, ``energy_samples``, ``clip_norm`` (the largest norm of the gradient), ``averaging`` (the decay
        of an exponential mean of the weights, which is then what is evaluated and kept).
    Stopping:
        ``patience``, ``grace``, ``smoothing``, ``tolerance``, ``keep``: see `fern.training.StoppingRule`. In a run
        shorter than its preset's grace period the last epoch can still be kept. ``time_limit``: seconds for the whole
        run; the epoch that reaches it ends early, and the learning rate falls with the time that is left, so that such
        a run depends on the machine's speed.
    Evaluation:
        ``objective`` (weights of MSE, MAE and the distance), ``distance`` (w2 or sliced_w2), ``projections`` (of
        sliced_w2), ``evaluation_batch_size``, ``validation_windows`` (at most so many, spread evenly over all of them;
        None: all), for forecasts that cost more than a training step.
    Randomness:
        ``seed``, the random seed; ``start``: ``fresh`` draws the model's parameters anew from the seed, so that a run
        depends on nothing but its arguments, ``given`` trains the weights the model has.
    Hardware:
        ``threads`` (None: as they are), ``accelerator``, ``devices``, ``strategy``, ``precision`` (Lightning
        Fabric's), ``checkpoint_steps`` and ``checkpoint_seconds`` (checkpoints within an epoch, beside the one after
        it; several processes go by steps alone).

    Example:
        >>> config = TrainConfig(preset="shock", epochs=10)
        >>> config.epochs, config.learning_rate, config.grace
        (10, 0.0003, 3)
        >>> TrainConfig(lerning_rate=1e-3)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        fern.errors.FernError: unknown training setting 'lerning_rate': did you mean 'learning_rate'? Known: ...
    """

    __pydantic_config__ = STRICT

    preset: str = "default"
    epochs: int = NOT_GIVEN
    batch_size: int | None = NOT_GIVEN
    learning_rate: float = NOT_GIVEN
    weight_decay: float = NOT_GIVEN
    schedule: Shape = NOT_GIVEN
    warmup: float = NOT_GIVEN
    loss: str | dict[str, float] = NOT_GIVEN
    huber_delta: float = NOT_GIVEN
    energy_samples: int = NOT_GIVEN
    clip_norm: float | None = NOT_GIVEN
    averaging: float | None = NOT_GIVEN
    patience: int | None = NOT_GIVEN
    grace: int = NOT_GIVEN
    smoothing: float | None = NOT_GIVEN
    tolerance: float = NOT_GIVEN
    keep: Keep = NOT_GIVEN
    objective: ObjectiveWeights = NOT_GIVEN
    distance: Distance = NOT_GIVEN
    projections: int = NOT_GIVEN
    evaluation_batch_size: int = NOT_GIVEN
    validation_windows: int | None = NOT_GIVEN
    seed: int = NOT_GIVEN
    start: Start = NOT_GIVEN
    threads: int | None = NOT_GIVEN
    accelerator: str = NOT_GIVEN
    devices: int = NOT_GIVEN
    strategy: str = NOT_GIVEN
    precision: Precision = NOT_GIVEN
    checkpoint_steps: int | None = NOT_GIVEN
    checkpoint_seconds: float | None = NOT_GIVEN
    steps_per_epoch: int | None = NOT_GIVEN
    time_limit: float | None = NOT_GIVEN
    # The preset of a finished config. `dataclasses.replace` hands it over with every other value, so that another
    # preset is noticed whose values would not be taken.
    _finished: InitVar[str | None] = None

    def __post_init__(self, _finished: str | None) -> None:
        require_choice("preset", self.preset, PRESETS)
        if _finished not in (None, self.preset):
            raise FernError(
                f"got {self.preset!r} in place of {_finished!r}, whose values the config holds already; needs a new "
                f"one: TrainConfig(preset={self.preset!r}, ...)",
                argument="preset",
            )
        object.__setattr__(self, "_finished", self.preset)
        grace_given = self.grace is not NOT_GIVEN
        for name, value in PRESETS[self.preset].items():
            if getattr(self, name) is NOT_GIVEN:
                object.__setattr__(self, name, value)
        object.__setattr__(self, "loss", loss_weights(self.loss))
        self._check_numbers()
        if not grace_given:  # a preset's grace period leaves a shorter run one epoch to keep
            object.__setattr__(self, "grace", min(self.grace, self.epochs - 1))
        for name, required in {"objective": ObjectiveWeights, "accelerator": str, "strategy": str}.items():
            if not isinstance(getattr(self, name), required):
                raise FernError(argument=name, got=getattr(self, name), expected=required.__name__)
        if self.time_limit is not None and self.devices > 1:
            problem = f"got {self.time_limit} with {self.devices} devices, whose clocks differ; give epochs"
            raise FernError(problem, argument="time_limit")
        for name, kind in (("distance", Distance), ("start", Start), ("precision", Precision)):
            require_choice(name, getattr(self, name), get_args(kind))
        _ = self.stopping, self.rates(steps=1)  # each checks the settings that it is made of

    def _check_numbers(self) -> None:
        for name, least in _WHOLE.items():
            require_whole(name, getattr(self, name), least)
        for name, least in _WHOLE_OR_NONE.items():
            if getattr(self, name) is not None:
                require_whole(name, getattr(self, name), least)
        for name in ("learning_rate", "huber_delta"):
            require_number(name, getattr(self, name), "a number above 0", lambda value: value > 0)
        require_number("weight_decay", self.weight_decay, "a number of 0 or more", lambda value: value >= 0)
        for name in ("clip_norm", "checkpoint_seconds", "time_limit"):
            if getattr(self, name) is not None:
                require_number(name, getattr(self, name), "a number above 0, or None", lambda value: value > 0)
        if self.averaging is not None:
            require_number("averaging", self.averaging, "a number between 0 and 1, or None", lambda v: 0 < v < 1)

    @property
    def weights(self) -> dict[str, float]:
        """The losses and their weights."""
        return cast("dict[str, float]", self.loss)

    @property
    def stopping(self) -> StoppingRule:
        """The rule that stops the run."""
        return StoppingRule(**{entry.name: getattr(self, entry.name) for entry in fields(StoppingRule)})

    def rates(self, *, steps: int) -> Schedule:
        """The learning rate over the steps of the run."""
        return Schedule(self.schedule, self.learning_rate, self.warmup, steps)

    def to_mapping(self) -> dict[str, Any]:
        """Every setting as plain values, from which `fern.settings.from_mapping` builds an equal config."""
        return asdict(self)


_WHOLE = {"epochs": 1, "energy_samples": 2, "projections": 1, "evaluation_batch_size": 1, "seed": 0, "devices": 1}
_WHOLE_OR_NONE = {"batch_size": 1, "threads": 1, "checkpoint_steps": 1, "steps_per_epoch": 1, "validation_windows": 1}
