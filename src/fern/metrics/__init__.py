"""How good a forecast is: point errors, transport distances, effective prediction time, and scores of its distribution.

Every metric takes torch tensors or NumPy arrays ``(batch, horizon, channels)`` of equal shape and gives a 0-d float64
tensor (through which gradients flow, where there are any) or a NumPy float. Nothing is broadcast, and a NaN or an
infinity is an error that names its place.
"""

from fern.metrics.paths import energy_score, variogram_score
from fern.metrics.point import ept, lyapunov_times, mae, mse, sliced_w2_squared, sphere_directions, w2_squared
from fern.metrics.probabilistic import coverage, crps, interval_width, joint_coverage, nll
from fern.metrics.streaming import MetricAccumulator, ObjectiveWeights

__all__ = [
    "MetricAccumulator",
    "ObjectiveWeights",
    "coverage",
    "crps",
    "energy_score",
    "ept",
    "interval_width",
    "joint_coverage",
    "lyapunov_times",
    "mae",
    "mse",
    "nll",
    "sliced_w2_squared",
    "sphere_directions",
    "variogram_score",
    "w2_squared",
]
