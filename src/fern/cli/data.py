"""``fern audit`` and ``fern clean``."""

import json
from dataclasses import dataclass
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fern.cli.console import console, echo, echo_json, working
from fern.cli.options import File, TableOptions, expand_options, out_option
from fern.cli.tables import check_files, locate, write_out
from fern.files import check_outputs, write_whole
from fern.text import safe_text

if TYPE_CHECKING:
    from fern.data.auditing.audit import AuditReport
    from fern.data.auditing.policy import Policy
    from fern.data.columns import Reading
    from fern.data.reading import Source

PolicyFile = Annotated[
    Path | None,
    typer.Option(
        "--policy",
        help="paper (the default, for sensors), counts (zeros are true values), or a TOML file with thresholds.",
    ),
]
Ignore = Annotated[list[str] | None, typer.Option("--ignore", help="Column to ignore. Repeatable.")]
Step = Annotated[
    str | None, typer.Option("--step", help="Duration of a step if the time column does not say, such as '10 min'.")
]


@expand_options
def audit(
    file: File,
    table_options: TableOptions,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of the table.")] = False,
    html: Annotated[Path | None, typer.Option("--html", help="Also write an HTML page with plots.")] = None,
    policy: PolicyFile = None,
    ignore: Ignore = None,
    step: Step = None,
) -> None:
    """Find zeros, stuck sensors, gaps and other artefacts in a table, and show what cleaning would do about them.

    The exit code is 0 if the data is usable, 1 if it has problems to fix first (timestamps, empty columns), and 2 if
    the file cannot be read.
    """
    from fern.data.auditing.output import render, to_dict

    check_outputs([html], inputs=[locate(file), policy])
    audited = audit_table(file, table_options.reading(ignore=ignore), policy=policy, step=step)
    if html is not None:
        with write_whole(html) as temporary:
            temporary.write_text(audited.page(), encoding="utf-8")
    if as_json:
        echo_json(to_dict(audited.report), indent=2)
    else:
        console().print(render(audited.report))
    if audited.report.problems():
        raise typer.Exit(1)


@dataclass(frozen=True)
class Audited:
    """An opened table and its audit."""

    source: "Source"
    report: "AuditReport"
    step: timedelta | None

    def page(self) -> str:
        """The audit as a page, with figures of what cleaning would do where matplotlib is there."""
        from fern.data.auditing.page import Repairs, audit_page, find_repairs

        if find_spec("matplotlib") is None:
            repairs = Repairs(note="What cleaning would do is not drawn: pip install 'fern-forecast[plots]'")
        else:
            repairs = find_repairs(self.source, self.report, step=self.step)
        return audit_page(self.report, repairs=repairs)


def audit_table(file: str, reading: "Reading", *, policy: Path | None, step: str | None) -> Audited:
    """Audit a file or a published dataset."""
    from fern.data.auditing.audit import audit_source
    from fern.data.frequency import parse_duration
    from fern.data.reading import open_source

    source, duration = open_source(locate(file), reading), None if step is None else parse_duration(step)
    with working(f"Reading {file} …"):
        return Audited(source, audit_source(source, policy=_policy(policy), step=duration), duration)


@expand_options
def clean(
    file: File,
    table_options: TableOptions,
    out: Annotated[
        Path, out_option("Write the cleaned table to this file: .csv (commas, decimal points) or .parquet.")
    ],
    log: Annotated[Path | None, typer.Option(help="Also write a log of every change to this JSON file.")] = None,
    rows: Annotated[
        bool, typer.Option("--rows", help="Treat rows as equally spaced, whatever their timestamps.")
    ] = False,
    policy: PolicyFile = None,
    ignore: Ignore = None,
    step: Step = None,
) -> None:
    """Clean a table by a policy: drop or asinh-transform columns, delete rows, fill values.

    Every change is listed, and written to --log if given.
    """
    from rich.table import Table

    from fern.data.cleaning import clean_source
    from fern.data.frequency import parse_duration
    from fern.data.reading import open_source

    check_files(file, out=out, log=log, other_inputs=[policy])
    source = open_source(locate(file), table_options.reading(ignore=ignore))
    with working(f"Cleaning {file} …"):
        table, changes = clean_source(
            source,
            policy=_policy(policy),
            step=None if step is None else parse_duration(step),
            grid="rows" if rows else "time",
        )
    write_out(table, out, time=[source.roles.time])
    if log is not None:
        with write_whole(log) as temporary:
            temporary.write_text(json.dumps(changes.to_dict(), indent=2, ensure_ascii=False), encoding="utf-8")
    summary = Table(box=None, header_style="bold")
    for name in ("column", "action", "times", "rows", "why"):
        summary.add_column(name, justify="right" if name in ("times", "rows") else "left")
    for line in changes.summary():
        name = safe_text(" / ".join(part for part in (line.series, line.column) if part), "line")
        summary.add_row(name, line.action, f"{line.times:,}", f"{line.rows:,}", line.reason)
    console().print(summary)
    echo(f"\n{changes.rows_before:,} rows in, {changes.rows_after:,} out → {out}")
    if changes.rows_deleted:
        echo("Deleted rows leave gaps in time; pass the breaks of read_frame to Windows so that no window crosses one.")


def _policy(path: Path | None) -> "Policy":
    from fern.data.auditing.policy import PAPER_POLICY, read_policy

    return PAPER_POLICY if path is None else read_policy(path)
