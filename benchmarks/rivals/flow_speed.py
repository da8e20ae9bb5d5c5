"""``python -m benchmarks.rivals.flow_speed [--datasets …]``: is Fern's largest eigenvalue large where the flow is fast?

The paper's introduction says that maximum eigenvalues "tend to spike in the high-speed regions" of Lorenz-63 and
shows it by a picture. Here it is a measured correlation: Fern by the paper's protocol for a few epochs, forecasts of
windows that do not overlap, in the test part (nothing is chosen by it); for each patch the largest eigenvalue,
averaged over channels as in the paper's figure, against the mean speed |dx/dt| of the true flow over the patch.
Beside it two rivals for the same claim: how far from its mean the state is, and how wrong the patch will be. Rows go
to ``benchmarks/rivals/results/flow_speed/``.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchmarks.rivals.parts import thinned
from benchmarks.rows import save_row
from fern.benchmark import DatasetChoice, load_dataset
from fern.benchmark.problem import Problem
from fern.benchmark.significance import tied_ranks
from fern.models import build_model
from fern.systems import scenario
from fern.training import TrainConfig, train

RESULTS = Path(__file__).parent / "results" / "flow_speed"
LENGTH = 336
EPOCHS, STEPS_PER_EPOCH = 8, 200

Values = NDArray[np.float64]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", nargs="+", default=["LORENZ_BASE"])
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    torch.set_num_threads(1)
    for name in given.datasets:
        row = measure(name, seed=given.seed)
        save_row(RESULTS / f"{name}-seed{given.seed}.json", row)


def measure(
    name: str,
    *,
    seed: int,
    epochs: int = EPOCHS,
    steps_per_epoch: int = STEPS_PER_EPOCH,
    steps: int | None = None,
    length: int = LENGTH,
) -> dict[str, Any]:
    """The row of one flow; ``steps`` is another length of it."""
    dataset = load_dataset(DatasetChoice(dataset=name, steps=steps))
    problem = Problem(dataset, "shock", "none", length, length)
    channels = len(dataset.channel_names)
    model = build_model("fern", preset="paper-compact", context_length=length, horizon=length, channels=channels)
    grace = min(3, epochs - 1)
    config = TrainConfig(
        preset="shock", epochs=epochs, grace=grace, steps_per_epoch=steps_per_epoch, seed=seed, threads=1
    )
    began = time.process_time()
    train(model, problem.train, thinned(problem, "validation", 4), config, progress="silent")
    judged = thinned(problem, "test", length)
    past, future = judged.gather(torch.arange(len(judged)))
    with torch.no_grad():
        forecast = model(past)
    assert forecast.ellipsoid is not None
    size = forecast.ellipsoid.patch_size
    largest = forecast.ellipsoid.spectral_radius.mean(dim=1)[:, : length // size]  # (B, g), over channels
    velocity = torch.diff(torch.cat((past[:, -1:], future), dim=1), dim=1) / scenario(name).dt
    learnt = torch.from_numpy(problem.values[: problem.split.train.stop])
    figures = {
        "speed of the flow": velocity.norm(dim=-1),
        "distance of the state from its mean": ((future - learnt.mean(dim=0)) / learnt.std(dim=0)).norm(dim=-1),
        "error of the forecast": (forecast.mean - future).norm(dim=-1),
    }
    eigenvalues = largest.flatten().double().numpy()
    return {
        "command": f"python -m benchmarks.rivals.flow_speed --datasets {name} --seed {seed}",
        "dataset": name,
        "seed": seed,
        "data_fingerprint": dataset.fingerprint,
        "epochs": epochs,
        "processor_seconds": round(time.process_time() - began, 1),
        "windows": len(past),
        "patches": len(eigenvalues),
        "mse": float((forecast.mean - future).square().mean()),
        "correlation": {
            what: correlations(eigenvalues, _over_patches(along, size).flatten().double().numpy())
            for what, along in figures.items()
        },
    }


def _over_patches(along: Tensor, size: int) -> Tensor:  # (B, H) -> (B, g)
    """The mean over each whole patch."""
    return along.unfold(1, size, size).mean(dim=-1)


def correlations(first: Values, second: Values) -> dict[str, float]:
    """Pearson's of the values, and Spearman's, which is Pearson's of the ranks.

    Example:
        >>> correlations(np.array([1.0, 2.0, 3.0]), np.array([1.0, 10.0, 100.0]))["spearman"]
        1.0
    """
    return {
        "pearson": round(float(np.corrcoef(first, second)[0, 1]), 4),
        "spearman": round(float(np.corrcoef(tied_ranks(list(first)), tied_ranks(list(second)))[0, 1]), 4),
    }


if __name__ == "__main__":
    main()
