"""The systems there are: the ten built-in ones and those that users register."""

from fern.errors import FernError, unknown_name
from fern.systems.base import System
from fern.systems.chua import CHUA
from fern.systems.double_well import DOUBLE_WELL
from fern.systems.garch import GARCH
from fern.systems.kuramoto_sivashinsky import KURAMOTO_SIVASHINSKY
from fern.systems.lorenz63 import LORENZ63
from fern.systems.lorenz96 import LORENZ96
from fern.systems.ornstein_uhlenbeck import ORNSTEIN_UHLENBECK
from fern.systems.rossler import ROSSLER
from fern.systems.seasonal_ar import SEASONAL_AR
from fern.systems.slds import SLDS

_CHAOTIC = (LORENZ63, ROSSLER, CHUA, LORENZ96, KURAMOTO_SIVASHINSKY)
_STOCHASTIC = (ORNSTEIN_UHLENBECK, DOUBLE_WELL, SLDS, SEASONAL_AR, GARCH)
PREMADE = {system.name: system for system in (*_CHAOTIC, *_STOCHASTIC)}
_registered: dict[str, System] = {}


def register_system(system: System) -> System:
    """Make ``system`` known by its name to scenarios and scenario files; a later one of the same name replaces it.

    Example:
        >>> from fern.systems import Flow, Scenario, simulate
        >>> def van_der_pol(state, params, out):
        ...     out[0] = state[1]
        ...     out[1] = params[0] * (1 - state[0] ** 2) * state[1] - state[0]
        >>> oscillator = register_system(Flow(
        ...     name="van_der_pol", equations=van_der_pol, params={"mu": 1.0},
        ...     channel_names=("x", "v"), initial_state=(1.0, 0.0), citation="van der Pol (1926)",
        ... ))
        >>> simulate(Scenario(system="van_der_pol", steps=500, dt=0.05)).values.shape
        (500, 2)
    """
    if system.name in PREMADE:
        raise FernError(f"{system.name!r} is a built-in system; choose another name", argument="name")
    if not system.name:
        raise FernError("a system needs a name, got an empty one", argument="name")
    _registered[system.name] = system
    return system


def get_system(name: str) -> System:
    """The system of that name.

    Example:
        >>> get_system("rossler").params
        {'a': 0.2, 'b': 0.2, 'c': 5.7}
    """
    known = {**PREMADE, **_registered}
    if name not in known:
        raise unknown_name("system", name, known)
    return known[name]
