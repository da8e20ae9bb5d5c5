"""What the training loop costs beyond the model: against a bare forward/backward/step loop, and in checkpoints.

Batch 95, 336 to 336, three channels of LORENZ_BASE. The two loops take turns, one step each, in one process, so that
both meet the same machine, and are timed by the processor time they take. Each step of ours is all that ``train`` does
between two steps: order and gathering of the windows, learning rate, Fabric, finiteness checks, progress.
"""

import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

from torch.nn.functional import huber_loss
from torch.optim import AdamW

from benchmarks.speed.harness import Effort, Measurement, best_seconds
from fern.data.splits import Part, split
from fern.data.windows import Windows
from fern.models import Forecaster, build_model
from fern.models.storage import FORMAT as MODEL
from fern.models.storage import read_tensors, write_tensors
from fern.systems import simulate
from fern.training import TrainConfig, train
from fern.training.checkpoints import FORMAT as RUN
from fern.training.logging import Progress
from fern.training.runtime import generator_for

PACKAGES = ("torch", "lightning-fabric", "numpy")
LENGTH, HORIZON, BATCH, STEPS = 336, 336, 95, 150
WARMUPS = 5


def measure(effort: Effort) -> list[Measurement]:
    batch, steps = effort.size(BATCH, least=4), effort.size(STEPS, least=WARMUPS + 2)
    values = simulate("LORENZ_BASE").values
    part = split(len(values), "shock").train
    short = Part(part.start, part.start + LENGTH + HORIZON - 1 + batch * steps)
    windows = Windows(values, context_length=LENGTH, horizon=HORIZON, part=short, lookback=False)
    few = Windows(values[-1000:], context_length=LENGTH, horizon=HORIZON)
    measurements = []
    paper = TrainConfig(preset="shock", epochs=1, accelerator="cpu", threads=1, batch_size=batch)
    for name, config in {
        "the paper's protocol": paper,
        "with clipping and averaged weights": replace(paper, clip_norm=1.0, averaging=0.99),
    }.items():
        turns = Turns(windows, batch)
        with tempfile.TemporaryDirectory() as folder:
            train(_model(), windows, few, config, directory=folder, progress=turns)
            writing = _seconds_to_write(Path(folder))
        measurements.append(
            Measurement(
                name=f"one step of train on Fern, {name}, 1 thread",
                ours=1e3 * median(turns.ours[WARMUPS:]),
                peer=1e3 * median(turns.bare[WARMUPS:]),
                unit="ms",
                peer_name="bare forward/backward/AdamW(fused) loop",
                target="ratio >= 0.953 (overhead below 5 %)",
            )
        )
    whole = -(-(len(part) - LENGTH - HORIZON + 1) // batch)
    measurements.append(
        Measurement(
            name="both checkpoints of an epoch on LORENZ_BASE, down to the disk",
            ours=writing,
            peer=whole * median(turns.ours[WARMUPS:]),
            unit="s",
            peer_name=f"the {whole} steps of the epoch",
            target="ratio >= 50",
        )
    )
    return measurements


def _seconds_to_write(folder: Path) -> float:
    """The time to write again what a run has written."""
    contents = {
        folder / "last.safetensors": read_tensors(folder / "last.safetensors", format_=RUN),
        folder / "best.safetensors": read_tensors(folder / "best.safetensors", format_=MODEL),
    }

    def write() -> None:
        for path, (described, tensors, _) in contents.items():
            write_tensors(path, tensors, described, format_="again")

    return best_seconds(write)


class Turns(Progress):
    """Times each step of the loop it listens to, and takes a bare step of its own after it."""

    def __init__(self, windows: Windows, batch: int) -> None:
        self.ours: list[float] = []
        self.bare: list[float] = []
        self._model = _model()
        self._optimiser = AdamW(self._model.parameters(), lr=3e-4, weight_decay=0.0, fused=True)
        self._noise = generator_for(7, "noise")
        self._batches = windows.batches(batch, generator=generator_for(7, "order"))
        self._since = 0.0

    def start(self, *, epochs: int, steps: int, done: int) -> None:
        self._since = time.process_time()

    def step(self, *, epoch: int, loss: float) -> None:
        self.ours.append(time.process_time() - self._since)
        began = time.process_time()
        self._bare_step()
        self._since = time.process_time()
        self.bare.append(self._since - began)

    def _bare_step(self) -> None:
        past, future = next(self._batches)
        loss = huber_loss(self._model(past, generator=self._noise).mean, future)
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimiser.step()
        self._optimiser.zero_grad(set_to_none=True)


def _model(name: str = "fern") -> Forecaster:
    return build_model(
        name, context_length=LENGTH, horizon=HORIZON, channels=3, generator=generator_for(7, "init")
    ).train()
