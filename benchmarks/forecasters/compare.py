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
from collections.abc import Mapping, Sequence
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
from fern.errors import FernError

RESULTS = Path(__file__).parent / "results" / "libraries"
OURS = "FernForecaster"
PACKAGES = ("lightgbm", "mlforecast", "neuralforecast", "statsforecast")
METHODS: Mapping[str, Model] = {OURS: MODELS["fern"], "SeasonalNaive": MODELS["seasonal-naive"], **LIBRARIES}
CERTAIN = 2.0
"""Standard errors of a paired difference beyond which one method is said to be better."""


def main(arguments: list[str] | None = None) -> int:
    """The exit code: 0, or 1 where a method failed on a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.forecasters.compare", description=__doc__)
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=list(TABLES))
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--verdicts", action="store_true", help="show the results that are there, and run nothing")
    options = parser.parse_args(arguments)
    if options.verdicts:
        print(write_comparison(read_results()))
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


def paired_difference(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> tuple[float, float]:
    """The mean difference of SQL, ours minus theirs, and its standard error over the same windows or series.

    Example:
        >>> paired_difference({"losses": [1.0, 2.0, 1.5]}, {"losses": [2.0, 3.0, None]})
        (-1.0, 0.0)
    """
    pairs = [(a, b) for a, b in zip(ours["losses"], theirs["losses"], strict=True) if a is not None and b is not None]
    differences = np.array([a - b for a, b in pairs])
    return float(differences.mean()), float(differences.std(ddof=1) / np.sqrt(len(differences)))


def verdict(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    """``better``, ``worse`` or ``tie`` by a paired difference of more than `CERTAIN` standard errors."""
    difference, error = paired_difference(ours, theirs)
    if abs(difference) <= CERTAIN * error:
        return "tie"
    return "better" if difference < 0 else "worse"


def write_comparison(results: Sequence[Mapping[str, Any]]) -> str:
    """A Markdown table for each of `TABLES`, best SQL first, with what our forecaster is to each of the others."""
    parts = []
    for table in TABLES:
        rows = [result for result in results if result["table"] == table]
        done = sorted((row for row in rows if "metrics" in row), key=lambda row: float(row["metrics"]["SQL"]))
        if not done:
            continue
        ours = next((row for row in done if row["method"] == OURS), None)
        first = done[0]
        parts += [
            f"### {table}\n",
            f"{first['series']:,} series, horizon {first['horizon']}, {first['windows']} "
            f"window{'s' if first['windows'] > 1 else ''}; ± over {first['spread_over']}.\n",
            f"| method | SQL | MASE | coverage 80 % | fit | forecasts | {OURS} is |",
            "|---|---|---|---|---|---|---|",
            *(_line(row, ours) for row in done),
            *(
                f"| {row['method']} | stopped {row['stopped'].removeprefix('stopped ')} | | | | | |"
                for row in rows
                if "stopped" in row
            ),
            "",
        ]
    return "\n".join(parts)


def _line(row: Mapping[str, Any], ours: Mapping[str, Any] | None) -> str:
    losses = np.array([loss for loss in row["losses"] if loss is not None])
    error = losses.std(ddof=1) / np.sqrt(len(losses))
    metrics = row["metrics"]
    said = "" if ours is None or row["method"] == OURS else verdict(ours, row)
    name = f"**{OURS}**" if row["method"] == OURS else row["method"]
    return (
        f"| {name} | {metrics['SQL']:.4g} ± {error:.2g} | {metrics['MASE']:.4g} ± {metrics['MASE_error']:.2g} | "
        f"{100 * metrics['coverage_80']:.1f} % | {row['fit_seconds']:.1f} s | {row['predict_seconds']:.1f} s | {said} |"
    )


if __name__ == "__main__":
    sys.exit(main())
