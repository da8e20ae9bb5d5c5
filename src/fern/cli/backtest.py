"""``fern backtest`` and ``fern diagnose``: how good forecasts of past rows were, and what a distribution says of
itself.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fern.cli.console import echo
from fern.cli.forecast import DEFAULT_MODEL, ended_by_interrupt, forecaster_for
from fern.cli.own_table import (
    ContextLength,
    Data,
    Decimal,
    Encoding,
    Epochs,
    Horizon,
    IdColumn,
    IgnoreColumns,
    Level,
    MissingRule,
    Model,
    Season,
    Seed,
    Separator,
    SeveralValues,
    TargetColumns,
    Threads,
    TimeColumn,
    TimeLimit,
    as_user_sees,
    check_files,
    names,
    numbers,
    read_given,
    say,
    settings_given,
    told,
    write_out,
)
from fern.errors import FernError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table as RichTable

    from fern.data.series_table import SeriesTable
    from fern.forecaster.backtest import Score

LEVELS = (80.0, 95.0)
MOST_LINES = 30


def register(app: typer.Typer) -> None:
    """Add this group's commands."""
    app.command(cls=SeveralValues)(backtest)
    app.command()(diagnose)


def backtest(
    data: Data,
    horizon: Horizon = None,
    windows: Annotated[int, typer.Option(help="Number of forecasts of past rows, for each series.")] = 5,
    step_size: Annotated[
        int | None, typer.Option(help="Number of rows from one forecast to the next (default: the horizon).")
    ] = None,
    refit: Annotated[bool, typer.Option("--refit", help="Fit anew before each forecast.")] = False,
    id_: IdColumn = None,
    time: TimeColumn = None,
    target: TargetColumns = None,
    level: Level = None,
    model: Model = DEFAULT_MODEL,
    context_length: ContextLength = None,
    season: Season = None,
    epochs: Epochs = None,
    time_limit: TimeLimit = None,
    missing: MissingRule = None,
    ignore_columns: IgnoreColumns = False,
    seed: Seed = None,
    threads: Threads = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            "--output",
            help="Write every forecast beside what came to this file: .csv or .parquet; - for standard output.",
        ),
    ] = None,
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
) -> None:
    """Forecast past rows of a table as if they had not come yet, and score the forecasts by what came.

    A forecaster is fitted to the rows before the first forecast; with --model FOLDER a saved one is taken as it is,
    and the rows must be newer than those it has learnt from. The exit code is 0 if the scores were printed, 1 if
    training failed or was interrupted before there was a model, and 2 for a usage error or data that cannot be read.
    """
    levels = numbers("--level", level) or list(LEVELS)
    check_files(data, out=out, model=model)
    settings = settings_given(
        {
            "context_length": context_length,
            "season": season,
            "epochs": epochs,
            "time_limit": time_limit,
            "missing": missing,
            "ignore_columns": ignore_columns,
            "time_col": time,
            "target_col": names(target),
            "seed": seed,
            "threads": threads,
        }
    )
    from fern.data.reading import Reading
    from fern.forecaster.backtest import keep_levels, list_quantiles, score_forecasts
    from fern.forecaster.predict import OutputColumns

    with as_user_sees(data):
        OutputColumns.of(level=levels, quantiles=None)
    forecaster, saved = forecaster_for(model, horizon, settings)
    if saved and refit:
        raise FernError(f"{model} is a saved forecaster, which is not trained again", argument="--refit")
    if saved and horizon not in (None, forecaster.horizon):
        raise FernError(f"got {horizon}, {model} was saved with {forecaster.horizon}", argument="--horizon")
    given = read_given(data, reading=Reading(time, id_, (), encoding, separator, decimal))
    with as_user_sees(given.name), told(), ended_by_interrupt():
        table = given.read(forecaster.set_params(id_col=given.id_col))
        rows = forecaster.cross_validation(
            given.table,
            n_windows=windows,
            step_size=step_size,
            quantiles=list(list_quantiles(levels)),
            refit=refit,
            use_fitted=saved,
        )
        columns = _columns(table, rows.column_names)
        scores = score_forecasts(rows, columns=columns, levels=levels, by=table.id_col)
        if out is None or str(out) != "-":
            _print(scores, levels, windows=windows)
        if out is not None:
            kept = keep_levels(rows, columns=columns, levels=levels)
            write_out(kept, out, given, time=[table.time_col or "row", "cutoff"])


def diagnose(
    data: Data,
    model: Annotated[str, typer.Option(help="The folder of a saved forecaster, which is not trained again.")],
    id_: IdColumn = None,
    time: TimeColumn = None,
    target: TargetColumns = None,
    missing: MissingRule = None,
    ignore_columns: IgnoreColumns = False,
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
) -> None:
    """Show how a saved forecaster does on the rows of a table: coverage of its regions, warnings and their rates.

    The exit code is 0 if the tables were printed, and 2 for a usage error or data that cannot be read.
    """
    from fern.cli.console import console
    from fern.data.reading import Reading

    settings = settings_given(
        {"missing": missing, "ignore_columns": ignore_columns, "time_col": time, "target_col": names(target)}
    )
    forecaster, saved = forecaster_for(model, None, settings) if Path(model).exists() else (None, False)
    if forecaster is None or not saved:
        raise FernError(
            argument="--model", got=model, expected="the folder of a saved forecaster (fern forecast … --save FOLDER)"
        )
    given = read_given(data, reading=Reading(time, id_, (), encoding, separator, decimal))
    with as_user_sees(given.name), told(), ended_by_interrupt():
        given.read(forecaster.set_params(id_col=given.id_col))
        found = forecaster.diagnose(given.table)
    shown = False
    for title, frame in (
        ("Coverage of the regions on these rows", found.coverage),
        ("Warning rules and their rates", found.rates),
        ("Stretches that a rule flags", found.warnings),
    ):
        if frame is not None and frame.num_rows:
            console().print(_as_text(title, frame))
            shown = True
    if not shown:
        say("too few rows, or no distribution: there is nothing to show")


def _columns(table: "SeriesTable", found: "Sequence[str]") -> list[tuple[str, str]]:
    """The column of the forecast and that of what came, for each channel of a cross-validation."""
    if not table.long:
        return [(name, f"{name}-y") for name in table.channel_names]
    label = found[found.index("cutoff") + 1]
    return [(label, table.channel_names[0])]


def _print(scores: "Sequence[Score]", levels: "Sequence[float]", *, windows: int) -> None:
    from rich.table import Table as RichTable

    from fern.cli.console import console

    table = RichTable(box=None, header_style="bold")
    table.add_column("")
    for title in ("steps", "MSE", "MAE", "CRPS", *(f"in {level:g} %" for level in levels)):
        table.add_column(title, justify="right")
    for score in scores[:MOST_LINES]:
        figures = (f"{value:.4g}" for value in (score.mse, score.mae, score.crps))
        table.add_row(score.name, f"{score.steps:,}", *figures, *(f"{100 * share:.1f} %" for share in score.coverage))
    console().print(table)
    if scores[MOST_LINES:]:
        echo(f"… and {len(scores) - MOST_LINES:,} more; -o writes every forecast")
    echo(
        f"\n{windows} forecasts of each series. CRPS from 19 quantiles. Last columns: the share of steps inside the "
        "interval."
    )


def _as_text(title: str, frame: Any) -> "RichTable":
    from rich.table import Table as RichTable

    table = RichTable(title=title, title_justify="left", box=None, header_style="bold")
    for name in frame.column_names:
        table.add_column(name.replace("_", " "))
    for row in frame.slice(0, MOST_LINES).to_pylist():
        table.add_row(*(f"{value:.3g}" if isinstance(value, float) else str(value) for value in row.values()))
    return table
