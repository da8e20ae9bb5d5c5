"""Stress tests in your own test suite.

```python
from fern.testing import assert_survives

def test_my_forecaster_survives_a_change_of_parameters():
    assert_survives(my_forecast, "LORENZ_PARAM", regret=0.5, ept=100)
```
"""

from collections.abc import Sequence
from pathlib import Path

from fern.benchmark.stress.requirements import requirements_from
from fern.benchmark.stress.run import Report, ScenarioSource, StressSettings, stress_test
from fern.benchmark.stress.summary import as_text
from fern.benchmark.stress.targets import Takes
from fern.systems import Scenario

_OPTIONS = ("context_length", "horizon", "windows", "time_limit", "training_limit", "takes")


def assert_survives(
    forecaster: object,
    scenarios: ScenarioSource | Sequence[ScenarioSource] = (),
    *,
    context_length: int | None = None,
    horizon: int | None = None,
    windows: int = 64,
    time_limit: float = 120.0,
    training_limit: float = 1800.0,
    takes: Takes = "auto",
    **bounds: float,
) -> Report:
    """An AssertionError with the table of what failed, unless the forecaster survives every scenario.

    ``forecaster`` is a function ``(context, horizon) -> forecast``, a `fern.models.Forecaster`, or the text of a TARGET
    as ``fern stress`` takes it. ``scenarios`` is one or several of: an id, a TOML file, a `fern.systems.Scenario`;
    without any, a small set with one of each kind of shock.

    The other keywords are metrics (`fern.benchmark.stress.StressFigures`): ``regret``, ``excess_mse``, ``mse``,
    ``mae`` and ``wd`` take the largest value allowed, ``ept`` and ``skill`` the smallest. Without any, a forecaster
    survives when it gives finite forecasts of the right shape in time. A misspelt keyword is a `fern.FernError`.

    A function or model is asked in this process and interrupted after ``time_limit`` seconds, which a call into
    compiled code delays until it returns; the code that a TARGET's text names is asked in a process that is killed
    (a script that does so needs ``if __name__ == "__main__":`` around it, as with `multiprocessing`).

    Example: the last value repeated is no forecast of a chaotic system.
        >>> import numpy as np
        >>> def last_value(context, horizon):
        ...     return np.repeat(context[:, -1:], horizon, axis=1)
        >>> assert_survives(last_value, "LORENZ_PARAM", horizon=48, regret=0.5)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        AssertionError: last_value, 336 -> 48 steps
        ...
    """
    __tracebackhide__ = True  # pytest shows the caller's line, not this one
    requirements = requirements_from(bounds, options=_OPTIONS)
    settings = StressSettings(
        context_length=context_length,
        horizon=horizon,
        windows=windows,
        time_limit=time_limit,
        training_limit=training_limit,
        takes=takes,
    )
    chosen = [scenarios] if isinstance(scenarios, str | Path | Scenario) else scenarios
    report = stress_test(forecaster, chosen, requirements=requirements, settings=settings)
    if not report.survived:
        raise AssertionError(as_text(report))
    return report
