"""``fern bench``: the benchmark's commands, and ``fern bench run``."""

from pathlib import Path
from typing import Annotated

import typer

from fern.cli.console import Modules, console, echo, import_own
from fern.cli.options import out_option, split_names, split_numbers
from fern.errors import FernError
from fern.extras import add_search_folder

bench = typer.Typer(name="bench", help="Run benchmark tasks and show their results.", no_args_is_help=True)


_MOST_DIGITS = 19
"""Of a whole number below 2^63."""

Datasets = Annotated[
    list[str] | None, typer.Option("--datasets", "--scenarios", help="Only these datasets (comma-separated).")
]


@bench.command()
def tasks() -> None:
    """List the built-in tasks."""
    from rich.table import Table

    from fern.benchmark.tasks import read_task, task_names, task_path

    table = Table("task", "models", "datasets", "horizons", "seeds", "description", box=None, header_style="bold")
    for name in task_names():
        task = read_task(name)
        counts = (len(task.models), len(task.datasets), len(task.horizons), len(task.seeds))
        table.add_row(name, *map(str, counts), task.title)
    console().print(table)
    console().print(f"\nTask files, to copy and edit: {task_path(task_names()[0]).parent}", style="dim")


@bench.command()
def run(
    task: Annotated[str, typer.Argument(metavar="TASK", help="A built-in task (see fern bench tasks) or a TOML file.")],
    out: Annotated[Path | None, out_option("Results folder; existing results are kept (default: runs/TASK).")] = None,
    models: Annotated[list[str] | None, typer.Option(help="Only these models (comma-separated).")] = None,
    outside: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            metavar="MODULE:CALLABLE",
            help="Also run your own model: a function (context, horizon) that returns forecasts, a function "
            "(context_length, horizon, channels) that builds a torch model to train, a forecaster of a known library "
            "such as statsforecast.models:AutoETS (see fern stress --list-adapters), or the folder "
            "of a saved forecaster. Repeatable.",
        ),
    ] = None,
    modules: Modules = None,
    datasets: Datasets = None,
    seeds: Annotated[
        list[str] | None, typer.Option(help="Seeds to use instead of the task's (comma-separated).")
    ] = None,
    horizons: Annotated[
        list[str] | None, typer.Option(help="Horizons to use instead of the task's (comma-separated).")
    ] = None,
    noise: Annotated[
        list[str] | None,
        typer.Option(
            help="Observation noise on every scenario, as a fraction of the standard deviation (comma-separated; "
            "0.01 is 1 %). Models are trained on noisy values and scored against the true ones."
        ),
    ] = None,
    max_epochs: Annotated[int | None, typer.Option(help="Maximum epochs per run.")] = None,
    jobs: Annotated[int | None, typer.Option(help="Parallel runs (default: one per core).")] = None,
    threads: Annotated[int | None, typer.Option(help="Threads per run (default: cores divided by --jobs).")] = None,
    engine: Annotated[str, typer.Option(help="local (processes on this machine) or ray (a Ray cluster).")] = "local",
    address: Annotated[
        str | None, typer.Option(help="Address of the Ray cluster (default: start Ray on this machine).")
    ] = None,
    retry_failed: Annotated[
        bool,
        typer.Option("--retry-failed", help="Rerun runs that failed or diverged, or whose result file is damaged."),
    ] = False,
) -> None:
    """Run TASK, skipping what the results folder already has.

    Interrupted runs resume from their last checkpoint, and several commands can share a results folder.
    The exit code is 0 if every run has a result (a diverged run counts as a result), 1 if a run failed or was skipped
    because its result file is damaged, and 2 for a usage error.
    """
    from fern.benchmark.store import Store, default_folder
    from fern.benchmark.tasks import read_task

    import_own(modules)
    out, option = (default_folder(task), "") if out is None else (out, f" --runs {out}")
    chosen = (
        read_task(task)
        .narrowed(
            models=split_names(models),
            datasets=split_names(datasets),
            seeds=_whole_numbers("--seeds", seeds),
            horizons=_whole_numbers("--horizons", horizons),
            noise=split_numbers("--noise", noise, example="0,0.01"),
        )
        .beside(outside or [])
    )
    store = Store(out)
    store.check_writable()  # planning takes seconds; a bad path should fail before that
    from fern.benchmark.engines import open_engine
    from fern.benchmark.plan import IsolatedInspector, make_plan
    from fern.benchmark.progress import SweepProgress
    from fern.benchmark.sweep import run_sweep
    from fern.benchmark.tasks import is_outside

    if any(is_outside(choice.model) for choice in chosen.models):
        add_search_folder(str(Path.cwd()))
    with IsolatedInspector() as inspector:
        plan = make_plan(chosen, max_epochs=max_epochs, inspect=inspector)
    opened = open_engine(engine, plan, out, jobs=jobs, threads=threads, address=address)
    try:
        summary = run_sweep(plan, store, opened, retry_failed=retry_failed, watcher=SweepProgress(console()))
    except KeyboardInterrupt:
        echo("Interrupted; run the same command to resume", err=True)
        raise typer.Exit(130) from None
    counts = {
        "failed": summary.count("failed"),
        "diverged": summary.count("diverged"),
        "skipped: damaged result file": len(summary.damaged),
    }
    troubles = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    echo(f"{len(summary.results)} results in {out}" + (f" ({troubles})" if troubles else ""))
    echo(f"Show the table: fern bench table {task}{option}")
    if counts["failed"] or summary.damaged:
        raise typer.Exit(1)


@bench.command("export-fev")
def export_fev(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="New or empty folder for the tasks and their data.")],
    task: Annotated[str, typer.Option(help="A built-in task or a TOML file: its datasets and horizons.")] = "shock",
    datasets: Datasets = None,
    windows: Annotated[int, typer.Option(help="Windows of each dataset, spread over its test set.")] = 20,
) -> None:
    """Write the datasets of a task as fev tasks, for any model that fev can run.

    DIR gets a Parquet file per dataset, tasks.yaml for fev.Benchmark.from_yaml, and floors.json: the oracle's error on
    the same windows, where the true process is known.
    """
    from fern.benchmark.fev_tasks import export_tasks
    from fern.benchmark.tasks import read_task

    labels = export_tasks(read_task(task).narrowed(datasets=split_names(datasets)), folder, windows=windows)
    echo(f"{len(labels)} tasks in {folder}")
    echo(f'Read them: fev.Benchmark.from_yaml("{Path(folder) / "tasks.yaml"}")')


def _whole_numbers(option: str, values: list[str] | None) -> list[int] | None:
    names = split_names(values)
    for name in names or ():
        if not name.isdecimal() or len(name) > _MOST_DIGITS:
            raise FernError(argument=option, got=name, expected="comma-separated whole numbers below 2^63")
    return None if names is None else [int(name) for name in names]
