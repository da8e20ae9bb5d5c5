"""``python -m benchmarks.rivals.pfnn [--datasets …]``: what PFNN's terms of the operator do to its error.

PFNN trained by the paper's shock protocol for a few epochs, in four ways: as its released script for flows does,
without any term of the operator, and with the invariant phase of our reading of its paper, weighed beside sums of
squares or beside means. One seed. Which of them is ours was settled by the authors' code and not by these errors;
they say what it costs. Rows go to ``benchmarks/rivals/results/pfnn/``: of ``LORENZ_BASE``, and of ``ETTh2``, of which
the paper says that the error reaches 1e9.
"""

import argparse
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from benchmarks.rivals.parts import thinned
from benchmarks.rows import save_row
from fern.benchmark import DatasetChoice, load_dataset
from fern.benchmark.problem import Problem
from fern.data import Windows
from fern.errors import FernError
from fern.models import Forecaster, build_model
from fern.models.baselines.pfnn import LARGEST, PFNNConfig
from fern.training import Diverged, TrainConfig, train

RESULTS = Path(__file__).parent / "results" / "pfnn"
LENGTH = 336
EPOCHS = 12
PHASE = 1000
"""Steps before the invariant phase, where there is one."""


def ways(numbers: int) -> dict[str, dict[str, Any]]:
    """The settings of each way to train; ``numbers``: how many a batch has, which makes a weight one beside a mean."""
    return {
        "contraction beside sums (released script)": {},
        "no term": {"contraction": 0.0},
        "invariant phase beside sums": {"contraction_steps": PHASE},
        "invariant phase beside means": {
            "contraction_steps": PHASE,
            "contraction": 1.0 * numbers,
            "invariance": 0.1 * numbers,
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", nargs="+", default=["LORENZ_BASE", "ETTh2"])
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    torch.set_num_threads(1)
    for name in given.datasets:
        row = compare(name, seed=given.seed)
        save_row(RESULTS / f"{name}-seed{given.seed}.json", row)


def compare(
    name: str, *, seed: int, epochs: int = EPOCHS, stride: int = 8, steps: int | None = None, length: int = LENGTH
) -> dict[str, Any]:
    """The row of one series; ``stride`` of the windows that are scored, ``steps`` another length of a simulated one."""
    dataset = load_dataset(DatasetChoice(dataset=name, steps=steps))
    problem = Problem(dataset, "shock", "none", length, length)
    channels = len(dataset.channel_names)
    config = TrainConfig(preset="shock", epochs=epochs, grace=0, seed=seed, threads=1)
    pairs = PFNNConfig(context_length=length, horizon=length, channels=channels).pairs
    found = {}
    for way, settings in ways((config.batch_size or 1) * (pairs or 1) * channels).items():
        model = build_model("pfnn", context_length=length, horizon=length, channels=channels, **settings)
        found[way] = _trained(model, problem, config, stride=stride)
    return {
        "command": f"python -m benchmarks.rivals.pfnn --datasets {name} --seed {seed}",
        "dataset": name,
        "seed": seed,
        "data_fingerprint": dataset.fingerprint,
        "epochs": epochs,
        "ways": found,
    }


def _trained(model: Forecaster, problem: Problem, config: TrainConfig, *, stride: int) -> dict[str, Any]:
    """The errors after training, or what went wrong."""
    began = time.process_time()
    validation, test = (thinned(problem, part, stride) for part in ("validation", "test"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of held rollouts, which the row counts
        try:
            train(model, problem.train, validation, config, progress="silent")
        except Diverged as error:
            return {"diverged": str(error)}
        scored = {"validation": _errors(model, validation), "test": _errors(model, test)}
    return {**scored, "processor_seconds": round(time.process_time() - began, 1)}


@torch.no_grad()
def _errors(model: Forecaster, windows: Windows) -> Mapping[str, float]:
    """The MSE over the windows, that of the median window, and the share of windows held at the largest number."""
    model.eval()
    errors, held = [], []
    for past, future in windows.batches(256):
        mean = model(past).mean.double()
        if not bool(torch.isfinite(mean).all()):
            raise FernError("PFNN: a forecast is not finite")
        errors.append((mean - future).square().mean(dim=(1, 2)))
        held.append((mean.abs() >= LARGEST).flatten(1).any(dim=1))
    whole = torch.cat(errors)
    return {
        "mse": float(whole.mean()),
        "median_mse": float(whole.median()),
        "held": float(torch.cat(held).double().mean()),
    }


if __name__ == "__main__":
    main()
