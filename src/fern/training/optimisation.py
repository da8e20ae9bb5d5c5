"""What training minimises, by which steps and how long: losses by name and weighted mixtures of them, the learning rate
of each step, the exponential moving average of the weights, and when to stop and which epoch to keep.

Each loss is a mean over windows, steps and channels, so that the loss of a batch is the mean of those of its windows.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import cos, isfinite, log, pi
from typing import Literal, get_args

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import huber_loss, l1_loss, mse_loss

from fern.errors import FernError, is_whole, require_choice, require_number, require_whole, unknown_name
from fern.metrics.paths import energy_scores
from fern.metrics.probabilistic import gaussian_crps, negative_log_densities
from fern.models import Forecast, Forecaster
from fern.settings import STRICT
from fern.transport import Ellipsoid

Weights = dict[str, float]
"""Names of losses to their weights in the sum."""

POINT_LOSSES = ("huber", "mse", "mae")
DISTRIBUTION_LOSSES = ("nll", "crps", "whitened_crps", "beta_nll", "energy")
LOSSES = (*POINT_LOSSES, *DISTRIBUTION_LOSSES)

BETA = 0.5
"""The β of ``beta_nll``: half way from the likelihood (0) to the squared error (1) in what it asks of the mean."""


def loss_weights(loss: str | Mapping[str, float]) -> Weights:
    """A loss by its name, or a mixture, as names to weights."""
    if not isinstance(loss, str | Mapping):
        raise FernError(argument="loss", got=loss, expected="a name or a mapping of names to weights")
    weights = {loss: 1.0} if isinstance(loss, str) else dict(loss)
    if not weights:
        raise FernError("got an empty mixture", argument="loss", expected=f"at least one of {', '.join(LOSSES)}")
    for name, weight in weights.items():
        if name not in LOSSES:
            raise unknown_name("loss", str(name), LOSSES)
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not (isfinite(weight) and weight > 0):
            raise FernError(f"the weight of {name} is {weight!r}", argument="loss", expected="a number above 0")
    return {name: float(weight) for name, weight in weights.items()}


def require_distribution(weights: Weights, model: Forecaster) -> None:
    """Refuse a loss of the distribution for a model that has none."""
    wanting = [name for name in weights if name in DISTRIBUTION_LOSSES]
    if wanting and not model.has_distribution:
        problem = f"{wanting[0]} scores a forecast distribution, and {type(model).__name__} has none"
        raise FernError(problem, argument="loss")


def criterion(
    weights: Weights,
    *,
    huber_delta: float = 1.0,
    energy_samples: int = 16,
    generator: Generator | None = None,
) -> "Mixture":
    """The weighted sum of the named losses, as the models take it.

    - ``huber``: ½e² for \\|e| <= δ, δ(\\|e| - ½δ) beyond; ``mse``: e²; ``mae``: \\|e|, of the error e of the point
      forecast (for Fern: of one transported draw, which is the paper's training objective).
    - ``nll``: the negative log-likelihood per step; ``crps``: of the marginals, in closed form; ``energy``: the
      energy score of paths, from ``energy_samples`` draws by ``generator``. They train the whole ellipsoid.
    - ``whitened_crps``: with the coordinates w = U(y - μ) along the distribution's own axes and their deviations σⱼ =
      √a λⱼ, the mean of CRPS(N(0, σⱼ²), wⱼ) (Zheng and Sun, 2024): in the unit of the data as ``crps``, less drawn by
      outliers than ``nll``, and it trains the axes too: it is least where they are those of the covariance.
    - ``beta_nll``: the mean of sg(σⱼ)^2β (½(wⱼ/σⱼ)² + log σⱼ + ½ log 2π), β = ½, where sg stops the gradient (Seitzer
      et al., 2022). The slope in the mean is then w/σ² · σ: a window that fits badly is not given up, as by ``nll``.
    """

    def energy(forecast: Forecast, future: Tensor) -> Tensor:
        paths = _distribution(forecast, "energy").rsample((energy_samples,), generator=generator)
        return energy_scores(paths.transpose(-1, -2), future).mean().to(future.dtype)

    terms: dict[str, Callable[[Forecast, Tensor], Tensor]] = {
        "huber": lambda forecast, future: huber_loss(_mean(forecast, future), future, delta=huber_delta),
        "mse": lambda forecast, future: mse_loss(_mean(forecast, future), future),
        "mae": lambda forecast, future: l1_loss(_mean(forecast, future), future),
        "nll": lambda forecast, future: (
            negative_log_densities(_distribution(forecast, "nll"), future).mean().to(future.dtype)
        ),
        "crps": _crps,
        "whitened_crps": _whitened_crps,
        "beta_nll": _beta_nll,
        "energy": energy,
    }
    chosen = tuple((terms[name], weight) for name, weight in weights.items())
    return Mixture(chosen, distribution_alone=all(name in DISTRIBUTION_LOSSES for name in weights))


@dataclass(frozen=True)
class Mixture:
    """A weighted sum of losses. ``distribution_alone``: it reads the distribution of a forecast and never its
    ``mean``.
    """

    terms: tuple[tuple[Callable[[Forecast, Tensor], Tensor], float], ...]
    distribution_alone: bool

    def __call__(self, forecast: Forecast, future: Tensor) -> Tensor:
        """The loss of a batch."""
        first, *rest = [
            term(forecast, future) if weight == 1.0 else weight * term(forecast, future) for term, weight in self.terms
        ]
        return sum(rest, start=first)


def _mean(forecast: Forecast, future: Tensor) -> Tensor:
    """The point forecast in the precision of the future: mixed precision makes forecasts coarser than data."""
    return forecast.mean.to(future.dtype)


def _crps(forecast: Forecast, future: Tensor) -> Tensor:
    distribution = _distribution(forecast, "crps")
    return gaussian_crps(future.transpose(1, 2) - distribution.mean, distribution.stddev).mean()


def _whitened_crps(forecast: Forecast, future: Tensor) -> Tensor:
    return gaussian_crps(*_along_axes(_distribution(forecast, "whitened_crps"), future)).mean().to(future.dtype)


def _beta_nll(forecast: Forecast, future: Tensor) -> Tensor:
    error, stddev = _along_axes(_distribution(forecast, "beta_nll"), future)
    density = 0.5 * (error / stddev).square() + stddev.log() + 0.5 * log(2 * pi)
    return (stddev.detach() ** (2 * BETA) * density).mean().to(future.dtype)


def _along_axes(distribution: Ellipsoid, future: Tensor) -> tuple[Tensor, Tensor]:  # (B, C, H) each
    """The error along the distribution's own axes, and the deviations there."""
    rows = future.transpose(1, 2).to(distribution.eigenvalues.dtype)
    return distribution.axis_coordinates(rows), distribution.axis_stddev


def _distribution(forecast: Forecast, name: str) -> Ellipsoid:
    if forecast.ellipsoid is None:
        problem = f"{name} needs a model whose forecasts have an ellipsoid, this one's have none"
        raise FernError(problem, argument="loss")
    return forecast.ellipsoid


Shape = Literal["constant", "cosine", "one-cycle"]

FIRST = 1 / 25
"""Where a warm-up starts, as a share of the peak."""

LAST = {"cosine": 0.0, "one-cycle": 1e-4}
"""Where the decay ends, as a share of the peak."""


@dataclass(frozen=True)
class Schedule:
    """The learning rate over ``steps`` steps.

    ``constant`` is the peak, after the warm-up. ``cosine`` and ``one-cycle`` fall from the peak along half a cosine.
    The warm-up takes the share ``warmup`` of the steps: linear, but along half a cosine for ``one-cycle`` (Smith and
    Topin 2019, in two phases as is common today).

    Example:
        >>> schedule = Schedule("one-cycle", peak=1e-3, warmup=0.25, steps=101)
        >>> [round(schedule.rate(step), 6) for step in (0, 25, 100)]
        [4e-05, 0.001, 0.0]
    """

    shape: Shape
    peak: float
    warmup: float
    steps: int

    def __post_init__(self) -> None:
        require_choice("schedule", self.shape, get_args(Shape))
        needs = "a fraction of the steps, at least 0 and below 1"
        require_number("warmup", self.warmup, needs, lambda share: 0.0 <= share < 1.0)

    def rate(self, step: int) -> float:
        """The learning rate of step 0, 1, … ``steps`` - 1."""
        last = max(1, self.steps - 1)
        top = self.warmup * last
        if step < top:
            share = step / top
            rising = share if self.shape != "one-cycle" else _ease(share)
            return self.peak * (FIRST + (1 - FIRST) * rising)
        if self.shape == "constant":
            return self.peak
        falling = _ease(min(1.0, (step - top) / max(1.0, last - top)))
        return self.peak * (1 - (1 - LAST[self.shape]) * falling)


def _ease(share: float) -> float:
    """From 0 to 1 along half a cosine."""
    return 0.5 * (1 - cos(pi * share))


class AveragedWeights:
    """w̄ ← d·w̄ + (1 - d)·w after each step, d = min(decay, (1 + n)/(10 + n)) at step n, so that it starts quickly.

    Example:
        >>> layer = nn.Linear(1, 1)
        >>> average = AveragedWeights(layer, decay=0.9)
        >>> _ = layer.weight.data.add_(1.0)
        >>> average.update()
        >>> with average.apply():
        ...     inside = layer.weight.item()
        >>> round(layer.weight.item() - inside, 6)        # d = 1/10 at step 0
        0.1
    """

    def __init__(self, model: nn.Module, *, decay: float) -> None:
        self.decay, self.steps = decay, 0
        self._parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        # At least in float32: a step of 1 - d is lost in the 8 bits of bfloat16.
        wide = [torch.promote_types(parameter.dtype, torch.float32) for parameter in self._parameters]
        self.values = [p.detach().to(dtype, copy=True) for p, dtype in zip(self._parameters, wide, strict=True)]

    def update(self) -> None:
        """Take the present weights into the mean."""
        decay = min(self.decay, (1 + self.steps) / (10 + self.steps))
        weights = [p.detach().to(mean.dtype) for p, mean in zip(self._parameters, self.values, strict=True)]
        torch._foreach_lerp_(self.values, weights, 1.0 - decay)
        self.steps += 1

    @contextmanager
    def apply(self) -> Iterator[None]:
        """Within the block the model holds the mean; its own weights come back after it, to the bit."""
        weights = [parameter.data for parameter in self._parameters]
        for parameter, mean in zip(self._parameters, self.values, strict=True):
            parameter.data = mean.to(parameter.dtype)
        try:
            yield
        finally:
            for parameter, value in zip(self._parameters, weights, strict=True):
                parameter.data = value

    def state(self) -> dict[str, Tensor]:
        """The mean as tensors by position; the number of steps is the run's."""
        return {str(position): value for position, value in enumerate(self.values)}

    def restore(self, tensors: dict[str, Tensor], *, steps: int) -> None:
        """Take over what `state` gave."""
        shapes = {name: tuple(value.shape) for name, value in tensors.items()}
        needed = {name: tuple(value.shape) for name, value in self.state().items()}
        if shapes != needed:
            raise FernError("the averaged weights have other names or shapes than the model's", argument="resume")
        self.steps = steps
        for position, value in enumerate(self.values):
            value.copy_(tensors[str(position)])


Keep = Literal["best", "last"]
Reason = Literal["epochs", "patience", "time", "interrupted", "nothing to train"]


@dataclass(frozen=True)
class StoppingRule:
    """When training stops, and which epoch's weights it keeps.

    ``epochs``     the maximum number of epochs.
    ``patience``   stop after this many epochs in a row without a new best; None never stops early.
    ``grace``      the number of first epochs that are only logged: they can neither stop the run nor be kept.
    ``smoothing``  α of an exponential mean of the validation objective, s_e = α·s_{e-1} + (1 - α)·v_e, on which
                   the rule then works; None for the values themselves. It starts after the grace period.
    ``tolerance``  an epoch is a new best only where it lowers the (smoothed) objective by more than this share of the
                   best; 0 for any lowering. Of two epochs that validation hardly tells apart it prefers the earlier,
                   which is less fitted to the training windows.
    ``keep``       ``best``: the epoch of the last new best; ``last``: the last epoch, as in fixed-epoch schemes.

    Example: the values of epochs 1, 2, … and what became of the run.
        >>> rule, state = StoppingRule(epochs=50, patience=2, grace=1), StoppingState()
        >>> for value in (0.5, 3.0, 2.0, 2.5, 2.2, 1.0):
        ...     state, reason = rule.after_epoch(state, value)
        ...     if reason:
        ...         break
        >>> state.epoch, state.kept_epoch, reason
        (5, 3, 'patience')
    """

    epochs: int
    patience: int | None = None
    grace: int = 0
    smoothing: float | None = None
    tolerance: float = 0.0
    keep: Keep = "best"

    def __post_init__(self) -> None:
        require_whole("epochs", self.epochs, 1)
        if self.patience is not None:
            require_whole("patience", self.patience, 1)
        if not is_whole(self.grace, least=0) or self.grace >= self.epochs:
            needs = f"at least 0 and fewer than the {self.epochs} epochs: an epoch of the grace period cannot be kept"
            raise FernError(argument="grace", got=self.grace, expected=needs)
        if self.smoothing is not None:
            needs = "a number between 0 and 1, or None"
            require_number("smoothing", self.smoothing, needs, lambda number: 0.0 < number < 1.0)
        require_number("tolerance", self.tolerance, "a fraction, at least 0 and below 1", lambda share: 0 <= share < 1)
        require_choice("keep", self.keep, get_args(Keep))

    def after_epoch(self, state: "StoppingState", value: float) -> tuple["StoppingState", Reason | None]:
        """The state after one more epoch with this validation objective, and why to stop now, if so."""
        if not isfinite(value):
            where = f"epoch {state.epoch + 1}"
            raise FernError(argument="validation objective", got=value, expected="a finite number", where=where)
        epoch = state.epoch + 1
        if epoch <= self.grace:
            return StoppingState(epoch=epoch), None
        judged = value
        if self.smoothing is not None and state.judged is not None:
            judged = self.smoothing * state.judged + (1.0 - self.smoothing) * value
        improved = state.best is None or judged < state.best - self.tolerance * abs(state.best)
        after = StoppingState(
            epoch=epoch,
            judged=judged,
            best=judged if improved else state.best,
            kept_epoch=epoch if improved or self.keep == "last" else state.kept_epoch,
            waited=0 if improved else state.waited + 1,
        )
        if self.patience is not None and after.waited >= self.patience:
            return after, "patience"
        return after, "epochs" if epoch >= self.epochs else None


@dataclass(frozen=True)
class StoppingState:
    """Where a `StoppingRule` is: plain values, which JSON keeps to the bit."""

    __pydantic_config__ = STRICT

    epoch: int = 0
    judged: float | None = None  # the (smoothed) objective of the last epoch after the grace period
    best: float | None = None  # the objective of the last new best
    kept_epoch: int | None = None
    waited: int = 0
