"""``python -m benchmarks.distributions.latent [--datasets …]``: the paper's model at z = 0, at one draw of z, at a
mean of many.

Training sees z on a shell (‖z‖ about 3.1 at latent 96), evaluation takes z = 0; the paper draws "a fresh z every
forward". So the model is trained twice: as the paper says, and with z = 0 for half of the series in every step, drawn
for the others. Both by the paper's protocol for a few epochs on the first 70 % of the rows before the test part, judged
on the last 15 % of them. Rows go to ``benchmarks/distributions/results/latent/``.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor

from benchmarks.distributions.compare import series_before_test
from benchmarks.rows import save_row
from fern.data import Part, Windows
from fern.models import Fern, build_model
from fern.models.fern import _Inputs
from fern.training import TrainConfig, train

RESULTS = Path(__file__).parent / "results" / "latent"
LENGTH = 336
DRAWS = (1, 16)
EPOCHS, STEPS_PER_EPOCH = 12, 200


class _HalfAtZero(Fern):
    """Fern whose training takes z = 0, where evaluation stands, for a random half of the series of each batch."""

    def _latent(self, seen: _Inputs, generator: Generator | None) -> Tensor:
        z = super()._latent(seen, generator)
        if not self.training:
            return z
        return z * torch.randint(2, (len(z), 1), generator=generator, device=z.device)


TRAININGS: dict[str, type[Fern]] = {"z drawn": Fern, "z = 0 for half": _HalfAtZero}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", nargs="+", default=["ROSSLER_BASE", "LORENZ_BASE", "ETTh1"])
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    torch.set_num_threads(1)
    for name in given.datasets:
        row = compare(name, seed=given.seed, epochs=EPOCHS)
        save_row(RESULTS / f"{name}-seed{given.seed}.json", row)


def compare(name: str, *, seed: int, epochs: int, stride: int = 8) -> dict[str, Any]:
    """The row of one series."""
    values, fingerprint = series_before_test(name)
    rows = len(values)
    parts = (Part(0, rows * 70 // 100), Part(rows * 70 // 100, rows * 85 // 100), Part(rows * 85 // 100, rows))
    windows = [
        Windows(values, context_length=LENGTH, horizon=LENGTH, part=part, stride=step)
        for part, step in zip(parts, (1, 4, stride), strict=True)
    ]
    config = TrainConfig(preset="shock", epochs=epochs, steps_per_epoch=STEPS_PER_EPOCH, seed=seed, threads=1)
    began = time.process_time()
    found: dict[str, dict[str, float]] = {}
    for training, kind in TRAININGS.items():
        plain = build_model(
            "fern", preset="paper-compact", context_length=LENGTH, horizon=LENGTH, channels=values.shape[1]
        )
        assert isinstance(plain, Fern)
        model = kind(plain.config)
        train(model, windows[0], windows[1], config, progress="silent")
        found[training] = {"z = 0": _error(model, windows[2], draws=0)}
        found[training] |= {f"mean of {draws} draws of z": _error(model, windows[2], draws=draws) for draws in DRAWS}
    return {
        "command": f"python -m benchmarks.distributions.latent --datasets {name} --seed {seed}",
        "dataset": name,
        "seed": seed,
        "data_fingerprint": fingerprint,
        "epochs": epochs,
        "processor_seconds": round(time.process_time() - began, 1),
        "mse": found,
    }


@torch.no_grad()
def _error(model: Fern, windows: Windows, *, draws: int) -> float:
    """The MSE of the mean path at z = 0, or of the mean over draws of z (y0 = 0 in each)."""
    generator = torch.Generator().manual_seed(0)
    total, count = 0.0, 0
    for past, future in windows.batches(256):
        mean = model(past).mean if not draws else _drawn(model, past, draws, generator)
        total += float((mean - future).square().sum())
        count += future.numel()
    return total / count


def _drawn(model: Fern, past: Tensor, draws: int, generator: torch.Generator) -> Tensor:
    """The mean over ``draws`` of the distribution's mean given z."""
    seen = model._read(past)
    size = (seen.rows.shape[0], model.config.latent)
    total = torch.zeros(past.shape[0], past.shape[2], model.config.horizon)
    for _ in range(draws):
        z = model.config.noise**0.5 * torch.randn(size, generator=generator)
        total += model._transport(seen, z, None)[0].mean
    return (total / draws).transpose(1, 2)


if __name__ == "__main__":
    main()
