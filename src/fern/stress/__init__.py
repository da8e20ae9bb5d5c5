"""Stress tests: anyone's forecaster behind a gate of known dynamics, a known shock and a known best error.

Names are imported when they are first used.
"""

from typing import TYPE_CHECKING

from fern.lazy import lazy_names

if TYPE_CHECKING:
    from fern.stress.examination import StressSettings, stress_test
    from fern.stress.requirements import Requirement, parse_requirements
    from fern.stress.response import ShockResponse, shock_response
    from fern.stress.summary import as_text, write_junit
    from fern.stress.targets import open_target
else:  # unseen by type checkers: a __getattr__ would make every name, misspelt ones too, an Any
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "fern.stress.examination": ["StressSettings", "stress_test"],
            "fern.stress.requirements": ["Requirement", "parse_requirements"],
            "fern.stress.response": ["ShockResponse", "shock_response"],
            "fern.stress.summary": ["as_text", "write_junit"],
            "fern.stress.targets": ["open_target"],
        },
    )

__all__ = [
    "Requirement",
    "ShockResponse",
    "StressSettings",
    "as_text",
    "open_target",
    "parse_requirements",
    "shock_response",
    "stress_test",
    "write_junit",
]
