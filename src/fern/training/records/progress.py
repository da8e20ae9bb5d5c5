"""Training progress: a bar on a terminal, a line per epoch elsewhere, or nothing."""

import sys
from typing import Literal, Protocol, TextIO, get_args

from rich.progress import BarColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from fern.errors import unknown_name
from fern.text import say, terminal
from fern.training.inputs import require_methods
from fern.training.records.history import EpochRecord

Mode = Literal["auto", "bar", "lines", "silent"]
"""``auto`` is a bar where standard error is a terminal and lines elsewhere."""


class Progress(Protocol):
    """Is notified of every step and epoch of a run (of its first process, if there are several)."""

    def start(self, *, epochs: int, steps: int, done: int) -> None:
        """Training begins: epochs in all, steps in each of them, and steps done already by an interrupted run."""

    def note(self, message: str) -> None:
        """Something worth knowing about how the run works."""

    def step(self, *, epoch: int, loss: float) -> None:
        """One more step is done."""

    def epoch(self, record: EpochRecord, *, kept: bool) -> None:
        """One more epoch is done; ``kept`` tells whether its weights are those to keep so far."""

    def stop(self, message: str) -> None:
        """Training is over, also when it failed."""


class Silent:
    """Shows nothing."""

    def start(self, *, epochs: int, steps: int, done: int) -> None:
        """Nothing."""

    def note(self, message: str) -> None:
        """Nothing."""

    def step(self, *, epoch: int, loss: float) -> None:
        """Nothing."""

    def epoch(self, record: EpochRecord, *, kept: bool) -> None:
        """Nothing."""

    def stop(self, message: str) -> None:
        """Nothing."""


class Lines:
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

    def note(self, message: str) -> None:
        """The message, as a line."""
        say(message, self._stream)

    def step(self, *, epoch: int, loss: float) -> None:
        """Nothing."""

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


class Bar:
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
        self._task = self._bar.add_task(
            "training",
            total=epochs * steps,
            completed=done,
            epoch=done // steps + 1,
            epochs=epochs,
            loss="-",
            objective="-",
        )
        self._bar.start()

    def note(self, message: str) -> None:
        """The message, above the bar."""
        self._console.print(message, highlight=False, markup=False, soft_wrap=True)

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
        self.note(message)


def progress_of(mode: Mode | Progress, *, first: bool) -> Progress:
    """The progress of this name, or the one given; silent on all processes but the first."""
    if not first:
        return Silent()
    if not isinstance(mode, str):
        return require_methods("progress", mode, Silent, known=get_args(Mode))
    if mode not in get_args(Mode):
        raise unknown_name("progress", mode, get_args(Mode))
    if mode == "silent":
        return Silent()
    return Bar(sys.stderr) if mode == "bar" or (mode == "auto" and sys.stderr.isatty()) else Lines(sys.stderr)
