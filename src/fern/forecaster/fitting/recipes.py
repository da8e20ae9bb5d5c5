"""How a model is built and trained for people's own data; which way suits the series is found on validation windows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, eq=False)
class Recipe:
    """A way to build and train a model: arguments of `fern.models.build_model` and `fern.training.TrainConfig`."""

    name: str
    model: Mapping[str, Any]
    train: Mapping[str, Any]


FERN = (
    Recipe("level", {"preset": "level"}, {"preset": "distribution"}),
    Recipe("state", {"preset": "state"}, {"preset": "distribution", "loss": "crps"}),
)
"""By the presets of `fern.models` and `fern.training`: ``level`` for series whose level and spread drift, ``state`` for
systems whose level is part of their state (chaotic ones). There the CRPS of each step, dearer to compute, gives the
better distribution; see docs/decisions.md."""


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
        return (Recipe("given", {**FERN[0].model, **given}, FERN[0].train),)
    return FERN
