"""``fern demo``: a table forecast beside simple methods, then a shocked system whose best forecast is known."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fern.cli.console import echo
from fern.cli.options import out_option
from fern.files import check_folder, check_outputs, make_folder, write_whole

if TYPE_CHECKING:
    from fern.benchmark.problem import Problem
    from fern.benchmark.scoring import Score
    from fern.benchmark.tables.build import Table
    from fern.cli.demo_page import Findings
    from fern.forecaster.scores import Backtest
    from fern.html.markup import Html
    from fern.html.page import Section
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
TABLE_DAYS, TABLE_HORIZON, TABLE_WINDOWS = 70, 48, 5
LEVELS = (80.0, 95.0)


def demo(
    out: Annotated[Path, out_option("Folder for the page and the tables.")] = Path("demo"),
    epochs: Annotated[int, typer.Option(help="Training epochs for Fern and DLinear.", min=1)] = 8,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 7,
    steps: Annotated[int, typer.Option(help="Number of steps of the shocked system.")] = 12_000,
) -> None:
    """Forecast a table, then a shocked Lorenz system, beside simple methods and the oracle; ends in report.html."""
    from fern.benchmark.problem import Problem, load_dataset
    from fern.benchmark.scoring import score_model, score_oracle
    from fern.benchmark.tables.rendering import render
    from fern.benchmark.tasks import DatasetChoice
    from fern.cli.demo_page import findings_of, own_data_section

    start = time.monotonic()
    check_folder(out)
    check_outputs([make_folder(out) / name for name in FILES])  # before the training
    dataset = load_dataset(DatasetChoice(dataset=SCENARIO, steps=steps))
    problem = Problem(dataset, "shock", "none", CONTEXT_LENGTH, HORIZON)
    _ = problem.train, problem.validation, problem.test  # an error where one has no window
    result, drawings = _forecast_table(out / "load.csv", seed=seed)
    echo(f"\n{result.verdict}\n")
    trajectory = dataset.trajectory
    shock = trajectory.shock_index if trajectory is not None else None
    echo(
        f"{SCENARIO}: {len(dataset.values):,} steps of Lorenz-63. Its parameters change at row {shock:,}, in\n"
        f"the middle of the training set. Task: forecast {HORIZON} steps from the previous {CONTEXT_LENGTH}; the last\n"
        "10 % is the test set."
    )
    models = {name: _train_model(name, problem, epochs=epochs, seed=seed) for name in MODELS}
    echo("\nScoring every test window:")
    scores = {"oracle": score_oracle(problem)}
    for name, model in models.items():
        echo(f"  {name}")
        scores[name] = score_model(model, problem, seed=seed)
    table = render(_table(scores), "md")
    _write(out / "table.md", table)
    echo(f"\n{table}")
    echo("Calibrating Fern's distribution on validation windows, and looking ahead of its errors:")
    findings = findings_of(models["fern"], problem)
    own_data = own_data_section(result, drawings, "load.csv")
    _write(out / "report.html", _page(problem, models, scores, findings, own_data))
    echo(_summarise(result, scores, out, time.monotonic() - start))


def _forecast_table(path: Path, *, seed: int) -> "tuple[Backtest, Html]":
    """Write the table, score forecasts of its last days, then forecast the days that follow; one fit for both."""
    from fern.data.samples import sample_load
    from fern.data.writing import write_table
    from fern.forecaster import FernForecaster
    from fern.forecaster.plot import make_fans
    from fern.forecaster.scores import list_quantiles, score_backtest
    from fern.html.figures import draw_live

    table = sample_load(TABLE_DAYS, seed=seed)
    with write_whole(path) as temporary, temporary.open("wb") as file:
        write_table(table, file, format="csv")
    echo(f"{path}: {TABLE_DAYS} days of hourly load. Forecast {TABLE_HORIZON} hours ahead, {TABLE_WINDOWS} times:")
    later = TABLE_WINDOWS * TABLE_HORIZON
    forecaster = FernForecaster(TABLE_HORIZON, time_limit=30.0, seed=seed, threads=1)
    forecaster.fit(table.slice(0, table.num_rows - later))
    rows = forecaster.cross_validation(
        table, n_windows=TABLE_WINDOWS, quantiles=list(list_quantiles(LEVELS)), use_fitted=True
    )
    sizes = {"horizon": TABLE_HORIZON, "step": TABLE_HORIZON, "season": 24}
    result = score_backtest(rows, forecaster.read(table), levels=LEVELS, name="Fern", **sizes)
    forecaster.update(table.slice(table.num_rows - later))
    drawing = draw_live(
        make_fans(forecaster, None, level=LEVELS, h=None),
        name="own-fan",
        alt=f"Forecast fan of the load, {TABLE_HORIZON} hours ahead, with intervals and history.",
        caption="Shaded: calibrated 80 % and 95 % intervals of each hour. Dashed: the band of a whole path.",
    )
    return result, drawing


def _write(path: Path, text: str) -> None:
    with write_whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _train_model(name: str, problem: "Problem", *, epochs: int, seed: int) -> "Forecaster":
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
    findings: "Findings",
    own_data: "Section",
) -> str:
    from fern.cli.demo_page import demo_sections
    from fern.html.page import page

    trajectory = problem.dataset.trajectory
    exponent = None if trajectory is None else trajectory.scenario.lyapunov_exponent
    step = None if trajectory is None or exponent is None else trajectory.dt * exponent
    sections = demo_sections(problem, models, scores, findings, step=step)
    lead = (
        "First a table, beside seasonal naive and classical forecasts. Then a Lorenz system whose parameters change in "
        f"the middle of the training set: {HORIZON} steps are forecast from the previous {CONTEXT_LENGTH}, over "
        f"{scores['fern'].windows:,} test windows."
    )
    return page("Fern's demo", [own_data, *sections], lead=lead)


def _summarise(result: "Backtest", scores: "dict[str, Score]", out: Path, seconds: float) -> str:
    from fern.cli.demo_page import WHAT_TO_LOOK_AT, judge_system

    looks = "".join(f"  - {line}\n" for line in WHAT_TO_LOOK_AT)
    return (
        f"\nDone in {seconds:.0f} s.\nThe table: {result.verdict}\nThe system: {judge_system(scores)}\n"
        f"What to look at:\n{looks}Files:\n"
        f"  {out / 'report.html'}  everything on one page: open it in a browser\n"
        f"  {out / 'table.md'}     the errors on the system\n  {out / 'load.csv'}     the table"
    )
