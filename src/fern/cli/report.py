"""``fern report``: results as one HTML page."""

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from fern.cli.console import echo, working
from fern.cli.data import Ignore, PolicyFile, Step, audit_table
from fern.cli.forecast import check_columns, fit, make_forecaster, read_table, require_file, require_future
from fern.cli.options import (
    STANDARD,
    Data,
    File,
    FitOptions,
    Future,
    Horizon,
    Level,
    SeriesOptions,
    SeveralValues,
    TableOptions,
    expand_options,
    out_option,
    split_numbers,
)
from fern.cli.tables import TableFile, locate, say
from fern.errors import FernError
from fern.files import check_outputs, require_ending, write_whole

if TYPE_CHECKING:
    from fern.data.auditing.audit import AuditReport
    from fern.data.series_table import SeriesTable

Out = Annotated[Path, out_option("Write the page to this file (.html).")]


class FolderOrCommand(TyperGroup):
    """``fern report DIR`` means ``fern report folder DIR``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the command's name before what is none."""
        if args and args[0] not in self.commands and args[0] not in ("--help", "-h"):
            args = ["folder", *args]
        return super().parse_args(ctx, args)


group = typer.Typer(
    name="report",
    cls=FolderOrCommand,
    help="Results as one self-contained HTML page: fern report DIR -o report.html for a results folder.",
    no_args_is_help=True,
)


@group.command("folder")
def runs(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR|TASK", help="Results folder (the --out of fern bench run), or TASK for runs/TASK."),
    ],
    out: Out,
) -> None:
    """Leaderboards, a section per dataset and where every number comes from, of a results folder.

    The word folder can be left out: fern report DIR. Damaged results and missing files are told on the page.
    """
    from fern.benchmark.store import Store, default_folder

    if not folder.is_dir() and default_folder(str(folder)).is_dir():
        folder = default_folder(str(folder))
    if not folder.is_dir():
        raise FernError("is not a folder; fern bench run makes one, see fern report --help", where=folder)
    store = Store(folder)
    _check(out, kept=store.folders)
    with working("Reading results and drawing figures …"):
        from fern.benchmark.page import benchmark_page

        content = benchmark_page(store)
    write_page(out, content)


@group.command()
@expand_options
def audit(
    file: File,
    out: Out,
    table_options: TableOptions,
    policy: PolicyFile = None,
    ignore: Ignore = None,
    step: Step = None,
) -> None:
    """Zeros, stuck sensors, gaps and other artefacts of a table, and what cleaning would do about them.

    The page is that of fern audit --html. The exit code is 1 if the data has problems to fix first.
    """
    _check(out, inputs=[locate(file), policy])
    audited = audit_table(file, table_options.reading(ignore=ignore), policy=policy, step=step)
    write_page(out, audited.page())
    if audited.report.problems():
        raise typer.Exit(1)


@group.command(cls=SeveralValues)
@expand_options
def forecast(
    data: Data,
    out: Out,
    table_options: SeriesOptions,
    fit_options: FitOptions,
    horizon: Horizon = None,
    level: Level = None,
    future: Future = None,
) -> None:
    """The forecast of a table as a page: fan, covariates, coverage, diagnostics and an audit of the data.

    With --model FOLDER a saved forecaster is used as it is; with a model's name it is fitted first.
    """
    levels = split_numbers("--level", level) or [80.0, 95.0]
    _check(out, inputs=[None if data == STANDARD else locate(data), future], kept=(fit_options.folder,))
    require_file(future)
    check_columns(data, levels)
    forecaster, saved = make_forecaster(fit_options, horizon, table_options)
    require_future(future, forecaster, saved=saved)
    with read_table(data, table_options, forecaster) as (file, table):
        if not saved:
            fit(forecaster, table)
        audit_report, why = _audit(file, table)
        page = forecaster.report(
            table if saved else None,
            futr_df=future,
            h=horizon,
            level=levels,
            name=Path(file.name).name,
            audit=audit_report,
            command=shlex.join(["fern", *sys.argv[1:]]),
        )
    if why:
        say(f"note: the page has no audit of the data: {why}")
    write_page(out, page)


def _audit(file: TableFile, table: "SeriesTable") -> "tuple[AuditReport | None, str]":
    """The audit of the table, or why there is none: a forecast is shown all the same."""
    from fern.data.auditing.audit import audit_source
    from fern.data.reading import open_source

    naming = tuple(table.native.named_by) or ((table.id_col,) if table.id_col else None)
    reading = replace(file.options.reading(), time_col=table.time_col, id_col=naming)
    try:
        return audit_source(open_source(file.path, reading, name=file.name)), ""
    except FernError as error:
        return None, str(error)


def _check(out: Path, *, inputs: list[Path | str | None] | None = None, kept: tuple[Path | None, ...] = ()) -> None:
    require_ending(out, (".html", ".htm"), what="a page")
    check_outputs([out], inputs=inputs or [], kept=kept)


def write_page(out: Path, content: str) -> None:
    """Write a page whole, and say so."""
    with write_whole(out) as temporary:
        size = temporary.write_bytes(content.encode())
    echo(f"wrote {out} ({size / 1e6:.1f} MB)")
