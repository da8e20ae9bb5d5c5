"""``python -m benchmarks.forecasters.compare [--tables …] [--methods …] [--verdicts]``: people's tables by libraries.

`FernForecaster` with its defaults against statsforecast, mlforecast's LightGBM and neuralforecast as their own
documentation recommends them for probabilistic forecasts (`benchmarks.forecasters.libraries`), on the same tables and
windows (`benchmarks.forecasters.tables`). Local models are fitted anew to each window, all others once, before the
first. Written down are MASE and SQL (the scaled quantile loss over nine deciles, about the CRPS over the scale of
MASE), the coverage of 80 % intervals, SQL of each window or series, and processor seconds. Time is reported and not
capped, but for `THIRTY_MINUTES`: a fit or a run of windows that takes longer is stopped, says after how much of it, and
is left out of verdicts. A library that is not installed is left out and said so. Results go to
``benchmarks/forecasters/results/libraries/``; those that are there are kept.
"""

import argparse
import json
import sys
from collections.abc import Mapping
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.forecasters.libraries import LIBRARIES, THIRTY_MINUTES, TrainingStopped, quiet
from benchmarks.forecasters.tables import TABLES
from benchmarks.public.models import MODELS, Model
from benchmarks.public.run import measure
from benchmarks.public.scores import scaled_losses
from benchmarks.public.tasks import Task
from benchmarks.sections.libraries import OURS, judge_libraries, libraries_part
from fern.errors import FernError

RESULTS = Path(__file__).parent / "results" / "libraries"
PACKAGES = ("lightgbm", "mlforecast", "neuralforecast", "statsforecast")
METHODS: Mapping[str, Model] = {OURS: MODELS["fern"], "SeasonalNaive": MODELS["seasonal-naive"], **LIBRARIES}


def main(arguments: list[str] | None = None) -> int:
    """The exit code: 0, or 1 where a method failed on a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.forecasters.compare", description=__doc__)
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=list(TABLES))
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--verdicts", action="store_true", help="show the results that are there, and run nothing")
    options = parser.parse_args(arguments)
    if options.verdicts:
        results = read_results()
        print(judge_libraries(results), libraries_part(results).markdown(), sep="\n\n")
        return 0
    quiet()
    failed = 0
    for name in options.methods:
        for table in options.tables:
            path = RESULTS / f"{table}-{name}.json"
            if path.exists():
                continue
            try:
                result = compare(TABLES[table], name)
            except ModuleNotFoundError as error:
                print(f"{name}: {error.name} is not installed: left out", flush=True)
                break
            except FernError as error:
                print(f"{table} {name}: {error}", file=sys.stderr, flush=True)
                failed = 1
                continue
            RESULTS.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(result, indent=1) + "\n")
            print(json.dumps({key: value for key, value in result.items() if key != "losses"}), flush=True)
    return failed


def compare(table: Task, name: str) -> dict[str, Any]:
    """The result of one method on one table."""
    about = {
        "table": table.name,
        "method": name,
        "command": f"python -m benchmarks.forecasters.compare --tables {table.name} --methods {name}",
    }
    try:
        result, outcome = measure(table, METHODS[name], longest=THIRTY_MINUTES)
    except TrainingStopped as error:
        return {**about, "stopped": str(error)}
    losses = [] if outcome is None else scaled_losses(outcome, table.quantiles).tolist()
    result["versions"] = result["versions"] | _installed()
    return {**about, **result, "losses": [None if np.isnan(loss) else float(f"{loss:.6g}") for loss in losses]}


def _installed() -> dict[str, str]:
    return {name: version(name) for name in PACKAGES if find_spec(name) is not None}


def read_results() -> list[dict[str, Any]]:
    """All results that are kept, by table and method."""
    return [json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))]


if __name__ == "__main__":
    sys.exit(main())
