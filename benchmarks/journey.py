"""``python -m benchmarks.journey``: the modules and functions of fern that ``fit(df).predict(level=[80])`` runs.

A module counts when one of its functions runs after it was imported; compiled kernels are not seen.
"""

import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType

import numpy as np
import pyarrow as pa

from fern.forecaster import FernForecaster

Function = tuple[str, str]
"""A module and the qualified name of a function in it."""


def trace_functions(run: Callable[[], object]) -> set[Function]:
    """The functions of fern that a call runs, in any thread, without those that run while a module is imported."""
    functions: set[Function] = set()
    known: set[CodeType] = set()

    def record(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        module = frame.f_globals.get("__name__", "")
        if event != "call" or code in known or not module.startswith("fern.") or _imports(frame):
            return
        known.add(code)
        functions.add((module, code.co_qualname))

    threading.setprofile(record)
    sys.setprofile(record)
    try:
        run()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # None takes the profile away
    return functions


def _imports(frame: FrameType | None) -> bool:
    """Whether a frame runs while a module is imported."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__", "").startswith("fern."):
            return True
        frame = frame.f_back
    return False


def journey() -> None:
    """Fit the default model to a short daily series and forecast it with an interval."""
    days = np.datetime64("2020-01-01") + np.arange(120)
    frame = pa.table({"ds": days, "y": np.sin(np.arange(120) / 3)})
    FernForecaster(7, epochs=1, progress="silent").fit(frame).predict(level=[80])


def main() -> None:
    """Print the modules with the number of their functions, and the sums."""
    functions = trace_functions(journey)
    modules = sorted({module for module, _ in functions})
    for module in modules:
        print(f"{sum(own == module for own, _ in functions):4d}  {module}")
    print(f"{len(functions)} functions in {len(modules)} modules")


if __name__ == "__main__":
    main()
