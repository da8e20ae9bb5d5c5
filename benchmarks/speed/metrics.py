"""The metrics at the size of an epoch's validation: 7,000 windows of 336 steps and 3 channels.

Processor time on one thread. The peers are given float64 arrays in the layout they take, at no cost to them.
"""

import time
from collections.abc import Callable

import numpy as np
import ot
import scoringrules
import torch

from benchmarks.speed.harness import Measurement, best_seconds, record
from fern.metrics import (
    MetricAccumulator,
    crps,
    energy_score,
    ept,
    sliced_w2_squared,
    sphere_directions,
    variogram_score,
    w2_squared,
)

WINDOWS, HORIZON, CHANNELS, BATCH = 7_000, 336, 3, 95
SAMPLES = 100
FEW = 4  # windows for the scores of samples, on which the peers take seconds
STD = [1.0] * CHANNELS


def measure() -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        record("metrics", [*_distances(), *_epochs(), *_scores()], packages=("numpy", "torch", "pot", "scoringrules"))
    finally:
        torch.set_num_threads(threads)


def _windows(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    pred, true = torch.randn(2, count, HORIZON, CHANNELS, generator=generator).cumsum(dim=2)
    return pred, true


def _distances() -> list[Measurement]:
    pred, true = _windows(WINDOWS)
    directions = sphere_directions(HORIZON)
    wide_pred, wide_true = pred.double().numpy(), true.double().numpy()

    def pot_sliced() -> float:
        channels = range(CHANNELS)
        return np.mean(
            [
                ot.sliced_wasserstein_distance(wide_pred[..., c], wide_true[..., c], projections=directions.numpy())
                ** 2
                for c in channels
            ]
        )

    def pot_w2() -> float:
        rows = wide_pred.transpose(1, 0, 2).reshape(HORIZON, -1), wide_true.transpose(1, 0, 2).reshape(HORIZON, -1)
        return ot.wasserstein_1d(*rows, p=2).mean()

    def plain_ept() -> float:
        exceeds = np.abs(pred.numpy().astype(float) - true.numpy().astype(float)) > np.array(STD)
        return np.where(exceeds.any(axis=1), exceeds.argmax(axis=1) + 1, HORIZON).mean()

    return [
        _against(
            "sliced_w2, 500 projections",
            lambda: sliced_w2_squared(pred, true, directions=directions),
            pot_sliced,
            "POT",
        ),
        _against("w2", lambda: w2_squared(pred, true), pot_w2, "POT"),
        _against("ept", lambda: ept(pred, true, STD), plain_ept, "plain NumPy"),
    ]


def _epochs() -> list[Measurement]:
    pred, true = _windows(WINDOWS)

    def epoch(metrics: list[str], distance: str) -> dict[str, float]:
        accumulator = MetricAccumulator(metrics, std=STD, distance=distance)
        for start in range(0, WINDOWS, BATCH):
            accumulator.update(pred[start : start + BATCH], true[start : start + BATCH])
        return accumulator.compute()

    shock = _seconds(lambda: epoch(["mse", "mae", "w2", "ept", "objective"], "w2"))
    detailed = _seconds(lambda: epoch(["mse", "mae", "w2", "sliced_w2", "ept", "objective"], "sliced_w2"))
    training = _training_seconds()
    peer, target = "training Fern on as many at the rate of sgemm", "scoring windows costs less than training on them"
    return [
        Measurement("an epoch's validation, shock metrics, batches of 95", shock, training, "s", peer, target),
        Measurement("the same with sliced_w2", detailed, training, "s", peer, target),
    ]


def _training_seconds() -> float:
    """The time of the multiply-adds of forward (paper: 0.0035 G a window) and backward (twice that) in one product."""
    matrix = torch.randn(1024, 1024)
    return _seconds(lambda: matrix @ matrix) * WINDOWS * 3 * 0.0035e9 / 1024**3


def _scores() -> list[Measurement]:
    _, true = _windows(FEW)
    samples = true + torch.randn(SAMPLES, *true.shape, generator=torch.Generator().manual_seed(1))
    observed, ensemble = true.double().numpy(), samples.double().numpy()
    vectors, paths = np.moveaxis(observed, 1, 2), np.moveaxis(ensemble, 2, 3)
    return [
        _against(
            "crps of 100 samples, 4 windows",
            lambda: crps(samples, true),
            lambda: scoringrules.crps_ensemble(observed, ensemble, m_axis=0, estimator="pwm"),  # fair, by sorting
            "scoringrules (numba)",
        ),
        _against(
            "energy_score of 100 samples, 4 windows",
            lambda: energy_score(samples, true),
            lambda: scoringrules.es_ensemble(vectors, paths, m_axis=0, estimator="fair"),
            "scoringrules (numba)",
        ),
        _against(
            "variogram_score of 100 samples, 4 windows",
            lambda: variogram_score(samples, true),
            lambda: scoringrules.vs_ensemble(vectors, paths, m_axis=0),
            "scoringrules (numba)",
        ),
    ]


def _seconds(function: Callable[[], object]) -> float:
    return best_seconds(function, clock=time.process_time)


def _against(name: str, ours: Callable[[], object], peer: Callable[[], object], peer_name: str) -> Measurement:
    return Measurement(name, _seconds(ours), _seconds(peer, repeats=2), "s", peer_name, "faster than the peer")
