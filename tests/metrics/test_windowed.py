"""Metrics for each window and channel."""

import numpy as np
import pytest
import torch
from torch import Tensor

import fern.metrics
from fern.errors import FernError
from fern.metrics.streaming import METRICS, per_window
from fern.transport import Ellipsoid

WINDOWED = [name for name in METRICS if name not in ("sliced_w2", "objective")]


@pytest.mark.parametrize("metric", WINDOWED)
def test_the_mean_over_windows_and_channels_is_the_metric(metric: str, ellipsoid: Ellipsoid, truth: Tensor) -> None:
    pred, std = ellipsoid.mean.transpose(1, 2), [0.5, 1.0]
    samples = ellipsoid.sample((20,), generator=torch.Generator().manual_seed(2)).transpose(-1, -2)
    values = per_window(metric, pred, truth, std=std, distribution=ellipsoid, samples=samples)
    function = getattr(fern.metrics, {"w2": "w2_squared"}.get(metric, metric))
    arguments = {
        "mse": (pred, truth),
        "mae": (pred, truth),
        "w2": (pred, truth),
        "ept": (pred, truth, std),
        "energy_score": (samples, truth),
        "variogram_score": (samples, truth),
        "interval_width": (ellipsoid,),
    }.get(metric, (ellipsoid, truth))
    assert values.shape == (5, 2)
    assert values.mean().item() == pytest.approx(function(*arguments).item(), rel=1e-12)
    if metric not in ("nll", "interval_width"):  # each window's value is that of the window on its own
        alone = per_window(
            metric, pred[2:3], truth[2:3], std=std, distribution=_window(ellipsoid, 2), samples=samples[:, 2:3]
        )
        assert torch.allclose(alone, values[2:3], rtol=1e-12)


def _window(distribution: Ellipsoid, window: int) -> Ellipsoid:
    parts = (distribution.eigenvalues[[window]], distribution.shift[[window]], distribution.reflections[[window]])
    return Ellipsoid(*parts, base_variance=distribution.base_variance, horizon=distribution.horizon)


def test_numpy_in_gives_numpy_out(rng: np.random.Generator) -> None:
    pred, true = rng.normal(size=(2, 4, 6, 3))
    values = per_window("mse", pred, true)
    assert isinstance(values, np.ndarray)
    np.testing.assert_allclose(values, ((pred - true) ** 2).mean(axis=1), rtol=1e-13)


def test_the_level_reaches_the_intervals(ellipsoid: Ellipsoid, truth: Tensor) -> None:
    narrow, wide = (
        per_window("interval_width", truth, truth, distribution=ellipsoid, level=level) for level in (50, 90)
    )
    assert (narrow < wide).all()


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        ("msee", "unknown metric 'msee': did you mean 'mse'"),
        ("sliced_w2", "unknown metric 'sliced_w2'"),
        ("ept", "std: "),
        ("crps", "distribution: "),
        ("nll", "distribution: "),
        ("energy_score", "samples: "),
    ],
)
def test_what_a_metric_lacks_is_named(metric: str, words: str) -> None:
    zeros = torch.zeros(2, 3, 1)
    with pytest.raises(FernError, match=words):
        per_window(metric, zeros, zeros)
