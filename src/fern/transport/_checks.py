"""What an `Ellipsoid` accepts: shapes always, values where validation is on. Errors name the argument."""

import math
from numbers import Integral, Real

import torch
from torch import Tensor

from fern.errors import FernError


def one_device(**values: Tensor) -> None:
    """Tensors that belong together live on one device."""
    if len({value.device for value in values.values()}) > 1:
        where = ", ".join(f"{name} is on {value.device}" for name, value in values.items())
        raise FernError("all must be on one device", where=where)


def floating(name: str, value: Tensor) -> None:
    """A tensor of real numbers."""
    if not isinstance(value, Tensor) or not value.is_floating_point():
        got = str(value.dtype) if isinstance(value, Tensor) else type(value).__name__
        raise FernError(f"got {got}", argument=name, expected="a floating-point tensor")


def _unseen(value: Tensor) -> bool:
    """Whether there is nothing to look at: torch's ``meta`` device, or `torch.export` at work."""
    return value.is_meta or torch.compiler.is_exporting()


def finite(name: str, value: Tensor) -> None:
    """No NaN, no infinity. A sum is NaN or infinite if a term is, and cheaper than a look at each."""
    if _unseen(value):
        return
    if not math.isfinite(value.detach().sum().item()) and not bool(value.detach().isfinite().all()):
        bad = int((~value.detach().isfinite()).sum())
        raise FernError(f"{bad} of {value.numel()} values are NaN or infinite", argument=name, expected="finite values")


def not_negative(name: str, value: Tensor) -> None:
    """No negative entry."""
    if not _unseen(value) and value.numel() and value.detach().amin().item() < 0:
        raise FernError(f"smallest is {value.detach().amin().item():g}", argument=name, expected="values >= 0")


def positive(name: str, value: Tensor) -> None:
    """No entry of 0 or below."""
    if not _unseen(value) and value.numel() and not value.detach().amin().item() > 0:
        raise FernError(f"smallest is {value.detach().amin().item():g}", argument=name, expected="numbers > 0")


def positive_number(name: str, value: object) -> None:
    """A finite number above 0."""
    if not isinstance(value, Real) or not 0 < float(value) < math.inf:
        raise FernError(argument=name, got=value, expected="a finite number > 0")


def floor(name: str, value: object, eigenvalues: Tensor) -> None:
    """A finite number above 0, or a tensor of them that broadcasts to the eigenvalues."""
    if not isinstance(value, Tensor):
        positive_number(name, value)
        return
    floating(name, value)
    broadcasts_to(eigenvalues.shape, value.shape, name)
    positive(name, value)


def ellipsoid_shapes(
    eigenvalues: Tensor, reflections: Tensor, horizon: object, *, shift: Tensor | None, offset: Tensor | None
) -> int:
    """Check ranks and shapes that belong together; return the horizon."""
    placed = {name: value for name, value in (("shift", shift), ("offset", offset)) if value is not None}
    tensors = {"eigenvalues": eigenvalues, **placed, "reflections": reflections}
    for name, value in tensors.items():
        floating(name, value)
    one_device(**tensors)
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


def batch_shape(eigenvalues: Tensor, reflections: Tensor, *, shift: Tensor | None, offset: Tensor | None) -> torch.Size:
    """The batch shape that all parameters of an ellipsoid broadcast to."""
    placed = {"eigenvalues": eigenvalues, "shift": shift, "offset": offset}
    shapes = {name: value.shape[:-2] for name, value in placed.items() if value is not None}
    shapes["reflections"] = reflections.shape[:-3]
    listed = ", ".join(f"{name} {tuple(shape)}" for name, shape in shapes.items())
    return common_shape(*shapes.values(), problem=f"batch shapes of {listed} do not broadcast to one shape")


def broadcasts_to(wanted: torch.Size, shape: torch.Size, argument: str) -> None:
    """Refuse a shape that does not broadcast to the wanted one."""
    problem, needs = f"got shape {tuple(shape)}", f"one that broadcasts to {tuple(wanted)}"
    if common_shape(shape, wanted, problem=problem, argument=argument, expected=needs) != wanted:
        raise FernError(problem, argument=argument, expected=needs)


def common_shape(*shapes: torch.Size, problem: str, argument: str = "batch", expected: str = "") -> torch.Size:
    """The shape that all broadcast to, or the error of these fields."""
    first, *others = shapes
    if all(other == first for other in others):  # torch's own answer takes many times as long
        return first
    try:
        return torch.Size(torch.broadcast_shapes(*shapes))  # type: ignore[no-untyped-call]
    except RuntimeError:
        raise FernError(problem, argument=argument, expected=expected) from None


def event(name: str, value: Tensor, batch: torch.Size, horizon: int) -> None:
    """A value whose last dimension is the horizon and whose others broadcast with the batch."""
    floating(name, value)
    if value.ndim < 1 or value.shape[-1] != horizon:
        raise FernError(f"got shape {tuple(value.shape)}", argument=name, expected=f"(..., {horizon})")
    _broadcasts(name, value, torch.Size([*batch, horizon]))


def pointwise(name: str, value: Tensor, batch: torch.Size, horizon: int) -> None:
    """A value that broadcasts with (*batch, horizon)."""
    floating(name, value)
    _broadcasts(name, value, torch.Size([*batch, horizon]))


def _broadcasts(name: str, value: Tensor, shape: torch.Size) -> None:
    needs = f"one that broadcasts with {tuple(shape)}"
    common_shape(value.shape, shape, problem=f"got shape {tuple(value.shape)}", argument=name, expected=needs)
