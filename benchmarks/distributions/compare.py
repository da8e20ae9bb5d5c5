"""``python -m benchmarks.distributions.compare [--datasets …] [--variants …] [--seeds …]``: ways to train Fern's
distribution, compared.

Each variant is trained on one part of a series, stopped by a second and judged on a third; all three lie before the
test part, which is not looked at here. Rows go to ``benchmarks/distributions/results/``; those there are already are
skipped.
"""

import argparse
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fern.benchmark import DatasetChoice, load_dataset
from fern.data import Part, Windows, fit_scaler
from fern.metrics import MetricAccumulator, ObjectiveWeights
from fern.metrics.paths import energy_scores
from fern.models import Fern, Forecaster, build_model
from fern.training import TrainConfig, train

RESULTS = Path(__file__).parent / "results"
LEVELS = (50.0, 80.0, 95.0)
BEFORE_TEST = {"ETTh1": 11_520, "ETTh2": 11_520}
"""Rows before the usual test part; of a simulated series the first 90 %."""

LEVEL: Mapping[str, Any] = {"normalise": "instance", "skip": "linear", "mean": "direct"}
STATE: Mapping[str, Any] = {"mean": "direct"}
BY_CRPS = {"objective": ObjectiveWeights(mse=0.0, mae=0.0, distance=0.0, crps=1.0)}


@dataclass(frozen=True)
class Variant:
    """A model and the loss that trains it.

    ``then``: a second training, of Λ and U alone with the mean frozen, on most of the rows that stopped the first.
    """

    model: Mapping[str, Any]
    train: Mapping[str, Any] = field(default_factory=dict)
    then: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Sizes:
    """How much is done. ``rows``: the first rows of a series alone; None takes all before the test part."""

    context: int = 336
    horizon: int = 96
    epochs: int = 10
    steps_per_epoch: int = 200
    judged: int = 1024
    paths: int = 64
    rows: int | None = None


VARIANTS: Mapping[str, Variant] = {
    "paper, huber": Variant({}),
    "level, huber": Variant(LEVEL),
    "level, crps": Variant(LEVEL, {"loss": "crps", **BY_CRPS}),
    "level, whitened_crps": Variant(LEVEL, {"loss": "whitened_crps", **BY_CRPS}),
    "level, nll": Variant(LEVEL, {"loss": "nll", **BY_CRPS}),
    "level, beta_nll": Variant(LEVEL, {"loss": "beta_nll", **BY_CRPS}),
    "level, energy": Variant(LEVEL, {"loss": "energy", **BY_CRPS}),
    "state, whitened_crps": Variant(STATE, {"loss": "whitened_crps", **BY_CRPS}),
    "state, crps": Variant(STATE, {"loss": "crps", **BY_CRPS}),
    "level without skip, whitened_crps": Variant({**LEVEL, "skip": "none"}, {"loss": "whitened_crps", **BY_CRPS}),
    "last, whitened_crps": Variant({**LEVEL, "normalise": "last"}, {"loss": "whitened_crps", **BY_CRPS}),
    "last, crps": Variant({**LEVEL, "normalise": "last"}, {"loss": "crps", **BY_CRPS}),
    "last, beta_nll": Variant({**LEVEL, "normalise": "last"}, {"loss": "beta_nll", **BY_CRPS}),
    "state, beta_nll": Variant(STATE, {"loss": "beta_nll", **BY_CRPS}),
    "level, transported, whitened_crps": Variant(
        {**LEVEL, "mean": "transported"}, {"loss": "whitened_crps", **BY_CRPS}
    ),
    "skip, whitened_crps": Variant({**STATE, "skip": "linear"}, {"loss": "whitened_crps", **BY_CRPS}),
    "last, huber, then whitened_crps": Variant(
        {**LEVEL, "normalise": "last"}, then={"loss": "whitened_crps", **BY_CRPS}
    ),
    "state, huber, then whitened_crps": Variant(STATE, then={"loss": "whitened_crps", **BY_CRPS}),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", nargs="+", default=["ETTh1", "OU_BASE", "LORENZ_BASE"])
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[7])
    given = parser.parse_args()
    torch.set_num_threads(1)
    RESULTS.mkdir(exist_ok=True)
    for seed in given.seeds:
        for name in given.datasets:
            for variant in given.variants:
                path = RESULTS / f"{name}-{variant.replace(', ', '-').replace(' ', '_')}-seed{seed}.json"
                if not path.exists():
                    row = compare(name, variant, seed)
                    path.write_text(json.dumps(row, indent=1) + "\n")
                    print(name, variant, seed, row["judged"], f"{row['processor_seconds']:.0f} s", flush=True)


def compare(name: str, variant: str, seed: int, sizes: Sizes | None = None) -> dict[str, Any]:
    """The row of one variant on one series."""
    sizes = sizes or Sizes()
    values, fingerprint = series_before_test(name, rows=sizes.rows)
    rows = len(values)
    first, cut, second = rows * 70 // 100, rows * 82 // 100, rows * 85 // 100
    parts = (Part(0, first), Part(first, second), Part(second, rows))
    windows = [
        Windows(values, context_length=sizes.context, horizon=sizes.horizon, part=part, stride=stride)
        for part, stride in zip(parts, (1, 2, max(1, len(parts[2]) // sizes.judged)), strict=True)
    ]
    chosen = VARIANTS[variant]
    lengths: dict[str, Any] = {"context_length": sizes.context, "horizon": sizes.horizon, "channels": values.shape[1]}
    model = build_model("fern", **lengths, **chosen.model)
    steps: dict[str, Any] = {"epochs": sizes.epochs, "steps_per_epoch": sizes.steps_per_epoch}
    config = TrainConfig(**steps, seed=seed, threads=1, **chosen.train)
    began = time.process_time()
    result = train(model, windows[0], windows[1], config, progress="silent")
    if chosen.then is not None:
        halves = (Part(first, cut), Part(cut, second))
        learnt, stopping = (
            Windows(values, context_length=sizes.context, horizon=sizes.horizon, part=part) for part in halves
        )
        train_widths(model, learnt, stopping, TrainConfig(**steps, seed=seed, start="given", threads=1, **chosen.then))
    return {
        "command": "python -m benchmarks.distributions.compare --datasets {name} --variants '{variant}' --seeds {seed}",
        "dataset": name,
        "variant": variant,
        "seed": seed,
        "data_fingerprint": fingerprint,
        "rows_before_test": rows,
        "epochs": len(result.history),
        "best_epoch": result.best_epoch,
        "processor_seconds": round(time.process_time() - began, 1),
        "windows": len(windows[2]),
        "judged": judged(model, windows[2], paths=sizes.paths),
    }


def train_widths(model: Forecaster, learnt: Windows, stopping: Windows, config: TrainConfig) -> None:
    """Train Λ and U of a distribution alone, its mean frozen."""
    assert isinstance(model, Fern) and model.config.mean == "direct"
    head = model.head
    scales = head.sizes[0]  # the first outputs of ``spectrum`` are scales, the others the mean

    def without_mean(gradient: torch.Tensor) -> torch.Tensor:
        return torch.cat((gradient[:scales], torch.zeros_like(gradient[scales:])))

    model.requires_grad_(False)
    for part in (head.vectors, head.spectrum):
        part.requires_grad_(True)
    hooks = [
        parameter.register_hook(without_mean)  # type: ignore[no-untyped-call]
        for parameter in head.spectrum.parameters()
    ]
    train(model, learnt, stopping, config, progress="silent")
    for hook in hooks:
        hook.remove()
    model.requires_grad_(True)


def judged(model: Forecaster, windows: Windows, *, paths: int) -> dict[str, float]:
    """Point errors, CRPS, energy score and coverage on windows that neither trained nor stopped the model."""
    gathered = MetricAccumulator(["mse", "mae", "crps", "coverage"], levels=LEVELS)
    energies = []
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for past, future in windows.batches(256):
            forecast = model(past)
            distribution = forecast.ellipsoid
            assert distribution is not None
            gathered.update(forecast.mean, future, distribution=distribution)
            drawn = distribution.sample((paths,), generator=generator).transpose(-1, -2)
            energies.append(energy_scores(drawn, future).flatten())
    return {
        **{key: float(value) for key, value in gathered.compute().items()},
        "energy": float(torch.cat(energies).mean()),
    }


def series_before_test(name: str, *, rows: int | None = None) -> tuple[NDArray[np.float32], str]:
    """The rows before the test part, standardised by the first 70 % of them, and the data's fingerprint."""
    dataset = load_dataset(DatasetChoice(dataset=name))
    before = rows or BEFORE_TEST.get(name, len(dataset.values) * 9 // 10)
    values = dataset.values[:before]
    scaler = fit_scaler("standard", values, part=Part(0, before * 70 // 100))
    return scaler.apply(values).astype(np.float32), dataset.fingerprint


if __name__ == "__main__":
    main()
