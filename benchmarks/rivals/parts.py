"""The windows of a problem's parts, thinned: what the measurements here are judged on."""

from fern.benchmark.problem import Problem
from fern.data import Windows


def thinned(problem: Problem, part: str, stride: int) -> Windows:
    """Every ``stride``-th window of ``train``, ``validation`` or ``test``."""
    return Windows(
        problem.values,
        context_length=problem.context_length,
        horizon=problem.horizon,
        part=getattr(problem.split, part),
        stride=stride,
    )
