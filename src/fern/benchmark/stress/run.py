"""Stress tests for anyone's forecaster: known dynamics, a known shock, a known floor.

A scenario is simulated and split 70/20/10. The forecaster gets contexts and gives forecasts of windows that are spread
evenly over the test part and start after the last shock. They are scored against what came and against the oracle,
the best forecast that the true process allows.
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from fern.benchmark.adapters.outside import Floats
from fern.benchmark.problem import Dataset, Problem
from fern.benchmark.scoring import References
from fern.benchmark.stress.requirements import Requirement
from fern.benchmark.stress.targets import TAKES, ScenarioData, Takes, Target, forecast
from fern.benchmark.stress.time_limit import GuardedForecaster, guard_forecaster
from fern.errors import FernError, require_number, require_whole, unknown_name
from fern.metrics import ept, mae, mse, w2_squared
from fern.models import ModelConfig, model_names
from fern.systems import Scenario, open_scenario, scenario, simulate

DEFAULT_SCENARIOS = ("LORENZ_PARAM", "LORENZ_STATE", "CHUA_SWITCH", "SEASONAL_AR_PARAM")
"""One of each kind of shock on a chaotic system, and a noisy one, whose floor is not zero."""

RIVALS = ("analog", "polymap")
"""Models that are fitted in seconds: what a forecaster must beat to be worth its training."""

CONTEXT_LENGTH = 336
HORIZON = 336

ScenarioSource = str | Path | Scenario


@dataclass(frozen=True, kw_only=True)
class StressSettings:
    """How a forecaster is asked.

    ``context_length``, ``horizon``  None takes those of a built model, else 336.
    ``windows``     the maximum number of windows per scenario.
    ``time_limit``  seconds for all forecasts of a scenario.
    ``training_limit``  seconds to train on a scenario, for models that must be trained first.
    ``takes``       whether a function takes a ``batch`` (B, L, C) or one ``window`` (L, C); ``auto`` tries both.
    ``rivals``      registered models that are asked the same and stand beside it in the report, such as `RIVALS`.
    """

    context_length: int | None = None
    horizon: int | None = None
    windows: int = 64
    time_limit: float = 120.0
    training_limit: float = 1800.0
    takes: Takes = "auto"
    rivals: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("context_length", "horizon", "windows"):
            value = getattr(self, name)
            if value is not None or name == "windows":
                require_whole(name, value, 1)
        for name in ("time_limit", "training_limit"):
            require_number(name, getattr(self, name), "a number of seconds above 0", lambda value: value > 0)
        if self.takes not in TAKES:
            raise unknown_name("takes", str(self.takes), TAKES)
        for name in self.rivals:
            if name not in model_names():
                raise unknown_name("rival", name, model_names())

    def fill(self, config: ModelConfig | None) -> "StressSettings":
        """These settings with the lengths of a built model, if there is one; asking for other lengths is an error."""
        if config is None:
            return replace(self, context_length=self.context_length or CONTEXT_LENGTH, horizon=self.horizon or HORIZON)
        for name in ("context_length", "horizon"):
            length, has = getattr(self, name), getattr(config, name)
            if length not in (None, has):
                raise FernError(f"got {length}, but the model was built for {has}", argument=name)
        return replace(self, context_length=config.context_length, horizon=config.horizon)


@dataclass(frozen=True, kw_only=True)
class StressFigures:
    """What a forecaster reached on a scenario, in the units of the scenario.

    ``mse``, ``mae``  the mean squared and absolute error.
    ``wd``            the distance between the values that were forecast and those that came, window by window
                      (`fern.metrics.w2_squared`).
    ``ept``           how many steps the error stays within one training standard deviation, at most the horizon.
    ``last_value_mse``  the error of repeating the last value.
    ``oracle_mse``    the error of the best possible forecast: only luck can beat it.
    ``excess_mse``    mse - oracle_mse.
    ``regret``        (MSE − oracle MSE) / training variance (mean over the channels): 0 is the best possible;
                      where the floor is zero, 1 is about as bad as always forecasting the mean. It is not
                      relative to the floor, which is rounding alone for a deterministic system. NaN where the training
                      part is constant.
    ``skill``         1 − MSE / MSE of repeating the last value: 1 is perfect, 0 no better, negative worse. NaN where
                      the last value is always right.
    """

    mse: float
    mae: float
    wd: float
    ept: float
    last_value_mse: float
    oracle_mse: float
    excess_mse: float
    regret: float
    skill: float


@dataclass(frozen=True)
class Result:
    """One scenario: the figures, or the reason why there are none; and which requirements failed.

    ``rivals`` has what other models reached on the same windows; None where one could not be fitted.
    """

    scenario: str
    windows: int
    seconds: float
    requirements: tuple[Requirement, ...]
    figures: StressFigures | None = None
    reason: str | None = None
    rivals: Mapping[str, StressFigures | None] = field(default_factory=dict)

    @property
    def broken(self) -> tuple[Requirement, ...]:
        """The requirements that do not hold; all of them where there are no figures."""
        if self.figures is None:
            return self.requirements
        return tuple(need for need in self.requirements if not need.holds(getattr(self.figures, need.metric)))

    @property
    def survived(self) -> bool:
        """Whether there are figures and every requirement holds."""
        return self.figures is not None and not self.broken

    @property
    def verdict(self) -> Literal["survived", "measured", "failed"]:
        """``measured`` where nothing was required: forecasts alone are no achievement."""
        if not self.survived:
            return "failed"
        return "survived" if self.requirements else "measured"


@dataclass(frozen=True)
class Report:
    """A whole stress test."""

    target: str
    settings: StressSettings
    results: tuple[Result, ...]

    @property
    def survived(self) -> bool:
        """Whether every scenario was survived."""
        return all(result.survived for result in self.results)


@dataclass(frozen=True, eq=False)
class ScenarioTest:
    """A scenario as questions and answers."""

    problem: Problem
    starts: NDArray[np.int64]  # (n,) the first row of each forecast
    takes: Takes

    @property
    def name(self) -> str:
        """The scenario's."""
        return self.problem.dataset.name

    def data(self) -> ScenarioData:
        """What the forecaster gets: nothing of the test part but the contexts."""
        parts, length = self.problem.split, self.problem.context_length
        values = self.problem.values
        contexts = values[self.starts[:, None] + np.arange(-length, 0)]
        rows = values[: parts.validation.stop].copy()
        return ScenarioData(rows, parts.train, parts.validation, contexts, self.problem.horizon, self.takes)

    def score(self, forecasts: Floats) -> StressFigures:
        """The figures of forecasts (n, H, C)."""
        values, steps = self.problem.values.astype(np.float64), np.arange(self.problem.horizon)
        true, pred = values[self.starts[:, None] + steps], forecasts.astype(np.float64)
        error = float(mse(pred, true))
        floor = float(mse(self.problem.best_forecasts(self.starts), true))
        naive = float(mse(values[self.starts - 1][:, None].repeat(len(steps), axis=1), true))
        references = References(naive_mse=naive, oracle_mse=floor, variance=float((self.problem.train_std**2).mean()))
        against = references.compare(error)
        return StressFigures(
            mse=error,
            mae=float(mae(pred, true)),
            wd=float(w2_squared(pred, true)),
            ept=float(ept(pred, true, self.problem.train_std)),
            last_value_mse=naive,
            **{name: against.get(name, math.nan) for name in ("oracle_mse", "excess_mse", "regret", "skill")},
        )


def stress_test(
    forecaster: object,
    scenarios: Sequence[ScenarioSource] = (),
    *,
    requirements: Iterable[Requirement] = (),
    settings: StressSettings | None = None,
    on_result: Callable[[Result], None] = lambda _: None,
) -> Report:
    """Test a forecaster on each scenario against the requirements.

    ``forecaster`` is a function ``(context, horizon) -> forecast`` of arrays (B, L, C) -> (B, H, C) or
    (L, C) -> (H, C), a `fern.models.Forecaster`, or the text of a TARGET (see `targets.open_target`).
    ``scenarios`` are ids, TOML files or `Scenario` objects; without any, `DEFAULT_SCENARIOS`, of which a built model
    gets those with as many channels as it has.

    A forecaster that raises, hangs, or returns NaN or a wrong shape fails that scenario with that reason; the other
    scenarios still run. An invalid argument is a `FernError` before anything is run.

    Example:
        >>> def last_value(context, horizon):
        ...     return np.repeat(context[:, -1:], horizon, axis=1)
        >>> report = stress_test(last_value, ["SEASONAL_AR_PARAM"])
        >>> report.results[0].windows, report.results[0].figures.skill
        (64, 0.0)
    """
    requirements = tuple(requirements)
    settings = StressSettings() if settings is None else settings
    sources: object = scenarios
    if not isinstance(sources, Iterable):
        problem = "an id, a TOML file or a Scenario, or a list of them"
        raise FernError(argument="scenarios", got=scenarios, expected=problem)
    plans = [open_scenario(source) for source in scenarios]
    with guard_forecaster(forecaster) as guarded:
        settings = settings.fill(guarded.config)
        for requirement in requirements:  # EPT counts steps of the forecast
            if requirement.metric == "ept" and not requirement.holds(float(settings.horizon or HORIZON)):
                raise FernError(f"ept cannot exceed the horizon, which is {settings.horizon}", argument=requirement)
        tests = [_make_test(plan, settings) for plan in plans or _default_scenarios(guarded.config)]
        names = [test.name for test in tests]
        for name in names:
            if names.count(name) > 1:
                raise FernError(f"{name} is given twice", argument="scenario")
        results = []
        for test in tests:
            results.append(_result(test, guarded, requirements, settings))
            on_result(results[-1])
    return Report(guarded.name, settings, tuple(results))


def _result(
    test: ScenarioTest, guarded: GuardedForecaster, requirements: tuple[Requirement, ...], settings: StressSettings
) -> Result:
    start_time = time.perf_counter()
    figures, reason = None, None
    try:
        limits = {"time_limit": settings.time_limit, "training_limit": settings.training_limit}
        figures = test.score(guarded.forecast_windows(test.data(), **limits))
    except FernError as error:
        reason = str(error)
    seconds = time.perf_counter() - start_time
    rivals: dict[str, StressFigures | None] = dict.fromkeys(settings.rivals)
    for name in rivals:
        data = test.data()
        with suppress(FernError):
            rivals[name] = test.score(forecast(Target(name, name).prepare(data), data))
    return Result(test.name, len(test.starts), seconds, requirements, figures, reason, rivals)


def _default_scenarios(config: ModelConfig | None) -> list[Scenario]:
    plans = [scenario(name) for name in DEFAULT_SCENARIOS]
    if config is None:
        return plans
    fitting = [plan for plan in plans if _channels(plan) == config.channels]
    if not fitting:
        problem = f"none of {', '.join(DEFAULT_SCENARIOS)} has the model's {config.channels} channels; give another"
        raise FernError(problem, argument="scenario")
    return fitting


def _channels(plan: Scenario) -> int:
    return len(plan.source.channel_names_of(plan.source.complete(plan.params)))


def _make_test(plan: Scenario, settings: StressSettings) -> ScenarioTest:
    """The simulated scenario, with its windows."""
    length, horizon = settings.context_length or CONTEXT_LENGTH, settings.horizon or HORIZON
    trajectory = simulate(plan)
    name = plan.id or plan.system
    dataset = Dataset(name, np.asarray(trajectory.values, np.float32), trajectory.channel_names, {}, trajectory)
    problem = Problem(dataset, split_name="shock", scaling="none", context_length=length, horizon=horizon)
    available = problem.test.starts(torch.arange(len(problem.test))).numpy() + length
    after = available[available >= max(plan.shock_rows, default=0)]
    if not len(after):
        raise FernError(f"no test window lies after the shock at row {max(plan.shock_rows)}", argument=name)
    if not problem.train_std.any():
        raise FernError("is constant over the training set, so errors have no scale", argument=name)
    places = np.linspace(0, len(after) - 1, min(settings.windows, len(after))).round().astype(np.int64)
    return ScenarioTest(problem, after[places], settings.takes)
