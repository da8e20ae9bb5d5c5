"""``python -m benchmarks.forecasters.trajectories [--count 8]``: is the coverage of one chaotic series chance?

`FernForecaster` with its defaults learns 8,000 rows of LORENZ_BASE and forecasts the windows after them, as in
`benchmarks.forecasters.compare`, but of several trajectories: number 0 is the scenario's own, the others start
elsewhere and leave their first rows out. Written down for each are the coverage of 80 and 95 % intervals over the first
40 windows, which `compare` has, and over all 200; that of the same radii on the windows that they were taken from, and
of radii from half of these on the other half; and the n_eff of the radii. Printed at the end are means over the
trajectories with their standard errors, and how many independent windows the spread of coverage over the trajectories
is that of: p (1 − p) over its variance. Rows go to ``benchmarks/forecasters/results/trajectories/``; those there are
already are skipped.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.rows import save_row
from fern.calibration.radii import blocks_of
from fern.forecaster import FernForecaster
from fern.systems import scenario, simulate

RESULTS = Path(__file__).parent / "results" / "trajectories"
NAME, ROWS, HORIZON, FIRST, WINDOWS = "LORENZ_BASE", 8_000, 96, 40, 200
LEFT_OUT = 2_000
LEVELS = (80, 95)
Floats = NDArray[np.float64]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=8)
    count = parser.parse_args().count
    for number in range(count):
        path = RESULTS / f"{NAME}-{number}.json"
        if not path.exists():
            forecaster = FernForecaster(HORIZON, season=1, progress="silent")
            row = measured(forecaster, table(number, rows=ROWS + WINDOWS * HORIZON), windows=WINDOWS)
            row = {"command": f"python -m benchmarks.forecasters.trajectories --count {number + 1}", **row}
            save_row(path, row)
    print(summary([json.loads(path.read_text()) for path in sorted(RESULTS.glob(f"{NAME}-*.json"))]))


def table(number: int, *, rows: int) -> pd.DataFrame:
    """The trajectory of this number as a long frame of one series a channel."""
    start = np.random.default_rng(number).normal((0.0, 0.0, 25.0), 5.0)
    skipped = LEFT_OUT if number else 0
    trajectory = simulate(scenario(NAME, steps=rows + skipped, initial_state=tuple(start.tolist()) if number else None))
    values = trajectory.values[skipped:].astype(float)
    parts = [
        pd.DataFrame({"unique_id": channel, "ds": np.arange(rows), "y": values[:, c]})
        for c, channel in enumerate(trajectory.channel_names)
    ]
    return pd.concat(parts, ignore_index=True)


def measured(forecaster: FernForecaster, frame: pd.DataFrame, *, windows: int) -> dict[str, Any]:
    """Fit before the windows at the end of each series, and count what lies inside."""
    horizon = forecaster.horizon
    learnt = frame.groupby("unique_id", sort=False).head(len(frame) // frame["unique_id"].nunique() - windows * horizon)
    forecaster.fit(learnt)
    found = forecaster.cross_validation(
        frame, n_windows=windows, step_size=horizon, level=list(LEVELS), use_fitted=True
    )
    first = found["cutoff"] <= found["cutoff"].min() + (FIRST - 1) * horizon
    calibration = forecaster._require_fitted().calibration
    assert calibration is not None
    own = np.abs(calibration.shape.margins(calibration.kept.standardised))  # (n, C, H)
    blocks = blocks_of(calibration.horizon)
    halves = forecaster.diagnose().coverage
    row: dict[str, Any] = {"windows": windows, "n_eff": calibration.n_eff["margin"]}
    for level in LEVELS:
        inside = found["y"].between(found[f"Fern-lo-{level}"], found[f"Fern-hi-{level}"])
        radius = np.repeat(calibration.radii.margin.at(level).reshape(-1, len(blocks)), blocks, axis=1)
        judged = halves[(halves["kind"] == "margin") & (halves["level"] == level)]["coverage"]
        row |= {
            f"first_coverage_{level}": float(inside[first].mean()),
            f"coverage_{level}": float(inside.mean()),
            f"own_coverage_{level}": float((own <= radius[calibration.group]).mean()),
            f"half_coverage_{level}": float(judged.iloc[0]),
        }
    return row


def summary(rows: list[dict[str, Any]]) -> str:
    """Means over the trajectories, and the windows that the spread of the coverage is worth.

    Example:
        >>> rows = [{"n_eff": 9.0, **dict.fromkeys(_NAMES, share)} for share in (0.7, 0.9)]
        >>> print(summary(rows).splitlines()[2])
        coverage_80: 80.0 ± 10.0 % (70.0 to 90.0), a spread of 8.0 independent windows
    """
    sizes = ", ".join(f"{row['n_eff']:.0f}" for row in rows)
    lines = [f"{len(rows)} trajectories; n_eff of the radii {sizes}"]
    for name in _NAMES:
        shares = np.array([row[name] for row in rows])
        mean, error = shares.mean(), shares.std(ddof=1) / len(shares) ** 0.5
        worth = mean * (1 - mean) / shares.var(ddof=1)
        lines.append(
            f"{name}: {100 * mean:.1f} ± {100 * error:.1f} % ({100 * shares.min():.1f} to {100 * shares.max():.1f}), "
            f"a spread of {worth:.1f} independent windows"
        )
    return "\n".join(lines)


_NAMES = [
    f"{kind}_{level}" for level in LEVELS for kind in ("first_coverage", "coverage", "own_coverage", "half_coverage")
]


if __name__ == "__main__":
    main()
