"""Time stepping in float64: Runge-Kutta 4, Euler-Maruyama, ETDRK4 and plain recursions.

Equations are compiled with one fixed signature and called by the integrators through their address.
"""

from collections.abc import Callable

import numpy as np
from numba import types
from numpy.typing import NDArray

from fern.caching import compile_function, kernel

VECTOR = types.float64[::1]
MATRIX = types.float64[:, ::1]
CUBE = types.float64[:, :, ::1]

EQUATIONS = types.void(VECTOR, VECTOR, VECTOR)
"""``f(state, params, out)``: writes the derivative (or drift, or noise scale) at ``state`` into ``out``."""

RECURSION = types.void(VECTOR, VECTOR, types.int64, VECTOR, VECTOR)
"""``f(state, params, step, noise, out)``: writes the state after step number ``step`` into ``out``."""

SPECTRAL = types.void(VECTOR, MATRIX, VECTOR)
"""``f(coefficients, tables, out)``: writes the non-linear term's coefficients into ``out``."""


Array = NDArray[np.float64]
Function = Callable[..., None]


def rk4(
    equations: Function,  # f(state, params, out)
    states: Array,  # (n, d)
    params: Array,
    *,
    dt: float,
    steps: int,
) -> Array:  # (n, steps, d)
    """Classical fourth-order Runge-Kutta (Butcher 1987) for dx/dt = f(x).

    Example:
        >>> def decay(state, params, out):
        ...     out[0] = -params[0] * state[0]
        >>> path = rk4(decay, np.array([[1.0]]), np.array([1.0]), dt=0.1, steps=10)
        >>> bool(abs(path[0, -1, 0] - np.exp(-1.0)) < 1e-6)
        True
    """
    out = np.empty((len(states), steps, states.shape[1]))
    _rk4(compile_function(equations, EQUATIONS), np.ascontiguousarray(states), params, dt, out)
    return out


def euler_maruyama(
    drift: Function,  # f(state, params, out)
    noise_scale: Function,  # g(state, params, out)
    states: Array,  # (n, d)
    params: Array,
    noise: Array,  # (n, steps, d) standard normal
    *,
    dt: float,
) -> Array:  # (n, steps, d)
    """Euler-Maruyama for dx = f(x) dt + g(x) dW with diagonal noise: x + f(x) dt + g(x) sqrt(dt) ξ.

    Weak order 1 (Kloeden & Platen 1992).

    Example:
        >>> def decay(state, params, out):
        ...     out[0] = -params[0] * state[0]
        >>> def still(state, params, out):
        ...     out[0] = 0.0
        >>> path = euler_maruyama(decay, still, np.array([[1.0]]), np.array([1.0]), np.zeros((1, 2, 1)), dt=0.5)
        >>> path[0, :, 0].tolist()
        [0.5, 0.25]
    """
    out = np.empty_like(noise)
    functions = compile_function(drift, EQUATIONS), compile_function(noise_scale, EQUATIONS)
    _euler_maruyama(*functions, np.ascontiguousarray(states), params, np.ascontiguousarray(noise), dt, out)
    return out


def recursion(
    step: Function,  # f(state, params, step, noise, out)
    states: Array,  # (n, d)
    params: Array,
    noise: Array,  # (n, steps, k)
    *,
    first_step: int,
) -> Array:  # (n, steps, d)
    """A discrete-time process: x ← f(x, t, noise_t) for t = first_step, first_step + 1, …

    Example:
        >>> def count(state, params, step, noise, out):
        ...     out[0] = state[0] + step
        >>> recursion(count, np.zeros((1, 1)), np.zeros(1), np.zeros((1, 3, 1)), first_step=5)[0, :, 0].tolist()
        [5.0, 11.0, 18.0]
    """
    n, steps, _ = noise.shape
    out = np.empty((n, steps, states.shape[1]))
    function = compile_function(step, RECURSION)
    _recursion(function, np.ascontiguousarray(states), params, np.ascontiguousarray(noise), first_step, out)
    return out


def etdrk4(
    nonlinear: Function,  # N(coefficients, tables, out)
    linear: Array,  # (d,) the diagonal of the linear operator
    coefficients: Array,  # (n, d)
    tables: Array,  # (rows, d) whatever the non-linear term needs
    *,
    dt: float,
    steps: int,
) -> Array:  # (n, steps, d)
    """Exponential time differencing Runge-Kutta 4 for dv/dt = L v + N(v), L diagonal (Cox & Matthews 2002).

    The φ-functions are averaged over a circle around each L·dt (Kassam & Trefethen 2005), where their formulas
    do not cancel.

    Example:
        >>> def none(coefficients, tables, out):
        ...     out[0] = 0.0
        >>> path = etdrk4(none, np.array([-2.0]), np.ones((1, 1)), np.zeros((1, 1)), dt=0.5, steps=1)
        >>> bool(np.isclose(path[0, 0, 0], np.exp(-1.0)))
        True
    """
    weights = _etdrk4_weights(linear * dt) * np.array([1.0, 1.0, dt, dt, dt, dt])[:, None]
    out = np.empty((len(coefficients), steps, coefficients.shape[1]))
    _etdrk4(compile_function(nonlinear, SPECTRAL), weights, np.ascontiguousarray(coefficients), tables, out)
    return out


def _etdrk4_weights(linear: Array) -> Array:  # (6, d): e^z, e^(z/2), Q, f1, f2, f3
    """Rounded from a longer format: NumPy's own exp of float64 differs in the last bit between processors."""
    z = linear.astype(np.longdouble)
    angle = np.arccos(np.longdouble(-1)) * (np.arange(1, 33) - np.longdouble(0.5)) / 32
    r = z[:, None] + (np.cos(angle) + 1j * np.sin(angle))
    q = np.mean((np.exp(r / 2) - 1) / r, axis=1).real
    f1 = np.mean((-4 - r + np.exp(r) * (4 - 3 * r + r**2)) / r**3, axis=1).real
    f2 = np.mean((2 + r + np.exp(r) * (-2 + r)) / r**3, axis=1).real
    f3 = np.mean((-4 - 3 * r - r**2 + np.exp(r) * (4 - r)) / r**3, axis=1).real
    return np.stack([np.exp(z), np.exp(z / 2), q, f1, f2, f3]).astype(np.float64)


_EQUATIONS_TYPE = types.FunctionType(EQUATIONS)


@kernel(_EQUATIONS_TYPE, MATRIX, VECTOR, types.float64, CUBE)
def _rk4(f: Function, states: Array, params: Array, dt: float, out: Array) -> None:
    n, steps, d = out.shape
    x, y = np.empty(d), np.empty(d)
    k1, k2, k3, k4 = np.empty(d), np.empty(d), np.empty(d), np.empty(d)
    for i in range(n):
        for j in range(d):  # not x[:] =, whose error messages Numba compiles for seconds
            x[j] = states[i, j]
        for s in range(steps):
            f(x, params, k1)
            for j in range(d):
                y[j] = x[j] + 0.5 * dt * k1[j]
            f(y, params, k2)
            for j in range(d):
                y[j] = x[j] + 0.5 * dt * k2[j]
            f(y, params, k3)
            for j in range(d):
                y[j] = x[j] + dt * k3[j]
            f(y, params, k4)
            for j in range(d):
                x[j] += dt / 6.0 * (k1[j] + 2.0 * k2[j] + 2.0 * k3[j] + k4[j])
                out[i, s, j] = x[j]


@kernel(_EQUATIONS_TYPE, _EQUATIONS_TYPE, MATRIX, VECTOR, CUBE, types.float64, CUBE)
def _euler_maruyama(
    f: Function, g: Function, states: Array, params: Array, noise: Array, dt: float, out: Array
) -> None:
    n, steps, d = out.shape
    root = np.sqrt(dt)
    x, drift, scale = np.empty(d), np.empty(d), np.empty(d)
    for i in range(n):
        for j in range(d):
            x[j] = states[i, j]
        for s in range(steps):
            f(x, params, drift)
            g(x, params, scale)
            for j in range(d):
                x[j] += drift[j] * dt + scale[j] * root * noise[i, s, j]
                out[i, s, j] = x[j]


@kernel(types.FunctionType(RECURSION), MATRIX, VECTOR, CUBE, types.int64, CUBE)
def _recursion(f: Function, states: Array, params: Array, noise: Array, first_step: int, out: Array) -> None:
    n, steps, d = out.shape
    x = np.empty(d)
    for i in range(n):
        for j in range(d):
            x[j] = states[i, j]
        for s in range(steps):
            f(x, params, first_step + s, noise[i, s], out[i, s])
            for j in range(d):
                x[j] = out[i, s, j]


@kernel(types.FunctionType(SPECTRAL), MATRIX, MATRIX, MATRIX, CUBE)
def _etdrk4(f: Function, weights: Array, coefficients: Array, tables: Array, out: Array) -> None:
    n, steps, d = out.shape
    full, half, q = weights[0], weights[1], weights[2]
    f1, f2, f3 = weights[3], weights[4], weights[5]
    v, a, b, c = np.empty(d), np.empty(d), np.empty(d), np.empty(d)
    nv, na, nb, nc = np.empty(d), np.empty(d), np.empty(d), np.empty(d)
    for i in range(n):
        for j in range(d):
            v[j] = coefficients[i, j]
        for s in range(steps):
            f(v, tables, nv)
            for j in range(d):
                a[j] = half[j] * v[j] + q[j] * nv[j]
            f(a, tables, na)
            for j in range(d):
                b[j] = half[j] * v[j] + q[j] * na[j]
            f(b, tables, nb)
            for j in range(d):
                c[j] = half[j] * a[j] + q[j] * (2.0 * nb[j] - nv[j])
            f(c, tables, nc)
            for j in range(d):
                v[j] = full[j] * v[j] + nv[j] * f1[j] + 2.0 * (na[j] + nb[j]) * f2[j] + nc[j] * f3[j]
                out[i, s, j] = v[j]
