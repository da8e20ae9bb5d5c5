"""A training step of TimeMixer, Koopa, ModernTCN and PFNN as the shock task takes it, in processor time.

336→336, batches of 95, Huber's loss, AdamW, one thread. The peer is a bound that no implementation reaches: the
step's matrix products alone, three times those of a forward pass, at the rate of a large one. PFNN's step is not
made of its forecast's products (it learns single steps), so it stands without a peer.
"""

import time

import torch
from torch import Generator

from benchmarks.speed.harness import Effort, Measurement, best_in_turns, best_seconds, training_step
from fern.models import build_model
from fern.models.footprint import multiply_adds
from fern.training.optimisation import criterion
from fern.training.runtime import threads

PACKAGES = ("torch", "numpy", "numba")
CONTEXT, HORIZON, BATCH = 336, 336, 95
MODELS = ("timemixer", "koopa", "moderntcn", "pfnn")
CHANNELS = (1, 3)


def measure(effort: Effort) -> list[Measurement]:
    """A step of each model with 1 and 3 channels against its matrix products alone."""
    with threads(1):
        size = effort.size(1024, least=16)
        square = torch.randn(size, size, generator=Generator().manual_seed(7))
        seconds = best_seconds(lambda: square @ square, repeats=effort.rounds(5), clock=time.process_time)
        rate = 2 * size**3 / max(seconds, 1e-9)
        return [_measured(name, channels, rate, effort) for name in MODELS for channels in CHANNELS]


def _measured(name: str, channels: int, rate: float, effort: Effort) -> Measurement:
    generator, batch = Generator().manual_seed(7), effort.size(BATCH, least=2)
    past = torch.randn(batch, CONTEXT, channels, generator=generator).cumsum(dim=1).div_(8.0)
    future = torch.randn(batch, HORIZON, channels, generator=generator)
    sizes = {"context_length": CONTEXT, "horizon": HORIZON, "channels": channels}
    model = build_model(name, **sizes, preset="paper", generator=generator)
    model.prepare([(past, future)])
    huber = criterion({"huber": 1.0})
    step = training_step(model, lambda: model.loss(past, future, huber, generator=generator))
    seconds = best_in_turns({name: step}, rounds=effort.rounds(25), clock=time.process_time)[name]
    floor = None if name == "pfnn" else 1e3 * 3 * 2 * batch * multiply_adds(model) / rate
    label = f"{name}, 336→336, channels {channels}, batch {batch}"
    return Measurement(label, 1e3 * seconds, floor, "ms", "its products at the rate of sgemm", "none: a bound")
