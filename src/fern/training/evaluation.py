"""The figures of a model over all windows of a set."""

from copy import copy
from functools import reduce
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fern.data.windows import Windows
from fern.metrics import MetricAccumulator, sphere_directions
from fern.models import Forecaster
from fern.training.config import TrainConfig
from fern.training.divergence import NotFinite
from fern.training.machine.processes import of_all
from fern.training.records.history import MetricValues

if TYPE_CHECKING:
    from lightning_fabric import Fabric


class Evaluator:
    """Scores the forecasts of a model: mse, mae, the distance and the objective, every window once.

    Where the objective gives the CRPS a weight, it is that of the model's law, and a figure of its own; the CRPS of a
    model without a law is its absolute error.

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
            [*self._metrics, "crps"] if self._judges_law_of(model) else self._metrics,
            directions=self._directions,
            distance=self._config.distance,
            weights=self._config.objective,
        )

    def _judges_law_of(self, model: Forecaster) -> bool:
        return model.has_law and self._config.objective.crps > 0

    def figures(
        self, model: Forecaster, windows: Windows, fabric: "Fabric", *, most: int | None = None
    ) -> MetricValues:
        """The figures over all windows, or ``most`` of them evenly spread, each process taking its part of them."""
        own = self._gathered(model, windows, most, rank=fabric.global_rank, processes=fabric.world_size)
        if not all(of_all(own is not None, fabric)) or own is None:  # all processes end together
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
                gathered.update(mean, future, law=made.ellipsoid if self._judges_law_of(model) else None)
        finally:
            model.train(was_training)
        return gathered


def _merged(own: MetricAccumulator, fabric: "Fabric") -> MetricAccumulator:
    """The accumulators of all processes in the order of their ranks: the same bits on each of them."""
    if fabric.world_size == 1:
        return own
    parts = []
    for state in of_all(own.state_dict(), fabric):
        parts.append(copy(own))
        parts[-1].load_state_dict(state)
    return reduce(MetricAccumulator.merge, parts)
