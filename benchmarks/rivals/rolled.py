"""``python -m benchmarks.rivals.rolled [--datasets …] [--noise …] [--ways …]``: what makes a rolled Fern good at chaos.

`fern-rolled` by its preset ``chaos``, and with one setting changed at a time; trained on the training part, stopped and
judged by every fourth validation window. The test part is not looked at. Rows go to
``benchmarks/rivals/results/rolled/``; those there are already are skipped.
"""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from benchmarks.rivals.parts import train_rolled
from benchmarks.rows import save_row
from fern.benchmark import DatasetChoice
from fern.metrics import MetricAccumulator

RESULTS = Path(__file__).parent / "results" / "rolled"
LENGTH = 336


@dataclass(frozen=True)
class Way:
    """Settings of the model and of training over those of the preset; ``network`` False rolls the polynomial alone."""

    model: Mapping[str, Any] = field(default_factory=dict)
    train: Mapping[str, Any] = field(default_factory=dict)
    network: bool = True


ON_A_RING = "on a ring"  # knowledge that is true of LORENZ96 and KS alone

WAYS: Mapping[str, Way] = {
    "chaos": Way(),
    "no polynomial": Way({"degree": 0}),
    "polynomial alone": Way(train={"epochs": 1}, network=False),
    "no polynomial, patches of 24 from 24 rows": Way({"degree": 0, "step": 24, "seen": 24}),
    "patches of 2": Way({"step": 2}),
    "patches of 8": Way({"step": 8}),
    "one row seen": Way({"seen": 1}),
    "24 rows seen": Way({"seen": 24}),
    "one patch in the loss": Way({"unroll": 1}),
    "four patches in the loss": Way({"unroll": 4}),
    "heads that start near the identity": Way({"head_spread": 0.1}),
    "without earlier rows": Way({"earlier": "none"}),
    ON_A_RING: Way({"layout": "ring"}),
    "relu": Way({"activation": "relu"}),
    "hidden 256, latent 64, 8 reflections": Way({"hidden": 256, "latent": 64, "reflections": 8}),
    "twice the epochs": Way(train={"epochs": 40}),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", nargs="+", default=["LORENZ_BASE"])
    parser.add_argument("--noise", nargs="+", type=float, default=[0.0, 0.01])
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=[way for way in WAYS if way != ON_A_RING])
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    torch.set_num_threads(1)
    for name in given.datasets:
        for share in given.noise:
            for way in given.ways:
                stem = f"{name}-noise{share:g}-{way.replace(', ', '-').replace(' ', '_')}-seed{given.seed}"
                path = RESULTS / f"{stem}.json"
                if not path.exists():
                    row = run(name, way, noise=share, seed=given.seed)
                    save_row(path, row)


def run(
    name: str,
    way: str,
    *,
    noise: float,
    seed: int,
    steps: int | None = None,
    length: int = LENGTH,
    training: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The row of one way on one system; ``steps`` is another length of it, ``training`` settings over the way's."""
    choice, changed = DatasetChoice(dataset=name, noise=noise, steps=steps), WAYS[way]
    trained = train_rolled(
        choice, seed=seed, length=length, settings=changed.model, training={**changed.train, **(training or {})}
    )
    if not changed.network:
        trained.model.flow.unit.fill_(
            1e-20
        )  # what the network adds is in this unit: far below rounding, and still a distribution
    gathered = MetricAccumulator(["mse", "ept"], std=trained.problem.train_std)
    with torch.no_grad():
        for past, future in trained.validation.batches(1024):
            gathered.update(trained.model(past).mean, future)
    return {
        "command": f"python -m benchmarks.rivals.rolled --datasets {name} --noise {noise:g} --ways '{way}' "
        f"--seed {seed}",
        "dataset": name,
        "noise": noise,
        "way": way,
        "seed": seed,
        **trained.provenance(),
        "windows": len(trained.validation),
        "validation": gathered.compute(),
    }


if __name__ == "__main__":
    main()
