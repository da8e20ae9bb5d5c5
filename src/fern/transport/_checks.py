"""What an `Ellipsoid` accepts: shapes always, values where validation is on. Errors name the argument."""

import math
from numbers import Integral, Real

import torch
from torch import Tensor

from fern.errors import FernError


def require_one_device(**values: Tensor) -> None:
    """Tensors that belong together live on one device."""
    if len({value.device for value in values.values()}) > 1:
        where = ", ".join(f"{name} is on {value.device}" for name, value in values.items())
        raise FernError("all must be on one device", where=where)


def require_floating(name: str, value: Tensor) -> None:
    """A tensor of real numbers."""
    if not isinstance(value, Tensor) or not value.is_floating_point():
        got = str(value.dtype) if isinstance(value, Tensor) else type(value).__name__
        raise FernError(f"got {got}", argument=name, expected="a floating-point tensor")


def has_values(tensor: Tensor) -> bool:
    """Whether there are values to look at: not on torch's ``meta`` device, nor while `torch.export` traces."""
    return not tensor.is_meta and not torch.compiler.is_exporting()


def require_finite(name: str, value: Tensor) -> None:
    """No NaN, no infinity. A sum is NaN or infinite if a term is, and cheaper than a look at each."""
    if not has_values(value):
        return
    if not math.isfinite(value.detach().sum().item()) and not bool(value.detach().isfinite().all()):
        bad = int((~value.detach().isfinite()).sum())
        raise FernError(f"{bad} of {value.numel()} values are NaN or infinite", argument=name, expected="finite values")


def require_not_negative(name: str, value: Tensor) -> None:
    """No negative entry."""
    if has_values(value) and value.numel() and value.detach().amin().item() < 0:
        raise FernError(f"smallest is {value.detach().amin().item():g}", argument=name, expected="values >= 0")


def require_positive(name: str, value: Tensor) -> None:
    """No entry of 0 or below."""
    if has_values(value) and value.numel() and not value.detach().amin().item() > 0:
        raise FernError(f"smallest is {value.detach().amin().item():g}", argument=name, expected="numbers > 0")


def require_positive_number(name: str, value: object) -> None:
    """A finite number above 0."""
    if not isinstance(value, Real) or not 0 < float(value) < math.inf:
        raise FernError(argument=name, got=value, expected="a finite number > 0")


def require_floor(name: str, value: object, eigenvalues: Tensor) -> None:
    """A finite number above 0, or a tensor of them that broadcasts to the eigenvalues."""
    if not isinstance(value, Tensor):
        require_positive_number(name, value)
        return
    require_floating(name, value)
    require_broadcast(eigenvalues.shape, value.shape, name)
    require_positive(name, value)


def require_shapes(
    eigenvalues: Tensor, reflections: Tensor, horizon: object, *, shift: Tensor | None, offset: Tensor | None
) -> int:
    """Check ranks and shapes that belong together; return the horizon."""
    placed = {name: value for name, value in (("shift", shift), ("offset", offset)) if value is not None}
    tensors = {"eigenvalues": eigenvalues, **placed, "reflections": reflections}
    for name, value in tensors.items():
        require_floating(name, value)
    require_one_device(**tensors)
    if eigenvalues.ndim < 2:
        raise FernError(f"got shape {tuple(eigenvalues.shape)}", argument="eigenvalues", expected="(*batch, g, p)")
    g, p = eigenvalues.shape[-2:]
    if g < 1 or p < 1:
        expected = "at least one patch of at least one step"
        raise FernError(f"got {g} patches of {p}", argument="eigenvalues", expected=expected)
    for name, value in placed.items():
        if value.ndim < 2 or value.shape[-2:] != (g, p):
            expected = f"(*batch, {g}, {p}) to match eigenvalues"
            raise FernError(f"got shape {tuple(value.shape)}", argument=name, expected=expected)
    if reflections.ndim < 3 or reflections.shape[-3] != g or reflections.shape[-1] != p:
        expected = f"(*batch, {g}, R, {p}) to match eigenvalues"
        raise FernError(f"got shape {tuple(reflections.shape)}", argument="reflections", expected=expected)
    if horizon is None:
        return g * p
    if not isinstance(horizon, Integral) or not (g - 1) * p < int(horizon) <= g * p:
        expected = f"{(g - 1) * p + 1} to {g * p} for {g} patches of {p}"
        raise FernError(argument="horizon", got=horizon, expected=expected)
    return int(horizon)


def find_batch_shape(
    eigenvalues: Tensor, reflections: Tensor, *, shift: Tensor | None, offset: Tensor | None
) -> torch.Size:
    """The batch shape that all parameters of an ellipsoid broadcast to."""
    parameters = {"eigenvalues": eigenvalues, "shift": shift, "offset": offset}
    shapes = {name: value.shape[:-2] for name, value in parameters.items() if value is not None}
    shapes["reflections"] = reflections.shape[:-3]
    description = ", ".join(f"{name} {tuple(shape)}" for name, shape in shapes.items())
    return find_common_shape(*shapes.values(), problem=f"batch shapes of {description} do not broadcast to one shape")


def require_broadcast(target: torch.Size, shape: torch.Size, argument: str) -> None:
    """Refuse a shape that does not broadcast to the target."""
    problem, needs = f"got shape {tuple(shape)}", f"one that broadcasts to {tuple(target)}"
    if find_common_shape(shape, target, problem=problem, argument=argument, expected=needs) != target:
        raise FernError(problem, argument=argument, expected=needs)


def find_common_shape(*shapes: torch.Size, problem: str, argument: str = "batch", expected: str = "") -> torch.Size:
    """The shape that all broadcast to, or the error of these fields."""
    first, *rest = shapes
    if all(shape == first for shape in rest):  # torch's own answer takes many times as long
        return first
    try:
        return torch.Size(torch.broadcast_shapes(*shapes))  # type: ignore[no-untyped-call]
    except RuntimeError:
        raise FernError(problem, argument=argument, expected=expected) from None


def require_event(name: str, value: Tensor, batch: torch.Size, horizon: int) -> None:
    """A value whose last dimension is the horizon and whose others broadcast with the batch."""
    require_floating(name, value)
    if value.ndim < 1 or value.shape[-1] != horizon:
        raise FernError(f"got shape {tuple(value.shape)}", argument=name, expected=f"(..., {horizon})")
    require_pointwise(name, value, batch, horizon)


def require_pointwise(name: str, value: Tensor, batch: torch.Size, horizon: int) -> None:
    """A value that broadcasts with (*batch, horizon)."""
    require_floating(name, value)
    shape = torch.Size([*batch, horizon])
    needs = f"one that broadcasts with {tuple(shape)}"
    find_common_shape(value.shape, shape, problem=f"got shape {tuple(value.shape)}", argument=name, expected=needs)
