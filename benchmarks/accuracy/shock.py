"""``python -m benchmarks.accuracy.shock SCENARIO [--seed 7] [--train shock|default] [--latent N] [--epochs N]``.

Trains Fern at 336→336 on raw values by a training preset and writes one row with its provenance to
``benchmarks/accuracy/results/``. A run that was cut short goes on where it was.
"""

import argparse
import json
import shutil
from importlib.metadata import version
from pathlib import Path

import torch

from fern.data.split import split
from fern.data.windows import Windows
from fern.metrics import MetricAccumulator
from fern.models import build_model
from fern.systems import oracle, simulate
from fern.training import TrainConfig, resumable, train

RESULTS = Path(__file__).parent / "results"
RUNS = Path("runs/accuracy")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenario")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--train", default="shock")
    parser.add_argument("--latent", type=int, default=96)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    t = simulate(given.scenario)
    parts = split(len(t.values), "shock")
    training, validation, test = (
        Windows(t.values, context_length=336, horizon=336, part=part)
        for part in (parts.train, parts.validation, parts.test)
    )
    model = build_model(
        "fern", preset="paper", context_length=336, horizon=336, channels=t.values.shape[1], latent=given.latent
    )
    settings = {} if given.epochs is None else {"epochs": given.epochs}
    config = TrainConfig(preset=given.train, seed=given.seed, threads=given.threads, **settings)
    name = f"fern-{given.scenario}-{given.train}-latent{given.latent}-epochs{config.epochs}-seed{given.seed}"
    folder = RUNS / name
    kept = {"resume": folder} if resumable(folder) else {"directory": folder}
    result = train(model, training, validation, config, progress="lines", **kept)

    std = torch.as_tensor(t.values[: parts.train.stop]).std(dim=0)
    scores = MetricAccumulator(("mse", "mae", "w2", "ept"), std=std)
    floor = MetricAccumulator(("mse",))
    starts = (test.starts(torch.arange(len(test))) + 336).numpy()
    best = oracle(t, starts, 336)
    with torch.no_grad():
        for i, (past, future) in enumerate(test.batches(512)):
            scores.update(model(past).mean, future)
            floor.update(torch.as_tensor(best[512 * i : 512 * i + len(past)]), future)
    row = {
        "command": f"python -m benchmarks.accuracy.shock {given.scenario} --seed {given.seed} --train {given.train} "
        f"--latent {given.latent}" + ("" if given.epochs is None else f" --epochs {given.epochs}"),
        "scenario": given.scenario,
        "data_fingerprint": t.fingerprint,
        "seed": given.seed,
        "training": given.train,
        "latent": given.latent,
        "parameters": sum(p.numel() for p in model.parameters()),
        "epochs": len(result.history),
        "best_epoch": result.best_epoch,
        "stopped": result.stopped,
        "test": {key: float(value) for key, value in scores.compute().items()},
        "oracle_mse": float(floor.compute()["mse"]),
        "windows": len(test),
        "seconds": round(result.seconds, 1),
        "threads": given.threads,
        "versions": {package: version(package) for package in ("torch", "numpy")},
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(row, indent=2) + "\n")
    shutil.rmtree(folder)
    print(json.dumps(row, indent=2))


if __name__ == "__main__":
    main()
