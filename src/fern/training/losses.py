"""Training losses by name, and weighted mixtures of them.

Each is a mean over windows, steps and channels, so that the loss of a batch is the mean of the losses of its windows.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite, log, pi

from torch import Generator, Tensor
from torch.nn.functional import huber_loss, l1_loss, mse_loss

from fern.errors import FernError, unknown_name
from fern.metrics.distributions import gaussian_crps
from fern.metrics.paths import energy_scores
from fern.metrics.probabilistic import negative_log_densities
from fern.models import Forecast, Forecaster
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
        raise FernError(
            f"{wanting[0]} scores a forecast distribution, and {type(model).__name__} has none", argument="loss"
        )


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
        first, *others = [
            term(forecast, future) if weight == 1.0 else weight * term(forecast, future) for term, weight in self.terms
        ]
        for other in others:
            first = first + other
        return first


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
    return distribution.axis_coordinates(
        future.transpose(1, 2).to(distribution.eigenvalues.dtype)
    ), distribution.axis_stddev


def _distribution(forecast: Forecast, name: str) -> Ellipsoid:
    if forecast.ellipsoid is None:
        raise FernError(
            f"{name} needs a model whose forecasts have an ellipsoid, this one's have none", argument="loss"
        )
    return forecast.ellipsoid
