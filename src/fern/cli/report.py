"""``fern report``: results as one HTML page."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from fern.cli.console import echo, working
from fern.cli.data import File, Ignore, PolicyFile, SeriesColumn, Step, audited, path_of
from fern.cli.forecast import DEFAULT_MODEL, ended_by_interrupt, fit, forecaster_for
from fern.cli.own_table import (
    STANDARD,
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
    names,
    numbers,
    read_given,
    say,
    settings_given,
    told,
)
from fern.errors import FernError
from fern.files import check_outputs, require_ending, write_whole

if TYPE_CHECKING:
    from fern.data.auditing.audit import AuditReport

Out = Annotated[Path, typer.Option("--out", "-o", "--output", help="Write the page to this file (.html).")]


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


def register(app: typer.Typer) -> None:
    """Add the group."""
    app.add_typer(group)


@group.command("folder")
def runs(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR|TASK", help="Results folder (the --out of fern bench run), or TASK for runs/TASK."),
    ],
    out: Out,
) -> None:
    """Leaderboards, a section per dataset and where every number comes from, of a results folder.

    The word folder can be left out: fern report DIR. Damaged rows and missing files are told on the page.
    """
    from fern.benchmark.store import Store, default_folder

    if not folder.is_dir() and default_folder(str(folder)).is_dir():
        folder = default_folder(str(folder))
    if not folder.is_dir():
        raise FernError("is not a folder; fern bench run makes one, see fern report --help", where=folder)
    store = Store(folder)
    _check(out, kept=store.folders)
    with working("Reading rows and drawing figures …"):
        from fern.benchmark.page import benchmark_page

        made = benchmark_page(store)
    write_page(out, made)


@group.command()
def audit(
    file: File,
    out: Out,
    policy: PolicyFile = None,
    time: TimeColumn = None,
    series: SeriesColumn = None,
    ignore: Ignore = None,
    step: Step = None,
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
) -> None:
    """Zeros, stuck sensors, gaps and other artefacts of a table, and what cleaning would do about them.

    The page is that of fern audit --html. The exit code is 1 if the data has problems to fix first.
    """
    from fern.data.reading import Reading

    _check(out, inputs=[path_of(file), policy])
    reading = Reading(time, series, tuple(ignore or ()), encoding, separator, decimal)
    found = audited(file, reading, policy=policy, step=step)
    write_page(out, found.page())
    if found.report.problems():
        raise typer.Exit(1)


@group.command(cls=SeveralValues)
def forecast(
    data: Data,
    out: Out,
    horizon: Horizon = None,
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
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
) -> None:
    """The forecast of a table as a page: fan, coverage, diagnostics and an audit of the data.

    With --model FOLDER a saved forecaster is used as it is; with a model's name it is fitted first.
    """
    from fern.data.reading import Reading
    from fern.forecaster.predict import OutputColumns

    levels = numbers("--level", level) or [80.0, 95.0]
    require_ending(out, (".html", ".htm"), what="a page")
    check_outputs(
        [out],
        inputs=[None if data == STANDARD else path_of(data)],
        kept=[Path(model) if Path(model).is_dir() else None],
    )
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
    with as_user_sees(data):
        OutputColumns.of(level=levels, quantiles=None)
    forecaster, saved = forecaster_for(model, horizon, settings)
    given = read_given(data, reading=Reading(time, id_, (), encoding, separator, decimal))
    with as_user_sees(given.name), told(), ended_by_interrupt():
        forecaster.set_params(id_col=given.id_col)
        if not saved:
            fit(forecaster, given)
        found, why = _audit_of(given, time)
        made = forecaster.report(
            given.table if saved else None,
            h=horizon,
            level=levels,
            name=Path(given.name).name,
            audit=found,
            command=shlex.join(["fern", *sys.argv[1:]]),
        )
    if why:
        say(f"note: the page has no audit of the data: {why}")
    write_page(out, made)


def _audit_of(given: Given, time: str | None) -> "tuple[AuditReport | None, str]":
    """The audit of the table, or why there is none: a forecast is shown all the same."""
    from fern.data import audit as audit_frame

    series = given.id_col if given.id_col in given.table.column_names else None
    try:
        return audit_frame(given.table, time=time, series=series), ""
    except FernError as error:
        return None, str(error)


def _check(out: Path, *, inputs: list[Path | str | None] | None = None, kept: tuple[Path, ...] = ()) -> None:
    require_ending(out, (".html", ".htm"), what="a page")
    check_outputs([out], inputs=inputs or [], kept=kept)


def write_page(out: Path, made: str) -> None:
    """Write a page whole, and say so."""
    data = made.encode()
    with write_whole(out) as temporary:
        temporary.write_bytes(data)
    echo(f"wrote {out} ({len(data) / 1e6:.1f} MB)")
