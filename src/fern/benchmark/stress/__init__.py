"""Stress tests: anyone's forecaster behind a gate of known dynamics, a known shock and a known best error.

Names are imported when they are first used.
"""

from typing import TYPE_CHECKING

from fern._lazy import lazy_names

if TYPE_CHECKING:
    from fern.benchmark.stress.requirements import parse_requirements
    from fern.benchmark.stress.response import ShockResponse, shock_response
    from fern.benchmark.stress.run import StressSettings, stress_test
    from fern.benchmark.stress.summary import as_text, write_junit
else:  # unseen by type checkers: a __getattr__ would make every name, misspelt ones too, an Any
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "fern.benchmark.stress.requirements": ["parse_requirements"],
            "fern.benchmark.stress.response": ["ShockResponse", "shock_response"],
            "fern.benchmark.stress.run": ["StressSettings", "stress_test"],
            "fern.benchmark.stress.summary": ["as_text", "write_junit"],
        },
    )

__all__ = [
    "ShockResponse",
    "StressSettings",
    "as_text",
    "parse_requirements",
    "shock_response",
    "stress_test",
    "write_junit",
]
