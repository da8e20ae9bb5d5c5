"""PFNN (Cheng et al., ICLR 2025): the next state by a linear operator in a learnt embedding, rolled out."""

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import linear

from fern.errors import require_number, require_whole
from fern.models.base import Criterion, Forecast, ModelConfig, PointForecaster, Sees
from fern.models.layers import Perceptron, find_activation
from fern.models.registry import register_model
from fern.transport._checks import has_values

LARGEST = 1e12
"""Where a state that grows without bound is held. Its square is still finite in float32, summed over any batch."""


@dataclass(frozen=True, kw_only=True)
class PFNNConfig(ModelConfig):
    """The settings of `PFNN`. The sizes are those published for Lorenz-63: 114,153 parameters with 3 channels.

    ``hidden``             the width inside the encoder and the decoder.
    ``latent``             the size of the embedding, in which the operator K acts.
    ``layers``             linear maps in the encoder, and in the decoder.
    ``activation``         relu, gelu, silu or tanh.
    ``contraction``        γ₁, the weight of Σ ReLU(eig(KKᵀ) - 1), beside squares *summed* over the batch.
    ``invariance``         γ₂, the weight of ‖KᵀK - I‖ + ‖KKᵀ - I‖ in a second phase of training, likewise.
    ``contraction_steps``  training steps before the second phase. None: there is none, as in the released scripts.
    ``pairs``              steps x_t → x_{t+1} drawn from each window for one training step. None: all of them.
    """

    hidden: int = 150
    latent: int = 150
    layers: int = 3
    activation: str = "relu"
    contraction: float = 1.0
    invariance: float = 0.1
    contraction_steps: int | None = None
    pairs: int | None = 4
    _sees: ClassVar[Sees] = "all"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole("layers", self.layers, 2)
        for name in ("hidden", "latent"):
            require_whole(name, getattr(self, name), 1)
        for name in ("contraction", "invariance"):
            require_number(name, getattr(self, name), "a weight of at least 0", lambda weight: weight >= 0)
        if self.contraction_steps is not None:
            require_whole("contraction_steps", self.contraction_steps, 0)
        if self.pairs is not None:
            require_whole("pairs", self.pairs, 1)
        find_activation(self.activation)


class PFNN(PointForecaster):
    """One step of the system, learnt from pairs of neighbouring states; a forecast is H steps from the last state.

    x_{t+1} = decode(K encode(x_t)), all channels together, K linear without bias. Of the context only the last state
    is used: PFNN learns the system, not the window.

    *Training* takes pairs (x, x') of neighbouring states anywhere in the window and minimises

        criterion(decode(K encode(x)), x') + criterion(decode(encode(x)), x) + γ₁ Σ ReLU(eig(KKᵀ) - 1) / n

    whose last term lets no direction of the embedding grow. The criterion is the training loop's, a mean over the n
    numbers of the batch; the project *sums* squares over its batch, hence the n. This is its script for flows
    (``L96_train_contract.py``).

    *Measure invariance.* The project's paper pulls the operator for states on the attractor towards a unitary one; its
    released code does not. ``contraction_steps`` = N asks for our reading of the paper: after N steps the term is
    γ₂ (‖KᵀK - I‖ + ‖KKᵀ - I‖) / n. What that does to the error: ``python -m benchmarks.rivals.pfnn``.

    *The rollout* decodes and encodes anew at every step, as the project's scripts do: it is not K^h in the embedding.
    Encoder, K and decoder meet without an activation between them, so the three maps are multiplied out once.

    *A rollout that grows without bound* is held at ±1e12 and a `RuntimeWarning` says so: the forecast stays finite, its
    error shows what happened, and a training run goes on.

    Correspondence with Hy23333/PFNN (``AE_fwd``), one map each: ``encoder.maps.j`` is ``encoder.hidden.(2j)``,
    ``operator`` is ``forward_operator``, ``decoder.maps.j`` is ``decoder.hidden.(2j)``.

    Example:
        >>> model = PFNN(PFNNConfig(context_length=48, horizon=24, channels=3)).eval()
        >>> sum(parameter.numel() for parameter in model.parameters())
        114153
        >>> model(torch.randn(4, 48, 3)).mean.shape
        torch.Size([4, 24, 3])
    """

    config: PFNNConfig
    steps_trained: Tensor

    def __init__(self, config: PFNNConfig) -> None:
        super().__init__(config)
        inside = (config.layers - 1) * [config.hidden]
        self.encoder = Perceptron((config.channels, *inside, config.latent), activation=config.activation)
        self.operator = nn.Linear(config.latent, config.latent, bias=False)
        self.decoder = Perceptron((config.latent, *inside, config.channels), activation=config.activation)
        self.register_buffer("steps_trained", torch.zeros((), dtype=torch.int64))

    def prepare(self, batches: Iterable[tuple[Tensor, Tensor]]) -> None:
        """Count the steps from 0; the windows are not looked at."""
        self.steps_trained.zero_()

    def predict(self, past: Tensor) -> Tensor:
        """H steps from the last state."""
        forecast = self.rollout(past[:, -1], self.config.horizon)
        if has_values(forecast) and bool((forecast.detach().abs() >= LARGEST).any()):
            warnings.warn("PFNN: a rollout grew without bound and is held at ±1e12", RuntimeWarning, stacklevel=2)
        return forecast

    def rollout(
        self,
        state: Tensor,  # (B, C)
        steps: int,
    ) -> Tensor:  # (B, steps, C)
        """The states after 1, 2, …, ``steps`` steps."""
        maps, out = self._step_maps()
        states = []
        for _ in range(steps):
            for weight, bias in maps:
                state = self.encoder.activate(linear(state, weight, bias))
            state = linear(state, *out).clamp(-LARGEST, LARGEST)
            states.append(state)
        return torch.stack(states, dim=1)

    def _step_maps(self) -> tuple[list[tuple[Tensor, Tensor]], tuple[Tensor, Tensor]]:
        """Weight and bias of each map of one step that an activation follows, and of the last, that none does."""
        *before, last = [(part.weight, part.bias) for part in self.encoder.linear_maps]
        first, *after, out = [(part.weight, part.bias) for part in self.decoder.linear_maps]
        to_decoder = first[0] @ self.operator.weight
        middle = (to_decoder @ last[0], to_decoder @ last[1] + first[1])
        return [*before, middle, *after], out

    def loss(self, past: Tensor, future: Tensor, criterion: Criterion, *, generator: Generator | None = None) -> Tensor:
        """The error of one step and of the reconstruction, and the term of the operator; see the class."""
        self._check_past(past)
        self.check_future(past, future)
        state, following = self._pairs(torch.cat((past, future), dim=1), generator)
        embedded = self.encoder(state)
        predicted, rebuilt = self.decoder(torch.stack((self.operator(embedded), embedded)))
        total: Tensor = criterion(Forecast(mean=predicted), following)
        total = total + criterion(Forecast(mean=rebuilt), state)
        total = total + self._penalty() / predicted.numel()
        if self.training:
            self.steps_trained += 1
        return total

    def _penalty(self) -> Tensor:
        """The term of the operator, as it stands beside sums of squares."""
        config, limit = self.config, self.config.contraction_steps
        if limit is None or int(self.steps_trained) < limit:
            return expansion(self.operator.weight) * config.contraction
        return distance_from_unitary(self.operator.weight) * config.invariance

    def _pairs(
        self,
        series: Tensor,  # (B, L + H, C)
        generator: Generator | None,
    ) -> tuple[Tensor, Tensor]:  # (B, pairs, C) each
        if self.config.pairs is None:
            return series[:, :-1], series[:, 1:]
        size = (series.shape[0], self.config.pairs)
        rows = torch.randint(series.shape[1] - 1, size, generator=generator, device=series.device)
        window = torch.arange(series.shape[0], device=series.device)[:, None]
        return series[window, rows], series[window, rows + 1]


def expansion(
    operator: Tensor,  # (n, n)
) -> Tensor:  # scalar
    """Σ ReLU(eig(KKᵀ) - 1): 0 where no direction grows."""
    gram = operator @ operator.mT
    # Where I - KKᵀ has a Cholesky factor, no eigenvalue reaches 1: told without eigenvectors, which a gradient needs.
    identity = torch.eye(gram.shape[0], dtype=gram.dtype, device=gram.device)
    if int(torch.linalg.cholesky_ex(identity - gram.detach()).info) == 0:
        return torch.zeros_like(gram).sum()
    return torch.relu(torch.linalg.eigvalsh(gram) - 1.0).sum()


def distance_from_unitary(
    operator: Tensor,  # (n, n)
) -> Tensor:  # scalar
    """‖KᵀK - I‖ + ‖KKᵀ - I‖ in Frobenius' norm. For a square K the two are equal: both are √Σ(σ² - 1)²."""
    identity = torch.eye(operator.shape[0], dtype=operator.dtype, device=operator.device)
    distance: Tensor = torch.linalg.matrix_norm(operator @ operator.mT - identity)
    return 2.0 * distance


PRESETS: dict[str, dict[str, Any]] = {
    "paper": {"hidden": 150, "latent": 150, "layers": 3, "activation": "relu"},
    "lorenz-96": {"hidden": 800, "latent": 320, "layers": 3, "activation": "relu"},
}
"""The sizes published for Lorenz-63 and for Lorenz-96 with 80 channels."""


register_model("pfnn", PFNNConfig, PFNN, presets=PRESETS)
