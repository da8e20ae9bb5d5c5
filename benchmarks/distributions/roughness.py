"""``python -m benchmarks.distributions.roughness``: how jagged Fern's mean path is, where, and what smoothing does to
the error.

Roughness is the mean square of the path's second differences over that of the truth's: 1 is as smooth as the data,
white noise of variance s² adds 6·s². It is given for all steps, for those whose differences cross a border of two
patches, and for the others. The settings are those of ``fern demo`` (LORENZ_PARAM, 336 to 336 steps), with the mean as
the paper has it and straight from the head; each model is trained once and judged with every width of smoothing, which
changes nothing in training. Every 24th window is judged. Rows go to ``benchmarks/distributions/results/roughness/``.
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
from fern.cli.demo_page import gather_strided
from fern.models import Forecaster, build_model
from fern.training import TrainConfig, train

RESULTS = Path(__file__).parent / "results" / "roughness"
PATCH = 24
SETTINGS: dict[str, dict[str, Any]] = {"transported": {}, "direct": {"mean": "direct"}}
WIDTHS = (1, 5, 9)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--means", nargs="+", default=list(SETTINGS), choices=list(SETTINGS))
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    torch.set_num_threads(1)
    RESULTS.mkdir(parents=True, exist_ok=True)
    problem = Problem(load_dataset(DatasetChoice(dataset=SCENARIO)), "shock", "none", CONTEXT_LENGTH, HORIZON)
    for name in given.means:
        rows = [
            {"mean": name, "epochs": given.epochs, "seed": given.seed, **row} for row in compare(problem, name, given)
        ]
        command = (
            f"python -m benchmarks.distributions.roughness --means {name} --epochs {given.epochs} --seed {given.seed}"
        )
        found = {"command": command, "rows": rows}
        (RESULTS / f"{name}-seed{given.seed}.json").write_text(json.dumps(found, indent=1) + "\n")
        print("\n".join(map(json.dumps, rows)), flush=True)


def compare(problem: Problem, name: str, given: argparse.Namespace) -> list[dict[str, float]]:
    """The errors and the roughness of one kind of mean, a row for each width."""
    config = TrainConfig(preset="default", epochs=given.epochs, seed=given.seed, threads=1)
    trained = built(problem, name, 1)
    train(trained, problem.train, problem.validation, config)
    rows = []
    for width in WIDTHS:
        model = built(problem, name, width).eval()
        model.load_state_dict(trained.state_dict())
        validation, _ = judged(model, problem, "validation")
        test, rough = judged(model, problem, "test")
        rows.append({"smoothing": width, "validation_mse": validation, "test_mse": test, **rough})
    return rows


def built(problem: Problem, name: str, width: int) -> Forecaster:
    """The model of the demo, with this mean and this width of smoothing."""
    sizes = {"context_length": CONTEXT_LENGTH, "horizon": HORIZON, "channels": problem.values.shape[1]}
    return build_model("fern", **sizes, latent=12, patch_size=PATCH, smoothing=width, **SETTINGS[name])


@torch.no_grad()
def judged(model: Forecaster, problem: Problem, part: str) -> tuple[float, dict[str, float]]:
    """The error on a part, and the roughness of the forecasts there."""
    past, future, _ = gather_strided(getattr(problem, part))
    mean = model(past).mean
    return float((mean - future).square().mean()), roughness(mean, future)


def roughness(
    path: Tensor,  # (N, H, C)
    truth: Tensor,  # (N, H, C)
) -> dict[str, float]:
    """The error of the first steps; squared second differences over the truth's, of all, at borders, within patches."""
    ours, theirs = (values.diff(n=2, dim=1).square() for values in (path, truth))
    middle = torch.arange(1, path.shape[1] - 1)  # the step that a second difference is around
    border = (middle % PATCH == 0) | (middle % PATCH == PATCH - 1)
    return {
        "mse_of_the_first_steps": float((path - truth)[:, :PATCH].square().mean()),
        "roughness": float(ours.mean() / theirs.mean()),
        "roughness_at_borders": float(ours[:, border].mean() / theirs[:, border].mean()),
        "roughness_within": float(ours[:, ~border].mean() / theirs[:, ~border].mean()),
    }


if __name__ == "__main__":
    main()
