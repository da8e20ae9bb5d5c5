"""The small matrices of Koopa's local operator, a window at a time: a batched product of each would cost more to call.

``products`` (B, F, F) are the inner products of the embedded segments; with n = F - 1, G is their leading n×n part,
C their part of rows 1 … n and columns 0 … n - 1, ``inverse`` the pseudo-inverse of G, and A = C G⁺.
"""

from typing import Any

import numpy as np
from numba import njit

from fern.caching import cached_njit

Array = Any  # of float64, contiguous


@njit(nogil=True, error_model="numpy")
def _add_product(a: Array, b: Array, factor: float, out: Array) -> None:
    """out += factor · a b."""
    for i in range(a.shape[0]):
        for k in range(a.shape[1]):
            by = factor * a[i, k]
            for j in range(b.shape[1]):
                out[i, j] += by * b[k, j]


@cached_njit(nogil=True, error_model="numpy")
def coefficients(products: Array, inverse: Array, steps: int, largest: float, out: Array) -> None:
    """out = c_1 … c_steps and then G G⁺, with c_1 the last row of A, c_{h+1} = c_h A within ±largest."""
    n = inverse.shape[1]
    for b in range(products.shape[0]):
        step = np.zeros((n, n))
        _add_product(products[b, 1:, :n], inverse[b], 1.0, step)
        out[b] = 0.0
        out[b, 0] = step[n - 1]
        for h in range(1, steps):
            _add_product(out[b, h - 1 : h], step, 1.0, out[b, h : h + 1])
            for j in range(n):
                out[b, h, j] = min(max(out[b, h, j], -largest), largest)
        _add_product(products[b, :n, :n], inverse[b], 1.0, out[b, steps:])


@cached_njit(nogil=True, error_model="numpy")
def gradient(products: Array, inverse: Array, made: Array, largest: float, grad: Array, out: Array) -> None:
    """The gradient in ``products`` from that in ``made``, which `coefficients` gave; ``grad`` is overwritten."""
    n = inverse.shape[1]
    steps = made.shape[1] - n
    for b in range(products.shape[0]):
        gram, cross, pinv = products[b, :n, :n], products[b, 1:, :n], inverse[b]
        step, by_step, by_pinv = np.zeros((n, n)), np.zeros((n, n)), np.zeros((n, n))
        _add_product(cross, pinv, 1.0, step)
        for h in range(steps - 1, 0, -1):
            for j in range(n):
                if abs(made[b, h, j]) >= largest:
                    grad[b, h, j] = 0.0
            _add_product(made[b, h - 1 : h].T, grad[b, h : h + 1], 1.0, by_step)
            _add_product(grad[b, h : h + 1], step.T, 1.0, grad[b, h - 1 : h])
        by_step[n - 1] += grad[b, 0]
        out[b] = 0.0
        _add_product(by_step, pinv.T, 1.0, out[b, 1:, :n])
        _add_product(grad[b, steps:], pinv.T, 1.0, out[b, :n, :n])
        _add_product(cross.T, by_step, 1.0, by_pinv)
        _add_product(gram.T, grad[b, steps:], 1.0, by_pinv)
        _add_pinv_gradient(gram, pinv, by_pinv, out[b, :n, :n])


@njit(nogil=True, error_model="numpy")
def _add_pinv_gradient(gram: Array, pinv: Array, grad: Array, out: Array) -> None:
    """out += -P g P + (I - GP) gᵀ P² + P² gᵀ (I - PG), of the symmetric G and P = G⁺ (Golub and Pereyra 1973)."""
    n = pinv.shape[0]
    square, beside, term = np.zeros((n, n)), np.eye(n), np.zeros((n, n))
    _add_product(pinv, pinv, 1.0, square)
    _add_product(gram, pinv, -1.0, beside)
    _add_product(pinv, grad, -1.0, term)
    _add_product(term, pinv, 1.0, out)
    term[:] = 0.0
    _add_product(grad.T, square, 1.0, term)
    _add_product(beside, term, 1.0, out)
    term[:] = 0.0
    _add_product(square, grad.T, 1.0, term)
    _add_product(term, beside.T, 1.0, out)
