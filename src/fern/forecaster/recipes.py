"""How a model is built and trained for people's own data; which way suits the series is found on validation windows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fern.metrics import ObjectiveWeights


@dataclass(frozen=True, eq=False)
class Recipe:
    """A way to build and train a model: settings of the model and of `fern.training.TrainConfig`."""

    name: str
    model: Mapping[str, Any]
    train: Mapping[str, Any]


_LAW: Mapping[str, Any] = {
    "loss": "whitened_crps",
    "objective": ObjectiveWeights(mse=0.0, mae=0.0, distance=0.0, crps=1.0),
}

FERN = (
    Recipe("level", {"normalise": "instance", "skip": "linear", "mean": "direct"}, _LAW),
    Recipe("state", {"mean": "direct"}, _LAW),
)
"""``level``: each context is scaled by itself and a linear map carries it on: for series whose level and spread drift.
``state``: values as they are, for systems whose level is part of their state (chaotic ones)."""


def recipes_for(model: str, settings: Mapping[str, Any] | None) -> tuple[Recipe, ...]:
    """The recipes to try for a model of this name; settings that are given replace the recipes' own.

    Example:
        >>> [recipe.name for recipe in recipes_for("fern", None)], recipes_for("dlinear", None)[0].name
        (['level', 'state'], 'plain')
    """
    given = dict(settings or {})
    if model != "fern":
        return (Recipe("plain", given, {}),)
    if given:
        return (Recipe("given", {**FERN[0].model, **given}, _LAW),)
    return FERN
