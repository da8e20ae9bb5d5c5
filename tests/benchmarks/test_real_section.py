"""The section of the real series says what the rows say, Fern's losses first."""

from benchmarks.sections.real import Figures, section, verdicts

from fern.benchmark.results import Row

GIVEN = {
    "task": "real",
    "data_fingerprint": "ab",
    "context_length": 336,
    "split": "ett_hourly",
    "scaling": "standard",
    "seed": 7,
    "code_version": "1",
    "status": "done",
}
PRESETS = {"fern": "level", "dlinear": "etth1", "patchtst": "etth1", "last-value": "default"}


def row(model: str, horizon: int, mse: float, seconds: float = 0.0) -> Row:
    return Row(
        **GIVEN,
        model=model,
        preset=PRESETS[model],
        dataset="ETTh1",
        horizon=horizon,
        metrics={"mse": mse, "mae": 0.4},
        seconds={"train_cpu": seconds},
    )


ROWS = [
    row("fern", 96, 0.365, 50.0),
    row("fern", 192, 0.412, 50.0),
    row("dlinear", 96, 0.373, 5.0),
    row("dlinear", 192, 0.405, 5.0),
    row("patchtst", 96, 0.372, 1500.0),
    row("last-value", 96, 1.29),
]


def test_without_rows_there_is_no_section():
    assert section([]) == []


def test_a_cell_stands_beside_what_is_published_and_what_it_costs():
    lines = section(ROWS)
    (first,) = [line for line in lines if line.startswith("| ETTh1 | 96 |")]
    assert first == (
        "| ETTh1 | 96 | 0.365 / 0.400 | 0.373 / 0.400 | 0.372 / 0.400 | 1.290 / 0.400 |  | "
        "0.375 / 0.399 | 0.375 / 0.399 | 0.361 / 0.390 | 50 | 5 | 1,500 |"
    )
    assert any("No row yet: ETTh1 at 336" in line for line in lines)


def test_losses_of_fern_are_named_first():
    told = verdicts(Figures.of(ROWS))
    assert told[0] == (
        "Fern's MSE is above that of DLinear run here on ETTh1 at 192 (0.412 against 0.405); "
        "it is at or below it on 1 of 2 cells, to three digits."
    )
    assert told[1].startswith("Fern's MSE is nowhere above that of PatchTST run here")
    assert "TimeMixer as published on ETTh1 at 96 (0.365 against 0.361)" in told[4]


def test_means_and_times_are_over_the_cells_that_all_have():
    told = verdicts(Figures.of(ROWS))
    means = "Fern 0.3650 / 0.4000, DLinear 0.3730 / 0.4000, PatchTST 0.3720 / 0.4000"
    assert f"Mean MSE / MAE over the 1 cells that all three have: {means}." in told
    assert told[-1].endswith("PatchTST takes 30.0 times as long as Fern; the aim is 20, which is met.")
