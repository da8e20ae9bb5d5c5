"""The checkpoint score: one number from squared error, absolute error, a Wasserstein distance and, if asked, CRPS."""

from dataclasses import dataclass, fields
from math import isfinite
from typing import Literal, TypeVar, get_args, overload

import numpy as np
from torch import Tensor

from fern.errors import FernError, unknown_name
from fern.metrics.arrays import Array, NumpyArray, Scalar, as_kind, read_pair
from fern.metrics.point import absolute_errors, squared_errors
from fern.metrics.wasserstein import sliced_w2_squared_per_channel, unit_directions, w2_squared_per_window
from fern.settings import STRICT

Distance = Literal["sliced_w2", "w2"]
DISTANCES: tuple[str, ...] = get_args(Distance)

S = TypeVar("S", Tensor, np.float64, float)


@dataclass(frozen=True)
class ObjectiveWeights:
    """The weights of the checkpoint score; the defaults are the paper's.

    ``crps`` weighs the mean CRPS of the marginals, with which the score judges a distribution and not its mean alone.
    A point forecast is a distribution without spread, whose CRPS is its absolute error.

    Example:
        >>> round(ObjectiveWeights().score(mse=20.0, mae=2.0, distance=5.0), 6)
        4.5
    """

    __pydantic_config__ = STRICT

    mse: float = 0.1
    mae: float = 1.0
    distance: float = 0.1
    crps: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            weight = getattr(self, field.name)
            if not (isfinite(weight) and weight >= 0):
                raise FernError(argument=field.name, got=weight, expected="a weight of 0 or more")

    def score(self, *, mse: S, mae: S, distance: S, crps: S | None = None) -> S:
        """The weighted sum of the figures; without ``crps`` the forecast is a point, and ``mae`` stands for it."""
        points = self.mse * mse + self.mae * mae + self.distance * distance
        return points + self.crps * (mae if crps is None else crps) if self.crps else points


PAPER_WEIGHTS = ObjectiveWeights()


def require_distance(distance: str) -> None:
    """Refuse a name that is none of the two distances."""
    if distance not in DISTANCES:
        raise unknown_name("distance", distance, DISTANCES)


@overload
def objective(
    pred: Tensor,
    true: Tensor,
    *,
    distance: Distance = ...,
    directions: Tensor | None = ...,
    weights: ObjectiveWeights = ...,
) -> Tensor: ...
@overload
def objective(
    pred: NumpyArray,
    true: NumpyArray,
    *,
    distance: Distance = ...,
    directions: Array | None = ...,
    weights: ObjectiveWeights = ...,
) -> np.float64: ...
def objective(
    pred: Array,  # (B, H, C)
    true: Array,  # (B, H, C)
    *,
    distance: Distance = "sliced_w2",
    directions: Array | None = None,  # (H, L)
    weights: ObjectiveWeights = PAPER_WEIGHTS,
) -> Scalar:
    """The paper's checkpoint score of point forecasts, 0.1·MSE + 1.0·MAE + 0.1·D; lower is better.

    D is the ``sliced_w2`` of the detailed tables or the ``w2`` of the shock tables. ``directions`` are those of
    ``sliced_w2``; without them it uses its own, the same at each call.
    """
    require_distance(distance)
    if distance == "w2" and directions is not None:
        raise FernError("only sliced_w2 takes them, and the distance is w2", argument="directions")
    forecast, truth = read_pair(pred, true)
    if distance == "w2":
        apart = w2_squared_per_window(forecast, truth).mean()
    else:
        apart = sliced_w2_squared_per_channel(forecast, truth, unit_directions(directions, truth)).mean()
    score = weights.score(
        mse=squared_errors(forecast, truth).mean(), mae=absolute_errors(forecast, truth).mean(), distance=apart
    )
    return as_kind("objective", score, true)
