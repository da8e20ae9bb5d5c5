"""A folder of results as an HTML page: leaderboards, a section for each dataset, and provenance of every number."""

import csv
import gzip
import io
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from fern.benchmark.leaderboard import Board, board_of, heat_map_part, leaderboard_part, standings_part
from fern.benchmark.problem import NOISE
from fern.benchmark.results import RunResult, result_to_json
from fern.benchmark.runs import REVISION
from fern.benchmark.store import Contents, Store
from fern.benchmark.tables.build import build_table
from fern.benchmark.tables.cells import Case, Grid, Spot, means_of_case
from fern.benchmark.tables.ranking import AgainstBest, against_best, standings
from fern.benchmark.tasks import ORACLE, Task, is_outside, read_task, task_names
from fern.errors import FernError
from fern.html.figures import drawing
from fern.html.markup import Entry, Head, Html, bullet_list, element, figure_entry, join_html, listing, number
from fern.html.page import Section, command, details, download, page
from fern.plot.scores import (
    BY_TEST,
    BY_VALIDATION,
    CaseErrors,
    ModelErrors,
    TrainingCurve,
    errors_figure,
    training_curves_figure,
)
from fern.text import safe_text

OUT = "runs"
_USUAL = ("paper", "default")


def builtin_task(name: str) -> Task | None:
    """The built-in task of that name; None where results are of a task of somebody's own."""
    return read_task(name) if name in task_names() else None


def command_for(results: Sequence[RunResult]) -> str:
    """What makes runs of one model on one dataset at one horizon again, under all of their seeds.

    Example:
        >>> command_for([RunResult(task="shock", model="dlinear", preset="paper", dataset="OU_BASE",
        ...     data_fingerprint="ab", context_length=336, horizon=336, split="shock", scaling="none",
        ...     code_version="1", status="done", metrics={"mse": 1.0}, seed=seed) for seed in (7, 8)])
        'fern bench run shock --models dlinear --datasets OU_BASE --horizons 336 --seeds 7,8 --out runs'
    """
    result = results[0]
    words = ["fern", "bench", "run", result.task if result.task in task_names() else f"{result.task}.toml"]
    words += ["--with", result.model] if is_outside(result.model) else ["--models", _model(result)]
    words += ["--datasets", result.dataset, "--horizons", str(result.horizon)]
    if NOISE in result.data_settings:
        words += ["--noise", repr(result.data_settings[NOISE])]
    epochs = result.train_settings.get("epochs")
    if isinstance(epochs, int):
        words += ["--max-epochs", str(epochs)]
    words += ["--seeds", ",".join(str(seed) for seed in sorted({entry.seed for entry in results})), "--out", OUT]
    return shlex.join(words)


def _model(result: RunResult) -> str:
    """The model as the command takes it: with its preset where that does not go without saying."""
    plain = (
        result.preset in _USUAL or result.preset == result.dataset.partition(":")[0].lower() or result.model == ORACLE
    )
    return result.model if plain else f"{result.model}:{result.preset}"


_MOST_DATA = 2_000_000  # bytes; longer addresses are refused by browsers


def commands_part(board: Board, cases: Sequence[Case]) -> Html:
    """For each line of a dataset the command that makes it again."""
    heads = [Head("model"), Head("steps", numeric=True), Head("command")]
    rows = [
        [Entry(model), Entry(str(case[1])), Entry(command(command_for(runs)), kind="short")]
        for case in cases
        for model in board.lines(case)
        if (runs := board.grid.runs(case, model))
    ]
    return listing(heads, rows, caption="Commands that make these numbers again")


def runs_part(board: Board, cases: Sequence[Case]) -> Html:
    """Each run of a dataset: what it gave, on which code, machine and data."""
    numeric = ("steps", "seed", "MSE", "windows", "epochs", "seconds")
    rows = []
    for result in (run for case in cases for model in board.lines(case) for run in board.grid.runs(case, model)):
        status = result.status if result.error is None else f"{result.status}: {result.error}"
        machine = f"{result.machine.get('processor', '')}, threads: {result.machine.get('threads', '?')}"
        rows.append(
            {
                "model": Entry(board.grid.names[result.key].model),
                "steps": Entry(str(result.horizon)),
                "seed": Entry(str(result.seed)),
                "status": Entry(status, kind="short" if result.status == "done" else "trouble"),
                "MSE": figure_entry(result.metrics.get("mse")),
                "windows": figure_entry(result.windows),
                "epochs": figure_entry(result.epochs),
                "seconds": figure_entry(result.seconds.get("total")),
                "code": Entry(result.code_version, kind="short"),
                "commit": Entry(result.versions.get("commit", "")),
                "torch": Entry(result.versions.get("torch", "")),
                "processor": Entry(machine, kind="short"),
                "data": Entry(result.data_fingerprint[:12], title=result.data_fingerprint),
                "finished": Entry(result.finished[:19].replace("T", " "), kind="short"),
                "result": Entry(result.key),
            }
        )
    heads = [Head(title, numeric=title in numeric) for title in (rows[0] if rows else ())]
    return listing(heads, [list(row.values()) for row in rows], caption="Runs behind these numbers")


def downloads_part(results: Sequence[RunResult], folder: str) -> Html:
    """The figures for a spreadsheet and the results whole; where they are too many for a link, where they lie."""
    whole = gzip.compress(b"".join(result_to_json(result) for result in results), mtime=0)
    downloads = (
        ("figures.csv, one line a run", "figures.csv", figures_csv(results).encode(), "text/csv;charset=utf-8"),
        ("rows.json.gz, everything", "rows.json.gz", whole, "application/gzip"),
    )
    most = _MOST_DATA * 3 // 4
    links = [download(text, name, data, kind) for text, name, data, kind in downloads if len(data) <= most]
    left_out = ", ".join(name for _, name, data, _ in downloads if len(data) > most)
    note = f"Too large for a page: {left_out}; the results lie in {folder}." if left_out else ""
    return element("p", {}, "Data: ", join_html(links, " "), note)


def figures_csv(results: Sequence[RunResult]) -> str:
    """One record for each run: its settings, every figure it has, and where it was computed."""
    settings = ("task", "model", "preset", "dataset", "context_length", "horizon", "split", "scaling", "seed", "status")
    figures = list(dict.fromkeys(name for result in results for name in Grid.figures_of(result)))
    last = ("windows", "epochs", "best_epoch", "code_version", "commit", "data_fingerprint", "finished", "key", "error")
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*settings, *(safe_text(name, "csv") for name in figures), *last])
    for result in results:
        metrics = Grid.figures_of(result)
        record: list[Any] = [getattr(result, name) for name in settings]
        record += [metrics.get(name) for name in figures]
        record += [result.versions.get(name) if name == "commit" else getattr(result, name) for name in last]
        writer.writerow([safe_text(value, "csv") if isinstance(value, str) else value for value in record])
    return out.getvalue()


_MOST_PROBLEMS = 20


def benchmark_page(folder: Store | str) -> str:
    """The page of the results in a results folder, as ``fern bench run --out`` makes one.

    Rows that cannot be read, runs that failed, rows of another version of the code and errors of windows that were
    not kept are told on the page; everything else is shown.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> store = Store(Path(tempfile.mkdtemp()) / "runs").for_writing()
        >>> "holds no result" in benchmark_page(store)
        True
    """
    store = folder if isinstance(folder, Store) else Store(folder)
    if not store.folder.is_dir():
        raise FernError(
            "is not a folder", expected="a results folder (fern bench run --out makes one)", where=store.folder
        )
    has_rows = (store.folder / "rows").is_dir()
    contents = store.contents() if has_rows else Contents((), ())
    name = store.folder.resolve().name
    by_task: dict[str, list[RunResult]] = {}
    for result in contents.results:
        by_task.setdefault(result.task, []).append(result)
    problems = [entry.problem for entry in contents.damaged]
    if not has_rows:
        problems.append(f"{store.folder}: has no folder 'rows'")
    parts = [_missing(problems, contents.results, store)]
    if contents.results:
        parts.append(downloads_part(contents.results, str(store.folder)))
    tasks = sorted(by_task.items(), key=lambda task: (-len(task[1]), task[0]))
    boards = [board_of(task, results, builtin_task(task)) for task, results in tasks]
    verdicts = [f"{_title(board.name)}: {standings(board.grid).conclude()}" for board in boards]
    summary = join_html([_summary(contents.results), bullet_list(verdicts), *parts])
    sections = [Section("summary", "Summary", summary)]
    for place, board in enumerate(boards, start=1):
        sections += _sections(board, by_task[board.name], store, prefix=f"t{place}")
    return page(f"Benchmark results: {name}", sections, lead=_lead(contents.results))


def _lead(results: Sequence[RunResult]) -> str:
    if not results:
        return "This results folder holds no result."
    last = max(result.finished for result in results)[:16].replace("T", " ")
    models, datasets = {result.model for result in results}, {result.dataset for result in results}
    count = f"{len(results):,} runs: {len(models)} models on {len(datasets)} datasets"
    return f"{count}. The newest ended {last or 'unknown'}."


def _summary(results: Sequence[RunResult]) -> Html:
    if not results:
        return element(
            "p", {}, "There is nothing to show yet. ", command("fern bench run quick --out runs"), " makes results."
        )
    counts = {status: sum(result.status == status for result in results) for status in ("done", "diverged", "failed")}
    counts_text = ", ".join(f"{count:,} {status}" for status, count in counts.items() if count)
    return element(
        "p", {}, f"Runs: {counts_text}. Every number below is made again by the command that stands with it."
    )


def _missing(problems: Sequence[str], results: Sequence[RunResult], store: Store) -> Html:
    """What is not as it should be: damaged files, other versions, errors of windows that were not kept."""
    notes = [f"Skipped: {problem}" for problem in problems[:_MOST_PROBLEMS]]
    if len(problems) > _MOST_PROBLEMS:
        notes.append(f"… and {len(problems) - _MOST_PROBLEMS:,} more files that cannot be read.")
    if problems:
        notes.append("fern bench run --retry-failed does such runs again.")
    version_counts: dict[str, int] = {}
    for result in results:
        if not is_outside(result.model) and result.code_version != REVISION:
            version_counts[result.code_version] = version_counts.get(result.code_version, 0) + 1
    for version, count in sorted(version_counts.items()):
        notes.append(f"{count:,} runs are of another version of fern ({version}; this one is {REVISION}).")
    done = [result for result in results if result.status == "done"]
    without = sum(not store.windows_path(result.key).is_file() for result in done)
    if without:
        notes.append(
            f"{without:,} of {len(done):,} runs come without the errors of each window ({store.folder / 'windows'}): "
            "for those no difference between two models on one dataset is tested."
        )
    return join_html([element("h3", {}, "What is missing"), bullet_list(notes, kind="notes")]) if notes else Html("")


def _title(task: str) -> str:
    known = builtin_task(task)
    return (known.title if known is not None else "") or f"Task {task}"


def _sections(board: Board, results: Sequence[RunResult], store: Store, *, prefix: str) -> list[Section]:
    """The leaderboard of a task, then a section for each of its datasets."""
    task, title, ranking = board.name, _title(board.name), standings(board.grid)
    against = against_best(board.grid, store)
    datasets = list(dict.fromkeys(dataset for dataset, _ in board.grid.cases))
    slugs = [re.sub(r"[^a-z0-9]+", "-", dataset.lower()).strip("-")[:40] for dataset in datasets]
    anchors = {
        dataset: f"{prefix}-{i}-{slug}" for i, (dataset, slug) in enumerate(zip(datasets, slugs, strict=True), 1)
    }
    notes = list(build_table(results, task=builtin_task(task) or task, paper=True).notes)
    if board.missing:
        notes.append(f"{board.missing:,} planned runs of these cases have no result yet; they are left blank.")
    links = join_html((element("a", {"href": f"#{anchors[dataset]}"}, dataset) for dataset in datasets), " · ")
    body = [
        element("p", {}, ranking.conclude()),
        standings_part(ranking, name=f"{prefix}-standings"),
        heat_map_part(board, anchors=anchors),
        element("h3", {}, "Every figure"),
        leaderboard_part(board, against, anchors=anchors),
        bullet_list(notes, kind="notes"),
        element("p", {}, "Datasets: ", links),
    ]
    parts = [
        element("section", {"id": anchor}, element("h3", {}, dataset), _dataset(board, dataset, against, anchor))
        for dataset, anchor in anchors.items()
    ]
    return [
        Section(prefix, title, join_html(body)),
        Section(f"{prefix}-datasets", f"{title}: datasets", join_html(parts)),
    ]


def _dataset(board: Board, dataset: str, against: Mapping[tuple[Case, str], AgainstBest], anchor: str) -> Html:
    cases = [case for case in board.grid.cases if case[0] == dataset]
    case_errors = [errors for case in cases if (errors := _errors(board, case)).models]
    parts: list[Html] = []
    if case_errors:
        alt = "; ".join(
            f"{case.title}: " + ", ".join(f"{entry.model} {number(entry.mean)}" for entry in case.models)
            + (f", oracle {number(case.oracle)}" if case.oracle is not None else "")
            for case in case_errors
        )  # fmt: skip
        parts.append(
            drawing(
                errors_figure(case_errors),
                name=f"{anchor}-errors",
                alt=f"Test MSE on {dataset}. {alt}.",
                caption="Test MSE: a dot is a seed, a bar the mean, a diamond the paper's number, the dashed line the "
                "error of the best possible forecast.",
            )
        )
    else:
        parts.append(element("p", {}, "No run of this dataset has ended well; below is what was tried."))
    parts += [
        _verdict(board, cases, against),
        _curves(board, cases, name=anchor),
        details("Commands", commands_part(board, cases)),
        details("Runs and where they were computed", runs_part(board, cases)),
    ]
    return join_html(parts)


def _verdict(board: Board, cases: Sequence[Case], against: Mapping[tuple[Case, str], AgainstBest]) -> Html:
    """Who is best in each case, and who cannot be told from it."""
    sentences = []
    for case in cases:
        done = means_of_case(board.cells, case, board.lines(case), "mse")
        if len(done) < 2:
            continue
        best = min(done, key=lambda model: done[model])
        tests = {model: against[case, model] for model in done if (case, model) in against}
        close = [model for model, test in tests.items() if test.p_value is not None and not test.differs]
        untested = [model for model, test in tests.items() if test.p_value is None]
        words = f"{case[1]} steps: {best} has the lowest MSE, {number(done[best])}"
        words += f"; not distinguishable from it: {', '.join(close)}" if close else ""
        words += f"; not tested: {', '.join(untested)}" if untested else ""
        sentences.append(f"{words}.")
    return bullet_list(sentences)


def _curves(board: Board, cases: Sequence[tuple[str, int]], *, name: str) -> Html:
    """Errors by epoch, where runs kept those of test windows, too; what choosing by validation costs."""
    parts = []
    for dataset, horizon in cases:
        curves = [
            TrainingCurve.of(model, history)
            for model in board.lines((dataset, horizon))
            for result in board.grid.runs((dataset, horizon), model)
            if (history := result.epoch_history()) and all("mse" in (epoch.test or {}) for epoch in history)
        ]
        if not curves:
            continue
        costs = [(curve.name, curve.at(BY_VALIDATION), curve.at(BY_TEST)) for curve in curves]
        alt = "; ".join(
            f"{model}: epoch {chosen} by validation, test MSE {number(error)}, epoch {best} by test, {number(least)}"
            for model, (chosen, error), (best, least) in costs
        )
        parts.append(
            drawing(
                training_curves_figure(curves),
                name=f"{name}-epochs-{horizon}",
                alt=f"Errors by epoch on {dataset}, {horizon} steps. {alt}.",
                caption=f"{horizon} steps: the error of every epoch. A square is the epoch that validation chooses, a "
                "star the one with the least test error; the distance between them is the price of the choice.",
            )
        )
    return join_html(parts)


def _errors(board: Board, case: tuple[str, int]) -> CaseErrors:
    """The test MSE of every run that is done; the oracle's, from its own run or from what another's result says."""
    done = {
        model: [result.metrics for result in board.grid.runs(case, model) if result.status == "done"]
        for model in board.lines(case)
    }
    errors = {model: tuple(metrics["mse"] for metrics in runs) for model, runs in done.items() if runs}
    oracle_errors = [metrics["oracle_mse"] for runs in done.values() for metrics in runs if "oracle_mse" in metrics]
    floors = [*errors.pop(ORACLE, ()), *oracle_errors]
    models = (ModelErrors(model, values, board.paper(Spot(*case, model, "mse"))) for model, values in errors.items())
    return CaseErrors(f"{case[1]} steps", tuple(models), floors[0] if floors else None)
