"""The command-line entry point: registers the commands and turns every error into one clear line."""

import os
import sys
import traceback
from pathlib import Path

import typer

from fern._version import __version__
from fern.cli import backtest, bench, bench_tables, data, demo, forecast, report, stress, systems
from fern.cli.console import echo
from fern.cli.options import SeveralValues
from fern.errors import FernError, NotWritten
from fern.processes import Terminated, raise_on_signals
from fern.text import say

FAILED, MISTAKE = 1, 2
"""Exit codes: the work failed; the command or its input was wrong."""

DEBUG = "FERN_DEBUG"
"""The environment variable that shows tracebacks."""

app = typer.Typer(
    name="fern",
    help="Long-horizon time-series forecasting, and a shock benchmark with known ground truth.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (forecast.forecast, backtest.backtest, backtest.diagnose):
    app.command(cls=SeveralValues)(command)
for command in (systems.scenarios, systems.simulate, demo.demo, data.audit, data.clean, stress.stress):
    app.command()(command)
for command in (bench_tables.table, bench_tables.compare, bench_tables.response):
    bench.bench.command()(command)
app.add_typer(bench.bench)
app.add_typer(report.group)


@app.callback(invoke_without_command=True)
def _version(version: bool = typer.Option(False, "--version", help="Show the version and exit.")) -> None:
    if version:
        echo(f"fern {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command. What goes wrong is one line on standard error, never a traceback.

    The exit code is 2 for a mistake in the command or its input, and 1 where the work failed.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A terminal that cannot show a sign, or a file name that is not text: shown by its code, not an error.
            stream.reconfigure(errors="backslashreplace")
    sys.exit(_code())


def _code() -> int:
    try:
        code = _run()
        if sys.stdout is not None:
            sys.stdout.flush()  # a full disk behind standard output is found out only here
    except BrokenPipeError:
        _abandon_output()
        return FAILED  # nobody reads on, as after `| head`
    except NotWritten as error:
        return _report(str(error), FAILED)
    except FernError as error:
        return _report(str(error), MISTAKE)
    except OSError as error:
        if isinstance(error.filename, str | bytes | os.PathLike):  # not where an open file is known by its number alone
            return _report(f"{os.fsdecode(error.filename)}: {error.strerror or error}", MISTAKE)
        _abandon_output()
        return _report(f"standard output: was not written ({error.strerror or error})", FAILED)
    except MemoryError as error:
        return _report(f"not enough memory{f' ({error})' if str(error) else ''}", FAILED)
    except RecursionError:
        return _report("the input is nested too deep", MISTAKE)
    except Exception as error:  # a defect is told in one line, too
        if "can't allocate memory" in str(error) or "not enough memory" in str(error):  # torch's own kind
            return _report(f"not enough memory ({str(error)[:200]})", FAILED)
        if os.environ.get(DEBUG):
            raise
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(frame.filename).name}, line {frame.lineno}"
        return _report(
            f"internal error (bug): {type(error).__name__}: {error} ({place}); "
            f"please report it, with what {DEBUG}=1 in the environment shows",
            FAILED,
        )
    return code


def _run() -> int:
    _require_current_folder()
    try:
        with raise_on_signals():
            app()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except Terminated as ended:
        return ended.exit_code
    return 0


def _require_current_folder() -> None:
    """Without one, libraries that torch loads end the process in words of their own."""
    try:
        Path.cwd()
    except OSError as error:
        gone = isinstance(error, FileNotFoundError)
        trouble = "does not exist any more" if gone else f"cannot be used ({error.strerror})"
        raise FernError(f"the current folder {trouble}; change to another") from None


def _report(message: str, code: int) -> int:
    say(f"error: {message}", sys.stderr, medium="line")
    return code


def _abandon_output() -> None:
    """Python would try once more to write what is left when it ends, and complain."""
    try:
        handle = os.open(os.devnull, os.O_WRONLY)
        os.dup2(handle, sys.stdout.fileno())
        os.close(handle)
    except (OSError, ValueError, AttributeError):
        pass
