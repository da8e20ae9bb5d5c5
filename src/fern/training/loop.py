"""The training loop of every model."""

import time
from contextlib import nullcontext
from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING

import torch
from torch import Generator, Tensor, nn

from fern.data.windows import Windows
from fern.models import Forecaster
from fern.models.base import Criterion
from fern.training.checkpoints import Checkpoints, Tensors, TrainingRun
from fern.training.config import TrainConfig
from fern.training.evaluation import (
    Diverged,
    EpochRecord,
    Evaluator,
    MetricValues,
    NotFinite,
    WindowSets,
    diverged_gradients,
    diverged_weights,
)
from fern.training.logging import Progress, Tracker
from fern.training.optimisation import Schedule
from fern.training.runtime import EpochOrder, Share, gather_all

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


@dataclass
class Loop:
    """Epochs of steps over ``run`` until its stopping rule ends it.

    Windows are on the device already; ``loss_of`` and ``optimiser`` are wrapped by Fabric.
    """

    run: TrainingRun
    config: TrainConfig
    batch_size: int
    fabric: "Fabric"
    loss_of: nn.Module
    optimiser: torch.optim.Optimizer
    data: WindowSets
    evaluator: Evaluator
    checkpoints: Checkpoints | None
    progress: Progress
    tracker: Tracker
    keeps_on_interrupt: bool
    _weights: list[nn.Parameter] = field(init=False)
    _schedule: Schedule = field(init=False)
    _saved_at: float = field(init=False)
    _began: float = field(init=False)

    def __post_init__(self) -> None:
        self._weights = [p for p in self.run.model.parameters() if p.requires_grad]
        per_epoch = self._order(1).steps
        config = self.config
        self._schedule = config.rates(steps=config.epochs * per_epoch)
        self._saved_at = time.monotonic()
        spent = sum(record.seconds + record.evaluation_seconds for record in self.run.records) + self.run.seconds
        self._began = time.monotonic() - spent

    def epochs(self) -> None:
        """Train until the stopping rule says why it is enough, or someone who wants what there is interrupts."""
        try:
            self._epochs()
        except KeyboardInterrupt:
            if not self.keeps_on_interrupt:
                raise
            self.run.reason = "interrupted"
            if not self.run.kept:
                self.run.kept = self.run.evaluated_weights()

    def _epochs(self) -> None:
        run = self.run
        self.progress.start(epochs=self.config.epochs, steps=self._order(1).steps, done=run.steps)
        if run.steps == 0:
            self._save()
        while run.reason is None:
            self._steps_of_epoch()
            self._end_epoch()

    def _steps_of_epoch(self) -> None:
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
            raise diverged_gradients(named, loss=value, epoch=run.epoch, step=run.step + 1, remedy=remedy)
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
            run.kept = run.evaluated_weights()
        self.progress.epoch(record, kept=kept)
        self._save(new_best=run.kept if kept else None)
        self.tracker.epoch(record)

    def _figures(self, windows: Windows, *, most: int | None = None) -> MetricValues:
        """The figures of the evaluated weights over all windows, or ``most`` of them."""
        run = self.run
        try:
            with nullcontext() if run.average is None else run.average.applied():
                return self.evaluator.figures(run.model, windows, self.fabric, most=most)
        except NotFinite as error:
            raise Diverged(str(error), epoch=run.epoch, step=None, group=None, remedy=self._remedy()) from None

    def _time_is_up(self) -> bool:
        """Whether the time limit leaves no more than an evaluation takes."""
        limit = self.config.time_limit
        return limit is not None and self._elapsed() + self._evaluation_seconds() >= limit

    def _place_in_schedule(self) -> int:
        """The step whose learning rate is due: with a time limit the one that the clock is at, where it is ahead."""
        limit, total = self.config.time_limit, self._schedule.steps
        if limit is None:
            return self.run.steps
        share = self._elapsed() / max(limit - self._evaluation_seconds(), 1e-9)
        return max(self.run.steps, min(total - 1, int(share * total)))

    def _elapsed(self) -> float:
        return time.monotonic() - self._began

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
            raise diverged_weights(run.model.named_parameters(), epoch=run.epoch, step=run.step, remedy=self._remedy())

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
