"""The command-line entry point: registers the commands and turns user errors into one clear line."""

import sys

import typer

from fern._version import __version__
from fern.cli import backtest, bench, bench_tables, data, demo, forecast, stress, systems
from fern.errors import FernError

app = typer.Typer(
    name="fern",
    help="Long-horizon time-series forecasting, and a shock benchmark with known ground truth.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
forecast.register(app)
backtest.register(app)
systems.register(app)
demo.register(app)
data.register(app)
bench.register(app)
bench_tables.register(bench.bench)
stress.register(app)


@app.callback(invoke_without_command=True)
def _version(version: bool = typer.Option(False, "--version", help="Show the version and exit.")) -> None:
    if version:
        typer.echo(f"fern {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command; a user error is one line on standard error and exit code 2, never a traceback."""
    try:
        app()
    except FernError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(2)
