"""``python -m benchmarks.distributions.coverage [--systems …] [--series 40]``: coverage over many fresh series, and
its price.

One Fern is trained on one series of each system, by the recipe of `FernForecaster` that its validation windows
prefer. Each of many fresh series (other noise, other start) is then
calibrated on its own first part and forecast on its last: the mean coverage over series is what a level promises.
Beside it the CRPS and energy score before and after calibration, DLinear with split-conformal margins, DLinear with
neuralforecast's conformal margins (the errors of two windows, one row apart, at each step; no correction), and the
distribution of the oracle where it is known in closed form. Rows go to ``benchmarks/distributions/results/coverage/``.
"""

import argparse
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.rows import save_row
from fern.calibration import Calibration, CalibrationSettings, Residuals, fit_calibration
from fern.data import Part, Windows
from fern.forecaster.fit import FERN, Recipe
from fern.metrics.paths import energy_scores
from fern.models import Forecaster, build_model
from fern.models.base import distribution_of
from fern.systems import Scenario, oracle, scenario, simulate
from fern.training import TrainConfig, train

RESULTS = Path(__file__).parent / "results" / "coverage"
LEVELS = (50, 80, 90, 95)
SHARES = np.arange(1, 100) / 100
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Sizes:
    """How much is done.

    ``rows``    of the series that trains; None takes the scenario's own length.
    ``stride``  from one test window to the next, ``calibration_stride`` from one calibration window to the next:
                coprime to the seasonal system's 24 rows, so that windows of every phase take part.
    """

    series: int = 40
    epochs: int = 12
    steps_per_epoch: int = 200
    context: int = 192
    horizon: int = 96
    rows: int | None = None
    fresh_rows: int = 9000
    calibration_rows: int = 6000
    stride: int = 25
    calibration_stride: int = 7
    paths: int = 64


@dataclass(frozen=True)
class System:
    """A scenario, and observation noise as a share of its standard deviation."""

    scenario: str
    noise: float = 0.0


SYSTEMS = (
    System("OU_BASE"),
    System("SEASONAL_AR_BASE"),
    System("GARCH_BASE"),
    System("LORENZ_BASE", noise=0.01),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    names = [system.scenario for system in SYSTEMS]
    parser.add_argument("--systems", nargs="+", default=names, choices=names)
    parser.add_argument("--series", type=int, default=Sizes.series)
    parser.add_argument("--epochs", type=int, default=Sizes.epochs)
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    torch.set_num_threads(1)
    for system in SYSTEMS:
        if system.scenario in given.systems:
            row = measured(system, Sizes(series=given.series, epochs=given.epochs), seed=given.seed)
            save_row(RESULTS / f"{system.scenario}-seed{given.seed}.json", row)


def measured(system: System, sizes: Sizes, *, seed: int) -> dict[str, Any]:
    """The row of one system."""
    base = scenario(system.scenario, steps=sizes.rows)
    values, shift, spread = standardised(_observed(base, system.noise), None)
    rows = len(values)
    parts = (Part(0, rows * 7 // 10), Part(rows * 7 // 10, rows))
    windows = [strided(values, part, 1, sizes) for part in parts]
    began = time.process_time()
    tried = [(recipe, *trained("fern", recipe, windows, sizes, seed)) for recipe in FERN]
    recipe, fern, _ = min(tried, key=lambda one: one[2])  # by the CRPS on validation windows
    models = {"fern": fern, "dlinear": trained("dlinear", None, windows, sizes, seed)[0]}
    seconds = time.process_time() - began
    apart = strided(values, parts[1], sizes.calibration_stride, sizes)
    held_out = {name: residuals_of(model, apart) for name, model in models.items()}
    found = [
        _fresh(
            system, replace(base, seed=1000 + number, steps=sizes.fresh_rows), sizes, models, held_out, (shift, spread)
        )
        for number in range(sizes.series)
    ]
    mean = {name: float(np.mean([one[name] for one in found])) for name in found[0]}
    spread_of = {
        f"{name} (sd over series)": float(np.std([one[name] for one in found])) for name in found[0] if "/" in name
    }
    return {
        "command": f"python -m benchmarks.distributions.coverage --systems {system.scenario} --series {sizes.series} "
        f"--epochs {sizes.epochs} --seed {seed}",
        "system": system.scenario,
        "observation_noise": system.noise,
        "recipe": recipe.name,
        "series": sizes.series,
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


def standardised(values: Floats, by: tuple[Floats, Floats] | None) -> tuple[NDArray[np.float32], Floats, Floats]:
    shift, spread = (values.mean(axis=0), values.std(axis=0)) if by is None else by
    return ((values - shift) / spread).astype(np.float32), shift, spread


def trained(
    name: str, recipe: Recipe | None, windows: list[Windows], sizes: Sizes, seed: int
) -> tuple[Forecaster, float]:
    """The trained model and its objective on validation windows."""
    settings, training = ({}, {}) if recipe is None else (recipe.model, recipe.train)
    values = windows[1].values.numpy()
    lengths: dict[str, Any] = {
        "context_length": sizes.context,
        "horizon": sizes.horizon,
        "channels": windows[0].channels,
    }
    model = build_model(name, **lengths, **settings)
    steps: dict[str, Any] = {"epochs": sizes.epochs, "steps_per_epoch": sizes.steps_per_epoch}
    config = TrainConfig(**steps, seed=seed, threads=1, **training)
    validation = strided(values, Part(len(values) * 7 // 10, len(values)), 4, sizes)
    result = train(model, windows[0], validation, config, progress="silent")
    return result.model.eval(), result.best.validation["objective"]


def strided(values: NDArray[np.float32], part: Part, stride: int, sizes: Sizes) -> Windows:
    return Windows(values, context_length=sizes.context, horizon=sizes.horizon, part=part, stride=stride)


def _batches(windows: Windows) -> Iterator[tuple[torch.Tensor, torch.Tensor, list[int]]]:
    for first in range(0, len(windows), 512):
        indices = torch.arange(first, min(first + 512, len(windows)))
        past, future = windows.gather(indices)
        yield past, future, (windows.starts(indices) + windows.context_length).tolist()


def residuals_of(model: Forecaster, windows: Windows) -> Residuals:
    return Residuals.joined(
        Residuals.of(distribution_of(model, past), future, origins=origins)
        for past, future, origins in _batches(windows)
    )


def _fresh(
    system: System,
    chosen: Scenario,
    sizes: Sizes,
    models: Mapping[str, Forecaster],
    held_out: Mapping[str, Residuals],
    by: tuple[Floats, Floats],
) -> dict[str, float]:
    """Coverage and scores on the last part of one fresh series."""
    if system.scenario.startswith("LORENZ"):  # deterministic: another start, and its way to the attractor cut off
        rng = np.random.default_rng(chosen.seed)
        chosen = replace(
            chosen, initial_state=tuple(rng.normal(0, 5, 3) + np.array([0.0, 0.0, 25.0])), steps=sizes.fresh_rows + 1000
        )
    observed = _observed(chosen, system.noise)[-sizes.fresh_rows :]
    values, _, _ = standardised(observed, by)
    calibration_part = Part(sizes.context, sizes.calibration_rows)
    test_part = Part(sizes.calibration_rows + sizes.horizon, sizes.fresh_rows)
    found: dict[str, float] = {}
    calibrations: dict[str, Calibration] = {}
    for name, model in models.items():
        settings = CalibrationSettings() if name == "fern" else CalibrationSettings(correlation="none")
        own = residuals_of(model, strided(values, calibration_part, sizes.calibration_stride, sizes))
        calibrations[name] = fit_calibration(own, held_out[name], settings=settings)
    test = strided(values, test_part, sizes.stride, sizes)
    past, future = test.gather(torch.arange(len(test)))
    truth = future.numpy().astype(np.float64)
    distribution = distribution_of(models["fern"], past)
    fern = calibrations["fern"].apply(distribution)
    point = distribution_of(models["dlinear"], past)
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
            distribution.icdf(torch.tensor([0.5 - level / 200, 0.5 + level / 200])[:, None, None, None])
            .numpy()
            .swapaxes(-1, -2)
        )
        found[f"uncalibrated margin/{level}"] = float(((raw[0] <= truth) & (truth <= raw[1])).mean())
    generator = torch.Generator().manual_seed(0)
    shares = torch.tensor(SHARES, dtype=torch.float32)[:, None, None, None]
    found["crps fern, as trained"] = _crps(distribution.icdf(shares).numpy().swapaxes(-1, -2), truth)
    found["crps fern, calibrated"] = _crps(fern.quantile(SHARES), truth)
    found["crps dlinear, split conformal"] = _crps(dlinear.quantile(SHARES), truth)
    found["crps dlinear, neuralforecast's conformal"] = _crps(_nixtla(models["dlinear"], values, past, sizes), truth)
    found["energy fern, as trained"] = _energy(
        distribution.sample((sizes.paths,), generator=generator).transpose(-1, -2), future
    )
    found["energy fern, calibrated"] = _energy(
        torch.from_numpy(fern.sample(sizes.paths, seed=chosen.seed - 1000)).float(), future
    )
    best = _oracle_quantiles(system, chosen, test, by)
    if best is not None:
        found["crps oracle's distribution"] = _crps(best, truth)
    return found


def _crps(quantiles: Floats, truth: Floats) -> float:
    """Twice the mean pinball loss over the percentiles, which is the CRPS up to the tails beyond them."""
    error = truth[None] - quantiles
    shares = SHARES[:, None, None, None]
    return float(2 * np.maximum(shares * error, (shares - 1) * error).mean())


def _energy(paths: torch.Tensor, future: torch.Tensor) -> float:
    return float(energy_scores(paths, future).mean())


def _nixtla(model: Forecaster, values: NDArray[np.float32], past: torch.Tensor, sizes: Sizes) -> Floats:
    """Quantiles of {forecast ± e} at each step, e the absolute errors of the last two windows before the test part."""
    windows = Windows(values[: sizes.calibration_rows], context_length=sizes.context, horizon=sizes.horizon)
    context, future = windows.gather(torch.tensor([len(windows) - 2, len(windows) - 1]))
    with torch.no_grad():
        errors = (model(context).mean - future).abs().numpy().astype(np.float64)  # (2, H, C)
        mean = model(past).mean.numpy().astype(np.float64)
    spread = np.concatenate((errors, -errors))
    quantiles: Floats = mean[None] + np.quantile(spread, SHARES, axis=0)[:, None]
    return quantiles


def _oracle_quantiles(system: System, chosen: Scenario, test: Windows, by: tuple[Floats, Floats]) -> Floats | None:
    """The quantiles of the true distribution where it is Gaussian with a known variance, in model units."""
    complete = chosen.source.complete(chosen.params)
    steps = np.arange(1, test.horizon + 1)
    if system.scenario == "OU_BASE":
        decay = (1 - complete["theta"] * chosen.dt) ** 2
        variance = complete["sigma"] ** 2 * chosen.dt * (1 - decay**steps) / (1 - decay)
    elif system.scenario == "SEASONAL_AR_BASE":
        decay = complete["phi"] ** 2
        variance = complete["sigma"] ** 2 * (1 - decay**steps) / (1 - decay)
    else:
        return None
    starts = test.starts(torch.arange(len(test))).numpy() + test.context_length
    mean = (oracle(simulate(chosen), starts, test.horizon) - by[0]) / by[1]
    normal = torch.special.ndtri(torch.from_numpy(SHARES)).numpy()
    quantiles: Floats = mean[None] + normal[:, None, None, None] * (np.sqrt(variance) / by[1])[None, None, :, None]
    return quantiles


if __name__ == "__main__":
    main()
