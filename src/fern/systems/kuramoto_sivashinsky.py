"""Kuramoto-Sivashinsky: spatio-temporal chaos on a ring, u_t = -u_xx - ν u_xxxx - u u_x."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from fern.caching import kernel
from fern.errors import FernError
from fern.systems.base import Array, Noise, System
from fern.systems.integrate import MATRIX, etdrk4


def _nonlinear(coefficients: Array, tables: Array, out: Array) -> None:
    """-½ ∂x(u²): synthesis of u, its square, then analysis and derivative by one matrix."""
    d = coefficients.size
    square = np.zeros(d)
    # Matrix-vector products as sums of rows: these loops vectorise without reordering any sum.
    for k in range(d):
        for x in range(d):
            square[x] += tables[k, x] * coefficients[k]
    for x in range(d):
        square[x] *= square[x]
    out[:] = 0.0
    for x in range(d):
        for k in range(d):
            out[k] += tables[d + x, k] * square[x]


@kernel(MATRIX, MATRIX, MATRIX)
def _multiply(rows: Array, table: Array, out: Array) -> None:
    """``rows @ table`` summed in one order: a BLAS picks another for each kind of processor."""
    for i in range(rows.shape[0]):
        for k in range(table.shape[1]):
            out[i, k] = 0.0
        for j in range(table.shape[0]):
            for k in range(table.shape[1]):
                out[i, k] += rows[i, j] * table[j, k]


def _times(states: Array, table: Array) -> Array:  # (..., d), (d, d) -> (..., d)
    rows = np.ascontiguousarray(states).reshape(-1, len(table))
    out = np.empty((len(rows), table.shape[1]))
    _multiply(rows, np.ascontiguousarray(table), out)
    return out.reshape(*states.shape[:-1], table.shape[1])


def _waves(nx: int, numbers: NDArray[np.int64], shift: float = 0.0) -> tuple[Array, Array]:  # (numbers, nx) each
    """cos and sin of 2πkx + ``shift`` at the points x = 0, 1/nx, …, rounded from a longer format.

    NumPy's own functions of float64 differ in the last bit between processors, and a chaotic flow makes that large.
    """
    turns = (numbers[:, None] * np.arange(nx) % nx).astype(np.longdouble) / nx
    angle = turns * (2 * np.arccos(np.longdouble(-1))) + np.longdouble(shift)
    return np.cos(angle).astype(np.float64), np.sin(angle).astype(np.float64)


@lru_cache(maxsize=8)
def _basis(nx: int, length: float) -> tuple[Array, Array, Array]:
    """The orthonormal real Fourier basis of a ring: a constant, cosines, sines and the highest wave.

    The synthesis (nx modes, nx points) with u = v @ synthesis, v = synthesis @ u; below it the non-linear term's matrix
    (2 nx, nx); the wave numbers (nx,).
    """
    k = np.arange(1, nx // 2)
    cosines, sines = (np.sqrt(2 / nx) * wave for wave in _waves(nx, k))
    ends = np.stack([np.ones(nx), 1.0 - 2.0 * (np.arange(nx) % 2)]) / np.sqrt(nx)
    synthesis = np.concatenate([ends[:1], cosines, sines, ends[1:]])
    q = 2 * np.pi / length * k
    zero = np.zeros((1, nx))
    # d/dx sends a sine's coefficient to the cosine and a cosine's, negated, to the sine; the highest wave has none.
    derivative = np.concatenate([zero, q[:, None] * sines, -q[:, None] * cosines, zero])
    tables = np.ascontiguousarray(np.concatenate([synthesis, (-0.5 * derivative).T]))
    wave_numbers = np.concatenate([[0.0], q, q, [np.pi * nx / length]])
    return synthesis, tables, wave_numbers


@dataclass(frozen=True, kw_only=True)
class KuramotoSivashinsky(System):
    """The equation on ``nx`` points of a ring of length ``Lx``, stepped by ETDRK4 in Fourier space."""

    @override
    def complete(self, params: Mapping[str, float]) -> dict[str, float]:
        full = super().complete(params)
        if full["nx"] % 2:
            raise FernError(f"parameter nx of {self.name}: got {full['nx']:g}", expected="an even number")
        return full

    @override
    def channel_names_of(self, params: Mapping[str, float]) -> tuple[str, ...]:
        return tuple(f"u{j}" for j in range(int(params["nx"])))

    @override
    def initial_state_of(self, params: Mapping[str, float]) -> Array:
        """One wave and a smaller, shifted second one: without the shift the flow would keep a mirror symmetry."""
        first, _ = _waves(int(params["nx"]), np.array([1]))
        second, _ = _waves(int(params["nx"]), np.array([2]), shift=1.0)
        state: Array = (first + 0.1 * second)[0]
        return state

    @property
    @override
    def noise(self) -> tuple[Noise, ...]:
        return ()

    @override
    def advance(self, states: Array, params: Mapping[str, float], *, dt: float, first_step: int, noise: Array) -> Array:
        synthesis, tables, q = _basis(int(params["nx"]), params["Lx"])
        # A power of float64 differs in the last bit between processors, too (NumPy 1.26).
        linear = q**2 - params["nu"] * (q.astype(np.longdouble) ** 4).astype(np.float64)
        path = etdrk4(_nonlinear, linear, _times(states, synthesis.T), tables, dt=dt, steps=noise.shape[1])
        return _times(path, synthesis)

    @override
    def conditional_mean(
        self, states: Array, params: Mapping[str, float], *, dt: float, first_steps: NDArray[np.int64], horizon: int
    ) -> Array:
        no_noise = np.empty((len(states), horizon, 0))
        return self.advance(states, params, dt=dt, first_step=0, noise=no_noise)


KURAMOTO_SIVASHINSKY = KuramotoSivashinsky(
    name="kuramoto_sivashinsky",
    params={"nx": 64, "Lx": 22.0, "nu": 1.0},
    limits={"nx": (8, 4096), "Lx": (1e-6, 1e6), "nu": (1e-12, 1e6)},
    whole=frozenset({"nx"}),
    citation="Kuramoto, Y. & Tsuzuki, T. (1976). Prog. Theor. Phys. 55, 356-369; "
    "Sivashinsky, G. I. (1977). Acta Astronaut. 4, 1177-1206.",
)
