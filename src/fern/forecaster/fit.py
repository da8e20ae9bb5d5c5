"""A fit: choose how to build the model on validation windows, train it, calibrate it on windows it never saw."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from math import ceil, inf
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from fern.calibration import Calibration, CalibrationSettings, fit_calibration
from fern.calibration.settings import expect_unseen_variance
from fern.data.covariates import Encoding
from fern.data.series_table import Series, SeriesTable
from fern.data.windows import Windows
from fern.forecaster.combination import HeldOutWindows
from fern.forecaster.covariates import CovariateModel, CovariateRows, fit_covariates, phase_of
from fern.forecaster.diagnose import MOST_SERIES, PROFILE_WINDOWS, describe_shortage, examine_fit
from fern.forecaster.held_out import Candidate, choose_combination
from fern.forecaster.plan import HeldOut, Plan, TrainingSeries, make_plan, measure_scales
from fern.forecaster.state import Findings, Scale, State, keep_recent
from fern.models import FittedForecaster, Forecaster, build_model
from fern.models.pretrained.representation import LONGEST as LONGEST_PRETRAINED
from fern.models.registry import model_entry
from fern.training import TrainConfig, TrainResult, resumable, train
from fern.training.evaluation import batch_size_for
from fern.training.logging import Mode

Floats = NDArray[np.float64]

LEAST_STEPS, STEPS = 1000, 1500
"""Optimiser steps of a whole training, unless early stopping ends it."""

MOST_ROWS = 480_000
"""Windows times channels that a training of more than `LEAST_STEPS` sees at most: many channels make a step dear, and
a default fit of ETTh1 (7 channels by the hour) is to take less than a minute on two cores."""

MANY_WINDOWS, LEAST_BATCH = 512, 32
"""With so many windows a batch has at least so many: half as many steps as with 16, which cost nearly as much each."""

ROWS_FOR_THREADS = 96
"""Windows times channels of a batch from which more than one thread pays."""

MOST_STEPS_PER_EPOCH = 250
LEAST_EPOCHS, MOST_EPOCHS = 8, 60
PILOT_SHARE = 0.1
"""Of the steps of a training, for each recipe that is tried."""

VALIDATION_ROWS = 8192
"""Windows times channels on which an epoch is judged, at most about."""

LEAST_CALIBRATION_WINDOWS, CALIBRATION_WINDOWS = 100, 2000
RESERVE = 0.05
"""Of a time limit, for what comes after training, at least."""

COST = 2.5
"""What calibration and findings take for each held-out window, in times of what judging one in an epoch takes."""

REFIT_SPARE = 1.5
"""A training on all rows is begun where so many times what it should take is left of the time limit."""

FEWEST_TRAINING_WINDOWS = 100
"""Training windows, over all series and channels, below which no model is trained: it would learn them by heart."""

HASTY = 1.5
"""A time limit, in seconds, within which classical models alone forecast."""

INTERRUPTED = "interrupted"
"""How a note begins that tells of a fit someone interrupted."""

TUNING_TIME = 60.0
"""A time limit, in seconds, from which the pretrained network is tuned."""

PRETRAINED = "fern-pretrained"
"""The model that is not trained."""

PRETRAINED_WINDOWS = 256
"""Windows of either held-out part that calibrate it."""

REFIT_BELOW = 4000
"""Training windows times channels below which the model is trained once more on all rows."""


@dataclass(frozen=True, eq=False)
class Recipe:
    """A way to build and train a model: arguments of `fern.models.build_model` and `fern.training.TrainConfig`."""

    name: str
    model: Mapping[str, Any]
    train: Mapping[str, Any]


FERN = (
    Recipe("level", {"preset": "level"}, {"preset": "distribution"}),
    Recipe("state", {"preset": "state"}, {"preset": "distribution", "loss": "crps"}),
)
"""By the presets of `fern.models` and `fern.training`: ``level`` for series whose level and spread drift, ``state`` for
systems whose level is part of their state (chaotic ones). There the CRPS of each step, dearer to compute, gives the
better distribution; see docs/decisions.md."""


def list_recipes(model: str, settings: Mapping[str, Any] | None, *, season: int = 1) -> tuple[Recipe, ...]:
    """The recipes to try for a model of this name; settings that are given replace the recipes' own.

    Example:
        >>> [recipe.name for recipe in list_recipes("fern", None)], list_recipes("dlinear", None)[0].name
        (['level', 'state'], 'plain')
    """
    arguments = dict(settings or {})
    if any(entry.name == "season" and entry.default is not None for entry in fields(model_entry(model).config)):
        arguments = {"season": season, **arguments}  # a model that repeats a season repeats that of the data
    if model != "fern":
        return (Recipe("plain", arguments, {}),)
    if arguments:
        return (Recipe("given", {**FERN[0].model, **arguments}, FERN[0].train),)
    return FERN


@dataclass(frozen=True)
class FitSettings:
    """The settings of a fit; None and ``auto`` follow the data."""

    model: str = "fern"
    model_settings: Mapping[str, Any] | None = None
    epochs: int | None = None
    time_limit: float | None = None
    seed: int = 7
    threads: int | None = None
    progress: Mode = "auto"
    calibration: CalibrationSettings = CalibrationSettings()  # noqa: RUF009 (frozen)
    positive: bool | Literal["auto"] = "auto"
    classical: bool = True
    training: Mapping[str, Any] = field(default_factory=dict)
    """Settings of `TrainConfig` that replace those chosen: learning rate, batch size, device."""


@dataclass(frozen=True)
class Fit:
    """A trained model, its calibration and what was measured on held-out rows."""

    model: Forecaster
    judged: Forecaster
    """The model that has not seen the calibration windows; the same one unless it was trained on all rows again."""
    learnt: TrainingSeries
    calibration: Calibration
    findings: Findings
    notes: tuple[str, ...]


def fit_state(
    table: SeriesTable,
    settings: FitSettings,
    *,
    horizon: int,
    context_length: int | None,
    season: int | None,
    directory: Path | None = None,
    began: float | None = None,
) -> State:
    """The state of a forecaster that is fitted to a table."""
    pretrained = settings.model == PRETRAINED
    longest = LONGEST_PRETRAINED if pretrained else None
    plan = make_plan(table.series, horizon=horizon, context_length=context_length, season=season, longest=longest)
    scales = measure_scales(table.series, plan)
    model = calibration = findings = candidate = None
    notes: list[str] = []
    reason = "from so few rows" if not plan.learnt else _reason_not_to_train(table.series, plan, settings)
    if not reason:
        if pretrained:
            fit = calibrate_pretrained(table.series, scales, plan, settings)
        else:
            fit = fit_model(table.series, scales, plan, settings, directory=directory, began=began)
        model, calibration, findings, notes = fit.model.eval(), fit.calibration, fit.findings, list(fit.notes)
        candidate = Candidate(fit.judged.eval(), fit.learnt, fit.calibration)
    combination, chosen, windows = choose_combination(
        table.series,
        scales,
        plan,
        candidate,
        positive=settings.positive,
        combine=settings.classical and settings.model == "fern",
        pretrained=settings.classical and settings.model == "fern" and not _is_hasty(settings),
        tune=settings.epochs is None and (settings.time_limit is None or settings.time_limit >= TUNING_TIME),
        seed=settings.seed,
        in_phase=table.encoding is not None,
    )
    notes += chosen
    if calibration is not None and combination.learnt.weight == 1:
        shortage = describe_shortage(calibration, (80.0, 95.0))
        notes += [shortage] if shortage else []
    if model is None:
        notes.append(f"no model was trained {reason}: classical models forecast every series")
    elif plan.learnt < len(table.series):
        notes.append(
            f"{len(table.series) - plan.learnt:,} of {len(table.series):,} series have too few rows to learn from "
            f"(fewer than about {plan.context_length + 3 * plan.horizon:,}); what has fewer than "
            f"{plan.context_length:,} rows is forecast by classical models"
        )
    covariates = None
    if table.encoding is not None:
        covariates, note = _fit_covariates(table, table.encoding, windows, scales, plan, settings)
        notes.append(note)
    state = State(
        context_length=plan.context_length,
        horizon=plan.horizon,
        season=plan.season,
        table=table.without_rows(),
        model_name=settings.model,
        label=model_entry(settings.model).model.__name__,
        model=model,
        calibration=calibration,
        scales={series.name: scale for series, scale in zip(table.series, scales, strict=True)},
        recent=(),
        notes=tuple(notes),
        findings=findings,
        combination=combination,
        covariates=covariates,
    )
    return replace(state, recent=keep_recent(table.series, keep=state.keep))


def _is_hasty(settings: FitSettings) -> bool:
    return settings.time_limit is not None and settings.time_limit <= HASTY


def _reason_not_to_train(series: Sequence[Series], plan: Plan, settings: FitSettings) -> str:
    """Why no model is trained where one could be; a model that is asked for in detail always is."""
    if settings.model != "fern":
        return ""
    if _is_hasty(settings):
        return "in so short a time"
    rows = sum(parts.train.stop - plan.context_length - plan.horizon for parts in plan.parts if parts is not None)
    as_usual = settings.classical and settings.epochs is None and settings.model_settings is None
    few = rows * series[0].values.shape[1] < FEWEST_TRAINING_WINDOWS
    return "from so few windows" if as_usual and few else ""


def calibrate_pretrained(series: Sequence[Series], scales: Sequence[Scale], plan: Plan, settings: FitSettings) -> Fit:
    """Nothing is trained: windows that are held out of the series calibrate the model that comes with the package."""
    learnt = TrainingSeries.of(series, scales, plan)
    model = build_model(
        PRETRAINED,
        context_length=plan.context_length,
        horizon=plan.horizon,
        channels=learnt.values[0].shape[1],
        **(settings.model_settings or {}),
    ).eval()
    late = learnt.residuals(model, "calibration", most=PRETRAINED_WINDOWS)
    early = learnt.residuals(model, "validation", most=PRETRAINED_WINDOWS)
    calibration = fit_calibration(late, early, settings=settings.calibration)
    findings = examine_fit(model, series, learnt, late, early, settings.calibration, profiles=0)
    notes = ("nothing was trained: the weights come with the package",)
    return Fit(model, model, learnt, calibration, findings, notes)


def _fit_covariates(
    table: SeriesTable,
    encoding: Encoding,
    windows: HeldOutWindows | None,
    scales: Sequence[Scale],
    plan: Plan,
    settings: FitSettings,
) -> tuple[CovariateModel, str]:
    if windows is None:
        return CovariateModel(encoding), "covariates: too few rows to tell what they are worth"
    rows = [
        CovariateRows(
            series.name,
            series.values,
            np.empty((len(series.values), 0)) if series.covariates is None else series.covariates,
            series.stamps,
            None,
            np.empty(0) if series.static is None else series.static,
            phase_of(None if series.stamps is None else series.stamps[0], table.frequency, plan.season, row=0),
            scale.shift,
            scale.spread,
        )
        for series, scale in zip(table.series, scales, strict=True)
    ]
    return fit_covariates(
        rows,
        encoding,
        windows,
        horizon=plan.horizon,
        season=plan.season,
        frequency=table.frequency,
        seed=settings.seed,
    )


def fit_model(
    series: Sequence[Series],
    scales: Sequence[Scale],
    plan: Plan,
    settings: FitSettings,
    *,
    directory: Path | None = None,
    began: float | None = None,
) -> Fit:
    """Fit to the series that are long enough; at least one is. A time limit counts from ``began`` (monotonic clock)."""
    began = time.monotonic() if began is None else began
    learnt = TrainingSeries.of(series, scales, plan)
    training = learnt.train()
    validation = learnt.validation(most=max(64, VALIDATION_ROWS // training.channels))
    work = _Work(training, validation, settings, directory, began, after=_count_after_training(learnt))
    recipes = list_recipes(settings.model, settings.model_settings, season=min(plan.season, plan.context_length))
    recipe, notes, interrupted = work.choose_recipe(recipes)
    result = interrupted or work.train(recipe)
    model, judged = result.model, result.model
    refits = len(training) * training.channels < REFIT_BELOW and result.stopped not in ("interrupted", "time")
    try:
        if refits:  # calibrate a model that is nearly as old as the one that will forecast
            judged = work.refit(recipe, learnt.before_calibration(), result, name="before-calibration") or judged
            model = work.refit(recipe, learnt.everything(), result, name="again") or judged
            if model is not judged:
                notes.append("trained once more on all rows after calibration, with as many epochs as validation chose")
    except KeyboardInterrupt:
        notes.append(f"{INTERRUPTED} while training once more on all rows; the model from before is kept")
        model = judged
    most = work.count_calibration_windows()
    late = learnt.residuals(judged, "calibration", most=most)
    early = learnt.residuals(result.model, "validation", most=most)
    # A model without a distribution has a ball of radius 1 around its forecast, which says nothing about its errors.
    windows = settings.calibration.distribution_windows if model.has_distribution else 0.0
    unseen = expect_unseen_variance(max(map(len, learnt.values)) / plan.horizon)
    calibration_settings = replace(settings.calibration, distribution_windows=windows, unseen_variance=unseen)
    calibration = fit_calibration(late, early, settings=calibration_settings)
    findings = examine_fit(judged, series, learnt, late, early, calibration_settings)
    if result.stopped == "interrupted":
        notes.append(f"{INTERRUPTED}: the best weights so far are kept")
    return Fit(model, judged, learnt, calibration, findings, tuple(notes))


@dataclass(frozen=True)
class _Work:
    training: Windows
    validation: Windows
    settings: FitSettings
    directory: Path | None
    began: float
    after: int  # windows that are forecast after training
    spent: list[float] = field(default_factory=list)  # seconds of the trainings so far, of former calls too
    judging: list[float] = field(default_factory=list)  # seconds for each validation window, by training

    def choose_recipe(self, recipes: Sequence[Recipe]) -> tuple[Recipe, list[str], TrainResult | None]:
        """The recipe whose short training has the least validation objective, what was tried, and, where someone
        interrupted it, the short training that has to do."""
        if len(recipes) == 1:
            return recipes[0], [], None
        objectives: dict[Recipe, float] = {}
        results = {}
        for recipe in recipes:
            result = self._train(recipe, name=f"pilot-{recipe.name}", share=PILOT_SHARE, progress="silent")
            self._note(result)
            results[recipe] = result
            objectives[recipe] = result.best.validation["objective"] if len(result.history) else inf
            if result.stopped == "interrupted":
                break
        best = min(objectives, key=lambda recipe: objectives[recipe])
        interrupted = result.stopped == "interrupted"
        scores = ", ".join(f"{recipe.name} {value:.4g}" for recipe, value in objectives.items())
        notes = [f"recipe {best.name!r}, by validation after a short training ({scores})"]
        return best, notes, replace(results[best], stopped="interrupted") if interrupted else None

    def train(self, recipe: Recipe) -> TrainResult:
        """The whole training."""
        result = self._train(recipe, name="training", share=1.0, progress=self.settings.progress)
        self._note(result)
        return result

    def count_calibration_windows(self) -> int:
        """Windows that either held-out part is thinned to: fewer where a time limit leaves too little for all."""
        if self.settings.time_limit is None or not self.judging:
            return CALIBRATION_WINDOWS
        left = self.settings.time_limit - (time.monotonic() - self.began)
        share = left / max(self._seconds_after(), 1e-9)
        return int(min(CALIBRATION_WINDOWS, max(LEAST_CALIBRATION_WINDOWS, share * CALIBRATION_WINDOWS)))

    def _note(self, result: TrainResult) -> None:
        """What a training tells of the time that things take."""
        self.spent.append(count_seconds(result))
        if len(result.history):
            judging = min(record.evaluation_seconds for record in result.history)
            self.judging.append(judging / len(self.validation))

    def _seconds_after(self) -> float:
        """What the windows after training will take, as far as can be told."""
        return COST * max(self.judging, default=0.0) * self.after

    def refit(self, recipe: Recipe, windows: Windows, result: TrainResult, *, name: str) -> Forecaster | None:
        """The model trained on more rows for the epochs that validation chose; None where the time left is too short.

        A run that its time limit cuts would be worse than the one there is, so it is not begun.
        """
        left = self._time(1.0)
        if left is not None and left < REFIT_SPARE * count_seconds(result) * len(windows) / len(self.training):
            return None
        config = replace(
            result.config, epochs=max(1, result.best_epoch), patience=None, keep="last", grace=0, time_limit=None
        )
        # The validation rows are among the windows now: what was chosen on them is kept, not chosen again.
        chosen = result.model.chosen if isinstance(result.model, FittedForecaster) else {}
        model = self._model(replace(recipe, model={**recipe.model, **chosen}), windows)
        places = self._places(name)
        return train(model, windows, self.validation, config, progress="silent", **places).model.float()

    def _model(self, recipe: Recipe, windows: Windows) -> Forecaster:
        return build_model(
            self.settings.model,
            context_length=windows.context_length,
            horizon=windows.horizon,
            channels=windows.channels,
            **recipe.model,
        )

    def _train(self, recipe: Recipe, *, name: str, share: float, progress: Mode) -> TrainResult:
        result = train(
            self._model(recipe, self.training),
            self.training,
            self.validation,
            self._config(recipe, share),
            progress=progress,
            on_interrupt="keep",
            **self._places(name),
        )
        result.model.float()  # forecasts are in single precision, whatever the training was in
        return result

    def _places(self, name: str) -> dict[str, Any]:
        """Where a training keeps its checkpoints, and whether it goes on from there."""
        if self.directory is None:
            return {}
        folder = self.directory / name
        return {"resume": folder} if resumable(folder) else {"directory": folder}

    def _config(self, recipe: Recipe, share: float) -> TrainConfig:
        settings = self.settings
        batch = settings.training.get("batch_size", choose_batch_size(len(self.training)))
        windows, channels = len(self.training), self.training.channels
        epochs, per_epoch = choose_steps(windows, channels, epochs=settings.epochs, batch=batch)
        if share < 1.0:
            whole = epochs * per_epoch
            per_epoch = max(1, min(per_epoch, ceil(share * whole)))
            epochs = max(1, ceil(share * whole / per_epoch))
        chosen = {
            "epochs": epochs,
            "batch_size": batch,
            "steps_per_epoch": per_epoch,
            "patience": max(3, epochs // 4) if share == 1.0 else None,
            "time_limit": self._time(share),
            "seed": settings.seed,
            "threads": 1 if settings.threads is None and batch * channels < ROWS_FOR_THREADS else settings.threads,
        }
        return TrainConfig(**{**chosen, **recipe.train, **settings.training})

    def _time(self, share: float) -> float | None:
        if self.settings.time_limit is None:
            return None
        # A fit that goes on after a kill has the time that its trainings took before on their own record only.
        spent = max(time.monotonic() - self.began, sum(self.spent))
        reserve = max(RESERVE * self.settings.time_limit, min(self._seconds_after(), self.settings.time_limit / 2))
        left = self.settings.time_limit - reserve - spent
        return max(0.1, left if share == 1.0 else min(left, share * self.settings.time_limit))


def _count_after_training(learnt: TrainingSeries) -> int:
    """Windows that are forecast after training: for calibration in both parts, and for the profiles of some series."""
    counts = [learnt.count(part, most=CALIBRATION_WINDOWS) for part in get_args(HeldOut)]
    return sum(counts) + PROFILE_WINDOWS * min(MOST_SERIES, len(learnt.parts), max(1, sum(counts) // PROFILE_WINDOWS))


def choose_batch_size(windows: int) -> int:
    """Windows of a batch.

    Example:
        >>> choose_batch_size(100), choose_batch_size(600), choose_batch_size(13_505)
        (16, 32, 56)
    """
    return max(LEAST_BATCH if windows >= MANY_WINDOWS else 1, batch_size_for(windows))


def choose_steps(windows: int, channels: int, *, epochs: int | None, batch: int | None = None) -> tuple[int, int]:
    """Epochs of a whole training, unless given, and steps of each.

    Example: a month of hours, and two years of them in 7 channels.
        >>> choose_steps(500, 1, epochs=None), choose_steps(13_505, 7, epochs=None), choose_steps(13_505, 7, epochs=3)
        ((47, 32), (8, 154), (3, 242))
    """
    batch = choose_batch_size(windows) if batch is None else batch
    per_epoch = min(MOST_STEPS_PER_EPOCH, ceil(windows / batch))
    if epochs is not None:
        return epochs, per_epoch
    steps = max(LEAST_STEPS, min(STEPS, ceil(MOST_ROWS / (batch * channels))))
    per_epoch = min(per_epoch, ceil(steps / LEAST_EPOCHS))
    return min(MOST_EPOCHS, ceil(steps / per_epoch)), per_epoch


def count_seconds(result: TrainResult) -> float:
    """What a training took, in all calls together."""
    return float(sum(record.seconds + record.evaluation_seconds for record in result.history))
