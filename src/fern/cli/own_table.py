"""What the commands for people's own tables share: options, reading with the roles said, writing, and messages."""

import io
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from fern.cli.console import echo, echo_table
from fern.errors import FernError, NotWritten
from fern.files import check_outputs, require_ending, write_whole

if TYPE_CHECKING:
    import pyarrow as pa

    from fern.data.reading import Reading
    from fern.data.series_table import SeriesTable
    from fern.forecaster import FernForecaster

STANDARD = "-"
ENDINGS = (".csv", ".parquet")

Data = Annotated[
    str, typer.Argument(metavar="DATA", help="A CSV or Parquet file, or - for standard input. See docs/forecasting.md.")
]
Horizon = Annotated[int | None, typer.Option(help="Number of steps to forecast.")]
IdColumn = Annotated[
    str | None,
    typer.Option("--id", help="Column with the series' names in a long table (default: unique_id, or guessed)."),
]
TimeColumn = Annotated[str | None, typer.Option("--time", help="Time column (default: detected).")]
TargetColumns = Annotated[
    list[str] | None,
    typer.Option(
        "--target",
        help="Column to forecast (default: y of a long table, every column of a wide one)."
        " Repeatable, or comma-separated.",
    ),
]
Level = Annotated[
    list[str] | None,
    typer.Option(metavar="PERCENT…", help="Central intervals, in percent: --level 80 95, or --level 80,95."),
]
Model = Annotated[
    str,
    typer.Option(help="A model's name, or the folder of a saved forecaster, which is not trained again."),
]
ContextLength = Annotated[
    int | None,
    typer.Option("--context-length", "--context", help="Number of rows a forecast sees (default: from the data)."),
]
Season = Annotated[int | None, typer.Option(help="Number of rows in a season (default: from the time steps).")]
Epochs = Annotated[int | None, typer.Option(help="Training epochs (default: from the data).")]
TimeLimit = Annotated[float | None, typer.Option(help="Time limit for training, in seconds.")]
MissingRule = Annotated[
    str | None, typer.Option("--missing", help="Missing values and rows: error, interpolate, ffill or drop.")
]
IgnoreColumns = Annotated[
    bool, typer.Option("--ignore-columns", help="Leave out columns that are neither identifier, time nor target.")
]
Seed = Annotated[int | None, typer.Option(help="Seed for initial weights, batch order and paths.")]
Threads = Annotated[int | None, typer.Option(help="Number of threads for training.")]
Separator = Annotated[str | None, typer.Option("--separator", help="CSV separator (default: detected).")]
Decimal = Annotated[str | None, typer.Option("--decimal", help="CSV decimal mark, '.' or ',' (default: detected).")]
Encoding = Annotated[str | None, typer.Option("--encoding", help="CSV encoding (default: detected).")]


class SeveralValues(TyperCommand):
    """A command whose ``--level 80 95`` takes all the numbers that follow."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Repeat the option before each further number."""
        found: list[str] = []
        current: str | None = None
        for word in args:
            if word.startswith("--"):
                current = word if word in ("--level", "--quantiles") else None
            elif current is not None and found[-1] != current:
                if re.fullmatch(r"[\d.,]+", word):
                    found.append(current)
                else:
                    current = None
            found.append(word)
        return super().parse_args(ctx, found)


@dataclass(frozen=True)
class Given:
    """A table that was read, and how its time is written."""

    name: str
    table: "pa.Table"
    id_col: str
    time_form: str | None = None

    def read(self, forecaster: "FernForecaster") -> "SeriesTable":
        """Its series as the forecaster reads them; what was found is said on standard error."""
        table = forecaster.read(self.table)
        roles = [f"time: {table.time_col}" if table.time_col is not None else "no time column: rows count"]
        if table.id_col is not None:
            roles.append(f"series: {table.id_col} ({len(table.series):,})")
        many = "targets" if len(table.channel_names) > 1 else "target"
        shown = ", ".join(table.channel_names[:8]) + (", …" if table.channel_names[8:] else "")
        roles.append(f"{many}: {shown}")
        say(f"{'; '.join(roles)}; {_rows(table)}, step {table.frequency}")
        return table


def _rows(found: "SeriesTable") -> str:
    lengths = sorted({len(one.values) for one in found.series})
    return f"{lengths[0]:,} rows" if len(lengths) == 1 else f"{lengths[0]:,} to {lengths[-1]:,} rows"


def read_given(data: str, *, reading: "Reading") -> Given:
    """The table of a file or of standard input."""
    from fern.data.columns import ID, find_identifier, find_time
    from fern.data.reading import read_table
    from fern.data.writing import written_form

    name = "standard input" if data == STANDARD else data
    with as_user_sees(name):
        table = _from_standard_input(reading) if data == STANDARD else read_table(_published(data), reading)
        columns = [column for column in table.column_names if column != (reading.id_col or ID)]
        time, _ = find_time(table, columns, name="frame", asked=reading.time_col)
        identifier = reading.id_col or find_identifier(table, time) or ID
        return Given(name, table, identifier, None if time is None else written_form(table[time]))


def _published(data: str) -> str | Path:
    """The file, or the published dataset of that name if there is no such file."""
    from fern.data.datasets import PUBLISHED, find_dataset

    return find_dataset(data) if data in PUBLISHED and not Path(data).exists() else data


def _from_standard_input(reading: "Reading") -> "pa.Table":
    from fern.data.reading import read_table

    stream = getattr(sys.stdin, "buffer", None)
    if stream is None or sys.stdin.isatty():
        raise FernError("standard input is a terminal; pipe a table into the command, or give a file", argument="DATA")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "standard input"
        with path.open("wb") as copy:
            shutil.copyfileobj(stream, copy, 1 << 20)
        try:
            return read_table(path, reading)
        except FernError as error:
            raise FernError(str(error).replace(str(path), "standard input")) from None


def table_ending(out: Path | None) -> str:
    """The format of the table that is written: CSV on standard output, else by the file's name."""
    return ENDINGS[0] if out is None or str(out) == STANDARD else require_ending(out, ENDINGS, what="a table")


def check_files(
    data: str,
    *,
    out: Path | None,
    plot: Path | None = None,
    model: str | None = None,
    save: Path | None = None,
) -> None:
    """Refuse every output that cannot be written, or that is an input, before anything is computed."""
    table_ending(out)
    if plot is not None:
        from fern.plot.canvas import figure_format

        figure_format(plot)
    folder = model if model is not None and Path(model).is_dir() else None
    check_outputs(
        [None if out is None or str(out) == STANDARD else out, plot],
        inputs=[None if data == STANDARD else _published(data)],
        kept=[save, folder],
    )


def write_out(table: "pa.Table", out: Path | None, given: Given, *, time: Sequence[str | None]) -> None:
    """Write whole or not at all; times of a CSV file as they were written there."""
    from fern.data.writing import in_form, in_seconds, write_table

    standard = out is None or str(out) == STANDARD
    parquet = table_ending(out) == ".parquet"
    for column in (name for name in time if name is not None and name in table.column_names):
        table = in_seconds(table, column) if parquet else in_form(table, column, given.time_form)
    if standard:
        held = io.BytesIO()
        write_table(table, held, format="csv")
        echo_table(held.getvalue())
        return
    assert out is not None
    with write_whole(out) as temporary, temporary.open("wb") as file:
        write_table(table, file, format="parquet" if parquet else "csv")
    say(f"wrote {out}: {table.num_rows:,} rows")


def say(message: str) -> None:
    """A line on standard error: standard output is for the table."""
    echo(message, err=True)


def numbers(option: str, given: list[str] | None) -> list[float] | None:
    """The numbers of a repeated or comma-separated option."""
    if not given:
        return None
    words = [word.strip() for entry in given for word in entry.split(",") if word.strip()]
    try:
        return [float(word) for word in words]
    except ValueError:
        raise FernError(argument=option, got=", ".join(words), expected=f"numbers, as {option} 80,95") from None


def names(given: list[str] | None) -> list[str] | None:
    """The names of a repeated or comma-separated option."""
    found = [name.strip() for entry in given or () for name in entry.split(",") if name.strip()]
    return found or None


@contextmanager
def told() -> Iterator[None]:
    """Warnings as lines of their own, each once."""
    from fern.forecaster import FernWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", FernWarning)
        try:
            yield
        finally:
            for message in dict.fromkeys(str(warning.message) for warning in caught):
                say(f"warning: {message}")


_OPTIONS = {
    "h": "--horizon",
    "id_col": "--id",
    "time_col": "--time",
    "target_col": "--target",
    "n_windows": "--windows",
    **{
        name: f"--{name.replace('_', '-')}"
        for name in (
            *("context_length", "decimal", "encoding", "epochs", "horizon", "ignore_columns", "level", "missing"),
            *("model", "quantiles", "season", "seed", "separator", "step_size", "threads", "time_limit"),
        )
    },
}
"""Options of arguments."""


@contextmanager
def as_user_sees(name: str) -> Iterator[None]:
    """Errors of the command line: options for arguments, and the file's name for the frame."""
    try:
        yield
    except NotWritten:
        raise  # names the file itself, and is no mistake of the user
    except FernError as error:
        raise replace_names(error, {"frame": name, **_OPTIONS}) from None


def replace_names(error: FernError, names: Mapping[str, str]) -> FernError:
    """The same error with other names for its arguments and for the place."""
    changed = copy(error)
    changed.argument = ", ".join(names.get(argument, argument) for argument in error.argument.split(", "))
    place, comma, rest = error.where.partition(",")
    changed.where = names.get(place, place) + comma + rest
    return changed


def settings_given(values: dict[str, Any]) -> dict[str, Any]:
    """The options that were given, as arguments of the forecaster."""
    return {name: value for name, value in values.items() if value is not None and value is not False}
