"""The weights that come with the package: which there are, how they were made, and reading them once."""

from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fern.errors import FernError, unknown_name
from fern.models.pretrained.network import Network, NetworkConfig
from fern.models.storage import read_tensors, write_tensors
from fern.settings import from_mapping

FORMAT = "fern-pretrained-1"
FOLDER = Path(__file__).parent
WEIGHTS: Mapping[str, str] = {"synthetic-3": "synthetic-3.safetensors"}
"""Files by name. A file is never changed once it is released: saved forecasters name the one they use."""

NEWEST = "synthetic-3"


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
    wanted = {key: tuple(value.shape) for key, value in read_weights(name)[0].state_dict().items()}
    if {key: values.shape for key, values in arrays.items()} != wanted:
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
