"""The figures of a model, of the oracle and of the naive reference over all test windows of a problem."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fern.benchmark.problem import Problem
from fern.benchmark.results import LAST
from fern.data.windows import Windows
from fern.errors import FernError
from fern.metrics import MetricAccumulator
from fern.metrics.point import absolute_errors, squared_errors
from fern.models import Forecast, Forecaster

BATCH = 512
POINT = {"mse": "mse", "mae": "mae", "w2": "wd", "sliced_w2": "swd", "ept": "ept"}
"""The metrics of every forecast, and their names in a row: the paper's."""

ELLIPSOID_DISTRIBUTION = ("crps", "nll", "coverage")
SAMPLED_DISTRIBUTION = ("crps", "coverage")
SAMPLES = 100
"""Paths that are drawn of a distribution which has no closed form."""

NO_FLOOR = 1e-6
"""A floor below this share of the training variance is the rounding of float32 values, not a property of the system."""

Batch = tuple[Tensor, Tensor, NDArray[np.int64]]  # past, future and the first row of each forecast


@dataclass(frozen=True)
class Score:
    """Metrics over all test windows, and the errors of each window.

    ``metrics`` has the point metrics of the problem's ``last_batch`` too, where it has one: ``last_mse`` and so on.
    """

    metrics: dict[str, float]
    mse: NDArray[np.float32]  # (n,)
    mae: NDArray[np.float32]  # (n,)

    @property
    def windows(self) -> int:
        """How many windows were scored."""
        return len(self.mse)


@dataclass(frozen=True)
class References:
    """What a problem's errors are read against: the naive reference, the floor (the oracle's error), and the variance.

    The floor is None where nobody knows the true process.
    """

    naive_mse: float
    oracle_mse: float | None
    variance: float

    def compare(self, mse: float) -> dict[str, float]:
        """How far an error lies above the floor, and how much better it is than repeating the last value.

        ``excess_mse`` = mse - oracle_mse, in the units of the data. ``regret`` = excess_mse over the variance of the
        training part (mean over the channels): 0 is the best possible and, where the floor is zero, 1 about as bad as
        always saying the mean. ``relative_regret`` = mse / oracle_mse - 1, given only where the floor is a property of
        the system (above 1e-6 of the training variance): of a deterministic one it is rounding alone.
        ``skill`` = 1 - mse / mse of the last value repeated: 1 is perfect, 0 no better, negative worse.

        Example:
            >>> References(naive_mse=2.0, oracle_mse=0.5, variance=5.0).compare(1.0)
            {'oracle_mse': 0.5, 'excess_mse': 0.5, 'regret': 0.1, 'relative_regret': 1.0, 'skill': 0.5}
        """
        figures = {}
        if self.oracle_mse is not None:
            excess = mse - self.oracle_mse
            figures = {"oracle_mse": self.oracle_mse, "excess_mse": excess}
            if self.variance > 0.0:
                figures["regret"] = excess / self.variance
            if self.oracle_mse > NO_FLOOR * self.variance:
                figures["relative_regret"] = mse / self.oracle_mse - 1.0
        if self.naive_mse > 0.0:
            figures["skill"] = 1.0 - mse / self.naive_mse
        return figures


def score_model(model: Forecaster, problem: Problem, *, seed: int) -> Score:
    """The figures of a model in evaluation mode; the seed draws the samples of a distribution without a closed form."""
    generator = torch.Generator().manual_seed(seed)

    def forecast(past: Tensor, _: NDArray[np.int64]) -> Forecast:
        prediction: Forecast = model(past)
        if prediction.ellipsoid is None and model.has_distribution:
            prediction = model(past, samples=SAMPLES, generator=generator)
        return prediction

    model.eval()
    with torch.no_grad():
        return _score(forecast, problem)


def score_oracle(problem: Problem) -> Score:
    """The figures of the best possible forecast."""
    return _score(lambda _, starts: Forecast(mean=torch.from_numpy(problem.best_forecasts(starts))), problem)


def find_references(problem: Problem) -> References:
    """The references of a problem."""
    naive, best, scored = 0.0, 0.0, 0
    known = problem.dataset.trajectory is not None
    for past, future, starts in _batches(problem.test):
        last = past[:, -1:].expand_as(future)
        naive += float(squared_errors(last, future).sum())
        if known:
            mean = torch.from_numpy(problem.best_forecasts(starts))
            best += float(squared_errors(mean, future.double()).sum())
        scored += future.shape[0] * future.shape[2]
    return References(
        naive_mse=naive / scored,
        oracle_mse=best / scored if known else None,
        variance=float((problem.train_std**2).mean()),
    )


def _score(forecast: Callable[[Tensor, NDArray[np.int64]], Forecast], problem: Problem) -> Score:
    score = _evaluate(forecast, problem, problem.test)
    if problem.last_batch is None:
        return score
    last = _evaluate(forecast, problem, problem.last_batch).metrics
    return replace(score, metrics=score.metrics | {f"{LAST}{name}": last[name] for name in POINT.values()})


def _evaluate(forecast: Callable[[Tensor, NDArray[np.int64]], Forecast], problem: Problem, windows: Windows) -> Score:
    accumulator: MetricAccumulator | None = None
    errors: list[Tensor] = []  # (2, B) each: squared and absolute
    for past, future, starts in _batches(windows):
        prediction = forecast(past, starts)
        mean = prediction.mean
        if not bool(torch.isfinite(mean).all()):
            raise FernError("a forecast of the test windows is not finite")
        distribution = prediction.ellipsoid if prediction.ellipsoid is not None else prediction.samples
        if accumulator is None:
            of_distribution: tuple[str, ...] = () if distribution is None else SAMPLED_DISTRIBUTION
            if prediction.ellipsoid is not None:
                of_distribution = ELLIPSOID_DISTRIBUTION
            accumulator = MetricAccumulator([*POINT, *of_distribution], std=problem.train_std, levels=(90.0,))
        future = future.to(mean.dtype)
        accumulator.update(mean, future, distribution=distribution)
        errors.append(torch.stack([score(mean, future).mean(dim=1) for score in (squared_errors, absolute_errors)]))
    if accumulator is None:
        raise FernError("has no test windows", argument=problem.dataset.name)
    metrics = {POINT.get(name, name): value for name, value in accumulator.compute().items()}
    mse, mae = torch.cat(errors, dim=1).numpy().astype(np.float32)
    return Score(metrics, mse, mae)


def _batches(windows: Windows) -> Iterable[Batch]:
    for first in range(0, len(windows), BATCH):
        indices = torch.arange(first, min(first + BATCH, len(windows)))
        past, future = windows.gather(indices)
        yield past, future, windows.starts(indices).numpy() + windows.context_length
