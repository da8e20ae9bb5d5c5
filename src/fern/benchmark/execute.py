"""Doing one run: train or resume, score, and put the outcome into a result, whatever happens."""

import time
import traceback
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fern.benchmark.locks import hold_lock
from fern.benchmark.problem import Dataset, Problem, load_dataset
from fern.benchmark.results import RunResult
from fern.benchmark.runs import Run, code_version_of, describe_machine, versions
from fern.benchmark.scoring import References, find_references, score_model, score_oracle
from fern.benchmark.tasks import ORACLE
from fern.errors import FernError, NotWritten
from fern.files import make_folder
from fern.models import FittedForecaster, Forecaster
from fern.models.footprint import multiply_adds, parameter_count
from fern.training import Diverged, TrainResult, resumable, train
from fern.training.checkpoints import Unresumable
from fern.training.logging import Progress
from fern.training.runtime import threads as torch_threads

LOCK = "lock"
"""A file in a run's checkpoint folder; whoever holds its lock may write there."""

_LOCK_PATIENCE = 20.0  # seconds that an executor whose sweep was killed has to go away
_KEPT = 4  # problems a process keeps for further runs


@dataclass(frozen=True)
class Outcome:
    """What a run leaves: its result and, where it got so far, the errors of each test window."""

    result: RunResult
    windows: dict[str, NDArray[np.float32]] | None = None


@dataclass(frozen=True)
class RunContext:
    """Where a run is done: threads, the folder for its checkpoints (None keeps none), and who hears of its progress."""

    threads: int = 1
    checkpoints: Path | None = None
    progress: Progress = field(default_factory=Progress)


class RunCache:
    """The datasets, problems and references that the runs of one process share."""

    def __init__(self) -> None:
        self._problems: dict[tuple[object, ...], Problem] = {}
        self._references: dict[Problem, References] = {}
        self._datasets: dict[str, Dataset] = {}

    def add_dataset(self, dataset: Dataset) -> None:
        """Have a dataset at hand that need not be loaded again."""
        _keep(self._datasets, dataset.fingerprint, dataset)

    def problem(self, run: Run) -> Problem:
        """What the run is about."""
        settings = run.settings
        split = (settings.split, settings.scaling, settings.context_length, settings.horizon)
        place = (settings.data_fingerprint, *split)
        if place not in self._problems:
            if settings.data_fingerprint not in self._datasets:
                dataset = load_dataset(run.source)
                run.problem(dataset)  # refuses other values than the planned ones
                self.add_dataset(dataset)
            _keep(self._problems, place, run.problem(self._datasets[settings.data_fingerprint]))
        return self._problems[place]

    def references(self, problem: Problem) -> References:
        """The errors that the problem's figures are read against."""
        if problem not in self._references:
            _keep(self._references, problem, find_references(problem))
        return self._references[problem]


def execute_run(run: Run, context: RunContext, cache: RunCache) -> Outcome:
    """Do a run. An error in it becomes a result that tells it; the sweep goes on.

    Example:
        >>> from fern.benchmark.plan import make_plan
        >>> from fern.benchmark.tasks import read_task
        >>> plan = make_plan(read_task("quick").narrowed(models=["oracle"], datasets=["OU_PARAM"]))
        >>> outcome = execute_run(plan.runs[0], RunContext(), RunCache())
        >>> outcome.result.status, outcome.result.metrics["regret"]
        ('done', 0.0)
    """
    start_time = time.perf_counter()
    fail = partial(fail_run, run, context, start_time=start_time)
    try:
        present = code_version_of(run.settings.model, run.settings.preset)
    except FernError as problem:  # a model from outside that could be imported when it was planned
        return fail(str(problem))
    if run.settings.code_version != present:
        raise FernError(
            f"this worker has code version {present}, but {run.settings.describe()} was planned with "
            f"{run.settings.code_version}; install the same version everywhere"
        )
    try:
        with torch_threads(context.threads):
            return _train_and_score(run, context, cache, start_time)
    except Diverged as problem:
        where = f"epoch {problem.epoch}" + ("" if problem.step is None else f", step {problem.step}")
        text = f"diverged at {where}: {problem.what}"
        return Outcome(_make_result(run, context, start_time, status="diverged", error=text, epochs=problem.epoch))
    except NotWritten:
        raise  # a full disk is no fault of the run, whose result would say so for good
    except FernError as problem:
        return fail(str(problem))
    except SystemExit as problem:
        return fail(f"the model called sys.exit({problem.code!r})")
    except Exception as problem:  # noqa: BLE001  a defect in one model must not end the sweep; its result tells it
        frame = traceback.extract_tb(problem.__traceback__)[-1]
        place = f"{Path(frame.filename).name}, line {frame.lineno}"  # without the machine's paths
        return fail(f"{type(problem).__name__}: {problem} ({place})")


def fail_run(run: Run, context: RunContext, reason: str, *, start_time: float | None = None) -> Outcome:
    """The outcome of a run that failed, or whose workers died: a result that tells it."""
    start_time = time.perf_counter() if start_time is None else start_time
    return Outcome(_make_result(run, context, start_time, status="failed", error=reason))


def _train_and_score(run: Run, context: RunContext, cache: RunCache, start_time: float) -> Outcome:
    problem = cache.problem(run)
    fields: dict[str, Any] = {}
    seconds: dict[str, float] = {}
    if run.settings.model != ORACLE:
        model = run.model(channels=len(problem.dataset.channel_names))
        trained = _train(model, run, problem, context)
        epochs = [record.seconds for record in trained.history if record.epoch > 0]
        names = ("epoch", "train_loss", "validation", "test", "judged")  # without timings
        history = [{name: value for name, value in asdict(epoch).items() if name in names} for epoch in trained.history]
        fields = {
            "epochs": len(epochs),
            "best_epoch": trained.best_epoch,
            "parameters": parameter_count(model),
            "multiply_adds": multiply_adds(model),
            "chosen": model.chosen if isinstance(model, FittedForecaster) else {},
            "history": None if run.settings.epoch_figures == "none" else history,
        }
        # Training with its validation and its processor time, interrupted processes included; then of one epoch alone.
        seconds = {"train": round(trained.seconds, 3), "train_cpu": round(trained.processor_seconds, 3)}
        if epochs:
            seconds["epoch"] = round(sum(epochs) / len(epochs), 4)
    scoring = time.perf_counter()
    oracle = run.settings.model == ORACLE
    score = score_oracle(problem) if oracle else score_model(model, problem, seed=run.settings.seed)
    metrics = score.metrics | cache.references(problem).compare(score.metrics["mse"])
    seconds["evaluate"] = round(time.perf_counter() - scoring, 3)
    result = _make_result(
        run, context, start_time, status="done", metrics=metrics, windows=score.windows, seconds=seconds, **fields
    )
    return Outcome(result, {"mse": score.mse, "mae": score.mae})


def _train(model: Forecaster, run: Run, problem: Problem, context: RunContext) -> TrainResult:
    """Train, from the run's checkpoint where there is one; a checkpoint that cannot be used is thrown away."""
    config = run.train_config(threads=context.threads)
    test, last = (problem.test, problem.last_batch) if run.settings.epoch_figures == "test" else (None, None)
    folder = context.checkpoints if model.trainable else None
    with ExitStack() as locks:
        if folder is not None:
            if folder.is_symlink():
                folder.unlink()  # what it points to is nobody's checkpoint
            make_folder(folder)
            if not locks.enter_context(hold_lock(folder / LOCK, patience=_LOCK_PATIENCE)):
                folder = None  # an executor cut off from its sweep is still at it: leave its files alone
        validation = problem.validation
        if not model.chooses and run.settings.epoch_figures == "none":  # figures that nobody would read
            validation = problem.first_validation_window
        windows: dict[str, Any] = {"windows_test": test, "windows_last": last}
        go = partial(train, model, problem.train, validation, config, **windows, progress=context.progress)
        if folder is not None and resumable(folder):
            try:
                return go(resume=folder)
            except Unresumable:
                for name in folder.glob("*.safetensors"):
                    name.unlink(missing_ok=True)
        return go(directory=folder)


def _make_result(
    run: Run, context: RunContext, start_time: float, *, seconds: dict[str, float] | None = None, **fields: Any
) -> RunResult:
    return RunResult(
        **asdict(run.settings),
        **fields,
        seconds={**(seconds or {}), "total": round(time.perf_counter() - start_time, 3)},
        versions=versions(),
        machine=describe_machine(threads=context.threads, accelerator=run.accelerator),
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _keep(entries: dict[Any, Any], name: object, value: object) -> None:
    """Add an entry, and drop the oldest beyond a few: the runs of a dataset come one after another."""
    entries[name] = value
    while len(entries) > _KEPT:
        del entries[next(iter(entries))]
