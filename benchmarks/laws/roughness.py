"""``python -m benchmarks.laws.roughness``: how jagged Fern's mean path is, where, and what smoothing does to the error.

Roughness is the mean square of the path's second differences over that of the truth's: 1 is as smooth as the data,
white noise of variance s² adds 6·s². It is given for all steps, for those whose differences cross a border of two
patches, and for the others. Settings are those of ``fern demo`` (LORENZ_PARAM, 336 to 336 steps) but for what the row's
name says; every 24th window is judged. Rows go to ``benchmarks/laws/results/roughness/``.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fern.benchmark.problem import Problem, load_dataset
from fern.benchmark.tasks import DatasetChoice
from fern.cli.demo import CONTEXT_LENGTH, HORIZON, SCENARIO
from fern.cli.demo_page import strided
from fern.models import Forecaster, build_model
from fern.training import TrainConfig, train

RESULTS = Path(__file__).parent / "results" / "roughness"
PATCH = 24
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "smoothing 5": {"smoothing": 5},
    "smoothing 9": {"smoothing": 9},
    "direct mean": {"mean": "direct"},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS), choices=list(SETTINGS))
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    torch.set_num_threads(1)
    RESULTS.mkdir(parents=True, exist_ok=True)
    problem = Problem(load_dataset(DatasetChoice(dataset=SCENARIO)), "shock", "none", CONTEXT_LENGTH, HORIZON)
    for name in given.settings:
        row = {"setting": name, "epochs": given.epochs, "seed": given.seed, **compare(problem, name, given)}
        path = RESULTS / f"{name.replace(' ', '-')}-seed{given.seed}.json"
        path.write_text(json.dumps(row, indent=1) + "\n")
        print(json.dumps(row), flush=True)


def compare(problem: Problem, name: str, given: argparse.Namespace) -> dict[str, float]:
    """The errors and the roughness of one setting."""
    channels = problem.values.shape[1]
    model = build_model(
        "fern",
        context_length=CONTEXT_LENGTH,
        horizon=HORIZON,
        channels=channels,
        latent=12,
        patch_size=PATCH,
        **SETTINGS[name],
    )
    config = TrainConfig(preset="default", epochs=given.epochs, seed=given.seed, threads=1)
    train(model, problem.train, problem.validation, config)
    validation, _ = judged(model.eval(), problem, "validation")
    test, rough = judged(model, problem, "test")
    return {"validation_mse": validation, "test_mse": test, **rough}


@torch.no_grad()
def judged(model: Forecaster, problem: Problem, part: str) -> tuple[float, dict[str, float]]:
    """The error on a part, and the roughness of the forecasts there."""
    past, future, _ = strided(getattr(problem, part))
    mean = model(past).mean
    return float((mean - future).square().mean()), roughness(mean, future)


def roughness(
    path: Tensor,  # (N, H, C)
    truth: Tensor,  # (N, H, C)
) -> dict[str, float]:
    """The path's squared second differences over the truth's: of all steps, at borders of patches, within patches."""
    ours, theirs = (values.diff(n=2, dim=1).square() for values in (path, truth))
    middle = torch.arange(1, path.shape[1] - 1)  # the step that a second difference is around
    border = (middle % PATCH == 0) | (middle % PATCH == PATCH - 1)
    return {
        "roughness": float(ours.mean() / theirs.mean()),
        "roughness_at_borders": float(ours[:, border].mean() / theirs[:, border].mean()),
        "roughness_within": float(ours[:, ~border].mean() / theirs[:, ~border].mean()),
    }


if __name__ == "__main__":
    main()
