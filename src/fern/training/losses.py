"""Training losses by name, and weighted mixtures of them.

Each is a mean over windows, steps and channels, so that the loss of a batch is the mean of the losses of its windows.
"""

from collections.abc import Callable, Mapping
from math import isfinite

from torch import Generator, Tensor
from torch.nn.functional import huber_loss, l1_loss, mse_loss

from fern.errors import FernError, unknown_name
from fern.metrics.laws import GaussianMarginals
from fern.metrics.paths import energy_scores
from fern.metrics.probabilistic import negative_log_densities
from fern.models import Criterion, Forecast, Forecaster
from fern.transport import Ellipsoid

Weights = dict[str, float]
"""Names of losses to their weights in the sum."""

POINT_LOSSES = ("huber", "mse", "mae")
LAW_LOSSES = ("nll", "crps", "energy")
LOSSES = (*POINT_LOSSES, *LAW_LOSSES)


def loss_weights(loss: str | Mapping[str, float]) -> Weights:
    """A loss by its name, or a mixture, as names to weights.

    Example:
        >>> loss_weights("huber")
        {'huber': 1.0}
        >>> loss_weights({"huber": 1, "nil": 0.1})
        Traceback (most recent call last):
            ...
        fern.errors.FernError: unknown loss 'nil': did you mean 'nll'? Known: crps, energy, huber, mae, mse, nll
    """
    if not isinstance(loss, str | Mapping):
        raise FernError(f"loss: got {loss!r}, needs a name or a mapping of names to weights")
    weights = {loss: 1.0} if isinstance(loss, str) else dict(loss)
    if not weights:
        raise FernError(f"loss: got an empty mixture, needs at least one of {', '.join(LOSSES)}")
    for name, weight in weights.items():
        if name not in LOSSES:
            raise unknown_name("loss", str(name), LOSSES)
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not (isfinite(weight) and weight > 0):
            raise FernError(f"loss: the weight of {name} is {weight!r}, needs a number above 0")
    return {name: float(weight) for name, weight in weights.items()}


def require_law(weights: Weights, model: Forecaster) -> None:
    """Refuse a loss of the law for a model that has none."""
    wanting = [name for name in weights if name in LAW_LOSSES]
    if wanting and not model.has_law:
        raise FernError(f"loss: {wanting[0]} scores a predictive law, and {type(model).__name__} has none")


def criterion(
    weights: Weights,
    *,
    huber_delta: float = 1.0,
    energy_samples: int = 16,
    generator: Generator | None = None,
) -> Criterion:
    """The weighted sum of the named losses, as the models take it.

    - ``huber``: ½e² for \\|e| <= δ, δ(\\|e| - ½δ) beyond; ``mse``: e²; ``mae``: \\|e|, of the error e of the point
      forecast (for Fern: of one transported draw, which is the paper's training objective).
    - ``nll``: the negative log-likelihood per step; ``crps``: of the marginals, in closed form; ``energy``: the
      energy score of paths, from ``energy_samples`` draws by ``generator``. They train the whole ellipsoid.

    Example:
        >>> import torch
        >>> both = criterion({"mse": 1.0, "mae": 0.5})
        >>> both(Forecast(mean=torch.full((1, 2, 1), 2.0)), torch.zeros(1, 2, 1))
        tensor(5.)
    """

    def energy(forecast: Forecast, future: Tensor) -> Tensor:
        paths = _law(forecast, "energy").rsample((energy_samples,), generator=generator)
        return energy_scores(paths.transpose(-1, -2), future).mean().to(future.dtype)

    terms: dict[str, Callable[[Forecast, Tensor], Tensor]] = {
        "huber": lambda forecast, future: huber_loss(_mean(forecast, future), future, delta=huber_delta),
        "mse": lambda forecast, future: mse_loss(_mean(forecast, future), future),
        "mae": lambda forecast, future: l1_loss(_mean(forecast, future), future),
        "nll": lambda forecast, future: negative_log_densities(_law(forecast, "nll"), future).mean().to(future.dtype),
        "crps": _crps,
        "energy": energy,
    }
    chosen = [(terms[name], weight) for name, weight in weights.items()]

    def total(forecast: Forecast, future: Tensor) -> Tensor:
        first, *others = [
            term(forecast, future) if weight == 1.0 else weight * term(forecast, future) for term, weight in chosen
        ]
        for other in others:
            first = first + other
        return first

    return total


def _mean(forecast: Forecast, future: Tensor) -> Tensor:
    """The point forecast in the precision of the future: mixed precision makes forecasts coarser than data."""
    return forecast.mean.to(future.dtype)


def _crps(forecast: Forecast, future: Tensor) -> Tensor:
    law = _law(forecast, "crps")
    return GaussianMarginals(law.mean, law.stddev).crps(future.transpose(1, 2), "fair").mean()


def _law(forecast: Forecast, name: str) -> Ellipsoid:
    if forecast.ellipsoid is None:
        raise FernError(f"loss: {name} needs a model whose forecasts have an ellipsoid, this one's have none")
    return forecast.ellipsoid
