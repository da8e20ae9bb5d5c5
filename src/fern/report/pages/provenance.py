"""Where numbers come from: the runs behind them, their commands, and the data to take away."""

import csv
import gzip
import io
from collections.abc import Sequence
from typing import Any

from fern.benchmark.rows import Row, row_to_json
from fern.report.numbers import number
from fern.report.pages.commands import command_for
from fern.report.pages.leaderboard import Board
from fern.report.pages.listing import Entry, Head, listing
from fern.report.pages.markup import Html, element, joined
from fern.report.pages.shell import command, download
from fern.report.tables.cells import Case, Grid
from fern.text import safe_text

_MOST_DATA = 2_000_000  # bytes; longer addresses are refused by browsers


def commands_part(board: Board, cases: Sequence[Case]) -> Html:
    """For each line of a dataset the command that makes it again."""
    heads = [Head("model"), Head("steps", numeric=True), Head("command")]
    rows = [
        [Entry(model), Entry(str(case[1])), Entry(command(command_for(runs)), kind="short")]
        for case in cases
        for model in board.lines(case)
        if (runs := board.runs(case, model))
    ]
    return listing(heads, rows, caption="Commands that make these numbers again")


def runs_part(board: Board, cases: Sequence[Case]) -> Html:
    """Each run of a dataset: what it gave, on which code, machine and data."""
    heads = [
        Head("model"), Head("steps", numeric=True), Head("seed", numeric=True), Head("status"),
        Head("MSE", numeric=True), Head("windows", numeric=True), Head("epochs", numeric=True),
        Head("seconds", numeric=True), Head("code"), Head("commit"), Head("torch"), Head("processor"), Head("data"),
        Head("finished"), Head("row"),
    ]  # fmt: skip
    rows = []
    for case in cases:
        for model in board.lines(case):
            for row in board.runs(case, model):
                mse, seconds = row.metrics.get("mse"), row.seconds.get("total")
                status = row.status if row.error is None else f"{row.status}: {row.error}"
                rows.append(
                    [
                        Entry(model),
                        Entry(str(row.horizon)),
                        Entry(str(row.seed)),
                        Entry(status, kind="short" if row.status == "done" else "trouble"),
                        _number(mse),
                        _number(row.windows),
                        _number(row.epochs),
                        _number(seconds),
                        Entry(row.code_version, kind="short"),
                        Entry(row.versions.get("commit", "")),
                        Entry(row.versions.get("torch", "")),
                        Entry(
                            f"{row.machine.get('processor', '')}, threads: {row.machine.get('threads', '?')}",
                            kind="short",
                        ),
                        Entry(row.data_fingerprint[:12], title=row.data_fingerprint),
                        Entry(row.finished[:19].replace("T", " "), kind="short"),
                        Entry(row.key),
                    ]
                )
    return listing(heads, rows, caption="Runs behind these numbers")


def downloads_part(rows: Sequence[Row], folder: str) -> Html:
    """The figures for a spreadsheet and the rows whole; where they are too many for a link, where they lie."""
    links = []
    left_out = []
    whole = b"".join(row_to_json(row) for row in rows)
    for text, name, data, kind in (
        ("figures.csv, one line a run", "figures.csv", figures_csv(rows).encode(), "text/csv;charset=utf-8"),
        ("rows.json.gz, everything", "rows.json.gz", gzip.compress(whole, mtime=0), "application/gzip"),
    ):
        if len(data) <= _MOST_DATA * 3 // 4:
            links.append(download(text, name, data, kind))
        else:
            left_out.append(name)
    told = f"Too large for a page: {', '.join(left_out)}; the rows lie in {folder}." if left_out else ""
    return element("p", {}, "Data: ", joined(links, " "), told)


def figures_csv(rows: Sequence[Row]) -> str:
    """One record for each run: its settings, every figure it has, and where it was computed."""
    settings = ("task", "model", "preset", "dataset", "context_length", "horizon", "split", "scaling", "seed", "status")
    figures = list(dict.fromkeys(name for row in rows for name in Grid.figures_of(row)))
    last = ("windows", "epochs", "best_epoch", "code_version", "commit", "data_fingerprint", "finished", "key", "error")
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*settings, *(safe_text(name, "csv") for name in figures), *last])
    for row in rows:
        found = Grid.figures_of(row)
        told: list[Any] = [getattr(row, name) for name in settings]
        told += [found.get(name) for name in figures]
        told += [row.versions.get(name) if name == "commit" else getattr(row, name) for name in last]
        writer.writerow([safe_text(value, "csv") if isinstance(value, str) else value for value in told])
    return out.getvalue()


def _number(value: float | None) -> Entry:
    return Entry("", "") if value is None else Entry(number(float(value)), float(value))
