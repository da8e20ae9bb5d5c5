"""Forecasters under one contract: Fern, the baselines and the naive references."""

from fern.models.base import Criterion, FittedForecaster, Forecast, Forecaster, ModelConfig, PointForecaster, Sees
from fern.models.baselines.analog import Analog, AnalogConfig
from fern.models.baselines.dlinear import DLinear, DLinearConfig
from fern.models.baselines.koopa import Koopa, KoopaConfig
from fern.models.baselines.moderntcn import ModernTCN, ModernTCNConfig
from fern.models.baselines.patchtst import PatchTST, PatchTSTConfig
from fern.models.baselines.pfnn import PFNN, PFNNConfig
from fern.models.baselines.polymap import Polymap, PolymapConfig
from fern.models.baselines.timemixer import TimeMixer, TimeMixerConfig
from fern.models.fern import Fern, FernConfig
from fern.models.footprint import multiply_adds, parameter_count
from fern.models.naive import LastValue, SeasonalNaive, SeasonalNaiveConfig, TrainingMean
from fern.models.oracle import OracleForecaster
from fern.models.pretrained.model import PretrainedFern, PretrainedFernConfig
from fern.models.registry import (
    build_model,
    initialise,
    model_config,
    model_entry,
    model_names,
    outline_model,
    register_model,
)
from fern.models.rolled import RolledFern, RolledFernConfig
from fern.models.storage import load_model, save_model

__all__ = [
    "PFNN",
    "Analog",
    "AnalogConfig",
    "Criterion",
    "DLinear",
    "DLinearConfig",
    "Fern",
    "FernConfig",
    "FittedForecaster",
    "Forecast",
    "Forecaster",
    "Koopa",
    "KoopaConfig",
    "LastValue",
    "ModelConfig",
    "ModernTCN",
    "ModernTCNConfig",
    "OracleForecaster",
    "PFNNConfig",
    "PatchTST",
    "PatchTSTConfig",
    "PointForecaster",
    "Polymap",
    "PolymapConfig",
    "PretrainedFern",
    "PretrainedFernConfig",
    "RolledFern",
    "RolledFernConfig",
    "SeasonalNaive",
    "SeasonalNaiveConfig",
    "Sees",
    "TimeMixer",
    "TimeMixerConfig",
    "TrainingMean",
    "build_model",
    "initialise",
    "load_model",
    "model_config",
    "model_entry",
    "model_names",
    "multiply_adds",
    "outline_model",
    "parameter_count",
    "register_model",
    "save_model",
]
