"""``fern forecast``: a table in, its forecast out."""

import time as clock
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fern.cli.own_table import (
    ContextLength,
    Data,
    Decimal,
    Encoding,
    Epochs,
    Given,
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
from fern.errors import FernError, unknown_name
from fern.files import check_folder

if TYPE_CHECKING:
    from fern.data.series_table import SeriesTable
    from fern.forecaster import FernForecaster

DEFAULT_MODEL = "fern"
FOR_TRAINING = ("context_length", "season", "epochs", "time_limit", "threads")
"""Arguments that a saved forecaster has already."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(cls=SeveralValues)(forecast)


def forecast(
    data: Data,
    horizon: Horizon = None,
    id_: IdColumn = None,
    time: TimeColumn = None,
    target: TargetColumns = None,
    level: Level = None,
    quantiles: Annotated[
        list[str] | None,
        typer.Option(metavar="SHARE…", help="Quantiles instead of intervals: --quantiles 0.1 0.9, or 0.1,0.9."),
    ] = None,
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
            help="Write the forecast to this file: .csv (commas, decimal points) or .parquet. "
            "Default, or -: CSV on standard output.",
        ),
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Save a plot to this file: .png, .svg or .pdf.")] = None,
    save: Annotated[Path | None, typer.Option(help="Save the fitted forecaster to this folder.")] = None,
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
) -> None:
    """Forecast a table: fit to its rows, write the steps that follow, with calibrated intervals.

    The columns' roles are detected and printed. Ctrl-C ends the training early; the forecast is still written.
    The exit code is 0 if the forecast was written, 1 if training failed or was interrupted before there was a
    model, and 2 for a usage error or data that cannot be read.
    """
    levels, shares = numbers("--level", level), numbers("--quantiles", quantiles)
    _check_paths(data, out=out, plot=plot, save=save, model=model)
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
    from fern.forecaster.predict import OutputColumns

    with as_user_sees(data):
        OutputColumns.of(level=levels, quantiles=shares)  # a mistake here must not cost a training
    forecaster, saved = forecaster_for(model, horizon, settings)
    given = read_given(data, reading=Reading(time, id_, (), encoding, separator, decimal))
    with as_user_sees(given.name), told(), ended_by_interrupt():
        forecaster.set_params(id_col=given.id_col)
        if saved:
            table = given.read(forecaster)
            made = forecaster.predict(given.table, h=horizon, level=levels, quantiles=shares)
        else:
            table = fit(forecaster, given)
            made = forecaster.predict(level=levels, quantiles=shares)
        write_out(made, out, given, time=[table.time_col])
        if plot is not None:
            _plot(forecaster, given if saved else None, plot, h=horizon, levels=levels)
        if save is not None:
            forecaster.save(save)
            say(f"saved the forecaster: {save}")


def forecaster_for(model: str, horizon: int | None, settings: dict[str, Any]) -> "tuple[FernForecaster, bool]":
    """A forecaster by the options, and whether it is a saved one, which needs no training."""
    from fern.forecaster import FernForecaster
    from fern.models import model_names

    if model in model_names():
        if horizon is None:
            raise FernError(argument="--horizon", expected="the number of steps to forecast")
        return FernForecaster(horizon, model=model, **settings), False
    if not Path(model).exists():
        with as_user_sees(model):
            raise FernError(f"{unknown_name('model', model, model_names())}; nor is there a folder of that name")
    forecaster = FernForecaster.load(model)
    useless = [name for name in FOR_TRAINING if name in settings]
    if useless:
        options = ", ".join("--" + name.replace("_", "-") for name in useless)
        raise FernError(f"{model} is a saved forecaster, which is not trained again", argument=options)
    return forecaster.set_params(**settings), True


def fit(forecaster: "FernForecaster", given: Given) -> "SeriesTable":
    """Fit to the table; what was decided is said on standard error."""
    table = given.read(forecaster)
    began = clock.monotonic()
    forecaster.fit(table)
    seconds = clock.monotonic() - began
    say(f"fitted in {seconds:.0f} s; each forecast sees {forecaster.context_length_:,} rows")
    for note in forecaster.notes_:
        if "too few rows to learn from" not in note:  # that one is a warning
            say(f"note: {note}")
    return table


@contextmanager
def ended_by_interrupt() -> Iterator[None]:
    """Ctrl-C outside the training, and a training that fails, end with exit code 1 and nothing written."""
    from fern.training import Diverged

    try:
        yield
    except KeyboardInterrupt:
        say("interrupted before there was a forecast; nothing was written")
        raise typer.Exit(1) from None
    except Diverged as error:
        say(f"error: training failed: {error}")
        raise typer.Exit(1) from None


def _check_paths(data: str, *, out: Path | None, plot: Path | None, save: Path | None, model: str) -> None:
    """Every path is checked before any work, so that a mistake in one costs no training."""
    check_files(data, out=out, plot=plot, model=model, save=save)
    if save is not None:
        check_folder(save)
        if not save.parent.is_dir():
            raise FernError(f"the folder {save.parent} does not exist", argument=save)
        if save.is_dir() and Path(model).is_dir() and save.samefile(model):
            raise FernError("is also the forecaster that is read; give another folder", argument=save)
        if save.is_dir() and any(save.iterdir()) and not (save / "forecaster.json").exists():
            raise FernError("holds other files; give a new or an empty folder", argument=save)


def _plot(
    forecaster: "FernForecaster", given: Given | None, path: Path, *, h: int | None, levels: list[float] | None
) -> None:
    from fern.plot.canvas import save_figure

    chosen: dict[str, Any] = {} if levels is None else {"level": levels}
    save_figure(forecaster.plot(None if given is None else given.table, h=h, **chosen), path)
    say(f"wrote {path}")
