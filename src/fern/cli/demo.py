"""``fern demo``: the main job end to end, on a system whose truth is known."""

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from fern.errors import FernError

if TYPE_CHECKING:
    from fern.data.windows import Windows
    from fern.models import Forecaster
    from fern.systems import Trajectory

SCENARIO = "LORENZ_PARAM"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(demo)


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", "--output", help="Folder for the table and the plots.")] = Path(
        "demo"
    ),
    epochs: Annotated[int, typer.Option(help="Training epochs for Fern and DLinear.", min=1)] = 8,
    seed: Annotated[int, typer.Option(help="Seed for initial weights, batch order and noise.")] = 7,
) -> None:
    """Simulate a shocked Lorenz system, train Fern, compare it with DLinear, a naive forecast and the oracle."""
    from fern.data.splits import split
    from fern.data.windows import Windows
    from fern.models import build_model
    from fern.systems import simulate
    from fern.training import TrainConfig, train

    start = time.monotonic()
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FernError(f"{out}: the folder cannot be created ({error.strerror})") from None
    t = simulate(SCENARIO)
    parts = split(len(t.values), "shock")
    windows = {
        name: Windows(t.values, context_length=336, horizon=336, part=part)
        for name, part in (("train", parts.train), ("validation", parts.validation), ("test", parts.test))
    }
    typer.echo(
        f"{SCENARIO}: {len(t.values):,} steps of Lorenz-63. Its parameters change at row {t.shock_index:,}, in\n"
        "the middle of the training set. Task: forecast 336 steps from the previous 336; the last 10 % is the test set."
    )
    models: dict[str, Forecaster] = {}
    # A small latent generalises better on chaotic systems; see docs/results.md.
    choices: dict[str, dict[str, Any]] = {"fern": {"latent": 12}, "dlinear": {}, "last-value": {}}
    for name, settings in choices.items():
        model = build_model(name, context_length=336, horizon=336, channels=3, **settings)
        if model.trainable:
            typer.echo(f"\nTraining {name} for {epochs} epochs:")
            config = TrainConfig(preset="default", epochs=epochs, seed=seed, threads=1)
            train(model, windows["train"], windows["validation"], config)
        models[name] = model.eval()
    spread = t.values[: parts.train.stop].std(axis=0)
    rows = _scores(t, windows["test"], models, spread)
    table = _as_markdown(rows)
    (out / "table.md").write_text(table)
    _draw(t, windows, models, out)
    typer.echo(f"\n{table}\n")
    typer.echo(_what_to_look_at(rows, out, time.monotonic() - start))


def _scores(
    t: "Trajectory", test: "Windows", models: "dict[str, Forecaster]", spread: np.ndarray
) -> dict[str, dict[str, float]]:
    """MSE, MAE, WD and EPT of the oracle and of each model over all test windows."""
    import torch

    from fern.metrics import ept, mae, mse, w2_squared
    from fern.systems import oracle

    indices = torch.arange(len(test))
    starts = (test.starts(indices) + test.context_length).numpy()
    future = np.concatenate([batch.numpy() for _, batch in test.batches(512)])
    forecasts: dict[str, Any] = {"oracle": oracle(t, starts, test.horizon)}
    with torch.no_grad():
        for name, model in models.items():
            forecasts[name] = np.concatenate([model(past).mean.numpy() for past, _ in test.batches(512)])
    return {
        name: {
            "MSE": float(mse(values, future)),
            "MAE": float(mae(values, future)),
            "WD": float(w2_squared(values, future)),
            "EPT": float(ept(values, future, spread)),
        }
        for name, values in forecasts.items()
    }


def _as_markdown(rows: dict[str, dict[str, float]]) -> str:
    names = list(next(iter(rows.values())))
    lines = [f"| model | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    lines += [f"| {model} | {' | '.join(f'{figures[n]:.3g}' for n in names)} |" for model, figures in rows.items()]
    return "\n".join(lines)


def _draw(t: "Trajectory", windows: "dict[str, Windows]", models: "dict[str, Forecaster]", out: Path) -> None:
    """The trajectory, one test forecast, and the eigen-diagnostics over the test part."""
    import torch

    from fern.diagnostics import eigenprofile, learn_rules, warnings
    from fern.report.figures.canvas import save_figure
    from fern.report.figures.diagnostics import diagnostics_figure
    from fern.report.figures.forecasts import forecast_figure
    from fern.report.figures.trajectories import trajectory_figure

    test, validation = windows["test"], windows["validation"]
    past, future = test.gather(torch.tensor([len(test) // 2]))
    with torch.no_grad():
        forecasts = {name: model(past).mean[0].numpy() for name, model in models.items() if name != "last-value"}
    title = f"{SCENARIO}: a test window, context 336, horizon 336"
    picture = forecast_figure(past[0].numpy(), future[0].numpy(), forecasts, channel_names=t.channel_names, title=title)
    save_figure(picture, out / "forecast.png")
    save_figure(trajectory_figure(t), out / "trajectory.png")
    profiles = []
    for part in (validation, test):
        first, last = part.starts(torch.tensor([0, len(part) - 1])).tolist()
        profile = eigenprofile(models["fern"], t.values[first : last + 672], stride=8)
        profiles.append(replace(profile, first_row=first + profile.first_row))
    rules = learn_rules(profiles[0])
    picture = diagnostics_figure(
        profiles[1], channel=0, name=t.channel_names[0], alarms=warnings(profiles[1], rules), rows=slice(0, 1500)
    )
    save_figure(picture, out / "diagnostics.png")
    lines = [
        f"{rule.name}: {rule.explanation}\n"
        f"  on validation data, {rules.lead} rows ahead: flagged {rule.rates.hit_rate:.0%} of "
        f"{rule.rates.spikes} spikes, {rule.rates.false_alarm_rate:.0%} of quiet rows, lift {rule.rates.lift:.2f}"
        for rule in rules.rules
    ]
    (out / "warnings.txt").write_text("\n".join(lines) + "\n")


def _what_to_look_at(rows: dict[str, dict[str, float]], out: Path, seconds: float) -> str:
    ratio = rows["dlinear"]["MSE"] / rows["fern"]["MSE"]
    return (
        f"Done in {seconds:.0f} s. DLinear's MSE is {ratio:.1f} times Fern's. The oracle knows the equations: its\n"
        "error is the floor. EPT counts the steps before the error exceeds one standard deviation.\n"
        "Files:\n"
        f"  {out / 'forecast.png'}     a test window: Fern, DLinear and the truth\n"
        f"  {out / 'diagnostics.png'}  the eigen-profile: error spikes and the ellipsoids before them\n"
        f"  {out / 'trajectory.png'}   the data and the shock\n"
        f"  {out / 'table.md'}, {out / 'warnings.txt'}"
    )
