"""``fern scenarios`` and ``fern simulate``."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from fern.cli.console import Modules, console, echo, echo_json, import_own
from fern.cli.options import Plot, Steps, out_option
from fern.errors import FernError
from fern.files import check_outputs


def scenarios(
    as_json: Annotated[bool, typer.Option("--json", help="Print all settings as JSON.")] = False,
) -> None:
    """List the built-in scenarios."""
    from fern.systems import SCENARIOS

    if as_json:
        echo_json([asdict(plan) | {"shock_rows": plan.shock_rows} for plan in SCENARIOS.values()], indent=2)
        return
    from rich.table import Table

    table = Table("id", "system", "channels", "steps", "dt", "shock", box=None, header_style="bold")
    for plan in SCENARIOS.values():
        channels = len(plan.source.channel_names_of(plan.source.complete(plan.params)))
        shock = ", ".join(f"{s.kind} at {row}" for s, row in zip(plan.shocks, plan.shock_rows, strict=True))
        table.add_row(plan.id, plan.system, str(channels), f"{plan.steps:,}", f"{plan.dt:g}", shock or "-")
    console().print(table)
    console().print("\nSimulate one: fern simulate LORENZ_PARAM -o lorenz.csv --plot lorenz.png", style="dim")


def simulate(
    source: Annotated[str, typer.Argument(metavar="ID|FILE", help="A scenario id, or a TOML file that defines one.")],
    out: Annotated[Path | None, out_option("Write the trajectory to this file: .csv, .parquet or .npz.")] = None,
    plot: Plot = None,
    seed: Annotated[int | None, typer.Option(help="Seed to use instead of the scenario's.")] = None,
    steps: Steps = None,
    modules: Modules = None,
) -> None:
    """Simulate a scenario and write or plot the trajectory."""
    from fern.plot.canvas import figure_format, save_figure
    from fern.systems import open_scenario
    from fern.systems import simulate as play
    from fern.systems.scenarios import is_scenario_file
    from fern.systems.trajectory import export_format, save_trajectory

    import_own(modules)
    plan = open_scenario(source)
    plan = replace(plan, seed=plan.seed if seed is None else seed, steps=plan.steps if steps is None else steps)
    if out is None and plot is None:
        raise FernError("nothing to do: give --out FILE to write the trajectory, --plot FILE to plot it, or both")
    # Every path is checked before any work, so that a mistake in one leaves no file behind.
    if out is not None:
        export_format(out)
    if plot is not None:
        figure_format(plot)
    check_outputs([out, plot], inputs=[source if is_scenario_file(source) else None])
    trajectory = play(plan)
    if plot is not None:
        from fern.plot.attractor import trajectory_figure

        save_figure(trajectory_figure(trajectory), plot)
    if out is not None:
        save_trajectory(trajectory, out)
    rows, channels = trajectory.values.shape
    shocks = ", ".join(f"{s.kind} shock at row {row}" for s, row in zip(plan.shocks, plan.shock_rows, strict=True))
    echo(f"{plan.id or plan.system}: {rows:,} rows x {channels} channels, {shocks or 'no shock'}")
    echo(f"fingerprint {trajectory.fingerprint}")
    for path in (out, plot):
        if path is not None:
            echo(f"wrote {path}")
