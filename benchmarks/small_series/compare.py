"""FernForecaster on small and odd series: against AutoETS, and against the truth of simulated panels.

    python -m benchmarks.small_series.compare [--classical] [--folder CSVS] [--only TOPIC …]

``--classical`` leaves the model out (``time_limit=1``): seconds in place of minutes. Topics: ``series`` (CRPS over
AutoETS's on `make`'s series), ``deciles`` (the chance of a value below each decile of simulated panels, by the process
itself: nothing is drawn but the rows that are fitted), ``totals`` (sums of means over the truth), ``lengths`` (series
of 1 to 60 rows, and a panel of 1,000 with 1 to 2,000 rows), ``many`` (10,000 series of 60 rows). Results go to
``benchmarks/small_series/results/``.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from benchmarks.small_series.make import RESULTS, SHARES, crps, read_entries, read_values
from fern.forecaster import FernForecaster

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Floats]

ROWS, HORIZON, SERIES, PANELS = 300, 20, 40, 40
MANY, MONTHS = 10_000, 60
DECILES = np.arange(1, 10) / 10
DRAWS: Mapping[str, Draw] = {
    "lognormal": lambda rng, n: rng.lognormal(0, 1, n),
    "exponential": lambda rng, n: rng.exponential(1, n),
    "poisson-0.3": lambda rng, n: rng.poisson(0.3, n).astype(float),
    "zero-inflated": lambda rng, n: np.where(rng.random(n) < 0.6, 0.0, rng.gamma(2.0, 3.0, n)),
}

CHANCES: Mapping[str, Callable[[Floats], Floats]] = {
    "lognormal": lambda x: stats.lognorm.cdf(x, 1.0),
    "exponential": lambda x: stats.expon.cdf(x),
    "poisson-0.3": lambda x: stats.poisson.cdf(x, 0.3),
    "zero-inflated": lambda x: np.where(x < 0, 0.0, 0.6 + 0.4 * stats.gamma.cdf(x, 2.0, scale=3.0)),
}
"""The chance of a value up to x."""


def forecaster(horizon: int, *, season: int, quick: bool) -> FernForecaster:
    return FernForecaster(horizon, season=season, time_limit=1.0 if quick else None, progress="silent")


def frame_of(series: list[Floats], frequency: str = "D") -> pd.DataFrame:
    parts = []
    for number, y in enumerate(series):
        stamps = pd.date_range("2000", periods=len(y), freq=frequency)
        parts.append(pd.DataFrame({"unique_id": f"s{number:04d}", "ds": stamps, "y": y}))
    return pd.concat(parts, ignore_index=True)


def compare_series(folder: Path | None, *, quick: bool) -> list[dict[str, Any]]:
    """The CRPS over AutoETS's for each real series and each kind of simulated ones, summed over draws and windows."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for entry in read_entries():
        groups.setdefault(entry["name"], []).append(entry)
    rows = []
    for name, entries in groups.items():
        began = time.process_time()
        ours, theirs = [], []
        for entry in entries:
            path = None if folder is None else folder / f"{name}.csv"
            values = read_values(path) if path is not None and path.exists() else entry["values"]
            if values is not None:
                ours += score_windows(np.array(values), entry, quick=quick)
                theirs += entry["auto_ets"]
        if not ours:
            continue
        ratio = float(np.sum(ours) / np.sum(theirs))
        rows.append({"name": name, "rows": entries[0]["rows"], "series": len(entries), "crps": np.mean(ours),
                     "auto_ets": np.mean(theirs), "ratio": ratio,
                     "seconds": round(time.process_time() - began, 1)})  # fmt: skip
        print(f"{name:30} {ratio:.3f}", flush=True)
    ratios = [row["ratio"] for row in rows]
    print(f"mean {np.mean(ratios):.3f}, most {max(ratios):.3f} of {len(ratios)}", flush=True)
    return rows


def score_windows(y: Floats, entry: Mapping[str, Any], *, quick: bool) -> list[float]:
    """The CRPS of each window of one series."""
    model = forecaster(entry["horizon"], season=entry["season"], quick=quick)
    answer = model.cross_validation(
        frame_of([y], "MS"), n_windows=entry["windows"], step_size=entry["step"], quantiles=SHARES.tolist()
    )
    columns = [f"Fern-ql{share:.10g}" for share in SHARES]
    return [crps(part["y"].to_numpy(), part[columns].to_numpy().T) for _, part in answer.groupby("cutoff", sort=True)]


def draw_panel(draw: Draw, rng: np.random.Generator, series: int) -> tuple[pd.DataFrame, Floats]:
    whole = [draw(rng, ROWS + HORIZON) for _ in range(series)]
    return frame_of([one[:ROWS] for one in whole]), np.stack([one[ROWS:] for one in whole])


def check_deciles(*, quick: bool) -> list[dict[str, Any]]:
    """The chance of a value below and not above each decile, on average over 40 series and 20 steps; ten panels where
    no model is trained, else four."""
    results = []
    for name, draw in DRAWS.items():
        by_panel, negative = [], 0
        for seed in range(10 if quick else 4):
            frame, _ = draw_panel(draw, np.random.default_rng(seed), SERIES)
            answer = forecaster(HORIZON, season=7, quick=quick).fit(frame).predict(quantiles=DECILES.tolist())
            quantiles = answer[[f"Fern-ql{share:.10g}" for share in DECILES]].to_numpy().T
            by_panel.append([CHANCES[name](quantiles + side).mean(axis=1) for side in (-1e-9, 1e-9)])
            negative += int((quantiles < 0).sum())
        below, upto = np.mean(by_panel, axis=0)
        off = np.maximum(np.maximum(below - DECILES, DECILES - upto), 0).max()
        results.append({"name": name, "panels": len(by_panel),
                        "below": below.round(4).tolist(), "upto": upto.round(4).tolist(),
                        "most_off": float(off), "negative_quantiles": negative})  # fmt: skip
        print(
            f"{name:14} off by {100 * off:.1f} points at most; below {below.round(3)}; {negative} negative", flush=True
        )
    return results


def check_totals(*, quick: bool) -> list[dict[str, Any]]:
    """The sum of means over series and steps, over its expectation; on average over panels."""
    results = []
    expected = {"lognormal": np.exp(0.5), "exponential": 1.0, "poisson-0.3": 0.3, "zero-inflated": 2.4}
    for name, draw in DRAWS.items():
        ratios = []
        for seed in range(PANELS if quick else 4):
            frame, _ = draw_panel(draw, np.random.default_rng(100 + seed), SERIES)
            answer = forecaster(HORIZON, season=7, quick=quick).fit(frame).predict()
            ratios.append(float(answer["Fern"].mean() / expected[name]))
        results.append({"name": name, "panels": len(ratios), "mean_ratio": float(np.mean(ratios)),
                        "spread": float(np.std(ratios))})  # fmt: skip
        print(f"{name:14} total over truth {np.mean(ratios):.3f} ± {np.std(ratios):.3f}", flush=True)
    return results


def check_lengths(*, quick: bool) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    results: list[dict[str, Any]] = []
    for rows in (1, 3, 8, 15, 30, 60):
        model = forecaster(12, season=12, quick=quick).fit(frame_of([100 + np.cumsum(rng.normal(0, 3, rows))], "MS"))
        answer = model.predict(level=[80])
        width = (answer["Fern-hi-80"] - answer["Fern-lo-80"]).mean()
        results.append({"rows": rows, "width": float(width), "notes": list(model.notes_)})
        print(f"{rows} rows: mean width of 80 % intervals {width:.3g}; {'; '.join(model.notes_)}", flush=True)
    lengths = np.exp(rng.uniform(0, np.log(2000), 1000)).astype(int).clip(1, 2000)
    lengths[:2] = 1, 2000
    panel = [50 + 10 * np.sin(np.arange(n) * 2 * np.pi / 12) + np.cumsum(rng.normal(0, 1, n)) for n in lengths]
    began = time.process_time()
    model = forecaster(12, season=12, quick=quick).fit(frame_of(panel, "h"))
    answer = model.predict(level=[80])
    finite = bool(np.isfinite(answer[["Fern", "Fern-lo-80", "Fern-hi-80"]].to_numpy()).all())
    seconds = time.process_time() - began
    results.append({"rows": "1,000 series of 1 to 2,000", "finite": finite, "notes": list(model.notes_)})
    print(f"1,000 series of 1 to 2,000 rows: finite {finite}, {seconds:.0f} s; {'; '.join(model.notes_)}", flush=True)
    return results


def time_many(*, quick: bool) -> list[dict[str, Any]]:
    """10,000 series of 60 months: processor seconds of fit and forecast, and what the process grows by."""
    import resource

    rng = np.random.default_rng(0)
    t = np.arange(MONTHS)
    season = 1 + 0.3 * np.sin(2 * np.pi * t / 12)
    frame = frame_of([100 * season * np.exp(np.cumsum(rng.normal(0, 0.05, MONTHS))) for _ in range(MANY)], "MS")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    model = forecaster(12, season=12, quick=quick).fit(frame)
    fitted = time.process_time()
    model.predict(level=[80])
    seconds = {"fit_seconds": fitted - began, "predict_seconds": time.process_time() - fitted}
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"{MANY:,} series: {seconds}, grown by {grown:.0f} MB; {'; '.join(model.notes_)}", flush=True)
    return [{"series": MANY, "rows": MONTHS, **seconds, "grown_mb": grown, "notes": list(model.notes_)}]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--classical", action="store_true")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--only", nargs="+", default=["series", "deciles", "totals", "lengths", "many"])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    quick = options.classical
    topics: dict[str, Callable[[], list[dict[str, Any]]]] = {
        "series": lambda: compare_series(options.folder, quick=quick),
        "deciles": lambda: check_deciles(quick=quick),
        "totals": lambda: check_totals(quick=quick),
        "lengths": lambda: check_lengths(quick=quick),
        "many": lambda: time_many(quick=quick),
    }
    for name in options.only:
        suffix = "-classical" if quick else ""
        (RESULTS / f"{name}{suffix}.json").write_text(json.dumps(topics[name](), indent=1) + "\n")


if __name__ == "__main__":
    main()
