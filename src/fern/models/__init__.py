"""Forecasters under one contract: Fern, the baselines and the naive references.

Each model is registered under a name; `build_model` makes one by that name.
"""

from fern.models import naive, rolled  # noqa: F401  registers them
from fern.models.base import FittedForecaster, Forecast, Forecaster, ModelConfig, PointForecaster
from fern.models.baselines import (  # noqa: F401  registers them
    analog,
    dlinear,
    koopa,
    moderntcn,
    patchtst,
    pfnn,
    polymap,
    timemixer,
)
from fern.models.fern import Fern, FernConfig
from fern.models.pretrained import model as pretrained_model  # noqa: F401  registers it
from fern.models.registry import build_model, model_config, model_names, register_model
from fern.models.storage import load_model, save_model

__all__ = [
    "Fern",
    "FernConfig",
    "FittedForecaster",
    "Forecast",
    "Forecaster",
    "ModelConfig",
    "PointForecaster",
    "build_model",
    "load_model",
    "model_config",
    "model_names",
    "register_model",
    "save_model",
]
