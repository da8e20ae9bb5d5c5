"""Others' models under our contract: functions, torch modules, and forecasters of statsforecast, sktime,
neuralforecast, fev and Chronos.

Each adapter makes a `fern.models.Forecaster`. Those of other libraries are optional extras, imported where used;
`fern.benchmark.adapters.libraries` lists them.
"""

from fern.benchmark.adapters.callables import FunctionForecaster, ModuleForecaster

__all__ = ["FunctionForecaster", "ModuleForecaster"]
