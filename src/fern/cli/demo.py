"""``fern demo``: the main job end to end, on a system whose truth is known, then on a table."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fern.cli.console import echo
from fern.files import check_folder, check_outputs, make_folder, write_whole

if TYPE_CHECKING:
    from fern.benchmark.problem import Problem
    from fern.benchmark.scoring import Score
    from fern.benchmark.tables.build import Table
    from fern.cli.demo_page import Findings
    from fern.html.markup import Html
    from fern.models import Forecaster

SCENARIO = "LORENZ_PARAM"
CONTEXT_LENGTH = HORIZON = 336
FILES = ("report.html", "table.md", "load.csv")
COLUMNS = ("mse", "mae", "wd", "ept")

# A small latent generalises better on chaotic systems (docs/results.md); smoothing: docs/method.md.
MODELS: dict[str, dict[str, Any]] = {
    "fern": {"latent": 12, "smoothing": 5},
    "dlinear": {},
    "analog": {},
    "polymap": {},
    "last-value": {},
}
TABLE_DAYS, TABLE_HORIZON = 70, 48


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(demo)


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", "--output", help="Folder for the page and the tables.")] = Path(
        "demo"
    ),
    epochs: Annotated[int, typer.Option(help="Training epochs for Fern and DLinear.", min=1)] = 8,
    seed: Annotated[int, typer.Option(help="Seed for initial weights, batch order and noise.")] = 7,
    steps: Annotated[int | None, typer.Option(help="Number of steps to use instead of the scenario's.")] = None,
) -> None:
    """Forecast a shocked Lorenz system by Fern, baselines and the oracle, then a table; ends in report.html."""
    from fern.benchmark.problem import Problem, load_dataset
    from fern.benchmark.scoring import score_model, score_oracle
    from fern.benchmark.tables.rendering import render
    from fern.benchmark.tasks import DatasetChoice
    from fern.cli.demo_page import findings_of

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
    echo("\nScoring every test window:")
    scores = {"oracle": score_oracle(problem)}
    for name, model in models.items():
        echo(f"  {name}")
        scores[name] = score_model(model, problem, seed=seed)
    table = render(_table(scores), "md")
    _write(out / "table.md", table)
    echo(f"\n{table}")
    echo("Calibrating Fern's distribution on validation windows, and looking ahead of its errors:")
    found = findings_of(models["fern"], problem)
    part = _own_table(out / "load.csv", seed=seed, epochs=epochs)
    _write(out / "report.html", _page(problem, models, scores, found, part))
    echo(_what_to_look_at(scores, out, time.monotonic() - start))


def _own_table(path: Path, *, seed: int, epochs: int) -> "Html":
    """Write the table, forecast it as a user would, and give the part of the page about it."""
    from fern.data.samples import sample_load
    from fern.data.writing import write_table
    from fern.forecaster import FernForecaster
    from fern.forecaster.plot import make_fans
    from fern.forecaster.report import render_coverage
    from fern.html.figures import draw_live
    from fern.html.markup import joined
    from fern.plot.coverage import Covered

    table = sample_load(TABLE_DAYS, seed=seed, temperature=True)
    with write_whole(path) as temporary, temporary.open("wb") as file:
        write_table(table, file, format="csv")
    echo(f"\nThe same with a table: {path}, {TABLE_DAYS} days of load and temperature, {TABLE_HORIZON} hours ahead:")
    forecaster = FernForecaster(TABLE_HORIZON, epochs=epochs, time_limit=60.0, seed=seed, threads=1).fit(table)
    coverage = forecaster.diagnose().coverage
    covered = [
        Covered(row["kind"], row["level"], row["coverage"], row["error_bar"], row["n_eff"])
        for row in (coverage.to_pylist() if coverage is not None else [])
    ]
    both = (TABLE_HORIZON // 2, TABLE_HORIZON)
    parts = [
        draw_live(
            make_fans(forecaster, None, level=(80, 95), h=None, joint=both),
            name="own-fan",
            alt=f"Forecast fans of load and temperature, {TABLE_HORIZON} hours ahead, with intervals and history.",
            caption="Shaded: 80 % and 95 % intervals of each hour, calibrated. Dashed: the band that a whole path "
            f"stays within. Beside it: hours {both[0]} and {both[1]} of joint paths, and the ellipses that hold "
            "80 % and 95 % of them.",
        )
    ]
    if covered:
        parts.append(render_coverage(covered, name="own-coverage"))
    return joined(parts)


def _prepare(out: Path) -> None:
    """Make the folder, and find out before the training whether every file can be written into it."""
    check_folder(out)
    check_outputs([make_folder(out) / name for name in FILES])


def _write(path: Path, text: str) -> None:
    with write_whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _trained(name: str, problem: "Problem", *, epochs: int, seed: int) -> "Forecaster":
    """A model ready to forecast."""
    from fern.models import build_model
    from fern.models.base import FittedForecaster
    from fern.training import TrainConfig, train

    channels = problem.values.shape[1]
    model = build_model(
        name, context_length=problem.context_length, horizon=problem.horizon, channels=channels, **MODELS[name]
    )
    fitted = isinstance(model, FittedForecaster)
    if model.trainable or fitted:
        echo(f"\nFitting {name}:" if fitted else f"\nTraining {name} for {epochs} epochs:")
        config = TrainConfig(preset="default", epochs=epochs, seed=seed, threads=1)
        train(model, problem.train, problem.validation, config)
    return model.eval()


def _table(scores: "dict[str, Score]") -> "Table":
    """The figures of the oracle and of each model over all test windows."""
    from fern.benchmark.tables.build import Column, Line, Table
    from fern.benchmark.tables.cells import Cell

    lines = tuple(
        Line((name,), tuple(Cell(mean=score.metrics[metric], done=1) for metric in COLUMNS))
        for name, score in scores.items()
    )
    return Table(f"{SCENARIO}, {CONTEXT_LENGTH} to {HORIZON} steps", ("model",), tuple(map(Column, COLUMNS)), lines)


def _page(
    problem: "Problem",
    models: "dict[str, Forecaster]",
    scores: "dict[str, Score]",
    found: "Findings",
    own_table: "Html",
) -> str:
    from fern.cli.demo_page import demo_sections, own_data_section
    from fern.html.page import page

    trajectory = problem.dataset.trajectory
    exponent = None if trajectory is None else trajectory.scenario.lyapunov_exponent
    step = None if trajectory is None or exponent is None else trajectory.dt * exponent
    sections = demo_sections(problem, models, scores, found, step=step)
    lead = (
        f"A Lorenz system whose parameters change in the middle of the training set. {HORIZON} steps are forecast from "
        f"the previous {CONTEXT_LENGTH}; errors are over all {scores['fern'].windows:,} test windows."
    )
    return page("Fern's demo", [*sections, own_data_section(own_table, "load.csv")], lead=lead)


def _what_to_look_at(scores: "dict[str, Score]", out: Path, seconds: float) -> str:
    from fern.cli.demo_page import WHAT_TO_LOOK_AT, verdict

    looks = "".join(f"  - {line}\n" for line in WHAT_TO_LOOK_AT)
    return (
        f"\nDone in {seconds:.0f} s. {verdict(scores)}\n"
        f"What to look at:\n{looks}"
        "Files:\n"
        f"  {out / 'report.html'}  everything on one page: open it in a browser\n"
        f"  {out / 'table.md'}     the errors\n"
        f"  {out / 'load.csv'}     the table of the second half"
    )
