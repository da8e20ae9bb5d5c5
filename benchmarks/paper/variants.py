"""``python -m benchmarks.paper.variants [--datasets …] [--variants …]``: which detail makes the paper's numbers?

The paper's text leaves much of the model open; its author's later code, which can be read, fills it in. Between our
reading of the text and that code (``code``) each detail is changed alone, from the code's side: on the author's own
rows, trained by the shock protocol with the same seed, stopped and kept by validation windows, and only then scored on
the test windows. ``--epochs`` cuts runs of chaotic flows, which take long; figures are then to be compared with each
other and not with the paper's. Results go to ``benchmarks/paper/results/variants/``; those there are already are
skipped. ``--table`` prints them.
"""

import argparse
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from fern.benchmark import DatasetChoice, load_dataset
from fern.benchmark.problem import Problem
from fern.benchmark.scoring import score_model
from fern.benchmark.tasks import read_task
from fern.models import build_model
from fern.models.footprint import multiply_adds, parameter_count
from fern.training import TrainConfig, train

RESULTS = Path(__file__).parent / "results" / "variants"
LENGTH = 336


@dataclass(frozen=True)
class Variant:
    """One change: the preset it starts from, and settings of the model and of training over it."""

    preset: str = "paper"
    settings: Mapping[str, Any] = field(default_factory=dict)
    train: Mapping[str, Any] = field(default_factory=dict)


VARIANTS: Mapping[str, Variant] = {
    "code": Variant(),
    "linear heads": Variant(settings={"heads": "linear"}),
    "one feature layer": Variant(settings={"feature_activations": ("relu",)}),
    "affine coupling": Variant(settings={"coupling": "affine"}),
    "noise as a variance": Variant(settings={"noise": 0.1}),
    "no decoder layers": Variant(settings={"decoder_layers": 0}),
    "clamp that bends": Variant(settings={"clamp": "bend"}),
    "linear reflections": Variant(settings={"reflection_map": "linear"}),
    "batches of 32 windows": Variant(train={"batch_size": 32}),
    "no rotating layers": Variant(settings={"rotating": ()}),
    "24 reflections in blocks of 8": Variant(settings={"reflections": 24, "gradient_block": 8}),
    "batches of 128 windows": Variant(train={"batch_size": 128}),
    "drawn in evaluation": Variant(settings={"evaluation": "drawn"}),
    "text": Variant("paper-compact"),
    "text, noise as a deviation": Variant("paper-compact", {"noise": 0.01}),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", nargs="+", default=["DOUBLEWELL_PARAM"])
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="print the table of what there is")
    arguments = parser.parse_args()
    if arguments.table:
        print(table(read_results(arguments.out)))
        return
    torch.set_num_threads(1)
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name in arguments.datasets:
        for variant in arguments.variants:
            short = variant.replace(" ", "_").replace(",", "")
            path = arguments.out / f"{name}-{short}-seed{arguments.seed}-epochs{arguments.epochs}.json"
            if not path.exists():
                result = run(name, variant, seed=arguments.seed, epochs=arguments.epochs)
                path.write_text(json.dumps(result, indent=1) + "\n")
                print(json.dumps(result), flush=True)


def run(
    name: str, variant: str, *, seed: int, epochs: int, steps: int | None = None, length: int = LENGTH
) -> dict[str, Any]:
    """The result of one variant on one system."""
    choice = VARIANTS[variant]
    rows = author_rows(name) if steps is None else DatasetChoice(dataset=name, steps=steps)
    problem = Problem(load_dataset(rows), "shock", "none", length, length)
    channels = len(problem.dataset.channel_names)
    sizes: dict[str, Any] = {"context_length": length, "horizon": length, "channels": channels}
    model = build_model("fern", preset=choice.preset, **sizes, **choice.settings)
    training = {"grace": min(3, epochs - 1), **choice.train}
    config = TrainConfig(preset="shock", epochs=epochs, seed=seed, threads=1, **training)
    began = time.process_time()
    trained = train(model, problem.train, problem.validation, config, progress="silent")
    score = score_model(model, problem, seed=seed)
    return {
        "command": f"python -m benchmarks.paper.variants --datasets {name} --variants '{variant}' --seed {seed} "
        f"--epochs {epochs}",
        "dataset": name,
        "data_settings": {"trajectory": rows.trajectory},
        "variant": variant,
        "seed": seed,
        "data_fingerprint": problem.dataset.fingerprint,
        "most_epochs": epochs,
        "epochs": len(trained.history),
        "best_epoch": trained.best_epoch,
        "parameters": parameter_count(model),
        "multiply_adds": multiply_adds(model),
        "validation": {key: trained.best.validation[key] for key in ("mse", "mae", "objective")},
        "test": {key: score.metrics[key] for key in ("mse", "mae", "wd", "ept")},
        "processor_seconds": round(time.process_time() - began, 1),
    }


def author_rows(name: str) -> DatasetChoice:
    """A system's rows as the author made them, where they can be made again; else our own."""
    choices = {choice.dataset: choice for choice in read_task("author").datasets}
    return choices.get(name, DatasetChoice(dataset=name))


def read_results(folder: Path) -> list[dict[str, Any]]:
    """The results of a folder, in the order of their names."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def table(results: Iterable[Mapping[str, Any]]) -> str:
    """A Markdown table: one line for each variant and system, in the order of `VARIANTS`."""
    order = list(VARIANTS)
    lines = [
        "| system | variant | parameters | epochs | validation MSE | test MSE | test MAE | test WD | test EPT |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for result in sorted(results, key=lambda entry: (entry["dataset"], order.index(entry["variant"]))):
        test = result["test"]
        figures = (result["validation"]["mse"], test["mse"], test["mae"], test["wd"], test["ept"])
        shown = " | ".join(f"{figure:.4g}" for figure in figures)
        lines.append(
            f"| {result['dataset']} | {result['variant']} | {result['parameters'] / 1e6:.2f} M | "
            f"{result['best_epoch']} of {result['epochs']} | {shown} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
