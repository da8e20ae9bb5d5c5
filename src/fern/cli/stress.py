"""``fern stress``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from fern.files import check_writable

if TYPE_CHECKING:
    from fern.stress.examination import Result
    from fern.stress.targets import Takes


def register(app: typer.Typer) -> None:
    """Add this group's commands."""
    app.command()(stress)


def stress(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="module:callable (the current folder is searched first), a saved model's folder, "
            "or a registered model, which is trained for a moment on each scenario.",
        ),
    ],
    scenarios: Annotated[
        list[str] | None,
        typer.Option(
            "--scenario",
            help="A scenario's id or TOML file; can be repeated. Without it LORENZ_PARAM, LORENZ_STATE, CHUA_SWITCH "
            "and SEASONAL_AR_PARAM: one of each kind of shock.",
        ),
    ] = None,
    require: Annotated[
        list[str] | None,
        typer.Option(
            help='What must hold on every scenario, as in "regret<0.5" or "ept>=100"; can be repeated. '
            "Metrics: mse, mae, wd, regret, excess_mse, ept, skill."
        ),
    ] = None,
    junit: Annotated[Path | None, typer.Option(help="Where to write the outcome as JUnit XML.")] = None,
    time_limit: Annotated[float, typer.Option(help="Seconds for the forecasts of a scenario.")] = 120.0,
    training_limit: Annotated[
        float, typer.Option(help="Seconds to train on a scenario, for a model that is yet to be trained.")
    ] = 1800.0,
    context_length: Annotated[
        int | None, typer.Option(help="Steps the forecaster sees; without it a saved model's own, else 336.")
    ] = None,
    horizon: Annotated[
        int | None, typer.Option(help="Steps it forecasts; without it a saved model's own, else 336.")
    ] = None,
    windows: Annotated[int, typer.Option(help="At most so many windows a scenario, spread over its test part.")] = 64,
    takes: Annotated[
        str, typer.Option(help="What the callable takes: a batch (B, L, C), a window (L, C); auto tries both.")
    ] = "auto",
) -> None:
    """Put a forecaster through shocks whose best possible forecast is known.

    The callable gets (context, horizon) and gives the forecast, (B, L, C) -> (B, H, C) or (L, C) -> (H, C).
    regret is (mse - mse of the best possible forecast) / variance of the training part.

    The exit code is 0 when the forecaster gave forecasts for every scenario and every requirement holds, 1 when
    not (raising, hanging, NaN and wrong shapes included), 2 for a mistake in the command.
    """
    from fern.stress.requirements import parse_requirements

    asked = parse_requirements(require or [])
    if junit is not None:
        check_writable(junit)
    from fern.stress.examination import StressSettings, stress_test
    from fern.stress.summary import as_text, write_junit

    settings = StressSettings(
        context_length=context_length,
        horizon=horizon,
        windows=windows,
        time_limit=time_limit,
        training_limit=training_limit,
        takes=cast("Takes", takes),
    )
    report = stress_test(target, scenarios or (), requirements=asked, settings=settings, on_result=_tell)
    typer.echo(as_text(report))
    if junit is not None:
        write_junit(report, junit)
        typer.echo(f"wrote {junit}", err=True)
    if not report.survived:
        raise typer.Exit(1)


def _tell(result: "Result") -> None:
    outcome = "survived" if result.survived else "failed"
    typer.echo(f"{result.scenario}: {outcome}, {result.windows} windows, {result.seconds:.1f} s", err=True)
