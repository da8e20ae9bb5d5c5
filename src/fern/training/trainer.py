"""``train``: checks its arguments, sets a run up or resumes it, runs the loop of every model and returns the result."""

import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import torch
from torch import Generator, Tensor, nn
from torch.optim import AdamW

from fern.data.windows import Windows
from fern.errors import FernError, require_choice
from fern.models import FittedForecaster, Forecaster
from fern.models.base import JUDGED, Criterion
from fern.models.registry import initialise
from fern.training.checkpoints import Checkpoints, Fingerprint, Saved, Tensors, TrainingRun, Unresumable, fingerprint
from fern.training.config import TrainConfig
from fern.training.evaluation import (
    Diverged,
    EpochRecord,
    Evaluator,
    History,
    MetricValues,
    NotFinite,
    WindowSets,
    batch_size_for,
    find_diverged_gradients,
    find_diverged_weights,
    require_inputs_fit,
    run_directory,
)
from fern.training.logging import Mode, Progress, Tracker, TrackerKind, progress_of, tracker_of
from fern.training.optimisation import AveragedWeights, Reason, criterion
from fern.training.runtime import (
    EpochOrder,
    Share,
    gather_all,
    generator_for,
    launch,
    run_on_first,
    seed_global_generators,
    threads,
)

if TYPE_CHECKING:
    from lightning_fabric import Fabric


class LossOf(nn.Module):
    """The loss of a batch as a module's forward pass, which is where Fabric puts precision and DDP."""

    def __init__(self, model: Forecaster, criterion: Criterion) -> None:
        super().__init__()
        self.model, self.criterion = model, criterion

    def forward(self, share: Share, generator: Generator) -> Tensor:
        """The model's own loss under the criterion, in the precision of its weights."""
        dtype = next(self.model.parameters()).dtype
        past, future = share.past.to(dtype), share.future.to(dtype)
        return self.model.loss(past, future, self.criterion, generator=generator)


class Loop:
    """Epochs of steps over a run, new or ``saved``, until its stopping rule ends it; windows are on the device."""

    def __init__(
        self,
        model: Forecaster,
        config: TrainConfig,
        data: WindowSets,
        fabric: "Fabric",
        checkpoints: Checkpoints | None,
        progress: Progress,
        tracker: Tracker,
        saved: Saved | None,
        *,
        keeps_on_interrupt: bool,
    ) -> None:
        self.config, self.data, self.fabric, self.checkpoints = config, data, fabric, checkpoints
        self.progress, self.tracker, self.keeps_on_interrupt = progress, tracker, keeps_on_interrupt
        self.batch_size = config.batch_size or batch_size_for(len(data.train))
        self.evaluator = Evaluator(config, horizon=model.config.horizon)
        noise = generator_for(config.seed, "noise", rank=fabric.global_rank, device=fabric.device)
        loss = criterion(
            config.weights, huber_delta=config.huber_delta, energy_samples=config.energy_samples, generator=noise
        )
        learnt = [parameter for parameter in model.parameters() if parameter.requires_grad]
        optimiser = AdamW(learnt, lr=config.learning_rate, weight_decay=config.weight_decay, fused=True)
        self.run = run = TrainingRun(model, optimiser, None, noise)
        self.loss_of, self.optimiser = fabric.setup(LossOf(model, loss), optimiser)
        if config.averaging is not None:  # of the weights in the precision that they have by now
            run.average = AveragedWeights(model, decay=config.averaging)
        if saved is not None and checkpoints is not None:
            _restore(run, saved, config, checkpoints, fabric)
        self._weights = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self._schedule = config.rates(steps=config.epochs * self._order(1).steps)
        self._saved_at = time.monotonic()
        spent = sum(record.seconds + record.evaluation_seconds for record in run.records) + run.seconds
        self._began = time.monotonic() - spent

    def run_epochs(self) -> None:
        """Train until the stopping rule says why it is enough, or someone who wants what there is interrupts."""
        run = self.run
        try:
            self.progress.start(epochs=self.config.epochs, steps=self._order(1).steps, done=run.steps)
            if run.steps == 0:
                self._save()
            while run.reason is None:
                self._run_steps()
                self._end_epoch()
        except KeyboardInterrupt:
            if not self.keeps_on_interrupt:
                raise
            run.reason = "interrupted"
            if not run.kept:
                run.kept = run.copy_evaluated_weights()

    def _run_steps(self) -> None:
        run, order = self.run, self._order(self.run.epoch)
        run.model.train()
        while run.step < order.steps and not (run.step > 0 and self._time_is_up()):
            began, busy = time.perf_counter(), time.process_time()
            loss = self._step(order)
            run.step, run.steps = run.step + 1, run.steps + 1
            run.seconds += time.perf_counter() - began
            run.processor_seconds += time.process_time() - busy
            self.progress.step(epoch=run.epoch, loss=loss)
            if run.step < order.steps and self._is_time_to_save():
                self._save()

    def _step(self, order: EpochOrder) -> float:
        """One forward and backward pass and one update; gives the loss."""
        run, share = self.run, order.share(self.run.step)
        for group in run.optimiser.param_groups:
            group["lr"] = self._schedule.rate(self._place_in_schedule())
        loss = self.loss_of(share, run.noise)
        self.fabric.backward(loss if share.weight == 1.0 else loss * share.weight)
        norm = nn.utils.get_total_norm([weight.grad for weight in self._weights if weight.grad is not None])
        size, value = float(norm), float(loss.detach())
        # Of several processes each has a loss of its own: they must end together, so it is looked at after the epoch.
        if not (isfinite(size) and (isfinite(value) or self.fabric.world_size > 1)):
            named, remedy = run.model.named_parameters(), self._remedy()
            raise find_diverged_gradients(named, loss=value, epoch=run.epoch, step=run.step + 1, remedy=remedy)
        if self.config.clip_norm is not None and size > self.config.clip_norm:
            nn.utils.clip_grads_with_norm_(self._weights, self.config.clip_norm, norm)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        if run.average is not None:
            run.average.update()
        run.loss_sum += value * share.windows
        run.norm_sum += size
        return value

    def _end_epoch(self) -> None:
        """Evaluate, let the stopping rule decide, note it all and save."""
        run, config = self.run, self.config
        self._require_finite_weights()
        loss = sum(gather_all(run.loss_sum, self.fabric)) / self._order(run.epoch).windows_until(run.step)
        if not isfinite(loss):
            what = f"the loss is {loss}"
            raise Diverged(what, epoch=run.epoch, step=None, group=None, remedy=self._remedy())
        began, busy = time.perf_counter(), time.process_time()
        validation = self._figures(self.data.validation, most=config.validation_windows)
        test = self.data.test_figures(self._figures)
        run.stopping, run.reason = config.stopping.after_epoch(run.stopping, validation["objective"])
        if run.reason is None and self._time_is_up():
            run.reason = "time"
        kept = run.stopping.kept_epoch == run.epoch
        record = EpochRecord(
            epoch=run.epoch,
            train_loss=loss,
            learning_rate=run.optimiser.param_groups[0]["lr"],
            gradient_norm=run.norm_sum / run.step,
            validation=validation,
            test=test,
            judged=run.stopping.judged,
            seconds=run.seconds,
            evaluation_seconds=time.perf_counter() - began,
            processor_seconds=run.processor_seconds + time.process_time() - busy,
        )
        run.records.append(record)
        run.begin_epoch(run.epoch + 1)
        if kept:
            run.kept = run.copy_evaluated_weights()
        self.progress.epoch(record, kept=kept)
        self._save(new_best=run.kept if kept else None)
        self.tracker.epoch(record)

    def _figures(self, windows: Windows, *, most: int | None = None) -> MetricValues:
        """The figures of the evaluated weights over all windows, or ``most`` of them."""
        run = self.run
        try:
            with nullcontext() if run.average is None else run.average.apply():
                return self.evaluator.figures(run.model, windows, self.fabric, most=most)
        except NotFinite as error:
            raise Diverged(str(error), epoch=run.epoch, step=None, group=None, remedy=self._remedy()) from None

    def _time_is_up(self) -> bool:
        """Whether the time limit leaves no more than an evaluation takes."""
        limit = self.config.time_limit
        return limit is not None and time.monotonic() - self._began + self._evaluation_seconds() >= limit

    def _place_in_schedule(self) -> int:
        """The step whose learning rate is due: with a time limit the one that the clock is at, where it is ahead."""
        limit, total = self.config.time_limit, self._schedule.steps
        if limit is None:
            return self.run.steps
        share = (time.monotonic() - self._began) / max(limit - self._evaluation_seconds(), 1e-9)
        return max(self.run.steps, min(total - 1, int(share * total)))

    def _evaluation_seconds(self) -> float:
        """What the last evaluation took."""
        return self.run.records[-1].evaluation_seconds if self.run.records else 0.0

    def _is_time_to_save(self) -> bool:
        config = self.config
        if self.checkpoints is None:
            return False
        if config.checkpoint_steps is not None and self.run.step % config.checkpoint_steps == 0:
            return True
        if config.checkpoint_seconds is None or self.fabric.world_size > 1:
            return False  # several processes must agree, and their clocks do not: there it goes by steps alone
        return time.monotonic() - self._saved_at >= config.checkpoint_seconds

    def _save(self, new_best: Tensors | None = None) -> None:
        if self.checkpoints is None:
            return
        self._require_finite_weights()
        plain, tensors = self.run.snapshot(self.fabric)
        if self.fabric.is_global_zero:
            self.checkpoints.save(plain, tensors, model=self.run.model, new_best=new_best)
        self.fabric.barrier()
        self._saved_at = time.monotonic()

    def _require_finite_weights(self) -> None:
        run = self.run
        if not isfinite(float(nn.utils.get_total_norm([weight.detach() for weight in self._weights]))):
            raise find_diverged_weights(
                run.model.named_parameters(), epoch=run.epoch, step=run.step, remedy=self._remedy()
            )

    def _remedy(self) -> str:
        kept = "" if self.checkpoints is None else f"; the last good checkpoint is in {self.checkpoints.directory}"
        return f"{kept}; a lower learning_rate or a clip_norm usually helps"

    def _order(self, epoch: int) -> EpochOrder:
        fabric = self.fabric
        return EpochOrder(
            self.data.train,
            batch_size=self.batch_size,
            seed=self.config.seed,
            epoch=epoch,
            most_steps=self.config.steps_per_epoch,
            rank=fabric.global_rank,
            processes=fabric.world_size,
        )


@dataclass(frozen=True)
class TrainResult:
    """The outcome of a run.

    ``model``       the model that was given, holding the weights of ``best_epoch``, in evaluation mode.
    ``history``     every epoch's figures.
    ``best_epoch``  the epoch the stopping rule kept, from 1 (0 for a model with nothing to train).
    ``stopped``     why the run ended: ``epochs``, ``patience`` or ``nothing to train``.
    """

    model: Forecaster
    history: History
    best_epoch: int
    stopped: Reason
    config: TrainConfig
    fingerprint: Fingerprint
    directory: Path | None

    @property
    def best(self) -> EpochRecord:
        """The record of the epoch that was kept."""
        return self.history.of_epoch(self.best_epoch)

    @property
    def seconds(self) -> float:
        """Time spent on training and evaluation, over all processes that worked on the run one after another."""
        return sum(record.seconds + record.evaluation_seconds for record in self.history)

    @property
    def processor_seconds(self) -> float:
        """Processor time of the same, over all threads."""
        return sum(record.processor_seconds for record in self.history)


OnInterrupt = Literal["raise", "keep"]

PREPARE_BATCH = 512
"""Windows that a model's ``prepare`` sees at once."""

PREPARE_WINDOWS = 1 << 17
"""Windows that it sees in all, at most: means and spectra of so many are as good as those of ten million."""


def train(
    model: Forecaster,
    windows_train: Windows,
    windows_val: Windows,
    config: TrainConfig | None = None,
    *,
    windows_test: Windows | None = None,
    windows_last: Windows | None = None,
    directory: Path | str | None = None,
    resume: Path | str | None = None,
    progress: Mode | Progress = "auto",
    tracker: TrackerKind | Tracker | None = None,
    on_interrupt: OnInterrupt = "raise",
) -> TrainResult:
    """Train a model, and give it the weights of the epoch that its stopping rule keeps.

    The run depends on the model's settings, the windows and ``config`` alone: the same seed gives the same bits
    (on the same machine with the same number of threads). Unless ``config.start`` is ``given``, the model's
    parameters are drawn anew from the seed.

    Arguments:
        config: ``TrainConfig(preset="shock")``, ``"detailed"``, ``"distribution"`` or, when not given, ``"default"``.
        windows_test: scored after each epoch too, never used for a decision; see `History.recency`.
        windows_last: the last of the test windows, where these are wanted alone too; their figures stand beside those
            of all as ``last_mse`` and so on.
        directory: keep checkpoints there (``last.safetensors``, ``best.safetensors``).
        resume: continue the run in this directory, to the same bits as if it had never stopped. Model settings,
            windows and config must be those of the run, but for settings that only say where and how fast it
            computes (`FREE_TO_CHANGE`) and, at a constant learning rate, ``epochs``. A run that ended is given back
            as it is, unless there are more epochs now.
        progress: ``auto`` (a bar on a terminal, lines elsewhere, on standard error), ``bar``, ``lines``, ``silent``.
        tracker: ``tensorboard`` (into the directory) or ``mlflow``; nothing is written without it. A tracker that
            fails is disabled with a warning; training continues.
        on_interrupt: what Ctrl-C does: ``raise`` passes it on; ``keep`` ends the run with the best weights so far.

    A run whose loss or gradient becomes NaN or infinite ends with `Diverged`.

    With ``TrainConfig(devices=2, strategy="ddp")`` a program that calls ``train`` is started once for each device.
    Each batch is then divided over the processes, and a step is that of the whole batch, so losses are those of one
    process up to rounding. What a model draws (Fern's noise, dropout) differs by process: such a model follows
    another path to the same quality. The first process alone writes and shows anything.

    Example:
        >>> from fern.models import build_model
        >>> series = torch.sin(torch.arange(300.0) / 5)[:, None]
        >>> windows = Windows(series, context_length=24, horizon=12)
        >>> model = build_model("fern", context_length=24, horizon=12, channels=1, hidden=16, latent=4)
        >>> result = train(model, windows, windows, TrainConfig(preset="shock", epochs=5), progress="silent")
        >>> len(result.history), result.stopped
        (5, 'epochs')
    """
    config = TrainConfig() if config is None else config
    data = WindowSets(windows_train, windows_val, windows_test, windows_last)
    require_inputs_fit(model, config, data)
    require_choice("on_interrupt", on_interrupt, get_args(OnInterrupt))
    folder = run_directory(directory, resume)
    run_fingerprint = fingerprint(model, config, data)
    original_device = next((value.device for value in model.state_dict().values()), torch.device("cpu"))
    with threads(config.threads), torch.inference_mode(False), torch.enable_grad():
        fabric = launch(config)
        is_first, checkpoints = fabric.is_global_zero, None if folder is None else Checkpoints(folder, run_fingerprint)
        display = progress_of(progress, first=is_first)
        run_tracker = tracker_of(tracker, directory=folder, first=is_first, resumed=resume is not None)
        with seed_global_generators(config.seed, rank=fabric.global_rank, device=fabric.device):
            resuming = resume is not None and model.trainable
            saved = checkpoints.load() if checkpoints is not None and resuming else None
            if config.precision != "64-true" or config.start == "fresh" or saved is not None:
                model.float()  # whatever it was trained in before; Fabric makes it what the precision asks for
            began = time.monotonic(), time.process_time()
            if saved is None:
                run_on_first(lambda: None if checkpoints is None else checkpoints.begin(), fabric)
                _start(model, config, data)
            model.to(fabric.device)
            data = data.to(fabric.device)
            if not model.trainable:
                return _evaluate_fitted(model, config, data, fabric, checkpoints, run_fingerprint, began)
            keeps = on_interrupt == "keep"
            loop = Loop(model, config, data, fabric, checkpoints, display, run_tracker, saved, keeps_on_interrupt=keeps)
            _run_loop(loop, run_fingerprint)
    run = loop.run
    model.load_state_dict(run.kept)
    model.to(original_device).eval()
    return TrainResult(
        model, run.history, run.stopping.kept_epoch or 0, run.reason or "epochs", config, run_fingerprint, folder
    )


def _evaluate_fitted(
    model: Forecaster,
    config: TrainConfig,
    data: WindowSets,
    fabric: "Fabric",
    checkpoints: Checkpoints | None,
    run_fingerprint: Fingerprint,
    began: tuple[float, float],  # by the clock, and by this process's processors
) -> TrainResult:
    """The outcome for a model that learns nothing by gradient: its figures as epoch 0."""
    fitted = time.monotonic()
    evaluator = Evaluator(config, horizon=model.config.horizon)
    validation = evaluator.figures(model, data.validation, fabric, most=config.validation_windows)
    test = data.test_figures(lambda windows: evaluator.figures(model, windows, fabric))
    spent = {
        "seconds": fitted - began[0],
        "evaluation_seconds": time.monotonic() - fitted,
        "processor_seconds": time.process_time() - began[1],
    }
    history = History([EpochRecord(0, None, None, None, validation=validation, test=test, **spent)])
    if checkpoints is not None and fabric.is_global_zero:
        checkpoints.save_best(model, model.state_dict())
    folder = None if checkpoints is None else checkpoints.directory
    return TrainResult(model.eval(), history, 0, "nothing to train", config, run_fingerprint, folder)


def _start(model: Forecaster, config: TrainConfig, data: WindowSets) -> None:
    """Starting weights, and what the model wants to know of the training windows or of the rows they are cut from."""
    model.cpu()  # where the generator draws and the windows are
    if config.start == "fresh":
        try:
            initialise(model, generator_for(config.seed, "init"))
        except TypeError as error:
            problem = f'"fresh" cannot reinitialise this model ({error}); or give start="given"'
            raise FernError(problem, argument="start") from None
    model.prepare(_iterate_batches(data.train))
    if isinstance(model, FittedForecaster):
        judged = torch.linspace(0, len(data.validation) - 1, min(JUDGED, len(data.validation))).round().long()
        model.fit(data.train.stretches(), *data.validation.gather(judged))


def _iterate_batches(windows: Windows) -> Iterator[tuple[Tensor, Tensor]]:
    """Every window in order of time; of more than `PREPARE_WINDOWS` so many, evenly spaced."""
    count = min(len(windows), PREPARE_WINDOWS)
    for first in range(0, count, PREPARE_BATCH):
        yield windows.gather(torch.arange(first, min(first + PREPARE_BATCH, count)) * len(windows) // count)


def _restore(run: TrainingRun, saved: Saved, config: TrainConfig, checkpoints: Checkpoints, fabric: "Fabric") -> None:
    """Put a run where it was when it was saved."""
    try:
        run.restore(*saved, fabric)
    except FernError as error:
        raise Unresumable.of(error.within(str(checkpoints.directory))) from None
    except (RuntimeError, LookupError, ValueError, TypeError, AttributeError) as error:  # signed anew by other hands
        problem = f"the checkpoint is not of this run ({type(error).__name__}: {error})"
        raise Unresumable(problem, where=checkpoints.directory) from None
    run.kept = checkpoints.load_best(run, mend=fabric.is_global_zero)
    if fabric.is_global_zero:
        checkpoints.clear()
    if run.reason == "epochs" and run.stopping.epoch < config.epochs:
        run.reason = None  # it was given more of them
    if run.reason is None and run.stopping.epoch >= config.epochs:
        run.reason = "epochs"  # it was given fewer of them


def _run_loop(loop: Loop, run_fingerprint: Fingerprint) -> None:
    """Run the loop, and tell progress and tracker how it began and ended."""
    outcome, failed = "interrupted", True
    loop.tracker.start(run_fingerprint.settings)
    try:
        loop.run_epochs()
        outcome = f"stopped by {loop.run.reason}, kept epoch {loop.run.stopping.kept_epoch}"
        failed = False
    except FernError as error:
        outcome = str(error)
        raise
    finally:
        loop.progress.stop(outcome)
        loop.tracker.stop(outcome, failed=failed)
