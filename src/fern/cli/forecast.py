"""``fern forecast``: a table in, its forecast out."""

import time as clock
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fern.cli.options import (
    Data,
    FitOptions,
    Future,
    Horizon,
    Level,
    Plot,
    SeriesOptions,
    expand_options,
    out_option,
    split_numbers,
)
from fern.cli.tables import TableFile, check_files, name_options, say, show_warnings, write_out
from fern.errors import FernError, unknown_name
from fern.files import check_folder

if TYPE_CHECKING:
    from fern.data.series_table import SeriesTable
    from fern.forecaster import FernForecaster

FOR_TRAINING = ("pretrained", "context_length", "season", "epochs", "time_limit", "threads")
"""Arguments that a saved forecaster has already."""


@expand_options
def forecast(
    data: Data,
    table_options: SeriesOptions,
    fit_options: FitOptions,
    horizon: Horizon = None,
    level: Level = None,
    quantiles: Annotated[
        list[str] | None,
        typer.Option(metavar="PROBABILITY…", help="Quantiles instead of intervals: --quantiles 0.1 0.9, or 0.1,0.9."),
    ] = None,
    out: Annotated[
        Path | None,
        out_option(
            "Write the forecast to this file: .csv (commas, decimal points) or .parquet. "
            "Default, or -: CSV on standard output."
        ),
    ] = None,
    plot: Plot = None,
    save: Annotated[Path | None, typer.Option(help="Save the fitted forecaster to this folder.")] = None,
    future: Future = None,
) -> None:
    """Forecast a table: fit to its rows, write the steps that follow, with calibrated intervals.

    The columns' roles are detected and printed. Ctrl-C ends the training early; the forecast is still written.
    The exit code is 0 if the forecast was written, 1 if training failed or was interrupted before there was a
    model, and 2 for a usage error or data that cannot be read.
    """
    levels, probabilities = split_numbers("--level", level), split_numbers("--quantiles", quantiles)
    _check_paths(data, out=out, plot=plot, save=save, folder=fit_options.folder, future=future)
    check_columns(data, levels, probabilities)
    forecaster, saved = make_forecaster(fit_options, horizon, table_options)
    require_future(future, forecaster, saved=saved)
    with read_table(data, table_options, forecaster) as (_, table):
        if saved:
            forecast_rows = forecaster.predict(table, futr_df=future, h=horizon, level=levels, quantiles=probabilities)
        else:
            fit(forecaster, table)
            forecast_rows = forecaster.predict(futr_df=future, level=levels, quantiles=probabilities)
        write_out(forecast_rows, out, time=[table.time_col], time_form=table.time_format)
        if out is not None and str(out) != "-":
            say(f"wrote {out}: {forecast_rows.num_rows:,} rows")
        if plot is not None:
            from fern.plot.canvas import save_figure

            chosen: dict[str, Any] = {} if levels is None else {"level": levels}
            save_figure(forecaster.plot(table if saved else None, futr_df=future, h=horizon, **chosen), plot)
            say(f"wrote {plot}")
        if save is not None:
            forecaster.save(save)
            say(f"saved the forecaster: {save}")


def make_forecaster(options: FitOptions, horizon: int | None, table: SeriesOptions) -> "tuple[FernForecaster, bool]":
    """A forecaster by the options, and whether it is a saved one, which needs no training."""
    from fern.forecaster import FernForecaster
    from fern.models import model_names

    model, settings = options.model, {**options.settings(), **table.settings()}
    if model in model_names():
        if horizon is None:
            raise FernError(argument="--horizon", expected="the number of steps to forecast")
        return FernForecaster(horizon, model=model, **settings), False
    if not Path(model).exists():
        unknown = unknown_name("model", model, model_names())
        raise FernError(f"{unknown}; nor is there a folder of that name", argument="--model")
    forecaster = FernForecaster.load(model)
    useless = [name for name in FOR_TRAINING if name in settings]
    if useless:
        names = ", ".join("--" + name.replace("_", "-") for name in useless)
        raise FernError(f"{model} is a saved forecaster, which is not trained again", argument=names)
    return forecaster.set_params(**settings), True


def check_columns(data: str, levels: list[float] | None, quantiles: list[float] | None = None) -> None:
    """Refuse wrong levels and quantiles: a mistake there must not cost a training."""
    from fern.forecaster.predict import OutputColumns

    with name_options(data):
        OutputColumns.of(level=levels, quantiles=quantiles)


@contextmanager
def read_table(
    data: str, options: SeriesOptions, forecaster: "FernForecaster"
) -> "Iterator[tuple[TableFile, SeriesTable]]":
    """The file and its series as the forecaster reads them; errors and warnings within the block are the command's.

    Ctrl-C outside the training, and a training that fails, end with exit code 1 and nothing written.
    """
    from fern.training import Diverged

    file = TableFile(data, options)
    try:
        with name_options(file.name), show_warnings():
            yield file, file.read_series(forecaster)
    except KeyboardInterrupt:
        say("interrupted before there was a forecast; nothing was written")
        raise typer.Exit(1) from None
    except Diverged as error:
        say(f"error: training failed: {error}")
        raise typer.Exit(1) from None


def fit(forecaster: "FernForecaster", table: "SeriesTable") -> None:
    """Fit to the table; what was decided is said on standard error."""
    start_time = clock.monotonic()
    forecaster.fit(table)
    seconds = clock.monotonic() - start_time
    say(f"fitted in {seconds:.0f} s; each forecast sees {forecaster.context_length_:,} rows")
    notes_shown = 1 + len(table.notes)  # the columns' roles, and warnings
    for note in forecaster.notes_[notes_shown:]:
        if "too few rows to learn from" not in note:  # that one is a warning
            say(f"note: {note}")


def require_file(future: Path | None) -> None:
    """Refuse a file that is not there."""
    if future is not None and not future.is_file():
        raise FernError("no such file", argument="--future", where=future)


def require_future(future: Path | None, forecaster: "FernForecaster", *, saved: bool) -> None:
    """Refuse known columns without their values ahead, and values without columns: that must not cost a training."""
    if saved:  # what it was fitted to says whether it needs them
        return
    known = ", ".join(forecaster.futr_exog_list or ())
    if known and future is None:
        raise FernError(f"{known} have no values for the steps ahead", argument="--future", expected="a file with them")
    if future is not None and not known:
        raise FernError(f"{future} has values ahead", argument="--known", expected="the names of its columns")


def _check_paths(
    data: str, *, out: Path | None, plot: Path | None, save: Path | None, folder: Path | None, future: Path | None
) -> None:
    """Every path is checked before any work, so that a mistake in one costs no training."""
    check_files(data, out=out, plot=plot, kept=[save, folder], other_inputs=[future])
    require_file(future)
    if save is not None:
        check_folder(save)
        if not save.parent.is_dir():
            raise FernError(f"the folder {save.parent} does not exist", argument=save)
        if save.is_dir() and folder is not None and save.samefile(folder):
            raise FernError("is also the forecaster that is read; give another folder", argument=save)
        if save.is_dir() and any(save.iterdir()) and not (save / "forecaster.json").exists():
            raise FernError("holds other files; give a new or an empty folder", argument=save)
