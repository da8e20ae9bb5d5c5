"""``fern demo``: the main job end to end, on a system whose truth is known."""

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fern.cli.console import echo
from fern.files import check_folder, check_outputs, made_folder, written_whole

if TYPE_CHECKING:
    from fern.benchmark.problem import Problem
    from fern.benchmark.scoring import Score
    from fern.models import Forecaster
    from fern.report.tables.tables import Table

SCENARIO = "LORENZ_PARAM"
CONTEXT_LENGTH = HORIZON = 336
FILES = ("table.md", "warnings.txt", "forecast.png", "trajectory.png", "diagnostics.png")
COLUMNS = ("mse", "mae", "wd", "ept")

# A small latent generalises better on chaotic systems; see docs/results.md.
MODELS: dict[str, dict[str, Any]] = {"fern": {"latent": 12}, "dlinear": {}, "last-value": {}}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(demo)


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", "--output", help="Folder for the table and the plots.")] = Path(
        "demo"
    ),
    epochs: Annotated[int, typer.Option(help="Training epochs for Fern and DLinear.", min=1)] = 8,
    seed: Annotated[int, typer.Option(help="Seed for initial weights, batch order and noise.")] = 7,
    steps: Annotated[int | None, typer.Option(help="Number of steps to use instead of the scenario's.")] = None,
) -> None:
    """Simulate a shocked Lorenz system, train Fern, compare it with DLinear, a naive forecast and the oracle."""
    from fern.benchmark.problem import Problem, load_dataset
    from fern.benchmark.scoring import score_model, score_oracle
    from fern.benchmark.tasks import DatasetChoice
    from fern.report.tables.rendering import render

    start = time.monotonic()
    _prepare(out)
    dataset = load_dataset(DatasetChoice(dataset=SCENARIO, steps=steps))
    problem = Problem(dataset, "shock", "none", CONTEXT_LENGTH, HORIZON)
    _ = problem.train, problem.validation, problem.test  # an error where one has no window
    trajectory = dataset.trajectory
    shock = trajectory.shock_index if trajectory is not None else None
    echo(
        f"{SCENARIO}: {len(dataset.values):,} steps of Lorenz-63. Its parameters change at row {shock:,}, in\n"
        f"the middle of the training set. Task: forecast {HORIZON} steps from the previous {CONTEXT_LENGTH}; the last\n"
        "10 % is the test set."
    )
    models = {name: _trained(name, problem, epochs=epochs, seed=seed) for name in MODELS}
    scores = {"oracle": score_oracle(problem)}
    scores |= {name: score_model(model, problem, seed=seed) for name, model in models.items()}
    table = render(_table(scores), "md")
    _write(out / "table.md", table)
    _draw(problem, models, out)
    echo(f"\n{table}")
    echo(_what_to_look_at(scores, out, time.monotonic() - start))


def _prepare(out: Path) -> None:
    """Make the folder, and find out before the training whether every file can be written into it."""
    check_folder(out)
    check_outputs([made_folder(out) / name for name in FILES])


def _write(path: Path, text: str) -> None:
    with written_whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _trained(name: str, problem: "Problem", *, epochs: int, seed: int) -> "Forecaster":
    """A model ready to forecast."""
    from fern.models import build_model
    from fern.training import TrainConfig, train

    channels = problem.values.shape[1]
    model = build_model(
        name, context_length=problem.context_length, horizon=problem.horizon, channels=channels, **MODELS[name]
    )
    if model.trainable:
        echo(f"\nTraining {name} for {epochs} epochs:")
        config = TrainConfig(preset="default", epochs=epochs, seed=seed, threads=1)
        train(model, problem.train, problem.validation, config)
    return model.eval()


def _table(scores: "dict[str, Score]") -> "Table":
    """The figures of the oracle and of each model over all test windows."""
    from fern.report.tables.cells import Cell
    from fern.report.tables.tables import Column, Line, Table

    lines = tuple(
        Line((name,), tuple(Cell(mean=score.metrics[metric], done=1) for metric in COLUMNS))
        for name, score in scores.items()
    )
    return Table(f"{SCENARIO}, {CONTEXT_LENGTH} to {HORIZON} steps", ("model",), tuple(map(Column, COLUMNS)), lines)


def _draw(problem: "Problem", models: "dict[str, Forecaster]", out: Path) -> None:
    """The trajectory, one test forecast, and the eigen-diagnostics over the test part."""
    import torch

    from fern.diagnostics import eigenprofile, learn_rules, warnings
    from fern.report.figures.canvas import save_figure
    from fern.report.figures.diagnostics import diagnostics_figure
    from fern.report.figures.forecasts import forecast_figure
    from fern.report.figures.trajectories import trajectory_figure

    names, test = problem.dataset.channel_names, problem.test
    past, future = test.gather(torch.tensor([len(test) // 2]))
    with torch.no_grad():
        forecasts = {name: model(past).mean[0].numpy() for name, model in models.items() if name != "last-value"}
    title = f"{SCENARIO}: a test window, {HORIZON} steps from {CONTEXT_LENGTH}"
    picture = forecast_figure(past[0].numpy(), future[0].numpy(), forecasts, channel_names=names, title=title)
    save_figure(picture, out / "forecast.png")
    if problem.dataset.trajectory is not None:
        save_figure(trajectory_figure(problem.dataset.trajectory), out / "trajectory.png")
    profiles = []
    for part in (problem.validation, test):
        first, last = part.starts(torch.tensor([0, len(part) - 1])).tolist()
        profile = eigenprofile(models["fern"], problem.values[first : last + CONTEXT_LENGTH + HORIZON], stride=8)
        profiles.append(replace(profile, first_row=first + profile.first_row))
    rules = learn_rules(profiles[0])
    picture = diagnostics_figure(
        profiles[1], channel=0, name=names[0], alarms=warnings(profiles[1], rules), rows=slice(0, 1500)
    )
    save_figure(picture, out / "diagnostics.png")
    lines = [
        f"{rule.name}: {rule.explanation}\n"
        f"  on validation data, {rules.lead} rows ahead: flagged {rule.rates.hit_rate:.0%} of "
        f"{rule.rates.spikes} spikes, {rule.rates.false_alarm_rate:.0%} of quiet rows, lift {rule.rates.lift:.2f}"
        for rule in rules.rules
    ]
    _write(out / "warnings.txt", "\n".join(lines) + "\n")


def _what_to_look_at(scores: "dict[str, Score]", out: Path, seconds: float) -> str:
    ratio = scores["dlinear"].metrics["mse"] / scores["fern"].metrics["mse"]
    return (
        f"Done in {seconds:.0f} s. DLinear's MSE is {ratio:.1f} times Fern's. The oracle knows the equations: its\n"
        "error is the floor. EPT counts the steps before the error exceeds one standard deviation.\n"
        "Files:\n"
        f"  {out / 'forecast.png'}     a test window: Fern, DLinear and the truth\n"
        f"  {out / 'diagnostics.png'}  the eigen-profile: error spikes and the ellipsoids before them\n"
        f"  {out / 'trajectory.png'}   the data and the shock\n"
        f"  {out / 'table.md'}, {out / 'warnings.txt'}"
    )
