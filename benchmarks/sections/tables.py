"""The paper's tables from the committed rows, as far as there are any, and the data they were made of."""

from collections.abc import Sequence
from dataclasses import replace

from benchmarks.sections import winners
from benchmarks.sections.winners import COMPARED, ORDER
from fern.benchmark.results import Row
from fern.benchmark.tables.build import build_table
from fern.benchmark.tables.rendering import render
from fern.benchmark.tasks import Task, read_task

HEADLINE = (*COMPARED, "last-value", "oracle")
"""The models that have run on every dataset of the shock table."""

DETAILED = ("LORENZ_MAIN", "ROSSLER_MAIN")
"""The datasets of the task `detailed` that Fern runs on here."""

PAPERS_SLIPS = "The paper: "  # stand below the first of two tables that the same paper's table is beside
ABLATION = "ablation"
TASKS = ("detailed", ABLATION, "recency", "footprint")


def shock_tables(rows: Sequence[Row]) -> list[str]:
    """The table of the models that have run on all scenarios, who wins, and the table of the paper's other baselines.

    The second has those scenarios that any of the baselines has run on, and one seed.
    """
    task = read_task("shock")
    lines = [_rendered(rows, task.narrowed(models=HEADLINE))]
    lines += [
        f"{text}\n"
        for text in (winners.what_wins_where(rows), winners.where_fern_loses(rows), winners.misses_of_the_paper(rows))
        if text
    ]
    ran = {row.dataset for row in winners.shock_rows(rows) if row.model in winners.BASELINES}
    if ran:
        beside = task.narrowed(
            models=("fern", *winners.BASELINES, "oracle"),
            datasets=[name for name in ORDER if name in ran],
            seeds=[winners.BASELINE_SEED],
        )
        table = _rendered(rows, beside, without=PAPERS_SLIPS)
        lines += ["## The paper's other baselines", table.partition("\n")[2], f"{winners.beside_baselines(rows)}\n"]
    return [*lines, f"`fern bench run {task.name} --out benchmarks/runs` continues from these rows.\n"]


def other_tables(rows: Sequence[Row]) -> list[str]:
    """The paper's other tables as far as there are rows, beside the paper's numbers."""
    lines = []
    for name in TASKS:
        task = read_task(name).narrowed(datasets=DETAILED, seeds=[7]) if name == "detailed" else read_task(name)
        if any(row.task == name for row in rows):
            lines += [
                _rendered(rows, task),
                *(run_twice(rows) if name == ABLATION else []),
                f"`fern bench run {name} --out benchmarks/runs` continues from these rows.\n",
            ]
    return lines


def run_twice(rows: Sequence[Row]) -> list[str]:
    """Runs of Fern that the shock table has too: a difference between parts must pass theirs."""
    ours = [row for row in rows if row.model == "fern" and row.preset == "paper" and row.status == "done"]
    shock = {(row.dataset, row.horizon, row.seed): row for row in ours if row.task == "shock"}
    pairs = [
        (row, shock[row.dataset, row.horizon, row.seed])
        for row in ours
        if row.task == ABLATION and (row.dataset, row.horizon, row.seed) in shock
    ]
    told = ", ".join(
        f"{again.dataset} at {again.horizon}, seed {again.seed}: {again.metrics['mse']:.4g} here and "
        f"{first.metrics['mse']:.4g} there"
        for again, first in pairs
    )
    if not pairs:
        return []
    return [
        f"The same run of fern stands in the shock table, made by older code that rounds otherwise ({told}). A "
        "difference between variants that is no larger than this one says nothing.\n"
    ]


def _rendered(rows: Sequence[Row], task: Task, *, without: str | None = None) -> str:
    """The table of those rows that the task, narrowed, is about; ``without`` notes that begin so."""
    models, datasets = ({choice.model for choice in task.models}, {choice.dataset for choice in task.datasets})
    own = [
        row
        for row in rows
        if row.task == task.name and row.model in models and row.dataset in datasets and row.seed in task.seeds
    ]
    table = build_table(own, task=task, paper=True)
    notes = tuple(note for note in table.notes if without is None or not note.startswith(without))
    return render(replace(table, notes=notes), "md")


def data(rows: Sequence[Row]) -> list[str]:
    """Fingerprints of the values that the benchmark's rows were made of."""
    found: dict[str, set[str]] = {}
    for row in rows:
        told = ", ".join(f"{name} {value}" for name, value in sorted(row.data_settings.items()) if value != "none")
        found.setdefault(f"| {row.dataset} | {told}", set()).add(row.data_fingerprint[:16])
    return [
        "## Data\n",
        "The values that the rows of `benchmarks/runs` were made of, by fingerprint; two if the data changed.\n",
        "| dataset | settings | fingerprint |",
        "|:---|:---|:---|",
        *(f"{place} | {', '.join(sorted(marks))} |" for place, marks in sorted(found.items())),
        "",
    ]
