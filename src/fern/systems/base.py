"""What a system is."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fern.errors import FernError, require_number, unknown_name

Array = NDArray[np.float64]
Noise = Literal["normal", "uniform"]


@dataclass(frozen=True, kw_only=True)
class System(ABC):
    """A process with known equations: it advances states, and knows the mean of its own future.

    A state may hold more than is observed (a regime, a variance); its first entries are the channels.
    ``limits`` are closed bounds on parameters, ``whole`` names the parameters that must be whole numbers.
    """

    name: str
    params: Mapping[str, float]
    citation: str
    limits: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    whole: frozenset[str] = frozenset()
    lyapunov_exponent: float | None = None

    @abstractmethod
    def channel_names_of(self, params: Mapping[str, float]) -> tuple[str, ...]:
        """The names of the observed entries of the state."""

    @abstractmethod
    def initial_state_of(self, params: Mapping[str, float]) -> Array:
        """The state from which a trajectory starts when none is given, (d,)."""

    @property
    @abstractmethod
    def noise(self) -> tuple[Noise, ...]:
        """The kind of each noise column that one step consumes; empty for a deterministic system."""

    @abstractmethod
    def advance(
        self,
        states: Array,  # (n, d)
        params: Mapping[str, float],
        *,
        dt: float,
        first_step: int,
        noise: Array,  # (n, steps, k)
    ) -> Array:  # (n, steps, d)
        """The states after each step, for ``n`` starting states at once; ``first_step`` is the clock at the start."""

    @abstractmethod
    def conditional_mean(
        self,
        states: Array,  # (n, d)
        params: Mapping[str, float],
        *,
        dt: float,
        first_steps: NDArray[np.int64],  # (n,)
        horizon: int,
    ) -> Array:  # (n, horizon, channels)
        """The best forecast under squared error: E[x at each of the next steps | state]."""

    def complete(self, params: Mapping[str, float]) -> dict[str, float]:
        """The defaults with ``params`` put over them; unknown names and impossible values are errors."""
        for name, value in params.items():
            if name not in self.params:
                raise unknown_name(f"parameter of {self.name}", name, self.params)
            require_number(f"parameter {name} of {self.name}", value, "a finite number", lambda _: True)
            low, high = self.limits.get(name, (-math.inf, math.inf))
            if not low <= value <= high:
                raise FernError(f"parameter {name} of {self.name}: got {value}", expected=f"{low} to {high}")
            if name in self.whole and value != int(value):
                raise FernError(f"parameter {name} of {self.name}: got {value}", expected="a whole number")
        return {**self.params, **params}

    def vector(self, params: Mapping[str, float]) -> Array:
        """The parameters in their declared order, as the compiled equations take them."""
        return np.array([params[name] for name in self.params], dtype=np.float64)
