"""What the commands for people's own tables share: reading with the roles said, writing, errors and warnings."""

import io
import shutil
import sys
import tempfile
import warnings
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING

from fern.cli.console import echo, echo_table
from fern.cli.options import STANDARD, TableOptions
from fern.errors import FernError, NotWritten
from fern.files import check_outputs, require_ending, write_whole

if TYPE_CHECKING:
    import pyarrow as pa

    from fern.data.series_table import SeriesTable
    from fern.forecaster import FernForecaster

ENDINGS = (".csv", ".parquet")

OPTIONS = {
    "h": "--horizon",
    "id_col": "--id",
    "time_col": "--time",
    "target_col": "--target",
    "n_windows": "--windows",
    "futr_exog_list": "--known",
    "hist_exog_list": "--past",
    "stat_exog_list": "--static",
    "futr_df": "--future",
    "holidays": "--holidays",
    **{
        name: f"--{name.replace('_', '-')}"
        for name in (
            *("context_length", "decimal", "encoding", "epochs", "horizon", "ignore_columns", "level", "missing"),
            *("model", "quantiles", "season", "seed", "separator", "step_size", "threads", "time_limit"),
        )
    },
}
"""The option of each argument that an error may name."""


class TableFile:
    """The file of a table, or a copy of standard input that lasts as long as this object.

    ``name`` is what messages call it.
    """

    def __init__(self, data: str, options: TableOptions) -> None:
        self.name, self.options = data, options
        if data != STANDARD:
            self.path = Path(locate(data))
            return
        self.name = "standard input"
        stream = getattr(sys.stdin, "buffer", None)
        if stream is None or sys.stdin.isatty():
            raise FernError("is a terminal; pipe a table into the command, or give a file", where=self.name)
        folder = tempfile.mkdtemp(prefix="fern-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self.path = Path(folder) / "table"
        with self.path.open("wb") as file:
            shutil.copyfileobj(stream, file, 1 << 20)

    def read_series(self, forecaster: "FernForecaster") -> "SeriesTable":
        """Its series as the forecaster reads them; the columns' roles are printed on standard error."""
        options = self.options
        table = forecaster.read(
            self.path, id_col=options.identifiers, name=self.name, kind="pyarrow", **options.text_format
        )
        say(f"{table.describe_roles()} (--time, --id, --target change this)")
        return table


def locate(data: str) -> str | Path:
    """The file, or that of the published dataset of that name if there is no such file."""
    from fern.data.datasets import PUBLISHED, find_dataset

    return find_dataset(data) if data in PUBLISHED and not Path(data).exists() else data


def check_files(
    data: str,
    *,
    out: Path | None,
    plot: Path | None = None,
    log: Path | None = None,
    kept: Sequence[Path | None] = (),
    other_inputs: Sequence[Path | None] = (),
) -> None:
    """Refuse every output that cannot be written, or that is an input, before anything is computed.

    ``kept`` are folders that nothing may be written into, ``other_inputs`` further inputs.
    """
    if plot is not None:
        from fern.plot.canvas import figure_format

        figure_format(plot)
    standard = out is None or str(out) == STANDARD
    if not standard:
        assert out is not None
        require_ending(out, ENDINGS, what="a table")
    inputs = [None if data == STANDARD else locate(data), *other_inputs]
    check_outputs([None if standard else out, plot, log], inputs=inputs, kept=kept)


def write_out(table: "pa.Table", out: Path | None, *, time: Sequence[str | None], time_form: str | None = None) -> None:
    """Write whole or not at all; times of a CSV file in ``time_form``, else as whole seconds."""
    from fern.data.writing import format_times, to_seconds, write_table

    standard = out is None or str(out) == STANDARD
    parquet = not standard and str(out).lower().endswith(ENDINGS[1])
    for column in (name for name in time if name is not None and name in table.column_names):
        table = to_seconds(table, column) if parquet else format_times(table, column, time_form)
    if standard:
        text = io.BytesIO()
        write_table(table, text, format="csv")
        echo_table(text.getvalue())
        return
    assert out is not None
    with write_whole(out) as temporary, temporary.open("wb") as file:
        write_table(table, file, format="parquet" if parquet else "csv")


def say(message: str) -> None:
    """A line on standard error: standard output is for the table."""
    echo(message, err=True)


@contextmanager
def show_warnings() -> Iterator[None]:
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


@contextmanager
def name_options(name: str) -> Iterator[None]:
    """Errors with options for arguments, and the file's name for a frame."""
    try:
        yield
    except NotWritten:
        raise  # names the file itself, and is no mistake of the user
    except FernError as error:
        raise replace_names(error, {"frame": name, **OPTIONS}) from None


def replace_names(error: FernError, names: Mapping[str, str]) -> FernError:
    """The same error with other names for its arguments and for the place.

    Example:
        >>> error = FernError("is empty", argument="id_col", where="frame")
        >>> str(replace_names(error, {"id_col": "--id", "frame": "x.csv"}))
        'x.csv: --id: is empty'
    """
    changed = copy(error)
    changed.argument = ", ".join(names.get(argument, argument) for argument in error.argument.split(", "))
    place, comma, rest = error.where.partition(",")
    changed.where = names.get(place, place) + comma + rest
    return changed
