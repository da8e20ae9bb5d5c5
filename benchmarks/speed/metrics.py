"""The metrics at the size of an epoch's validation: 7,000 windows of 336 steps and 3 channels.

Processor time on one thread. The peers are given float64 arrays in the layout they take, at no cost to them.
"""

import time
from collections.abc import Callable
from typing import Literal

import numpy as np
import ot
import scoringrules
import torch

from benchmarks.speed.harness import Effort, Measurement, best_seconds
from fern.metrics import (
    MetricAccumulator,
    crps,
    energy_score,
    ept,
    sliced_w2_squared,
    sphere_directions,
    w2_squared,
)
from fern.training.runtime import threads

PACKAGES = ("numpy", "torch", "pot", "scoringrules")
WINDOWS, HORIZON, CHANNELS, BATCH = 7_000, 336, 3, 95
SAMPLES = 100
FEW = 4  # windows for the scores of samples, on which the peers take seconds
STD = [1.0] * CHANNELS


def measure(effort: Effort) -> list[Measurement]:
    with threads(1):
        return [*_distances(effort), *_epochs(effort), *_scores(effort)]


def _windows(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    pred, true = torch.randn(2, count, HORIZON, CHANNELS, generator=generator).cumsum(dim=2)
    return pred, true


def _distances(effort: Effort) -> list[Measurement]:
    pred, true = _windows(effort.size(WINDOWS, least=BATCH))
    directions = sphere_directions(HORIZON)
    wide_pred, wide_true = pred.double().numpy(), true.double().numpy()

    def pot_sliced() -> object:
        channels = range(CHANNELS)
        return np.mean(
            [
                ot.sliced_wasserstein_distance(wide_pred[..., c], wide_true[..., c], projections=directions.numpy())
                ** 2
                for c in channels
            ]
        )

    def pot_w2() -> object:
        rows = wide_pred.transpose(1, 0, 2).reshape(HORIZON, -1), wide_true.transpose(1, 0, 2).reshape(HORIZON, -1)
        return ot.wasserstein_1d(*rows, p=2).mean()

    def plain_ept() -> object:
        exceeds = np.abs(pred.numpy().astype(float) - true.numpy().astype(float)) > np.array(STD)
        return np.where(exceeds.any(axis=1), exceeds.argmax(axis=1) + 1, HORIZON).mean()

    return [
        _against(
            "sliced_w2, 500 projections",
            lambda: sliced_w2_squared(pred, true, directions=directions),
            pot_sliced,
            "POT",
            effort,
        ),
        _against("w2", lambda: w2_squared(pred, true), pot_w2, "POT", effort),
        _against("ept", lambda: ept(pred, true, STD), plain_ept, "plain NumPy", effort),
    ]


def _epochs(effort: Effort) -> list[Measurement]:
    pred, true = _windows(effort.size(WINDOWS, least=BATCH))

    def epoch(metrics: list[str], distance: Literal["sliced_w2", "w2"]) -> dict[str, float]:
        accumulator = MetricAccumulator(metrics, std=STD, distance=distance)
        for start in range(0, len(pred), BATCH):
            accumulator.update(pred[start : start + BATCH], true[start : start + BATCH])
        return accumulator.compute()

    shock = _seconds(lambda: epoch(["mse", "mae", "w2", "ept", "objective"], "w2"), effort)
    detailed = _seconds(lambda: epoch(["mse", "mae", "w2", "sliced_w2", "ept", "objective"], "sliced_w2"), effort)
    training = _training_seconds(len(pred), effort)
    peer, target = "training Fern on as many at the rate of sgemm", "scoring windows costs less than training on them"
    return [
        Measurement("an epoch's validation, shock metrics, batches of 95", shock, training, "s", peer, target),
        Measurement("the same with sliced_w2", detailed, training, "s", peer, target),
    ]


def _training_seconds(windows: int, effort: Effort) -> float:
    """The time of the multiply-adds of forward (paper: 0.0035 G a window) and backward (twice that) in one product."""
    matrix = torch.randn(1024, 1024)
    return _seconds(lambda: matrix @ matrix, effort) * windows * 3 * 0.0035e9 / 1024**3


def _scores(effort: Effort) -> list[Measurement]:
    windows, count = effort.size(FEW, least=1), effort.size(SAMPLES, least=5)
    _, true = _windows(windows)
    samples = true + torch.randn(count, *true.shape, generator=torch.Generator().manual_seed(1))
    observed, ensemble = true.double().numpy(), samples.double().numpy()
    of_what = f"{count} samples, {windows} windows"
    vectors, paths = np.moveaxis(observed, 1, 2), np.moveaxis(ensemble, 2, 3)
    return [
        _against(
            f"crps of {of_what}",
            lambda: crps(samples, true),
            lambda: scoringrules.crps_ensemble(observed, ensemble, m_axis=0, estimator="pwm"),  # fair, by sorting
            "scoringrules (numba)",
            effort,
        ),
        _against(
            f"energy_score of {of_what}",
            lambda: energy_score(samples, true),
            lambda: scoringrules.es_ensemble(vectors, paths, m_axis=0, estimator="fair"),
            "scoringrules (numba)",
            effort,
        ),
    ]


def _seconds(function: Callable[[], object], effort: Effort, *, repeats: int = 5) -> float:
    return best_seconds(function, repeats=effort.rounds(repeats), clock=time.process_time)


def _against(
    name: str, ours: Callable[[], object], peer: Callable[[], object], peer_name: str, effort: Effort
) -> Measurement:
    own, other = _seconds(ours, effort), _seconds(peer, effort, repeats=2)
    return Measurement(name, own, other, "s", peer_name, "faster than the peer")
