"""Scenarios: a system, its settings and its shocks, by name or from a file."""

import itertools
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from fern.errors import FernError, require_number, require_whole, unknown_name
from fern.settings import STRICT, from_mapping, read_toml
from fern.systems.base import System
from fern.systems.registry import get_system
from fern.systems.shocks import ParamShock, Shock, StateShock, SwitchShock

_SHOCKS = {"param": ParamShock, "state_eps": StateShock, "switch": SwitchShock}
DEFAULT_SEED = 1955


@dataclass(frozen=True)
class Scenario:
    """All that decides a trajectory: the same scenario always gives the same bytes.

    ``params`` are changes to the system's defaults; without ``initial_state`` the system's own is taken.

    Example:
        >>> s = Scenario(system="rossler", steps=1000, dt=0.01, shocks=(ParamShock(at=0.5, params={"a": 0.25}),))
        >>> s.shock_rows
        (500,)
    """

    __pydantic_config__ = STRICT

    system: str
    steps: int
    dt: float
    seed: int = DEFAULT_SEED
    params: Mapping[str, float] = field(default_factory=dict)
    initial_state: tuple[float, ...] | None = None
    shocks: tuple[Shock, ...] = ()
    id: str = ""

    def __post_init__(self) -> None:
        require_whole("steps", self.steps, 2)
        require_number("dt", self.dt, "a finite number above 0", lambda value: value > 0)
        require_whole("seed", self.seed, 0)
        self.source.complete(self.params)
        rows = self.shock_rows
        if any(later <= earlier for earlier, later in itertools.pairwise(rows)):
            raise FernError(f"got rows {list(rows)}", argument="shocks", expected="increasing rows")

    @property
    def source(self) -> System:
        """The system itself."""
        return get_system(self.system)

    @property
    def shock_rows(self) -> tuple[int, ...]:
        """The first row after each shock."""
        return tuple(shock.index(self.steps) for shock in self.shocks)

    @property
    def lyapunov_exponent(self) -> float | None:
        """The largest one of the regime it ends in, per unit of time; None where it is not known.

        A system states its exponent for its default parameters; under others it is not known.

        Example:
            >>> scenario("LORENZ_STATE").lyapunov_exponent, scenario("LORENZ_PARAM").lyapunov_exponent
            (0.906, None)
        """
        in_force = self.source.complete(self.params)
        for shock in self.shocks:
            if not isinstance(shock, StateShock):
                in_force |= shock.params
        return self.source.lyapunov_exponent if in_force == self.source.complete({}) else None


def scenario(
    scenario_id: str,
    *,
    steps: int | None = None,
    dt: float | None = None,
    seed: int | None = None,
    params: Mapping[str, float] | None = None,
    initial_state: tuple[float, ...] | None = None,
    shocks: tuple[Shock, ...] | None = None,
) -> Scenario:
    """The built-in scenario of that id, with any of its fields changed; ``params`` names only what changes.

    Example:
        >>> s = scenario("LORENZ_PARAM", steps=5000, params={"rho": 30.0})
        >>> s.steps, s.params, s.shock_rows
        (5000, {'rho': 30.0}, (1750,))
    """
    if scenario_id not in SCENARIOS:
        raise unknown_name("scenario", scenario_id, SCENARIOS)
    base = SCENARIOS[scenario_id]
    overrides = {"steps": steps, "dt": dt, "seed": seed, "initial_state": initial_state, "shocks": shocks}
    changes: dict[str, Any] = {name: value for name, value in overrides.items() if value is not None}
    return replace(base, params={**base.params, **(params or {})}, **changes)


def read_scenario(path: Path | str) -> Scenario:
    """The scenario that a TOML file defines, under a strict schema.

    ```toml
    system = "lorenz63"
    steps = 5000
    dt = 0.01
    params = { rho = 30.0 }

    [[shocks]]
    kind = "param"          # or "state_eps" (eps), "switch" (params, initial_state)
    at = 0.35               # a fraction, or a row number
    params = { rho = 28.1 }
    ```

    Example:
        >>> _ = Path("my.toml").write_text('system = "garch"\\nsteps = 100\\ndt = 1.0\\nsede = 3\\n')
        >>> read_scenario("my.toml")
        Traceback (most recent call last):
            ...
        fern.errors.FernError: my.toml: unknown setting 'sede': did you mean 'seed'? ...
    """
    path = Path(path)
    return scenario_from_mapping({"id": path.stem, **read_toml(path)}, where=str(path))


def scenario_from_mapping(values: Mapping[str, Any], *, where: str) -> Scenario:
    """The scenario that plain values define, as a file or the row of a run holds them.

    ``where`` says in messages where they came from.

    Example:
        >>> from dataclasses import asdict
        >>> scenario_from_mapping(asdict(scenario("LORENZ_SWITCH")), where="row") == scenario("LORENZ_SWITCH")
        True
    """
    values = dict(values)
    if "shocks" in values:
        if not isinstance(values["shocks"], list | tuple):
            raise FernError(argument="shocks", expected="a list of tables, written [[shocks]]", where=where)
        values["shocks"] = tuple(
            _read_shock(shock, where=f"{where}: shocks[{i}]") for i, shock in enumerate(values["shocks"])
        )
    return from_mapping(Scenario, values, where=where)


def is_builtin(plan: Scenario) -> bool:
    """Whether a scenario is the built-in one of its id, played out for however many steps.

    Example:
        >>> is_builtin(scenario("OU_PARAM", steps=500)), is_builtin(scenario("OU_PARAM", seed=3))
        (True, False)
    """
    known = SCENARIOS.get(plan.id)
    return known is not None and asdict(plan) | {"steps": known.steps} == asdict(known)


def open_scenario(source: str | Path | Scenario) -> Scenario:
    """The scenario that is meant: itself, the id of a built-in one, or a TOML file that defines one.

    An id wins over a file of that name; see `is_scenario_file`.

    Example:
        >>> open_scenario("OU_PARAM").steps
        25000
        >>> open_scenario("my_lorenz.toml")
        Traceback (most recent call last):
            ...
        fern.errors.FernError: my_lorenz.toml: no such file
    """
    if isinstance(source, Scenario):
        return source
    if not isinstance(source, str | Path):
        raise FernError(argument="scenario", got=type(source), expected="an id, a TOML file or a Scenario")
    return read_scenario(source) if is_scenario_file(source) else scenario(str(source))


def is_scenario_file(source: str | Path) -> bool:
    """Whether a text means a scenario's file: it is no id of a built-in one, and ends in .toml or names a file.

    Example:
        >>> is_scenario_file("OU_PARAM"), is_scenario_file("mine.toml"), is_scenario_file("OU_PARM")
        (False, True, False)
    """
    if isinstance(source, Path):
        return True
    return source not in SCENARIOS and (source.lower().endswith(".toml") or Path(source).is_file())


def _read_shock(values: object, *, where: str) -> Shock:
    if not isinstance(values, dict):
        raise FernError(expected=f"a table, got {values!r}", where=where)
    kind = values.get("kind")
    if not isinstance(kind, str) or kind not in _SHOCKS:
        raise FernError(f"{unknown_name('kind of shock', str(kind), _SHOCKS)}", where=where)
    shock: Shock = from_mapping(_SHOCKS[kind], values, where=where)
    return shock


_AT = 0.35  # the middle of the training part of a 70/20/10 split


def _builtin_scenarios() -> dict[str, Scenario]:
    """The paper's table of systems, parameters and shocks."""
    third = 1.0 / 3.0
    lorenz = Scenario(system="lorenz63", dt=0.01, steps=35_999)
    rossler = Scenario(system="rossler", dt=0.01, steps=35_999)
    chua = Scenario(system="chua", dt=0.005, steps=35_999)
    lorenz96 = Scenario(system="lorenz96", dt=0.007, steps=55_000)
    ou = Scenario(system="ornstein_uhlenbeck", dt=0.5, steps=25_000)
    slds = Scenario(system="slds", dt=0.01, steps=25_000)
    well = Scenario(system="double_well", dt=0.5, steps=25_000)
    seasonal = Scenario(system="seasonal_ar", dt=0.01, steps=25_000)
    garch = Scenario(system="garch", dt=0.01, steps=25_000)
    ks = Scenario(system="kuramoto_sivashinsky", dt=0.01, steps=25_000)
    ring = (0.99, 1.02, 1.02, 1.03, 1.01, 1.01)
    shocked: dict[str, tuple[Scenario, Shock | None]] = {
        "LORENZ_BASE": (lorenz, None),
        "LORENZ_PARAM": (lorenz, ParamShock(_AT, {"sigma": 10.1, "rho": 28.1, "beta": 8.1 * third})),
        "LORENZ_STATE": (lorenz, StateShock(_AT, 0.9)),
        "LORENZ_SWITCH": (lorenz, SwitchShock(_AT, {"rho": 28.1}, (1.002, 0.982, 1.102))),
        "ROSSLER_BASE": (rossler, None),
        "ROSSLER_PARAM": (rossler, ParamShock(_AT, {"a": 0.25, "b": 0.25, "c": 5.75})),
        "LORENZ96_BASE": (lorenz96, None),
        "LORENZ96_SWITCH": (lorenz96, SwitchShock(_AT, {"forcing": 9.0}, ring)),
        "CHUA_BASE": (chua, None),
        "CHUA_PARAM": (chua, ParamShock(_AT, {"alpha": 15.9, "beta": 28.5, "m0": -8.1 / 7, "m1": -5.2 / 7})),
        "CHUA_SWITCH": (chua, SwitchShock(_AT, {}, (0.11, 0.01, 0.02))),
        "OU_BASE": (ou, None),
        "OU_PARAM": (ou, ParamShock(_AT, {"mu": 0.5})),
        "SLDS_BASE": (slds, None),
        "SLDS_PARAM": (
            slds,
            ParamShock(_AT, {"A1": 0.83, "Q1": 0.50, "A2": 0.97, "Q2": 0.30, "p11": 0.96, "p22": 0.92}),
        ),
        "SLDS_SWITCH": (
            slds,
            SwitchShock(_AT, {"A1": 0.87, "Q1": 0.07, "A2": 0.99, "Q2": 0.45, "p11": 0.90, "p22": 0.95}),
        ),
        "DOUBLEWELL_BASE": (well, None),
        "DOUBLEWELL_PARAM": (well, ParamShock(_AT, {"a": 1.0, "sigma": 0.35})),
        "DOUBLEWELL_SWITCH": (well, SwitchShock(_AT, {"a": 1.0, "sigma": 0.35})),
        "SEASONAL_AR_BASE": (seasonal, None),
        "SEASONAL_AR_PARAM": (seasonal, ParamShock(_AT, {"a0": 1.4, "sigma": 0.35, "phi": 0.8})),
        "GARCH_BASE": (garch, None),
        "GARCH_PARAM": (garch, ParamShock(_AT, {"omega": 0.03, "alpha": 0.15, "beta": 0.70})),
        "KS_BASE": (ks, None),
        "KS_PARAM": (ks, ParamShock(_AT, {"nu": 0.80})),
        "LORENZ_MAIN": (replace(lorenz, steps=25_000), None),
        "ROSSLER_MAIN": (replace(rossler, steps=25_000), None),
        "CHUA_MAIN": (replace(chua, steps=35_000), None),
    }
    return {
        name: replace(base, id=name, shocks=() if shock is None else (shock,))
        for name, (base, shock) in shocked.items()
    }


SCENARIOS: Mapping[str, Scenario] = _builtin_scenarios()
"""The 25 shock scenarios of the paper and its three main chaotic benchmarks, by id."""
