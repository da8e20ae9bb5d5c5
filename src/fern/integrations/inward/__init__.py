"""Others' models under our contract: functions, torch modules, and forecasters of statsforecast, sktime,
neuralforecast, fev and Chronos.

Each adapter makes a `fern.models.Forecaster`. Those of other libraries are optional extras, imported where used;
`fern.integrations.inward.adapters` lists them.
"""

from fern.integrations.inward.function import FunctionForecaster
from fern.integrations.inward.module import ModuleForecaster

__all__ = ["FunctionForecaster", "ModuleForecaster"]
