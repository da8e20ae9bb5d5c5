"""The network that is pretrained: Fern on the representation of a context, around a mixture of plain forecasts."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fern.models.fern import Fern, FernConfig
from fern.models.pretrained.representation import HORIZON, PATHS, WIDTH
from fern.settings import STRICT
from fern.transport import Ellipsoid


@dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """The sizes of `Network`: those of its Fern, and the width of the layer that weighs the plain forecasts."""

    __pydantic_config__ = STRICT

    hidden: int = 256
    latent: int = 96
    layers: int = 3
    patch_size: int = 24
    reflections: int = 6
    gate_hidden: int = 256

    @property
    def fern(self) -> FernConfig:
        """The settings of the Fern within."""
        return FernConfig(
            context_length=WIDTH,
            horizon=HORIZON,
            channels=1,
            hidden=self.hidden,
            latent=self.latent,
            layers=self.layers,
            patch_size=self.patch_size,
            reflections=self.reflections,
            mean="direct",
            skip="linear",
            head_spread=1.0,
        )


class Network(nn.Module):
    """y = Σ_k g_k(x) ⊙ path_k + r, with r ~ Fern(x): in units of the context's scale, about its level.

    x are the inputs of `fern.models.pretrained.representation`, the paths its plain forecasts, and g_k a weight for
    each path and step from one hidden layer. The mixture starts as the mean of the first two paths.

    Example:
        >>> network = Network(NetworkConfig(hidden=16, latent=8, gate_hidden=8)).eval()
        >>> network(torch.zeros(3, WIDTH), torch.zeros(3, PATHS, HORIZON)).mean.shape
        torch.Size([3, 1, 96])
    """

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.config = config
        self.fern = Fern(config.fern)
        self.gate_features = nn.Linear(WIDTH, config.gate_hidden)
        self.gates = nn.Linear(config.gate_hidden, PATHS * HORIZON)
        with torch.no_grad():
            self.gates.weight.mul_(0.1)
            self.gates.bias.zero_()
            self.gates.bias[: 2 * HORIZON] = 0.5

    def forward(
        self,
        inputs: Tensor,  # (N, WIDTH)
        paths: Tensor,  # (N, PATHS, HORIZON)
    ) -> Ellipsoid:  # of batch (N, 1)
        """The distribution of the next `HORIZON` steps of each context."""
        weights = self.gates(torch.relu(self.gate_features(inputs))).view(-1, PATHS, HORIZON)
        mixture = (weights * paths).sum(1)
        around = self.fern(inputs.unsqueeze(-1)).ellipsoid
        assert around is not None
        moved: Ellipsoid = around.affine(1.0, mixture.unsqueeze(1))
        return moved
