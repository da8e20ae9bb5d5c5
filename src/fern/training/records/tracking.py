"""Figures of a run sent to TensorBoard or MLflow, where that is asked for."""

import importlib
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

from fern.errors import FernError, unknown_name
from fern.files import written_whole
from fern.training.inputs import require_methods
from fern.training.records.history import EpochRecord

TrackerKind = Literal["tensorboard", "mlflow"]
MLFLOW_RUN = "mlflow_run"
"""The file in a run's directory with the id of its MLflow run."""


class Tracker(Protocol):
    """Takes the settings of a run and the figures of every epoch."""

    def start(self, settings: Mapping[str, Any]) -> None:
        """The run begins with these settings."""

    def epoch(self, record: EpochRecord) -> None:
        """The figures of one more epoch."""

    def stop(self, outcome: str, *, failed: bool) -> None:
        """The run is over; ``failed`` where it diverged or was interrupted."""


class Guarded:
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


class NoTracker:
    """Sends nothing anywhere."""

    def start(self, settings: Mapping[str, Any]) -> None:
        """Nothing."""

    def epoch(self, record: EpochRecord) -> None:
        """Nothing."""

    def stop(self, outcome: str, *, failed: bool) -> None:
        """Nothing."""


class TensorBoard:
    """Event files in ``folder``."""

    def __init__(self, folder: Path) -> None:
        module = _imported("torch.utils.tensorboard", package="tensorboard")
        self._folder, self._writer_class = folder, module.SummaryWriter
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


class MLflow:
    """A run of the active MLflow experiment; ``uri`` says where that is kept, None as MLflow itself is set.

    ``run_file``  where the id of the MLflow run is kept. A run whose id stands there is continued, so that a training
                  that was interrupted and resumed is one run; None begins a new one.
    """

    def __init__(self, *, uri: str | None = None, experiment: str | None = None, run_file: Path | None = None) -> None:
        self._mlflow = _imported("mlflow", package="mlflow")
        self._uri, self._experiment, self._run_file = uri, experiment, run_file

    def start(self, settings: Mapping[str, Any]) -> None:
        """Begin an MLflow run with the settings as its parameters, or go on with the one of the run file."""
        if self._uri is not None:
            self._mlflow.set_tracking_uri(self._uri)
        if self._experiment is not None:
            self._mlflow.set_experiment(self._experiment)
        if self._run_file is not None and self._run_file.is_file():
            # Its parameters stay: MLflow refuses other values, and a resumed run may change where it computes.
            self._mlflow.start_run(run_id=self._run_file.read_text().strip())
            return
        begun = self._mlflow.start_run()
        if self._run_file is not None:
            with written_whole(self._run_file) as temporary:
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
    """The figures of an epoch under flat names.

    Example:
        >>> figures(EpochRecord(1, 0.5, 1e-3, None, {"mse": 2.0}, seconds=1.5))
        {'train/loss': 0.5, 'train/learning_rate': 0.001, 'train/seconds': 1.5, 'validation/mse': 2.0}
    """
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
        return NoTracker()
    if not isinstance(tracker, str):
        return Guarded(require_methods("tracker", tracker, NoTracker, known=get_args(TrackerKind)))
    if tracker not in get_args(TrackerKind):
        raise unknown_name("tracker", tracker, get_args(TrackerKind))
    if tracker == "mlflow":
        run_file = None if directory is None else directory / MLFLOW_RUN
        if run_file is not None and not resumed:
            run_file.unlink(missing_ok=True)  # of a training that ended before its first checkpoint
        return Guarded(MLflow(run_file=run_file))
    if directory is None:
        raise FernError("tracker: tensorboard writes files; give train(..., directory=...)")
    return Guarded(TensorBoard(directory / "tensorboard"))


def _imported(module: str, *, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise FernError(f"tracker: the package {package!r} is not installed (pip install {package})") from None
