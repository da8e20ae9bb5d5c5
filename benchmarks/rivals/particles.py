"""``python -m benchmarks.rivals.particles [--datasets …] [--noise …]``: the distribution of a rolled Fern, as
particles.

`fern-rolled` by its presets ``chaos``; how wide a patch is comes from its errors on validation windows
(`RolledFern.learn_spread`). Particles are rolled from every 24th test window, each from its own draws; judged
are their mean beside the mean path, their CRPS beside the mean path's absolute error, and what their central intervals
cover, by how far ahead. Under noise the rows that judge are noisy too: a distribution is of what will be observed.
Nothing is calibrated. Rows go to ``benchmarks/rivals/results/particles/``; those there are already are skipped.
"""

import argparse
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.rivals.parts import thinned, train_rolled
from benchmarks.rows import save_row
from fern.benchmark import DatasetChoice
from fern.data import Windows
from fern.metrics import coverage, crps, mae, mse
from fern.models import Forecaster

RESULTS = Path(__file__).parent / "results" / "particles"
LENGTH = 336
PARTICLES = 64
LEVELS = (50, 80, 90)
SPANS = (0, 24, 96, 192, 336)
"""Steps ahead between which coverage is averaged."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", nargs="+", default=["LORENZ_BASE", "ROSSLER_BASE", "CHUA_BASE", "LORENZ96_BASE"])
    parser.add_argument("--noise", nargs="+", type=float, default=[0.0, 0.01])
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    torch.set_num_threads(1)
    for name in given.datasets:
        for share in given.noise:
            path = RESULTS / f"{name}-noise{share:g}-seed{given.seed}.json"
            if not path.exists():
                row = run(name, noise=share, seed=given.seed)
                save_row(path, row)


def run(
    name: str,
    *,
    noise: float,
    seed: int,
    steps: int | None = None,
    length: int = LENGTH,
    particles: int = PARTICLES,
    training: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The row of one system; ``steps`` is another length of it, ``training`` settings over the preset's."""
    choice = DatasetChoice(dataset=name, noise=noise, steps=steps)
    trained = train_rolled(choice, seed=seed, length=length, training=training)
    model = trained.model
    model.learn_spread(trained.validation.batches(1024), generator=torch.Generator().manual_seed(seed))
    path, drawn, truth = rolled_out(model, thinned(trained.problem, "test", 24), particles=particles, seed=seed)
    spans = pairwise(sorted({min(step, length) for step in SPANS}))
    return {
        "command": f"python -m benchmarks.rivals.particles --datasets {name} --noise {noise:g} --seed {seed}",
        "dataset": name,
        "noise": noise,
        "seed": seed,
        **trained.provenance(),
        "windows": len(truth),
        "particles": particles,
        "carried": float(model.carried),
        "mse": {"mean path": float(mse(path, truth)), "mean of particles": float(mse(drawn.mean(0), truth))},
        "crps": {"mean path": float(mae(path, truth)), "particles": float(crps(drawn, truth))},
        "coverage": {
            f"{start + 1} to {end}": {
                str(level): float(coverage(drawn[:, :, start:end], truth[:, start:end], level=level))
                for level in LEVELS
            }
            for start, end in spans
        },
    }


@torch.no_grad()
def rolled_out(
    model: Forecaster, windows: Windows, *, particles: int, seed: int
) -> tuple[Tensor, Tensor, Tensor]:  # (B, H, C), (particles, B, H, C), (B, H, C)
    """The mean path, the particles and what came."""
    model.eval()
    generator = torch.Generator().manual_seed(seed)
    means, samples, futures = [], [], []
    for past, future in windows.batches(64):
        found = model(past, samples=particles, generator=generator)
        assert found.samples is not None
        means.append(found.mean)
        samples.append(found.samples)
        futures.append(future)
    return torch.cat(means), torch.cat(samples, dim=1), torch.cat(futures)


if __name__ == "__main__":
    main()
