"""Forecasters from outside in the same tables: plain functions, torch modules, neuralforecast models, sktime
forecasters.

Each adapter makes a `fern.models.Forecaster`. Those of other libraries are optional extras, imported where used:
`fern.integrations.neuralforecast` and `fern.integrations.sktime`.
"""

from fern.integrations.function import FunctionForecaster
from fern.integrations.module import ModuleForecaster

__all__ = ["FunctionForecaster", "ModuleForecaster"]
