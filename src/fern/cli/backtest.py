"""``fern backtest`` and ``fern diagnose``: how good forecasts of past rows were, and how far to trust the next."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fern.cli.console import console, echo, echo_json
from fern.cli.forecast import check_columns, make_forecaster, read_table
from fern.cli.options import Data, FitOptions, Horizon, Level, SeriesOptions, expand_options, out_option, split_numbers
from fern.cli.tables import check_files, say, write_out
from fern.errors import FernError

if TYPE_CHECKING:
    from rich.table import Table

    from fern.forecaster.scores import Backtest, Score

LEVELS = (80.0, 95.0)
MOST_LINES = 30


@expand_options
def backtest(
    data: Data,
    table_options: SeriesOptions,
    fit_options: FitOptions,
    horizon: Horizon = None,
    windows: Annotated[int, typer.Option(help="Number of forecasts of past rows, for each series.")] = 5,
    step_size: Annotated[
        int | None, typer.Option(help="Number of rows from one forecast to the next (default: the horizon).")
    ] = None,
    refit: Annotated[bool, typer.Option("--refit", help="Fit anew before each forecast.")] = False,
    level: Level = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the scores and the verdict as JSON.")] = False,
    out: Annotated[
        Path | None,
        out_option("Write every forecast beside the truth to this file: .csv or .parquet; - for standard output."),
    ] = None,
) -> None:
    """Forecast past rows of a table as if they were unknown, and score the forecasts beside simple ones.

    A forecaster is fitted to the rows before the first window; with --model FOLDER a saved one is used as it is, and
    the windows must lie after the rows that it was fitted to. Seasonal naive and the classical ensemble forecast the
    same windows. The exit code is 0 if the scores were printed, 1 if training failed or was interrupted before there
    was a model, and 2 for a usage error or data that cannot be read.
    """
    levels = split_numbers("--level", level) or list(LEVELS)
    check_files(data, out=out, kept=[fit_options.folder])
    if as_json and str(out) == "-":
        raise FernError("got both, give one of them", argument="--json, --out -")
    from fern.forecaster.plan import guess_season
    from fern.forecaster.scores import keep_levels, list_quantiles, score_backtest

    check_columns(data, levels)
    forecaster, saved = make_forecaster(fit_options, horizon, table_options)
    if saved and refit:
        raise FernError(f"{fit_options.model} is a saved forecaster, which is not trained again", argument="--refit")
    if saved and horizon not in (None, forecaster.horizon):
        problem = f"got {horizon}, {fit_options.model} was saved with {forecaster.horizon}"
        raise FernError(problem, argument="--horizon")
    with read_table(data, table_options, forecaster) as (_, table):
        rows = forecaster.cross_validation(
            table,
            n_windows=windows,
            step_size=step_size,
            quantiles=list(list_quantiles(levels)),
            refit=refit,
            use_fitted=saved,
        )
        season = forecaster.season if isinstance(forecaster.season, int) else guess_season(table.frequency)
        result = score_backtest(
            rows,
            table,
            levels=levels,
            horizon=forecaster.horizon,
            step=step_size or forecaster.horizon,
            season=season,
            name=forecaster.model if isinstance(forecaster.model, str) else "the forecaster",
        )
        if as_json:
            echo_json(result.to_dict(), indent=2)
        elif str(out) != "-":
            _print(result)
        if out is not None:
            chosen = keep_levels(rows, table, levels=levels)
            write_out(chosen, out, time=[table.time_col or "row", "cutoff"], time_form=table.time_format)
            if str(out) != "-":
                say(f"wrote {out}: {chosen.num_rows:,} rows")


@expand_options
def diagnose(
    data: Data,
    table_options: SeriesOptions,
    model: Annotated[str, typer.Option(help="The folder of a saved forecaster, which is not trained again.")],
) -> None:
    """Show how a saved forecaster does on the rows of a table: coverage of its regions, warnings and their rates.

    The exit code is 0 if the tables were printed, and 2 for a usage error or data that cannot be read.
    """
    from rich.table import Table

    if not Path(model).exists():
        expected = "the folder of a saved forecaster (fern forecast … --save FOLDER)"
        raise FernError(argument="--model", got=model, expected=expected)
    forecaster, saved = make_forecaster(FitOptions(model=model), None, table_options)
    if not saved:
        raise FernError(argument="--model", got=model, expected="the folder of a saved forecaster")
    with read_table(data, table_options, forecaster) as (_, table):
        diagnosis = forecaster.diagnose(table)
    frames = {
        "Measured coverage on these rows": diagnosis.coverage,
        "Warning rules and their rates": diagnosis.rates,
        "Stretches that a rule flags": diagnosis.warnings,
    }
    filled = {title: frame for title, frame in frames.items() if frame is not None and frame.num_rows}
    for title, frame in filled.items():
        lines = Table(title=title, title_justify="left", box=None, header_style="bold")
        for name in frame.column_names:
            lines.add_column(name.replace("_", " "))
        for row in frame.slice(0, MOST_LINES).to_pylist():
            lines.add_row(*(f"{value:.3g}" if isinstance(value, float) else str(value) for value in row.values()))
        console().print(lines)
    if not filled:
        say("too few rows, or no distribution: there is nothing to show")


def _print(result: "Backtest") -> None:
    """The methods side by side, the verdict, then each series or column."""
    console().print(_draw_scores("method", result.methods, result.levels))
    echo(f"\n{result.verdict}")
    if result.parts:
        echo("")
        console().print(_draw_scores(result.methods[0].name, result.parts[:MOST_LINES], result.levels))
    if result.parts[MOST_LINES:]:
        echo(f"… and {len(result.parts) - MOST_LINES:,} more; -o writes every forecast")
    echo("\nMASE: MAE over that of seasonal naive in the rows before. CRPS from 19 quantiles. Last columns: coverage.")


def _draw_scores(title: str, scores: "tuple[Score, ...]", levels: tuple[float, ...]) -> "Table":
    from rich.table import Table

    table = Table(box=None, header_style="bold")
    table.add_column(title)
    for head in ("steps", "MSE", "MAE", "MASE", "CRPS", *(f"in {level:g} %" for level in levels)):
        table.add_column(head, justify="right")
    for score in scores:
        values = (score.mse, score.mae, score.mase, score.crps)
        figures = ("-" if value is None else f"{value:.4g}" for value in values)
        table.add_row(score.name, f"{score.steps:,}", *figures, *(f"{100 * share:.1f} %" for share in score.coverage))
    return table
