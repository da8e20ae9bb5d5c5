"""Small series and what AutoETS scores on them: the yardstick that `benchmarks.small_series.compare` reads.

Real series: AirPassengers and shampoo sales (kept with their values), and any ``name.csv`` of a folder that is given
(the last column is the series), of which the scores are kept and the values are not. Simulated ones: exponential
smoothing and ARIMA processes of 24 to 150 rows, `DRAWS` of each kind, because the ratio of two scores on three windows
of one series is mostly chance. Needs statsforecast:

    python -m benchmarks.small_series.make [folder]
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

RESULTS = Path(__file__).parent / "results"
SHARES = np.arange(1, 20) / 20
WINDOWS = 3
LENGTHS = (24, 36, 48, 72, 100, 150)
DRAWS = 10
SIMULATED = ("ets-", "arima-")
"""How the names of simulated series begin."""


def crps(actual: np.ndarray, quantiles: np.ndarray) -> float:  # (H,), (19, H)
    """Twice the mean pinball loss over 5, 10, …, 95 %."""
    error = actual - quantiles
    share = SHARES[:, None]
    return float(2 * np.maximum(share * error, (share - 1) * error).mean())


def simulate_smoothing(rng: np.random.Generator, rows: int, *, trend: bool, season: int) -> np.ndarray:
    """Exponential smoothing run forward: level 100, noise 5, with a damped trend and an additive season or without."""
    alpha, beta, gamma, phi = rng.uniform(0.1, 0.6), 0.05, 0.1, 0.95
    level, slope = 100.0, rng.normal(0, 1.0) if trend else 0.0
    index = 20 * np.sin(2 * np.pi * (np.arange(season) + rng.integers(season)) / season) if season > 1 else np.zeros(1)
    values = []
    for t in range(rows):
        error = rng.normal(0, 5)
        place = t % len(index)
        values.append(level + phi * slope + index[place] + error)
        level += phi * slope + alpha * error
        slope = phi * slope + (beta * error if trend else 0.0)
        index[place] += gamma * error if season > 1 else 0.0
    return np.array(values)


def simulate_arima(rng: np.random.Generator, rows: int, *, d: int) -> np.ndarray:
    """ARIMA(1, d, 1) with drift where d is 1."""
    phi, theta = rng.uniform(-0.5, 0.9), rng.uniform(-0.5, 0.5)
    noise = rng.normal(size=rows + 101)
    x = np.zeros(rows + 100)
    for t in range(1, rows + 100):
        x[t] = phi * x[t - 1] + noise[t + 1] + theta * noise[t]
    x = x[100:]
    return 50 + 5 * x if d == 0 else 200 + np.cumsum(2 * x + rng.normal(0, 0.5))


def simulated() -> Iterator[tuple[str, int, np.ndarray]]:
    rng = np.random.default_rng(25)
    for _ in range(DRAWS):
        for rows in LENGTHS:
            for trend in (False, True):
                for season in (1, 12):
                    if rows >= 3 * season:
                        name = f"ets-{'trend' if trend else 'level'}{'-season' if season > 1 else ''}-{rows}"
                        yield name, season, simulate_smoothing(rng, rows, trend=trend, season=season)
            for d in (0, 1):
                yield f"arima-1{d}1-{rows}", 1, simulate_arima(rng, rows, d=d)


def score(name: str, season: int, values: np.ndarray, *, public: bool) -> dict[str, Any]:
    from statsforecast.models import AutoETS

    horizon = 12 if len(values) >= 72 else 6
    step = horizon // 2
    levels = [10 * k for k in range(1, 10)]
    scores = []
    for window in reversed(range(WINDOWS)):
        cut = len(values) - horizon - window * step
        made = AutoETS(season_length=season).forecast(values[:cut], h=horizon, level=levels)
        low = [made[f"lo-{level}"] for level in reversed(levels)]
        quantiles = np.stack([*low, made["mean"], *(made[f"hi-{level}"] for level in levels)])
        scores.append(round(crps(values[cut : cut + horizon], quantiles), 4))
    kept = [round(float(value), 2) for value in values]
    return {"name": name, "season": season, "horizon": horizon, "step": step, "windows": WINDOWS,
            "rows": len(values), "values": kept if public else None, "auto_ets": scores}  # fmt: skip


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    rows = []
    for entry in read_entries():
        path = None if folder is None else folder / f"{entry['name']}.csv"
        if not entry["name"].startswith(SIMULATED):
            values = read_values(path) if path is not None and path.exists() else entry["values"]
            kept = entry if values is None else score(entry["name"], 12, np.array(values), public=bool(entry["values"]))
            rows.append(kept)
    rows += [score(name, season, values.round(2), public=True) for name, season, values in simulated()]
    (RESULTS / "auto_ets.json").write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
    print(f"{len(rows)} series")


def read_entries() -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = json.loads((RESULTS / "auto_ets.json").read_text())
    return entries


def read_values(path: Path) -> list[float]:
    values: list[float] = pd.to_numeric(pd.read_csv(path).iloc[:, -1], errors="coerce").dropna().tolist()
    return values


if __name__ == "__main__":
    main()
