"""``fern bench table``, ``fern bench compare`` and ``fern bench response``: reading the results of runs."""

import re
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fern.cli.console import Modules, check_target_outputs, console, echo, echo_json, import_own
from fern.cli.options import AsJson, ModelContext, ModelHorizon, Plot, Steps, out_option, split_names
from fern.errors import FernError, require_number, require_whole, unknown_name
from fern.files import check_outputs, require_ending, write_whole

if TYPE_CHECKING:
    from fern.benchmark.store import Contents
    from fern.benchmark.stress.response import ShockResponse
    from fern.benchmark.stress.targets import ScenarioData
    from fern.benchmark.tables.comparison import Comparison
    from fern.benchmark.tasks import Task
    from fern.systems import Scenario, Trajectory

_RUNS = typer.Option("--runs", help="Results folder (the --out of fern bench run; default: runs/TASK).")


def table(
    task: Annotated[
        str, typer.Argument(metavar="TASK", help="A built-in task, a TOML file, or a task named in the results.")
    ],
    runs: Annotated[Path | None, _RUNS] = None,
    format_: Annotated[
        str | None, typer.Option("--format", help="md, json, csv, html or tex (default: a terminal table).")
    ] = None,
    paper: Annotated[bool, typer.Option("--paper", help="Show the paper's numbers and the ratio to them.")] = False,
    kind: Annotated[
        str | None,
        typer.Option(
            help="Layout: shock, detailed, main (detailed, averaged over horizons), ablation, recency, footprint, "
            "real, noise, author, spread or long (default: the task's)."
        ),
    ] = None,
    metrics: Annotated[
        str | None, typer.Option(help="Metrics to show instead of the default ones (comma-separated).")
    ] = None,
    out: Annotated[Path | None, out_option("Write to this file instead of the terminal.")] = None,
) -> None:
    """Show the results of a task: mean over seeds ± standard error, best and second best marked."""
    from fern.benchmark.store import Store, default_folder
    from fern.benchmark.tables.build import build_table
    from fern.benchmark.tables.rendering import FORMATS, fit_width, render, to_rich

    store = Store(default_folder(task) if runs is None else runs)
    check_outputs([out], inputs=[task if task.lower().endswith(".toml") else None], kept=store.folders)
    if out is not None and format_ is None:
        format_ = require_ending(out, [f".{name}" for name in FORMATS], what="a table").removeprefix(".")
    if format_ is not None and format_ not in FORMATS:
        raise unknown_name("format", format_, FORMATS)
    contents = store.contents()
    names = split_names([metrics] if metrics else None)
    built = build_table(contents.results, task=_task(task, contents), kind=kind, metrics=names, paper=paper)
    built = replace(built, notes=(*contents.notes, *built.notes))
    if out is not None and format_ is not None:
        with write_whole(out) as temporary:
            temporary.write_text(render(built, format_), encoding="utf-8")
        echo(f"wrote {out}")
    elif format_ is not None:
        echo(render(built, format_), nl=False)
    else:
        parts = fit_width(built, console().width)
        for part in parts:
            console().print(to_rich(part))
        _show_notes(parts[-1].notes)


def compare(
    first: Annotated[str, typer.Argument(metavar="A", help="A model, as named in the tables.")],
    second: Annotated[str, typer.Argument(metavar="B", help="The model to compare it with.")],
    runs: Annotated[Path | None, _RUNS] = None,
    other: Annotated[Path | None, typer.Option(help="Take the results of B from this results folder.")] = None,
    task: Annotated[str | None, typer.Option(help="Only results of this task.")] = None,
    metric: Annotated[str, typer.Option(help="mse or mae.")] = "mse",
    as_json: AsJson = False,
) -> None:
    """Test whether model A differs significantly from model B.

    For each dataset: the Diebold-Mariano test over all test windows, corrected for their overlap. Across three or more
    datasets: the Friedman test and Nemenyi's critical difference.
    """
    from fern.benchmark.store import Store, default_folder
    from fern.benchmark.tables.comparison import compare as compare_models

    if runs is None and task is None:
        raise FernError("say which results to compare", argument="runs", expected="--runs DIR or --task TASK")
    comparison = compare_models(
        first,
        second,
        runs=Store(default_folder(task or "") if runs is None else runs),
        other=None if other is None else Store(other),
        task=task,
        metric=metric,
    )
    if as_json:
        echo_json(_finite(asdict(comparison)), indent=1)
    else:
        _show_comparison(comparison)


def response(
    target: Annotated[
        str,
        typer.Argument(metavar="TARGET", help="A model name (trained first), a saved model, or module:callable."),
    ],
    scenario: Annotated[str, typer.Argument(metavar="ID|FILE", help="Id or TOML file of a scenario with a shock.")],
    at: Annotated[
        str | None, typer.Option(help="Move the shock to this row or fraction (0.95 is in the test set).")
    ] = None,
    steps: Steps = None,
    context_length: ModelContext = None,
    horizon: ModelHorizon = None,
    stride: Annotated[int, typer.Option(help="Rows between consecutive windows.")] = 1,
    reach: Annotated[
        int | None,
        typer.Option(help="Rows to cover before and after the shock (default: 4 × (context length + horizon))."),
    ] = None,
    tolerance: Annotated[
        float,
        typer.Option(
            help="Recovered when the smoothed error is within (1 + this) × the error before the shock or the twin's."
        ),
    ] = 0.5,
    time_limit: Annotated[float, typer.Option(help="Time limit for the forecasts of a batch, in seconds.")] = 120.0,
    training_limit: Annotated[float, typer.Option(help="Time limit for training, in seconds.")] = 1800.0,
    plot: Plot = None,
    modules: Modules = None,
    as_json: AsJson = False,
) -> None:
    """Show how a forecaster responds to a shock: its error before, across and after it, and the time to recover.

    The error on the same trajectory without the shock is shown for comparison. A model given by name is first
    trained briefly on the first 70 % of the shocked trajectory.
    """
    from fern.benchmark.stress.response import shock_response
    from fern.benchmark.stress.time_limit import guard_forecaster
    from fern.plot.canvas import figure_format, save_figure
    from fern.systems import simulate

    if plot is not None:
        figure_format(plot)
    check_target_outputs(plot, target=target, scenarios=[scenario])
    import_own(modules)
    for name, seconds in (("time-limit", time_limit), ("training-limit", training_limit)):
        require_number(f"--{name}", seconds, "a number of seconds above 0", lambda value: value > 0)
    plan = _scenario(scenario, at=at, steps=steps)
    with guard_forecaster(target) as guarded:
        has = guarded.config
        length = context_length if context_length is not None else has.context_length if has else 336
        horizon = horizon if horizon is not None else has.horizon if has else 336
        trajectory = simulate(plan)
        data = _scenario_data(trajectory, context_length=length, horizon=horizon)
        result = shock_response(
            lambda contexts: guarded.forecast_windows(
                replace(data, contexts=contexts), time_limit=time_limit, training_limit=training_limit
            ),
            trajectory,
            context_length=length,
            horizon=horizon,
            stride=stride,
            reach=reach,
            tolerance=tolerance,
        )
    if as_json:
        echo_json(_response_record(result, target), indent=1)
    else:
        _show_response(result, target)
    if plot is not None:
        from fern.plot.scores import shock_response_figure

        save_figure(shock_response_figure(result, name=target), plot)
        echo(f"wrote {plot}", err=as_json)


def _task(name: str, contents: "Contents") -> "Task | str":
    """The task itself, or its name where only the results know it."""
    from fern.benchmark.tasks import read_task, task_names

    known = {result.task for result in contents.results}
    if name in task_names() or name.lower().endswith(".toml"):
        return read_task(name)
    if name in known:
        return name
    raise unknown_name("task", name, {*known, *task_names()})


def _show_comparison(comparison: "Comparison") -> None:
    from rich.table import Table

    from fern.benchmark.results import title_of
    from fern.html.markup import number

    title = f"{comparison.first} against {comparison.second}: {title_of(comparison.metric)}"
    heads = ("dataset", "horizon", comparison.first, comparison.second, "difference", "95 % interval", "p", "verdict")
    lines = Table(*heads, title=title, box=None, header_style="bold")
    for verdict in comparison.verdicts:
        test = verdict.test
        lines.add_row(
            verdict.dataset,
            str(verdict.horizon),
            number(verdict.first),
            number(verdict.second),
            number(verdict.first - verdict.second),
            "" if test is None else f"{number(test.low)} to {number(test.high)}",
            "" if test is None else f"{test.p_value:.2g}",
            f"{comparison.first} {verdict.words}",
        )
    console().print(lines)
    over = comparison.over_scenarios
    if over is not None:
        ranks = ", ".join(f"{model} {rank:.2f}" for model, rank in zip(over.models, over.ranks.average, strict=True))
        echo(f"\nAverage ranks over {over.ranks.scenarios} scenarios: {ranks}")
        echo(
            f"Friedman chi-squared {over.ranks.statistic:.3g} (p {over.ranks.p_value:.2g}; Iman-Davenport p "
            f"{over.ranks.f_p_value:.2g}), Nemenyi critical difference {over.critical_difference:.3g} at 5 %: "
            f"{over.words}"
        )
    _show_notes(comparison.notes)


def _show_notes(notes: Sequence[str]) -> None:
    for note in notes:
        console().print(note, style="dim", markup=False, highlight=False)


def _scenario(source: str, *, at: str | None, steps: int | None) -> "Scenario":
    from fern.benchmark.stress.response import with_shock_at
    from fern.systems import open_scenario

    plan = open_scenario(source)
    if steps is not None:
        plan = replace(plan, steps=steps)
    if at is None:
        return plan
    if not re.fullmatch(r"\d+|\d*\.\d+", at):
        raise FernError(argument="--at", got=at, expected="a row number such as 30000, or a fraction such as 0.95")
    return with_shock_at(plan, float(at) if "." in at else int(at))


def _scenario_data(trajectory: "Trajectory", *, context_length: int, horizon: int) -> "ScenarioData":
    """What a forecaster gets of the trajectory: its training part, which a registered model learns from."""
    import numpy as np

    from fern.benchmark.stress.targets import ScenarioData
    from fern.data.splits import split

    require_whole("context_length", context_length, 1)
    require_whole("horizon", horizon, 1)
    values = np.asarray(trajectory.values, dtype=np.float32)
    parts = split(len(values), "shock")
    return ScenarioData(
        rows=values[: parts.validation.stop],
        train=parts.train,
        validation=parts.validation,
        contexts=values[None, :context_length],
        horizon=horizon,
    )


def _show_response(result: "ShockResponse", target: str) -> None:
    from rich.table import Table

    from fern.html.markup import number

    lengths = f"{result.context_length} to {result.horizon}"
    title = f"{target} on {result.scenario}, {lengths}, shock at row {result.shock_row:,}"
    heads = ("windows", "number", "MSE", "MSE without the shock", "ratio")
    lines = Table(*heads, title=title, box=None, header_style="bold")
    for phase in result.phases:
        figures = (phase.mse, phase.twin_mse, phase.ratio)
        lines.add_row(phase.name, f"{phase.windows:,}", *("" if value is None else number(value) for value in figures))
    console().print(lines)
    echo(f"{target} {result.in_words()} (MSE before the shock: {number(result.level)})")


def _response_record(result: "ShockResponse", target: str) -> dict[str, Any]:
    plain = ("scenario", "shock_row", "context_length", "horizon", "level", "recovery")
    series = ("starts", "errors", "twin_errors", "smoothed", "limits")
    return {
        "target": target,
        **{name: getattr(result, name) for name in plain},
        "phases": [{**asdict(phase), "ratio": phase.ratio} for phase in result.phases],
        **{name: getattr(result, name).tolist() for name in series},
    }


def _finite(value: Any) -> Any:
    """The value with infinite numbers as text: JSON has none."""
    if isinstance(value, dict):
        return {name: _finite(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(entry) for entry in value]
    return str(value) if isinstance(value, float) and value in (float("inf"), float("-inf")) else value
