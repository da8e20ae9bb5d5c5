"""The metrics of a model over a set of windows, and the check that a run has not diverged."""

from collections.abc import Iterable
from copy import copy
from functools import reduce
from math import isfinite
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from fern.data.windows import Windows
from fern.errors import FernError
from fern.metrics import MetricAccumulator, sphere_directions
from fern.models import Forecaster
from fern.training.config import TrainConfig
from fern.training.history import MetricValues
from fern.training.runtime import gather_all

if TYPE_CHECKING:
    from lightning_fabric import Fabric


Named = Iterable[tuple[str, nn.Parameter]]


class Diverged(FernError):  # noqa: N818 - what happened to the run, which is what the benchmark records
    """A loss, gradient, weight or forecast of a run became NaN or infinite.

    ``epoch`` and ``step`` (within the epoch) count from 1; ``step`` is None when validation showed it. ``group`` is
    the part of the model where the first bad number was found, None when only the loss is bad.

    Example:
        >>> raise Diverged("the loss is nan", epoch=2, step=17, group=None)
        Traceback (most recent call last):
            ...
        fern.training.evaluation.Diverged: diverged at epoch 2, step 17: the loss is nan
    """

    def __init__(self, what: str, *, epoch: int, step: int | None, group: str | None, remedy: str = "") -> None:
        place = f"epoch {epoch}" if step is None else f"epoch {epoch}, step {step}"
        super().__init__(f"diverged at {place}: {what}{remedy}")
        self.what, self.epoch, self.step, self.group, self.remedy = what, epoch, step, group, remedy

    def __reduce__(self) -> tuple[Any, ...]:
        """What a copy in another process is made of."""
        return _again, (self.what, self.epoch, self.step, self.group, self.remedy)


class NotFinite(FernError):  # noqa: N818 - what was found, of which `Diverged` is made
    """A forecast of an evaluation is NaN or infinite."""


def _again(what: str, epoch: int, step: int | None, group: str | None, remedy: str) -> Diverged:
    return Diverged(what, epoch=epoch, step=step, group=group, remedy=remedy)


def diverged_gradients(named: Named, *, loss: float, epoch: int, step: int, remedy: str) -> Diverged:
    """The error for a step whose loss, or the norm of whose gradient, is not finite."""
    bad = _first_bad(((name, p.grad) for name, p in named if p.grad is not None), "gradient")
    group, what = bad or (None, "the norm of the gradient overflows" if isfinite(loss) else "")
    parts = [part for part in ("" if isfinite(loss) else f"the loss is {loss}", what) if part]
    return Diverged(", ".join(parts), epoch=epoch, step=step, group=group, remedy=remedy)


def diverged_weights(named: Named, *, epoch: int, step: int, remedy: str) -> Diverged:
    """The error for weights whose norm is not finite."""
    bad = _first_bad(((name, p.detach()) for name, p in named), "weight")
    group, what = bad or (None, "the norm of the weights overflows")
    return Diverged(what, epoch=epoch, step=step, group=group, remedy=remedy)


def group_of(name: str) -> str:
    """The parameter group of a parameter: the part of the model it belongs to."""
    return name.rsplit(".", 1)[0]


def _first_bad(tensors: Iterable[tuple[str, Tensor | None]], kind: str) -> tuple[str, str] | None:
    bad = [(name, value) for name, value in tensors if value is not None and not bool(torch.isfinite(value).all())]
    if not bad:
        return None
    name, value = bad[0]
    number = value[~torch.isfinite(value)][0].item()
    more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
    return group_of(name), f"the {kind} of {name}{more}, parameter group {group_of(name)!r}, holds {number}"


class Evaluator:
    """Scores the forecasts of a model: mse, mae, the distance and the objective, every window once.

    Where the objective gives the CRPS a weight, it is that of the model's distribution, and a figure of its own; the
    CRPS of a model without a distribution is its absolute error.

    The directions of ``sliced_w2`` are drawn once, by seed 0, and serve all epochs and runs, so that
    objectives compare.
    """

    def __init__(self, config: TrainConfig, *, horizon: int) -> None:
        self._config = config
        self._metrics = ["mse", "mae", config.distance, "objective"]
        self._directions: Tensor | None = None
        if config.distance == "sliced_w2":
            generator = torch.Generator().manual_seed(0)
            self._directions = sphere_directions(horizon, config.projections, generator=generator)

    def _accumulator(self, model: Forecaster) -> MetricAccumulator:
        """An empty accumulator of the figures."""
        return MetricAccumulator(
            [*self._metrics, "crps"] if self._judges_distribution_of(model) else self._metrics,
            directions=self._directions,
            distance=self._config.distance,
            weights=self._config.objective,
        )

    def _judges_distribution_of(self, model: Forecaster) -> bool:
        return model.has_distribution and self._config.objective.crps > 0

    def figures(
        self, model: Forecaster, windows: Windows, fabric: "Fabric", *, most: int | None = None
    ) -> MetricValues:
        """The figures over all windows, or ``most`` of them evenly spread, each process taking its part of them."""
        own = self._gathered(model, windows, most, rank=fabric.global_rank, processes=fabric.world_size)
        if not all(gather_all(own is not None, fabric)) or own is None:  # all processes end together
            raise NotFinite("a forecast is not finite")
        return _merged(own, fabric).compute()

    @torch.no_grad()
    def _gathered(
        self, model: Forecaster, windows: Windows, most: int | None, *, rank: int, processes: int
    ) -> MetricAccumulator | None:
        """The figures of this process's windows, None where a forecast is not finite."""
        gathered = self._accumulator(model)
        size = self._config.evaluation_batch_size
        count = min(len(windows), most or len(windows))
        start, stop = (count * edge // processes for edge in (rank, rank + 1))
        dtype = next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)
        was_training = model.training
        model.eval()
        try:
            for first in range(start, stop, size):
                places = torch.arange(first, min(first + size, stop))
                past, future = windows.gather(places * len(windows) // count)
                made = model(past.to(dtype))
                mean = made.mean.to(future.dtype)
                if not bool(torch.isfinite(mean.sum())) and not bool(torch.isfinite(mean).all()):
                    return None
                gathered.update(
                    mean, future, distribution=made.ellipsoid if self._judges_distribution_of(model) else None
                )
        finally:
            model.train(was_training)
        return gathered


def _merged(own: MetricAccumulator, fabric: "Fabric") -> MetricAccumulator:
    """The accumulators of all processes in the order of their ranks: the same bits on each of them."""
    if fabric.world_size == 1:
        return own
    parts = []
    for state in gather_all(own.state_dict(), fabric):
        parts.append(copy(own))
        parts[-1].load_state_dict(state)
    return reduce(MetricAccumulator.merge, parts)
