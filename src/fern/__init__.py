"""Fern: long-horizon forecasting with ellipsoids, and a shock benchmark with known truth.

The names people need most are here; each subpackage has the rest. Nothing is loaded before it is used, so
``import fern`` does not load PyTorch.
"""

from typing import TYPE_CHECKING

from fern._lazy import lazy_names
from fern._version import __version__
from fern.errors import FernError

if TYPE_CHECKING:
    from fern.data import Windows, audit, clean, load_dataset, read_frame, split
    from fern.forecaster import FernForecaster, FernWarning
    from fern.models import Forecast, build_model, load_model, model_names, save_model
    from fern.systems import oracle, read_scenario, scenario, simulate, twin
    from fern.training import TrainConfig, train
    from fern.transport import Ellipsoid
else:  # unseen by type checkers: a __getattr__ would make every name, misspelt ones too, an Any
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "fern.data": ["Windows", "audit", "clean", "load_dataset", "read_frame", "split"],
            "fern.forecaster": ["FernForecaster", "FernWarning"],
            "fern.models": ["Forecast", "build_model", "load_model", "model_names", "save_model"],
            "fern.systems": ["oracle", "read_scenario", "scenario", "simulate", "twin"],
            "fern.training": ["TrainConfig", "train"],
            "fern.transport": ["Ellipsoid"],
        },
    )

__all__ = [
    "Ellipsoid",
    "FernError",
    "FernForecaster",
    "FernWarning",
    "Forecast",
    "TrainConfig",
    "Windows",
    "__version__",
    "audit",
    "build_model",
    "clean",
    "load_dataset",
    "load_model",
    "model_names",
    "oracle",
    "read_frame",
    "read_scenario",
    "save_model",
    "scenario",
    "simulate",
    "split",
    "train",
    "twin",
]
