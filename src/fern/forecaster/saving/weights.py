"""A model from its name, settings and weights, none of which is trusted."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import torch
from numpy.typing import NDArray

from fern.models import Forecaster
from fern.models.registry import name_of
from fern.models.storage import model_of as stored_model_of


def describe_weights(model: Forecaster) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """A model's name and settings, and its weights."""
    return (
        {"name": name_of(model), "config": asdict(model.config)},
        {name: value.detach().cpu().numpy() for name, value in model.state_dict().items()},
    )


def model_of(described: Mapping[str, Any], weights: Mapping[str, NDArray[Any]], *, where: str) -> Forecaster:
    """The model in evaluation mode; see `fern.models.storage.model_of`."""
    tensors = {name: torch.from_numpy(values) for name, values in weights.items()}
    return stored_model_of(described.get("name"), described.get("config"), tensors, where=where)
