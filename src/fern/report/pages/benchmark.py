"""The page of a results folder: leaderboards, a section for each dataset, and where every number comes from."""

import re
from collections.abc import Mapping, Sequence

from fern.benchmark.provenance import code_version
from fern.benchmark.rows import Row
from fern.benchmark.store import Contents, Store
from fern.benchmark.tasks import ORACLE, is_outside
from fern.errors import FernError
from fern.report.figures.scores.errors import CaseErrors, ModelErrors, errors_figure
from fern.report.figures.scores.training_curves import BY_TEST, BY_VALIDATION, TrainingCurve, training_curves_figure
from fern.report.numbers import number
from fern.report.pages.commands import built_in
from fern.report.pages.drawing import drawing
from fern.report.pages.leaderboard import Board, board_of, heat_map_part, leaderboard_part, standings_part
from fern.report.pages.markup import Html, element, joined, listed
from fern.report.pages.provenance import commands_part, downloads_part, runs_part
from fern.report.pages.shell import Section, command, details, page
from fern.report.tables.cells import Spot
from fern.report.tables.ranking import AgainstBest, against_best, standings
from fern.report.tables.tables import build_table

_MOST_PROBLEMS = 20


def benchmark_page(folder: Store | str) -> str:
    """The page of the rows in a results folder, as ``fern bench run --out`` makes one.

    Rows that cannot be read, runs that failed, rows of another version of the code and errors of windows that were
    not kept are told on the page; everything else is shown.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> store = Store(Path(tempfile.mkdtemp()) / "runs").for_writing()
        >>> "holds no row" in benchmark_page(store)
        True
    """
    store = folder if isinstance(folder, Store) else Store(folder)
    if not store.folder.is_dir():
        raise FernError(f"{store.folder}: is not a folder, needs a results folder (fern bench run --out makes one)")
    there = (store.folder / "rows").is_dir()
    contents = store.contents() if there else Contents((), ())
    name = store.folder.resolve().name
    by_task: dict[str, list[Row]] = {}
    for row in contents.rows:
        by_task.setdefault(row.task, []).append(row)
    problems = [entry.problem for entry in contents.damaged]
    if not there:
        problems.append(f"{store.folder}: has no folder 'rows'")
    parts = [_missing(problems, contents.rows, store)]
    if contents.rows:
        parts.append(downloads_part(contents.rows, str(store.folder)))
    sections = [Section("summary", "Summary", joined([_summary(contents.rows), *parts]))]
    for place, (task, rows) in enumerate(sorted(by_task.items(), key=_most_first), start=1):
        sections += _sections(task, rows, store, prefix=f"t{place}")
    return page(f"Benchmark results: {name}", sections, lead=_lead(contents.rows))


def _most_first(task: tuple[str, Sequence[Row]]) -> tuple[int, str]:
    return -len(task[1]), task[0]


def _lead(rows: Sequence[Row]) -> str:
    if not rows:
        return "This results folder holds no row."
    last = max(row.finished for row in rows)[:16].replace("T", " ")
    models, datasets = {row.model for row in rows}, {row.dataset for row in rows}
    return (
        f"{len(rows):,} runs: {len(models)} models on {len(datasets)} datasets. The newest ended {last or 'unknown'}."
    )


def _summary(rows: Sequence[Row]) -> Html:
    if not rows:
        return element(
            "p", {}, "There is nothing to show yet. ", command("fern bench run quick --out runs"), " makes rows."
        )
    counts = {status: sum(row.status == status for row in rows) for status in ("done", "diverged", "failed")}
    told = ", ".join(f"{count:,} {status}" for status, count in counts.items() if count)
    return element("p", {}, f"Runs: {told}. Every number below is made again by the command that stands with it.")


def _missing(problems: Sequence[str], rows: Sequence[Row], store: Store) -> Html:
    """What is not as it should be: damaged files, other versions, errors of windows that were not kept."""
    said = [f"Skipped: {problem}" for problem in problems[:_MOST_PROBLEMS]]
    if len(problems) > _MOST_PROBLEMS:
        said.append(f"… and {len(problems) - _MOST_PROBLEMS:,} more files that cannot be read.")
    if problems:
        said.append("fern bench run --retry-failed does such runs again.")
    others: dict[str, int] = {}
    for row in rows:
        if not is_outside(row.model) and row.code_version != code_version():
            others[row.code_version] = others.get(row.code_version, 0) + 1
    for version, count in sorted(others.items()):
        said.append(f"{count:,} runs are of another version of fern ({version}; this one is {code_version()}).")
    done = [row for row in rows if row.status == "done"]
    without = sum(not store.windows_path(row.key).is_file() for row in done)
    if without:
        said.append(
            f"{without:,} of {len(done):,} runs come without the errors of each window ({store.folder / 'windows'}): "
            "for those no difference between two models on one dataset is tested."
        )
    return joined([element("h3", {}, "What is missing"), listed(said, kind="notes")]) if said else Html("")


def _sections(task: str, rows: Sequence[Row], store: Store, *, prefix: str) -> list[Section]:
    """The leaderboard of a task, then a section for each of its datasets."""
    known = built_in(task)
    title = (known.title if known is not None else "") or f"Task {task}"
    board = board_of(task, rows, known)
    against = against_best(board.grid, store)
    datasets = list(dict.fromkeys(dataset for dataset, _ in board.grid.cases))
    anchors = {dataset: f"{prefix}-{place}-{_slug(dataset)}" for place, dataset in enumerate(datasets, start=1)}
    notes = build_table(rows, task=known or task, paper=True).notes
    links = joined((element("a", {"href": f"#{anchors[dataset]}"}, dataset) for dataset in datasets), " · ")
    body = [
        standings_part(standings(board.grid), name=f"{prefix}-standings"),
        heat_map_part(board, anchors=anchors),
        element("h3", {}, "Every figure"),
        leaderboard_part(board, against, anchors=anchors),
        listed(notes, kind="notes"),
        element("p", {}, "Datasets: ", links),
    ]
    found = [Section(prefix, title, joined(body))]
    parts = [
        element(
            "section", {"id": anchors[dataset]}, element("h3", {}, dataset), _dataset(board, dataset, against, anchors)
        )
        for dataset in datasets
    ]
    return [*found, Section(f"{prefix}-datasets", f"{title}: datasets", joined(parts))]


def _dataset(
    board: Board, dataset: str, against: Mapping[tuple[tuple[str, int], str], AgainstBest], anchors: Mapping[str, str]
) -> Html:
    cases = [case for case in board.grid.cases if case[0] == dataset]
    drawn = [errors for case in cases if (errors := _errors(board, case)).models]
    parts: list[Html] = []
    if drawn:
        told = "; ".join(
            f"{case.title}: " + ", ".join(f"{one.model} {number(one.mean)}" for one in case.models)
            + (f", oracle {number(case.oracle)}" if case.oracle is not None else "")
            for case in drawn
        )  # fmt: skip
        parts.append(
            drawing(
                errors_figure(drawn),
                name=f"{anchors[dataset]}-errors",
                alt=f"Test MSE on {dataset}. {told}.",
                caption="Test MSE: a dot is a seed, a bar the mean, a diamond the paper's number, the dashed line the "
                "error of the best possible forecast.",
            )
        )
    else:
        parts.append(element("p", {}, "No run of this dataset has ended well; below is what was tried."))
    parts += [_verdict(board, cases, against), _curves(board, cases, name=anchors[dataset])]
    parts.append(details("Commands", commands_part(board, cases)))
    parts.append(details("Runs and where they were computed", runs_part(board, cases)))
    return joined(parts)


def _verdict(
    board: Board, cases: Sequence[tuple[str, int]], against: Mapping[tuple[tuple[str, int], str], AgainstBest]
) -> Html:
    """Who is best in each case, and who cannot be told from it."""
    said = []
    for case in cases:
        done = {
            model: cell.mean
            for model in board.lines(case)
            if model != ORACLE and (cell := board.cells.get(Spot(*case, model, "mse"))) and cell.mean is not None
        }
        if len(done) < 2:
            continue
        best = min(done, key=lambda model: done[model])
        tests = {model: against[case, model] for model in done if (case, model) in against}
        close = [model for model, test in tests.items() if test.p_value is not None and not test.differs]
        untested = [model for model, test in tests.items() if test.p_value is None]
        words = f"{case[1]} steps: {best} has the lowest MSE, {number(done[best])}"
        words += f"; not distinguishable from it: {', '.join(close)}" if close else ""
        words += f"; not tested: {', '.join(untested)}" if untested else ""
        said.append(f"{words}.")
    return listed(said)


def _curves(board: Board, cases: Sequence[tuple[str, int]], *, name: str) -> Html:
    """Errors by epoch, where runs kept those of test windows, too; what choosing by validation costs."""
    parts = []
    for dataset, horizon in cases:
        curves = [
            TrainingCurve.of(model, history)
            for model in board.lines((dataset, horizon))
            for row in board.runs((dataset, horizon), model)
            if (history := row.epochs_trained()) and all("mse" in (one.test or {}) for one in history)
        ]
        if not curves:
            continue
        costs = [(curve.name, curve.at(BY_VALIDATION), curve.at(BY_TEST)) for curve in curves]
        told = "; ".join(
            f"{model}: epoch {chosen} by validation, test MSE {number(error)}, epoch {best} by test, {number(least)}"
            for model, (chosen, error), (best, least) in costs
        )
        parts.append(
            drawing(
                training_curves_figure(curves),
                name=f"{name}-epochs-{horizon}",
                alt=f"Errors by epoch on {dataset}, {horizon} steps. {told}.",
                caption=f"{horizon} steps: the error of every epoch. A square is the epoch that validation chooses, a "
                "star the one with the least test error; the distance between them is the price of the choice.",
            )
        )
    return joined(parts)


def _errors(board: Board, case: tuple[str, int]) -> CaseErrors:
    """The test MSE of every run that is done; the oracle's, from its own run or from what another's row says."""
    models = []
    runs = [row for model in board.lines(case) for row in board.runs(case, model)]
    floors = [row.metrics["oracle_mse"] for row in runs if "oracle_mse" in row.metrics]
    for model in board.lines(case):
        values = tuple(row.metrics["mse"] for row in board.runs(case, model) if row.status == "done")
        if model == ORACLE:
            floors = [*values, *floors]
        elif values:
            models.append(ModelErrors(model, values, board.paper(Spot(*case, model, "mse"))))
    return CaseErrors(f"{case[1]} steps", tuple(models), floors[0] if floors else None)


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40]
