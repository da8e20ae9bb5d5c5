"""Others' models under our contract: plain functions, torch modules, neuralforecast models, sktime forecasters.

Each adapter makes a `fern.models.Forecaster`. Those of other libraries are optional extras, imported where used:
`fern.integrations.inward.neuralforecast` and `fern.integrations.inward.sktime`.
"""

from fern.integrations.inward.function import FunctionForecaster
from fern.integrations.inward.module import ModuleForecaster

__all__ = ["FunctionForecaster", "ModuleForecaster"]
