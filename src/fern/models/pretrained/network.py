"""The network that is pretrained, Fern around a mixture of plain forecasts, and the weights that the package has."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fern.errors import FernError, unknown_name
from fern.models.fern import Fern, FernConfig
from fern.models.pretrained.representation import HORIZON, PATHS, WIDTH
from fern.models.storage import read_tensors, write_tensors
from fern.settings import STRICT, from_mapping
from fern.transport import Ellipsoid

FORMAT = "fern-pretrained-1"
FOLDER = Path(__file__).parent
WEIGHTS: Mapping[str, str] = {"synthetic-3": "synthetic-3.safetensors"}
"""Files by name. A file is never changed once it is released: saved forecasters name the one they use."""

NEWEST = "synthetic-3"


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


def write_weights(network: Network, path: Path, record: Mapping[str, Any]) -> None:
    """Keep a network in half precision, with the record of its training."""
    tensors = {name: value.half() for name, value in network.state_dict().items()}
    write_tensors(path, tensors, {"network": asdict(network.config), "training": dict(record)}, format_=FORMAT)


@cache
def read_weights(name: str = NEWEST) -> tuple[Network, Mapping[str, Any]]:
    """The network of that name, in evaluation mode and single precision, and the record of its training.

    Example:
        >>> network, training = read_weights()
        >>> training["generator"], network.training
        ('fern.synthetic', False)
    """
    if name not in WEIGHTS:
        raise unknown_name("weights", name, WEIGHTS, argument="weights")
    described, tensors, _ = read_tensors(FOLDER / WEIGHTS[name], format_=FORMAT)
    return _build(from_mapping(NetworkConfig, described["network"], where=name), tensors), described["training"]


def rebuild_network(name: str, arrays: Mapping[str, NDArray[Any]]) -> Network:
    """A network of the sizes of that name with weights of its own, which are not trusted."""
    config = read_weights(name)[0].config
    shapes = {key: tuple(value.shape) for key, value in read_weights(name)[0].state_dict().items()}
    if {key: values.shape for key, values in arrays.items()} != shapes:
        raise FernError(f"tensors that a network {name!r} does not have", argument="network")
    tensors = {key: torch.from_numpy(np.array(values, dtype=np.float32)) for key, values in arrays.items()}
    if not all(bool(value.isfinite().all()) for value in tensors.values()):
        raise FernError("weights that are not finite", argument="network")
    return _build(config, tensors)


def _build(config: NetworkConfig, tensors: Mapping[str, Tensor]) -> Network:
    with torch.random.fork_rng(devices=[]):
        network = Network(config)
    network.load_state_dict({name: value.float() for name, value in tensors.items()})
    return network.eval().requires_grad_(False)
