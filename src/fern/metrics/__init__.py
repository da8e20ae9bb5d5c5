"""How good a forecast is: point errors, transport distances, effective prediction time, and scores of its distribution.

Every metric takes torch tensors or NumPy arrays ``(batch, horizon, channels)`` of equal shape and gives a 0-d float64
tensor (through which gradients flow, where there are any) or a NumPy float. Nothing is broadcast, and a NaN or an
infinity is an error that names its place.
"""

from fern.metrics.paths import energy_score
from fern.metrics.point import ept, mae, mse, sliced_w2_squared, sphere_directions, w2_squared
from fern.metrics.probabilistic import coverage, crps, nll
from fern.metrics.streaming import MetricAccumulator, ObjectiveWeights

__all__ = [
    "MetricAccumulator",
    "ObjectiveWeights",
    "coverage",
    "crps",
    "energy_score",
    "ept",
    "mae",
    "mse",
    "nll",
    "sliced_w2_squared",
    "sphere_directions",
    "w2_squared",
]
