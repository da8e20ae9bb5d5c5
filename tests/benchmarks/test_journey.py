"""How many modules a reader passes on the way from a frame to its forecast."""

import warnings

from benchmarks.journey import journey, trace_functions


def test_a_fit_and_a_forecast_pass_through_few_modules() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so short a series has few windows to calibrate on
        functions = trace_functions(journey)
    modules = {module for module, _ in functions}
    assert "fern.forecaster.predict" in modules
    assert "fern.models.fern" in modules
    assert len(modules) <= 70, sorted(modules)
