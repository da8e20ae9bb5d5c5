"""Verdicts on the results pages are counted from results."""

from functools import partial
from typing import Any

from benchmarks.sections import libraries, real, tasks
from benchmarks.sections.tasks import average_errors, count_wins, rank_by_dataset, select_shock
from tests.benchmarks.support import row

from fern.benchmark.results import RunResult


def test_the_lowest_mse_wins_and_a_lead_of_less_than_a_hundredth_is_a_tie() -> None:
    errors = {"LORENZ_BASE": (20.0, 1e-9), "OU_BASE": (1.0, 1.009), "ETTh1": (1.0, 1.02)}
    runs = [
        row(model, name, mse)
        for name, pair in errors.items()
        for model, mse in zip(("fern", "polymap"), pair, strict=True)
    ]
    counts = count_wins(runs, ("fern", "polymap"))
    assert counts["chaotic flows"] == {"fern": 0, "polymap": 1, "tie": 0}
    assert counts["random systems"] == {"fern": 0, "polymap": 0, "tie": 1}
    assert counts["real series"] == {"fern": 1, "polymap": 0, "tie": 0}


def test_seeds_are_averaged_before_anyone_wins() -> None:
    runs = [row("fern", "OU_BASE", mse, seed=seed) for seed, mse in ((7, 1.0), (8, 4.0))]
    assert average_errors(runs)["fern", "OU_BASE"] == 2.5


def test_variants_failed_runs_and_other_tasks_take_no_part() -> None:
    runs = [row("fern", "OU_BASE", 90.0, preset="no-rotation"), row("polymap", "OU_BASE", 0.1, task="noise")]
    runs += [row("fern", "LORENZ_BASE", 9.0, status="failed", error="nan", metrics={})]
    assert select_shock(runs) == []


def test_the_oracle_is_ranked_nowhere() -> None:
    runs = [row("fern", "LORENZ_BASE", 2.0, task="noise"), row("oracle", "LORENZ_BASE", 0.0, task="noise")]
    assert rank_by_dataset(runs, "noise") == {"LORENZ_BASE": {"fern": 2.0}}


def test_the_distance_from_the_papers_numbers_is_counted_for_code_and_text() -> None:
    runs = [row("fern", "LORENZ_STATE", 2 * 19.26), row("fern", "CHUA_BASE", 0.0056), row("fern", "LORENZ_BASE", 22.0)]
    verdict = tasks.judge_paper([*runs, row("fern", "OU_BASE", 0.234, preset="paper-compact")])
    assert "on 2 of 3 scenarios (worst LORENZ_STATE, ×2.00)" in verdict
    assert "on 1 of 1 scenarios (worst OU_BASE, ×1.00)" in verdict


def test_our_training_is_judged_on_series_that_it_was_not_chosen_by() -> None:
    compact = partial(row, "fern", preset="paper-compact")
    runs = [compact(name, 0.2) for name in ("OU_BASE", "CHUA_BASE", "LORENZ_BASE")]
    runs += [compact(name, 0.1, task="training") for name in ("OU_BASE", "CHUA_BASE", "LORENZ_BASE")]
    assert "on 2 of 2 series" in tasks.judge_training(runs)
    assert "| OU_BASE | 0.234 | 0.2 | 0.1 | 0.50 |" in tasks.training_part(runs).table


def test_data_are_shown_by_fingerprint() -> None:
    table = tasks.data_part([row("fern", "OU_BASE", 1.0), row("fern", "OU_BASE", 1.0, share=0.01)]).table
    assert "| OU_BASE | steps 100 | OU_BASE0.0 |" in table
    assert "| OU_BASE | noise 0.01, steps 100 | OU_BASE0.01 |" in table


REAL = {
    "task": "real",
    "data_fingerprint": "ab",
    "context_length": 336,
    "split": "ett_hourly",
    "scaling": "standard",
    "seed": 7,
    "code_version": "1",
    "status": "done",
    "dataset": "ETTh1",
}


def real_run(model: str, preset: str, horizon: int, mse: float, seconds: float) -> RunResult:
    metrics = {"mse": mse, "mae": 0.4}
    return RunResult(
        **REAL, model=model, preset=preset, horizon=horizon, metrics=metrics, seconds={"train_cpu": seconds}
    )


def test_real_series_are_counted_cell_by_cell_beside_runs_and_papers() -> None:
    runs = [real_run("fern", "level", 96, 0.365, 50.0), real_run("fern", "level", 192, 0.412, 50.0)]
    runs += [real_run("dlinear", "etth1", 96, 0.373, 5.0), real_run("dlinear", "etth1", 192, 0.405, 5.0)]
    runs += [real_run("patchtst", "etth1", 96, 0.372, 1500.0)]
    verdict = real.judge_real(runs)
    assert "DLinear on 1 of 2, PatchTST on 1 of 1, PatchTST/42 as published on 2 of 2" in verdict
    assert "30.0 times" in verdict
    line = next(line for line in real.real_part(runs).table if line.startswith("| ETTh1 | 96 |"))
    assert line.startswith("| ETTh1 | 96 | 0.365 / 0.400 | 0.373 / 0.400 | 0.372 / 0.400 |")
    assert line.endswith("| 0.375 / 0.399 | 0.375 / 0.399 | 0.361 / 0.390 | 50 | 5 | 1,500 |")


def compared(table: str, method: str, losses: list[float | None], **changes: object) -> dict[str, Any]:
    known = [loss for loss in losses if loss is not None]
    metrics = {"SQL": sum(known) / len(known), "MASE": 1.0, "coverage_80": 0.8}
    about = {"windows": 20, "series": 1, "spread_over": "windows", "fit_seconds": 3.0, "predict_seconds": 0.1}
    return {"table": table, "method": method, "losses": losses, "metrics": metrics, **about, **changes}


def test_a_table_lost_to_another_library_is_named_with_it() -> None:
    results = [
        compared("air", "FernForecaster", [0.5, 0.6, 0.5, 0.6]),
        compared("air", "AutoETS", [0.4, 0.4, 0.4, 0.4]),
        compared("load", "FernForecaster", [0.3, 0.3, 0.3, 0.3]),
        compared("load", "AutoETS", [0.4, 0.4, 0.5, 0.4]),
        compared("load", "AutoTheta", [0.2, 0.5, 0.2, 0.5]),
        {"table": "load", "method": "PatchTST", "stopped": "stopped after 120 of 5,000 steps"},
    ]
    assert libraries.split_tables(results) == (["load"], ["air: AutoETS"])
    assert libraries.count_verdicts(results) == {"better": 1, "worse": 1, "tie": 1}
    text = libraries.libraries_part(results).markdown()
    assert "**0.4 ± 0**" in text
    assert "| load | PatchTST (stopped after 120 of 5,000 steps) |" in text


def test_a_library_is_better_or_worse_by_two_standard_errors_of_paired_differences() -> None:
    def said(ours: list[float | None], theirs: list[float | None]) -> str:
        return libraries.compare_pair({"losses": ours}, {"losses": theirs})

    assert said([1.0, 1.1, 0.9, 1.0], [2.0, 2.0, 2.1, 1.9]) == "better"
    assert said([2.0, 2.0, 2.1, 1.9], [1.0, 1.1, 0.9, 1.0]) == "worse"
    assert said([1.0, 3.0, 1.0, 3.0], [2.0, 2.0, 2.0, 1.9]) == "tie"
    overlapping = {"table": "AirPassengers", "losses": [1.0, 1.5, 2.0, 1.5]}
    apart = {"table": "OU_BASE", "losses": [1.0, 1.5, 2.0, 1.5]}
    naught = {"losses": [0.0] * 4}
    assert libraries.paired_difference(overlapping, naught)[1] == 2 * libraries.paired_difference(apart, naught)[1]
    assert libraries.paired_difference({"losses": [1.0, None, 2.0]}, {"losses": [0.5, 9.0, 1.0]}) == (0.75, 0.25)
