"""``fern stress``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from fern.cli.console import Modules, check_target_outputs, echo, import_own
from fern.cli.options import ModelContext, ModelHorizon

if TYPE_CHECKING:
    from fern.benchmark.stress.run import Result
    from fern.benchmark.stress.targets import Takes


def _show_adapters(show: bool) -> None:
    if show:
        from fern.benchmark.adapters.libraries import as_text

        echo(as_text())
        raise typer.Exit


def stress(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="Forecaster to test: module:callable (the current folder is searched last), a forecaster of a known "
            "library (see --list-adapters), the folder of a saved model or forecaster, or a model name (trained "
            "briefly on each scenario).",
        ),
    ],
    scenarios: Annotated[
        list[str] | None,
        typer.Option(
            "--scenario",
            help="Scenario id or TOML file. Repeatable. Default: LORENZ_PARAM, LORENZ_STATE, CHUA_SWITCH and "
            "SEASONAL_AR_PARAM, which cover every kind of shock.",
        ),
    ] = None,
    require: Annotated[
        list[str] | None,
        typer.Option(
            help='Requirement on every scenario, such as "regret<0.5" or "ept>=100". Repeatable. '
            "Metrics: mse, mae, wd, regret, excess_mse, ept, skill."
        ),
    ] = None,
    junit: Annotated[Path | None, typer.Option(help="Write the results to this file as JUnit XML.")] = None,
    time_limit: Annotated[float, typer.Option(help="Time limit for the forecasts of a scenario, in seconds.")] = 120.0,
    training_limit: Annotated[float, typer.Option(help="Time limit for training on a scenario, in seconds.")] = 1800.0,
    context_length: ModelContext = None,
    horizon: ModelHorizon = None,
    windows: Annotated[int, typer.Option(help="Maximum windows per scenario, spread over its test set.")] = 64,
    rivals: Annotated[
        bool,
        typer.Option(
            "--rivals",
            help="Also test analog and polymap, two baselines that are fitted in seconds, on the same windows.",
        ),
    ] = False,
    takes: Annotated[
        str, typer.Option(help="Input of the callable: batch (B, L, C), window (L, C), or auto to try both.")
    ] = "auto",
    modules: Modules = None,
    list_adapters: Annotated[
        bool,
        typer.Option(
            "--list-adapters",
            help="List the libraries whose forecasters can be tested, and exit.",
            is_eager=True,
            callback=_show_adapters,
        ),
    ] = False,
) -> None:
    """Test a forecaster on shocks for which the best possible forecast is known.

    The callable takes (context, horizon) and returns the forecast: (B, L, C) -> (B, H, C) or (L, C) -> (H, C).
    regret is (MSE - oracle MSE) / training variance; the oracle knows the equations.

    Without --require the metrics are shown beside those of the last value and the oracle, and there is no verdict.
    The exit code is 0 if the forecaster returned forecasts for every scenario and every requirement holds, 1 if not
    (including exceptions, timeouts, NaN and wrong shapes), and 2 for a usage error.
    """
    from fern.benchmark.stress.requirements import parse_requirements

    import_own(modules)
    requirements = parse_requirements(require or [])
    check_target_outputs(junit, target=target, scenarios=scenarios or [])
    from fern.benchmark.stress.run import RIVALS, StressSettings, stress_test
    from fern.benchmark.stress.summary import as_text, write_junit

    settings = StressSettings(
        context_length=context_length,
        horizon=horizon,
        windows=windows,
        time_limit=time_limit,
        training_limit=training_limit,
        takes=cast("Takes", takes),
        rivals=RIVALS if rivals else (),
    )
    report = stress_test(target, scenarios or (), requirements=requirements, settings=settings, on_result=_tell)
    echo(as_text(report))
    if junit is not None:
        write_junit(report, junit)
        echo(f"wrote {junit}", err=True)
    if not report.survived:
        raise typer.Exit(1)


def _tell(result: "Result") -> None:
    echo(f"{result.scenario}: {result.verdict}, {result.windows} windows, {result.seconds:.1f} s", err=True)
