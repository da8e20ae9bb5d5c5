"""Progress of trainings and long forecasts on the terminal, and metrics for TensorBoard and MLflow."""

import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TextIO, get_args

from rich.progress import BarColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from fern.errors import FernError, require_choice
from fern.extras import import_optional
from fern.files import write_whole
from fern.text import say, terminal
from fern.training.evaluation import EpochRecord, require_methods

Mode = Literal["auto", "bar", "lines", "silent"]
"""``auto`` is a bar where standard error is a terminal and lines elsewhere."""


class Progress:
    """Is notified of every step and epoch of a run (of its first process, if there are several); shows nothing."""

    def start(self, *, epochs: int, steps: int, done: int) -> None:
        """Training begins: epochs in all, steps in each of them, and steps done already by an interrupted run."""

    def step(self, *, epoch: int, loss: float) -> None:
        """One more step is done."""

    def epoch(self, record: EpochRecord, *, kept: bool) -> None:
        """One more epoch is done; ``kept`` tells whether its weights are those to keep so far."""

    def stop(self, message: str) -> None:
        """Training is over, also when it failed."""


class Lines(Progress):
    """One plain line per epoch.

    Example:
        >>> lines = Lines(sys.stdout)
        >>> lines.start(epochs=50, steps=10, done=0)
        >>> lines.epoch(EpochRecord(1, 0.5, 1e-3, 1.0, {"objective": 2.0}, seconds=1.5), kept=True)
        epoch 1/50  loss 0.5  objective 2 *  1.5 s
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._epochs = stream, 0

    def start(self, *, epochs: int, steps: int, done: int) -> None:
        """Remember how many epochs there are."""
        self._epochs = epochs
        if done:
            say(f"resuming after step {done:,}", self._stream)

    def epoch(self, record: EpochRecord, *, kept: bool) -> None:
        """The epoch's line; a star marks the weights to keep so far."""
        loss = "" if record.train_loss is None else f"  loss {record.train_loss:.5g}"
        say(
            f"epoch {record.epoch}/{self._epochs}{loss}  objective {record.validation['objective']:.5g}"
            f"{' *' if kept else ''}  {record.seconds:.1f} s",
            self._stream,
        )

    def stop(self, message: str) -> None:
        """Why the run ended."""
        say(message, self._stream)


class Bar(Progress):
    """A bar over all steps, with epoch, loss, objective and the remaining time."""

    def __init__(self, stream: TextIO) -> None:
        self._console = terminal(file=stream)
        self._bar = RichProgress(
            TextColumn("epoch {task.fields[epoch]}/{task.fields[epochs]}"),
            BarColumn(),
            TextColumn("loss {task.fields[loss]}  objective {task.fields[objective]}"),
            TimeRemainingColumn(),
            console=self._console,
            redirect_stdout=sys.stdout.isatty(),  # what a program prints into a file stays there
        )
        self._task: TaskID | None = None
        self._best = ""

    def start(self, *, epochs: int, steps: int, done: int) -> None:
        """Show the bar."""
        shown: dict[str, Any] = {"epoch": done // steps + 1, "epochs": epochs, "loss": "-", "objective": "-"}
        self._task = self._bar.add_task("training", total=epochs * steps, completed=done, **shown)
        self._bar.start()

    def step(self, *, epoch: int, loss: float) -> None:
        """Move the bar by one step."""
        if self._task is not None:
            self._bar.update(self._task, advance=1, epoch=epoch, loss=f"{loss:.4g}")

    def epoch(self, record: EpochRecord, *, kept: bool) -> None:
        """Show the objective, and the best so far with its epoch."""
        objective = f"{record.validation['objective']:.4g}"
        if kept:
            self._best = f" (best {objective}, epoch {record.epoch})"
        if self._task is not None:
            self._bar.update(self._task, objective=objective + self._best)

    def stop(self, message: str) -> None:
        """Leave the bar as it is and say why the run ended."""
        self._bar.stop()
        self._console.print(message, highlight=False, markup=False, soft_wrap=True)


def progress_of(mode: Mode | Progress, *, first: bool) -> Progress:
    """The progress of this name, or the one given; silent on all processes but the first."""
    if not first:
        return Progress()
    if not isinstance(mode, str):
        return require_methods("progress", mode, Progress, known=get_args(Mode))
    require_choice("progress", mode, get_args(Mode))
    if mode == "silent":
        return Progress()
    return Bar(sys.stderr) if mode == "bar" or (mode == "auto" and sys.stderr.isatty()) else Lines(sys.stderr)


QUIET, APART = 2.0, 10.0
"""Seconds until a long forecast tells how far it is, and between its lines."""


def track_steps(starts: Iterable[int], *, of: int, mode: Mode) -> Iterator[int]:
    """The steps at which the parts of a long forecast start, with a line on standard error now and then.

    Example:
        >>> list(track_steps(range(0, 12, 4), of=12, mode="auto"))  # over in no time: nothing is said
        [0, 4, 8]
    """
    began = time.monotonic()
    first, reported = None, began + QUIET - APART
    for start in starts:
        now = time.monotonic()
        first = start if first is None else first
        if mode != "silent" and start > first and now - reported >= APART:
            left = (now - began) * (of - start) / (start - first)
            say(f"forecasting step {start:,} of {of:,}, about {left:.0f} s left", sys.stderr)
            reported = now
        yield start


TrackerKind = Literal["tensorboard", "mlflow"]
MLFLOW_RUN = "mlflow_run"
"""The file in a run's directory with the id of its MLflow run."""


class Tracker:
    """Takes the settings of a run and the figures of every epoch; sends them nowhere."""

    def start(self, settings: Mapping[str, Any]) -> None:
        """The run begins with these settings."""

    def epoch(self, record: EpochRecord) -> None:
        """The figures of one more epoch."""

    def stop(self, outcome: str, *, failed: bool) -> None:
        """The run is over; ``failed`` where it diverged or was interrupted."""


class Guarded(Tracker):
    """A tracker that cannot cost the run: after its first failure it is left out, with a warning."""

    def __init__(self, tracker: Tracker) -> None:
        self._tracker: Tracker | None = tracker

    def start(self, settings: Mapping[str, Any]) -> None:
        """Pass it on."""
        self._safely(lambda tracker: tracker.start(settings))

    def epoch(self, record: EpochRecord) -> None:
        """Pass it on."""
        self._safely(lambda tracker: tracker.epoch(record))

    def stop(self, outcome: str, *, failed: bool) -> None:
        """Pass it on."""
        self._safely(lambda tracker: tracker.stop(outcome, failed=failed))

    def _safely(self, tell: Callable[[Tracker], None]) -> None:
        if self._tracker is None:
            return
        try:
            tell(self._tracker)
        except Exception as error:  # noqa: BLE001  a server that is away, a full disk: no reason to lose a training
            self._tracker = None
            text = f"tracker: disabled after it failed with {type(error).__name__}: {error}"
            warnings.warn(text, RuntimeWarning, stacklevel=2)


class TensorBoard(Tracker):
    """Event files in ``folder``."""

    def __init__(self, folder: Path) -> None:
        import_optional("tensorboard", extra="track")
        from torch.utils.tensorboard import SummaryWriter

        self._folder, self._writer_class = folder, SummaryWriter
        self._writer: Any = None

    def start(self, settings: Mapping[str, Any]) -> None:
        """Open the event file and note the settings."""
        self._writer = self._writer_class(log_dir=str(self._folder))
        self._writer.add_text("settings", "\n".join(f"    {name} = {value!r}" for name, value in settings.items()))

    def epoch(self, record: EpochRecord) -> None:
        """One scalar for each figure."""
        for name, value in figures(record).items():
            self._writer.add_scalar(name, value, global_step=record.epoch)
        self._writer.flush()

    def stop(self, outcome: str, *, failed: bool) -> None:
        """Note the outcome and close the file."""
        self._writer.add_text("outcome", outcome)
        self._writer.close()


class MLflow(Tracker):
    """A run of the active MLflow experiment, kept where MLflow itself is set to.

    ``run_file``  where the id of the MLflow run is kept. A run whose id stands there is continued, so that a training
                  that was interrupted and resumed is one run; None begins a new one.
    """

    def __init__(self, *, run_file: Path | None = None) -> None:
        self._mlflow, self._run_file = import_optional("mlflow", extra="track"), run_file

    def start(self, settings: Mapping[str, Any]) -> None:
        """Begin an MLflow run with the settings as its parameters, or continue the one of the run file."""
        if self._run_file is not None and self._run_file.is_file():
            # Its parameters stay: MLflow refuses other values, and a resumed run may change where it computes.
            self._mlflow.start_run(run_id=self._run_file.read_text().strip())
            return
        begun = self._mlflow.start_run()
        if self._run_file is not None:
            with write_whole(self._run_file) as temporary:
                temporary.write_text(f"{begun.info.run_id}\n")
        self._mlflow.log_params(dict(settings))

    def epoch(self, record: EpochRecord) -> None:
        """One metric for each figure."""
        self._mlflow.log_metrics(figures(record), step=record.epoch)

    def stop(self, outcome: str, *, failed: bool) -> None:
        """Note the outcome and end the run."""
        self._mlflow.set_tag("outcome", outcome)
        self._mlflow.end_run(status="FAILED" if failed else "FINISHED")


def figures(record: EpochRecord) -> dict[str, float]:
    """The figures of an epoch under flat names."""
    train = {
        "train/loss": record.train_loss,
        "train/learning_rate": record.learning_rate,
        "train/gradient_norm": record.gradient_norm,
        "train/seconds": record.seconds,
    }
    scored = {f"validation/{name}": value for name, value in record.validation.items()}
    scored |= {f"test/{name}": value for name, value in (record.test or {}).items()}
    return {name: value for name, value in train.items() if value is not None} | scored


def tracker_of(tracker: TrackerKind | Tracker | None, *, directory: Path | None, first: bool, resumed: bool) -> Tracker:
    """The tracker of this name, or the one given; none on all processes but the first.

    ``tensorboard`` writes into the folder ``tensorboard`` of the run's directory, ``mlflow`` where MLflow is set to;
    its run is noted in the directory, and continued where the training is ``resumed``.
    """
    if tracker is None or not first:
        return Tracker()
    if not isinstance(tracker, str):
        return Guarded(require_methods("tracker", tracker, Tracker, known=get_args(TrackerKind)))
    require_choice("tracker", tracker, get_args(TrackerKind))
    if tracker == "mlflow":
        run_file = None if directory is None else directory / MLFLOW_RUN
        if run_file is not None and not resumed:
            run_file.unlink(missing_ok=True)  # of a training that ended before its first checkpoint
        return Guarded(MLflow(run_file=run_file))
    if directory is None:
        raise FernError("tensorboard writes files; give train(..., directory=...)", argument="tracker")
    return Guarded(TensorBoard(directory / "tensorboard"))
