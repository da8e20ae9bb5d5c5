"""``python -m benchmarks.laws.coverage [--systems …] [--series 40]``: coverage over many fresh series, and its price.

One Fern is trained on one series of each system. Each of many fresh series (other noise, other start) is then
calibrated on its own first part and forecast on its last: the mean coverage over series is what a level promises.
Beside it the CRPS and energy score before and after calibration, DLinear with split-conformal margins, DLinear with
neuralforecast's conformal margins (the errors of two windows, one row apart, at each step; no correction), and the law
of the oracle where it is known in closed form. Rows go to ``benchmarks/laws/results/coverage/``.
"""

import argparse
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fern.calibration import Calibration, CalibrationSettings, Residuals, fit_calibration
from fern.data import Part, Windows
from fern.forecaster.laws import law_of
from fern.forecaster.recipes import FERN, Recipe
from fern.metrics.paths import energy_scores
from fern.models import Forecaster, build_model
from fern.systems import Scenario, oracle, scenario, simulate
from fern.training import TrainConfig, train

RESULTS = Path(__file__).parent / "results" / "coverage"
CONTEXT, HORIZON = 192, 96
LEVELS = (50, 80, 90, 95)
SHARES = np.arange(1, 100) / 100
FRESH_ROWS, CALIBRATION_ROWS = 9000, 6000
STRIDE, PATHS = 24, 64
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class System:
    """A scenario, the recipe that suits it, and observation noise as a share of its standard deviation."""

    scenario: str
    recipe: str
    noise: float = 0.0
    law: Mapping[str, float] = field(default_factory=dict)


SYSTEMS = (
    System("OU_BASE", "level"),
    System("SEASONAL_AR_BASE", "level"),
    System("GARCH_BASE", "state"),
    System("LORENZ_BASE", "state", noise=0.01),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    names = [system.scenario for system in SYSTEMS]
    parser.add_argument("--systems", nargs="+", default=names, choices=names)
    parser.add_argument("--series", type=int, default=40)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    torch.set_num_threads(1)
    RESULTS.mkdir(parents=True, exist_ok=True)
    for system in SYSTEMS:
        if system.scenario in given.systems:
            row = measured(system, series=given.series, epochs=given.epochs, seed=given.seed)
            (RESULTS / f"{system.scenario}-seed{given.seed}.json").write_text(json.dumps(row, indent=1) + "\n")
            print(json.dumps(row, indent=1), flush=True)


def measured(system: System, *, series: int, epochs: int, seed: int) -> dict[str, Any]:
    """The row of one system."""
    base = scenario(system.scenario)
    values, shift, spread = _standardised(_observed(base, system.noise), None)
    rows = len(values)
    parts = (Part(0, rows * 7 // 10), Part(rows * 7 // 10, rows))
    windows = [Windows(values, context_length=CONTEXT, horizon=HORIZON, part=part) for part in parts]
    recipe = next(one for one in FERN if one.name == system.recipe)
    began = time.process_time()
    models = {name: _trained(name, recipe, windows, epochs, seed) for name in ("fern", "dlinear")}
    seconds = time.process_time() - began
    held_out = {name: _residuals(model, _strided(values, parts[1], STRIDE // 4)) for name, model in models.items()}
    found = [
        _fresh(system, replace(base, seed=seed, steps=FRESH_ROWS), number, models, held_out, (shift, spread))
        for number, seed in enumerate(range(1000, 1000 + series))
    ]
    mean = {name: float(np.mean([one[name] for one in found])) for name in found[0]}
    spread_of = {
        f"{name} (sd over series)": float(np.std([one[name] for one in found])) for name in found[0] if "/" in name
    }
    return {
        "command": f"python -m benchmarks.laws.coverage --systems {system.scenario} --series {series} "
        f"--epochs {epochs} --seed {seed}",
        "system": system.scenario,
        "observation_noise": system.noise,
        "recipe": recipe.name,
        "series": series,
        "seed": seed,
        "processor_seconds": round(seconds, 1),
        "mean": mean,
        "spread": spread_of,
    }


def _observed(chosen: Scenario, noise: float) -> Floats:
    """The series, with noise of this share of its standard deviation."""
    values = simulate(chosen).values.astype(np.float64)
    if noise:
        rng = np.random.default_rng(chosen.seed)
        values = values + noise * values.std(axis=0) * rng.standard_normal(values.shape)
    return values


def _standardised(values: Floats, by: tuple[Floats, Floats] | None) -> tuple[NDArray[np.float32], Floats, Floats]:
    shift, spread = (values.mean(axis=0), values.std(axis=0)) if by is None else by
    return ((values - shift) / spread).astype(np.float32), shift, spread


def _trained(name: str, recipe: Recipe, windows: list[Windows], epochs: int, seed: int) -> Forecaster:
    settings, training = (recipe.model, recipe.train) if name == "fern" else ({}, {})
    channels = windows[0].channels
    model = build_model(name, context_length=CONTEXT, horizon=HORIZON, channels=channels, **settings)
    config = TrainConfig(epochs=epochs, steps_per_epoch=200, seed=seed, threads=1, **training)
    validation = _strided(windows[1].values.numpy(), Part(len(windows[1].values) * 7 // 10, len(windows[1].values)), 4)
    return train(model, windows[0], validation, config, progress="silent").model.eval()


def _strided(values: NDArray[np.float32], part: Part, stride: int) -> Windows:
    return Windows(values, context_length=CONTEXT, horizon=HORIZON, part=part, stride=stride)


def _batches(windows: Windows) -> Iterator[tuple[torch.Tensor, torch.Tensor, list[int]]]:
    for first in range(0, len(windows), 512):
        indices = torch.arange(first, min(first + 512, len(windows)))
        past, future = windows.gather(indices)
        yield past, future, (windows.starts(indices) + CONTEXT).tolist()


def _residuals(model: Forecaster, windows: Windows) -> Residuals:
    return Residuals.joined(
        Residuals.of(law_of(model, past), future, origins=origins) for past, future, origins in _batches(windows)
    )


def _fresh(
    system: System,
    chosen: Scenario,
    number: int,
    models: Mapping[str, Forecaster],
    held_out: Mapping[str, Residuals],
    by: tuple[Floats, Floats],
) -> dict[str, float]:
    """Coverage and scores on the last part of one fresh series."""
    if system.scenario.startswith("LORENZ"):  # deterministic: another start, and its way to the attractor cut off
        rng = np.random.default_rng(chosen.seed)
        chosen = replace(
            chosen, initial_state=tuple(rng.normal(0, 5, 3) + np.array([0.0, 0.0, 25.0])), steps=FRESH_ROWS + 1000
        )
    observed = _observed(chosen, system.noise)[-FRESH_ROWS:]
    values, _, _ = _standardised(observed, by)
    calibration_part, test_part = Part(CONTEXT, CALIBRATION_ROWS), Part(CALIBRATION_ROWS + HORIZON, FRESH_ROWS)
    found: dict[str, float] = {}
    calibrations: dict[str, Calibration] = {}
    for name, model in models.items():
        settings = CalibrationSettings() if name == "fern" else CalibrationSettings(correlation="none")
        own = _residuals(model, _strided(values, calibration_part, STRIDE // 4))
        calibrations[name] = fit_calibration(own, held_out[name], settings=settings)
    test = _strided(values, test_part, STRIDE)
    past, future = test.gather(torch.arange(len(test)))
    truth = future.numpy().astype(np.float64)
    law = law_of(models["fern"], past)
    fern = calibrations["fern"].apply(law)
    point = law_of(models["dlinear"], past)
    dlinear = calibrations["dlinear"].apply(point)
    for level in LEVELS:
        low, high = fern.interval(level)
        found[f"margin/{level}"] = float(((low <= truth) & (truth <= high)).mean())
        low, high = fern.band(level)
        found[f"band/{level}"] = float(((low <= truth) & (truth <= high)).all(axis=1).mean())
        region = fern.region(level)
        found[f"patch/{level}"] = float(region.patches_contain(truth).mean())
        found[f"region/{level}"] = float(region.contains(truth).mean())
        raw = (
            law.icdf(torch.tensor([0.5 - level / 200, 0.5 + level / 200])[:, None, None, None]).numpy().swapaxes(-1, -2)
        )
        found[f"uncalibrated margin/{level}"] = float(((raw[0] <= truth) & (truth <= raw[1])).mean())
    generator = torch.Generator().manual_seed(0)
    shares = torch.tensor(SHARES, dtype=torch.float32)[:, None, None, None]
    found["crps fern, as trained"] = _crps(law.icdf(shares).numpy().swapaxes(-1, -2), truth)
    found["crps fern, calibrated"] = _crps(fern.quantile(SHARES), truth)
    found["crps dlinear, split conformal"] = _crps(dlinear.quantile(SHARES), truth)
    found["crps dlinear, neuralforecast's conformal"] = _crps(_nixtla(models["dlinear"], values, truth, past), truth)
    found["energy fern, as trained"] = _energy(law.sample((PATHS,), generator=generator).transpose(-1, -2), future)
    found["energy fern, calibrated"] = _energy(torch.from_numpy(fern.sample(PATHS, seed=number)).float(), future)
    best = _oracle_quantiles(system, chosen, test, by)
    if best is not None:
        found["crps oracle's law"] = _crps(best, truth)
    return found


def _crps(quantiles: Floats, truth: Floats) -> float:
    """Twice the mean pinball loss over the percentiles, which is the CRPS up to the tails beyond them."""
    error = truth[None] - quantiles
    shares = SHARES[:, None, None, None]
    return float(2 * np.maximum(shares * error, (shares - 1) * error).mean())


def _energy(paths: torch.Tensor, future: torch.Tensor) -> float:
    return float(energy_scores(paths, future).mean())


def _nixtla(model: Forecaster, values: NDArray[np.float32], truth: Floats, past: torch.Tensor) -> Floats:
    """Quantiles of {forecast ± e} at each step, e the absolute errors of the last two windows before the test part."""
    rows = CALIBRATION_ROWS
    windows = Windows(values[:rows], context_length=CONTEXT, horizon=HORIZON)
    context, future = windows.gather(torch.tensor([len(windows) - 2, len(windows) - 1]))
    with torch.no_grad():
        errors = (model(context).mean - future).abs().numpy().astype(np.float64)  # (2, H, C)
        mean = model(past).mean.numpy().astype(np.float64)
    spread = np.concatenate((errors, -errors))
    quantiles: Floats = mean[None] + np.quantile(spread, SHARES, axis=0)[:, None]
    return quantiles


def _oracle_quantiles(system: System, chosen: Scenario, test: Windows, by: tuple[Floats, Floats]) -> Floats | None:
    """The quantiles of the true law where it is Gaussian with a known variance, in model units."""
    complete = chosen.source.complete(chosen.params)
    steps = np.arange(1, HORIZON + 1)
    if system.scenario == "OU_BASE":
        decay = (1 - complete["theta"] * chosen.dt) ** 2
        variance = complete["sigma"] ** 2 * chosen.dt * (1 - decay**steps) / (1 - decay)
    elif system.scenario == "SEASONAL_AR_BASE":
        decay = complete["phi"] ** 2
        variance = complete["sigma"] ** 2 * (1 - decay**steps) / (1 - decay)
    else:
        return None
    starts = test.starts(torch.arange(len(test))).numpy() + CONTEXT
    mean = (oracle(simulate(chosen), starts, HORIZON) - by[0]) / by[1]
    normal = torch.special.ndtri(torch.from_numpy(SHARES)).numpy()
    quantiles: Floats = mean[None] + normal[:, None, None, None] * (np.sqrt(variance) / by[1])[None, None, :, None]
    return quantiles


if __name__ == "__main__":
    main()
