"""``fern bench``: the benchmark's commands, and ``fern bench run``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fern.errors import FernError

if TYPE_CHECKING:
    from fern.benchmark.sweep import SweepSummary
    from fern.benchmark.tasks import Task

bench = typer.Typer(name="bench", help="The benchmark: run tasks, read their tables.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add this group's commands."""
    app.add_typer(bench)


@bench.command()
def tasks() -> None:
    """List the tasks that come with fern."""
    from rich.table import Table

    from fern.benchmark.tasks import read_task, task_names, task_path
    from fern.cli.console import console

    table = Table("task", "models", "datasets", "horizons", "seeds", "about", box=None, header_style="bold")
    for name in task_names():
        task = read_task(name)
        counts = (len(task.models), len(task.datasets), len(task.horizons), len(task.seeds))
        table.add_row(name, *map(str, counts), task.title)
    console().print(table)
    console().print(f"\nTheir files, to copy and change: {task_path(task_names()[0]).parent}", style="dim")


@bench.command()
def run(
    task: Annotated[str, typer.Argument(metavar="TASK", help="A task's name (fern bench tasks) or its TOML file.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder for the rows; it can hold earlier ones.")],
    models: Annotated[list[str] | None, typer.Option(help="Only these models, separated by commas.")] = None,
    outside: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            metavar="MODULE:CALLABLE",
            help="Someone else's model beside the task's: a function (context, horizon) that forecasts, or one "
            "(context_length, horizon, channels) that builds a torch model to be trained; can be repeated.",
        ),
    ] = None,
    datasets: Annotated[
        list[str] | None, typer.Option("--datasets", "--scenarios", help="Only these datasets, separated by commas.")
    ] = None,
    seeds: Annotated[list[str] | None, typer.Option(help="These seeds, separated by commas.")] = None,
    horizons: Annotated[list[str] | None, typer.Option(help="These horizons, separated by commas.")] = None,
    max_epochs: Annotated[int | None, typer.Option(help="At most so many epochs a run.")] = None,
    jobs: Annotated[int | None, typer.Option(help="Runs at a time; one a core unless given.")] = None,
    threads: Annotated[
        int | None, typer.Option(help="Threads of each run; the cores divided by the jobs unless given.")
    ] = None,
    engine: Annotated[str, typer.Option(help="local: processes on this machine; ray: a Ray cluster.")] = "local",
    address: Annotated[
        str | None, typer.Option(help="The Ray cluster; without it Ray is started on this machine.")
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Do failed, diverged and damaged runs again.")
    ] = False,
) -> None:
    """Do the runs of TASK that the folder does not have yet.

    What is done is skipped, what was interrupted goes on where it was, and several such commands may share a folder.
    The exit code is 0 when every run has its row (a diverged run is a result), 1 when one failed or is left out
    because its row file is damaged, 2 for a mistake in the command.
    """
    from fern.benchmark.tasks import read_task

    chosen = (
        read_task(task)
        .narrowed(
            models=_names(models),
            datasets=_names(datasets),
            seeds=_numbers("seeds", seeds),
            horizons=_numbers("horizons", horizons),
        )
        .beside(outside or [])
    )
    summary = _swept(
        chosen,
        out,
        max_epochs=max_epochs,
        jobs=jobs,
        threads=threads,
        engine=engine,
        address=address,
        retry_failed=retry_failed,
    )
    failed, diverged = summary.count("failed"), summary.count("diverged")
    troubles = [
        f"{count} {what}"
        for count, what in ((failed, "failed"), (diverged, "diverged"), (len(summary.damaged), "left out as damaged"))
        if count
    ]
    typer.echo(f"{len(summary.rows)} rows in {out}" + (f" ({', '.join(troubles)})" if troubles else ""))
    typer.echo(f"the table: fern bench table {task} --runs {out}")
    if failed or summary.damaged:
        raise typer.Exit(1)


def _swept(
    task: "Task",
    out: Path,
    *,
    max_epochs: int | None,
    jobs: int | None,
    threads: int | None,
    engine: str,
    address: str | None,
    retry_failed: bool,
) -> "SweepSummary":
    """Plan and sweep; Ctrl-C is answered with what to do next."""
    from fern.benchmark.store import Store

    store = Store(out)
    store.check_writable()  # planning takes seconds, a mistake in the path should not wait for it
    from fern.benchmark.engines import open_engine
    from fern.benchmark.plan import make_plan
    from fern.benchmark.progress.display import watcher_for
    from fern.benchmark.sweep import run_sweep
    from fern.cli.console import console
    from fern.integrations.inward.outside import on_the_path

    on_the_path(str(Path.cwd()))  # where a user's own models are looked for first
    plan = make_plan(task, max_epochs=max_epochs)
    opened = open_engine(engine, plan, out, jobs=jobs, threads=threads, address=address)
    try:
        return run_sweep(plan, store, opened, retry_failed=retry_failed, watcher=watcher_for(console()))
    except KeyboardInterrupt:
        typer.echo("stopped; the same command goes on from here", err=True)
        raise typer.Exit(130) from None


def _names(given: list[str] | None) -> list[str] | None:
    if given is None:
        return None
    return [name.strip() for entry in given for name in entry.split(",") if name.strip()]


def _numbers(option: str, given: list[str] | None) -> list[int] | None:
    names = _names(given)
    if names is None:
        return None
    for name in names:
        if not name.isdecimal():
            raise FernError(f"--{option}: got {name!r}, needs whole numbers separated by commas")
    return [int(name) for name in names]
