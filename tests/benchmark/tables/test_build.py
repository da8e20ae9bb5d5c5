"""Tables say what the rows say: means over seeds, who is best, what is missing, and the paper's numbers beside ours."""

import json
from dataclasses import asdict

import pytest

from fern.benchmark.results import RunResult
from fern.benchmark.tables.build import AVERAGE, KINDS, build_table, kind_of
from fern.benchmark.tables.cells import lyapunov_times_a_step
from fern.benchmark.tasks import read_task, task_from_mapping, task_names
from fern.errors import FernError
from fern.systems import Scenario, StateShock


def row(model="fern", dataset="LORENZ_BASE", horizon=336, seed=7, **changes):
    given = {
        "task": "mine",
        "model": model,
        "preset": "default" if model == "oracle" else "paper",
        "dataset": dataset,
        "data_fingerprint": "ab",
        "context_length": 336,
        "horizon": horizon,
        "split": "shock",
        "scaling": "none",
        "seed": seed,
        "code_version": "1",
        "status": "done",
        "metrics": {"mse": 1.0, "wd": 0.5},
        "finished": "2026-01-01T00:00:00+00:00",
    }
    return RunResult(**{**given, **changes})


def scored(model, mse, **changes):
    return row(model, metrics={"mse": mse, "wd": mse / 2, "mae": mse, "swd": mse, "ept": 100 - mse}, **changes)


def cell(table, keys, metric, model=""):
    (line,) = (line for line in table.lines if line.keys == keys)
    (place,) = (i for i, column in enumerate(table.columns) if column.metric == metric and column.model == model)
    return line.cells[place]


TASK = task_from_mapping(
    {
        "schema": 1,
        "models": ["fern", "dlinear", "oracle"],
        "datasets": ["LORENZ_BASE", "OU_BASE"],
        "horizons": [336],
        "seeds": [7, 1955],
    },
    name="mine",
)


def test_a_cell_is_the_mean_over_seeds_with_its_standard_error():
    table = build_table([scored("fern", mse, seed=seed) for seed, mse in ((7, 1.0), (8, 2.0), (9, 6.0))], task="mine")
    found = cell(table, ("LORENZ_BASE",), "mse", "fern")
    assert found.mean == 3.0
    assert found.standard_error == pytest.approx((7.0 / 3) ** 0.5)  # sample variance 7, three seeds
    assert found.done == 3


def test_the_best_and_the_second_are_marked_ties_share_and_the_oracle_does_not_compete():
    rows = [scored(model, mse) for model, mse in (("fern", 2.0), ("dlinear", 3.0), ("koopa", 2.0), ("pfnn", 9.0))]
    table = build_table([*rows, scored("oracle", 0.1)], task="mine")
    places = {
        model: cell(table, ("LORENZ_BASE",), "mse", model).place for model in ("fern", "koopa", "dlinear", "pfnn")
    }
    assert places == {"fern": 1, "koopa": 1, "dlinear": 2, "pfnn": None}
    assert "oracle" not in {column.model for column in table.columns}


def test_higher_is_better_for_ept():
    table = build_table([scored("fern", 1.0), scored("dlinear", 5.0)], task="mine", kind="detailed")
    assert cell(table, ("LORENZ_BASE", "336", "fern"), "ept").place == 1


def test_oracle_and_least_regret_stand_in_columns_of_their_own():
    rows = [
        row(model, metrics={"mse": mse, "wd": 1.0, "oracle_mse": 0.5, "regret": mse - 0.5})
        for model, mse in (("fern", 2.0), ("dlinear", 3.0))
    ]
    table = build_table(rows, task="mine")
    assert cell(table, ("LORENZ_BASE",), "oracle_mse").mean == 0.5
    assert cell(table, ("LORENZ_BASE",), "regret").mean == 1.5


def test_a_run_that_is_not_there_is_missing_and_its_model_not_marked_best():
    rows = [scored("fern", 1.0), scored("dlinear", 2.0), scored("dlinear", 2.0, seed=1955)]
    table = build_table(rows, task=TASK)
    fern = cell(table, ("LORENZ_BASE",), "mse", "fern")
    assert (fern.missing, fern.trouble(), fern.place) == (1, "1 missing", None)
    assert any("No result yet: OU_BASE at 336, oracle" in note for note in table.notes)


def test_a_seed_nobody_has_run_yet_is_a_note_and_spoils_no_mark():
    table = build_table([scored("fern", 1.0), scored("dlinear", 2.0)], task=TASK)
    assert cell(table, ("LORENZ_BASE",), "mse", "fern").place == 1
    assert any("seed 1955" in note for note in table.notes)


def test_failed_and_diverged_runs_are_marked_with_their_reasons_and_never_best():
    bad = {"metrics": {}, "status": "diverged", "error": "diverged at epoch 2: loss is nan"}
    rows = [
        scored("fern", 1.0),
        row("fern", seed=1955, **bad),
        scored("dlinear", 2.0),
        scored("dlinear", 2.0, seed=1955),
        row("koopa", **bad),
        row("koopa", seed=1955, metrics={}, status="failed", error="out of memory"),
    ]
    table = build_table(rows, task=TASK)
    fern, koopa = (cell(table, ("LORENZ_BASE",), "mse", model) for model in ("fern", "koopa"))
    assert (fern.mean, fern.trouble(), fern.place) == (1.0, "1 diverged", None)
    assert (koopa.mean, koopa.trouble()) == (None, "1 diverged, 1 failed")
    assert any("out of memory" in note for note in table.notes)


def test_average_ranks_are_over_cases_that_every_model_has_and_diverged_ranks_last():
    rows = [
        *(scored("fern", 1.0, dataset=name) for name in ("A", "B", "C")),
        *(scored("dlinear", 2.0, dataset=name) for name in ("A", "B")),
        scored("koopa", 0.5, dataset="A"),
        row("koopa", dataset="B", metrics={}, status="diverged", error="diverged"),
        scored("koopa", 0.1, dataset="C"),
    ]
    table = build_table(rows, task="mine")
    ranks = {model: cell(table, ("average rank",), "mse", model).mean for model in ("fern", "dlinear", "koopa")}
    assert ranks == {"fern": 1.5, "dlinear": 2.5, "koopa": 2.0}  # A: 2 3 1, B: 1 2 3, C is left out
    assert any("over the 2 of 3 cases" in note for note in table.notes)


def test_a_model_with_few_cases_is_not_ranked_and_takes_none_from_the_others():
    rows = [scored(model, mse, dataset=name) for name in "ABC" for model, mse in (("fern", 1.0), ("dlinear", 2.0))]
    table = build_table([*rows, scored("koopa", 0.5, dataset="A")], task="mine", kind="shock")
    (note,) = [note for note in table.notes if note.startswith("Average rank")]
    assert "over the 3 of 3 cases that every ranked model has" in note
    ranks = {column.model: cell for column, cell in zip(table.columns, table.lines[-1].cells, strict=True) if cell}
    assert {model: cell.mean for model, cell in ranks.items()} == {"fern": 1.0, "dlinear": 2.0}


def test_the_papers_number_and_the_ratio_stand_beside_ours():
    table = build_table([scored("fern", 43.32), scored("dlinear", 76.55)], task="mine", paper=True)
    fern = cell(table, ("LORENZ_BASE",), "mse", "fern")
    assert (fern.paper, fern.ratio) == (21.66, pytest.approx(2.0))
    assert any("tab:synthetic" in note for note in table.notes)
    assert build_table([scored("fern", 1.0)], task="mine").lines[0].cells[0].paper is None


def test_the_paper_has_nothing_to_say_of_another_horizon():
    table = build_table([scored("fern", 1.0, horizon=96)], task="mine", paper=True)
    assert table.lines[0].cells[0].paper is None
    assert any("no number for these runs" in note for note in table.notes)


def test_the_detailed_table_averages_over_horizons_and_meets_the_papers_averages():
    rows = [
        scored(model, mse * factor, dataset="LORENZ_MAIN", horizon=horizon, seed=seed)
        for model, factor in (("fern", 1.0), ("dlinear", 2.0))
        for horizon, mse in ((96, 1.0), (192, 3.0), (336, 1.0), (720, 3.0))
        for seed in (7, 8)
    ]
    table = build_table(rows, task="mine", kind="detailed", paper=True)
    averaged = cell(table, ("LORENZ_MAIN", AVERAGE, "fern"), "mse")
    assert (averaged.mean, averaged.standard_error, averaged.place, averaged.paper) == (2.0, 0.0, 1, 21.82)
    assert cell(table, ("LORENZ_MAIN", "96", "dlinear"), "mse").paper == 54.04
    assert averaged.ratio is None  # the paper's is of the last batch, which these rows do not have


def test_numbers_of_the_detailed_table_are_compared_with_the_last_batch():
    figures = {"mse": 9.0, "mae": 3.0, "swd": 2.0, "ept": 90.0, "last_mse": 0.94, "last_wd": 0.5, "last_ept": 96.0}
    rows = [row(dataset="LORENZ_MAIN", horizon=h, metrics=figures) for h in (96, 192, 336, 720)]
    table = build_table(rows, task="mine", kind="detailed", paper=True)
    found = cell(table, ("LORENZ_MAIN", "96", "fern"), "mse")
    assert (found.mean, found.last_batch, found.paper, found.ratio) == (9.0, 0.94, 0.47, pytest.approx(2.0))
    swd = cell(table, ("LORENZ_MAIN", "96", "fern"), "swd")
    assert (swd.mean, swd.last_batch) == (2.0, 0.5)  # the paper's SWD fits a WD
    assert cell(table, ("LORENZ_MAIN", AVERAGE, "fern"), "mse").ratio == pytest.approx(0.94 / 21.82)
    assert cell(table, ("LORENZ_MAIN", "96", "fern"), "mae").ratio is None
    assert any("last batch of 128 test windows" in note for note in table.notes)
    plain = build_table(rows, task="mine", kind="detailed")
    assert not any("last batch" in note for note in plain.notes)
    assert [column.metric for column in plain.columns] == [column.metric for column in table.columns]


def test_a_mean_over_other_horizons_than_the_papers_stands_alone():
    rows = [scored("fern", 1.0, dataset="LORENZ_MAIN", horizon=h) for h in (96, 192)]
    table = build_table(rows, task="mine", kind="detailed", paper=True)
    assert cell(table, ("LORENZ_MAIN", AVERAGE, "fern"), "mse").paper is None
    assert cell(table, ("LORENZ_MAIN", "96", "fern"), "mse").paper == 0.47


def test_the_last_batch_is_no_matter_in_the_shock_table():
    found = build_table([row(metrics={"mse": 43.32, "wd": 1.0, "last_mse": 1.0})], task="mine", paper=True)
    assert found.lines[0].cells[0].ratio == pytest.approx(2.0)
    assert not any("last batch" in note for note in found.notes)


def test_another_reading_of_the_papers_model_is_compared_with_the_papers_number():
    found = build_table([scored("fern", 43.32, preset="paper-compact")], task="mine", kind="shock", paper=True)
    assert found.columns[0].model == "fern:paper-compact"
    assert found.lines[0].cells[0].ratio == pytest.approx(2.0)


def test_the_authors_trajectory_is_compared_with_the_papers_number():
    settings = {**row().data_settings, "trajectory": "author"}
    found = build_table([scored("fern", 43.32, data_settings=settings)], task="mine", kind="author", paper=True)
    assert found.lines[0].keys[0] == "LORENZ_BASE (trajectory=author)"
    assert found.lines[0].cells[0].ratio == pytest.approx(2.0)


def test_the_spread_over_initial_states_is_a_note_of_each_model():
    settings = row().data_settings
    rows = [
        scored(
            "fern", mse, data_settings={**settings, "start": start} if start else settings, data_fingerprint=f"{start}"
        )
        for start, mse in enumerate((1.0, 2.0, 6.0))
    ]
    table = build_table(rows, task="mine", kind="spread")
    assert [line.keys[0] for line in table.lines[:3]] == [
        "LORENZ_BASE",
        "LORENZ_BASE (start=1)",
        "LORENZ_BASE (start=2)",
    ]
    (note,) = [note for note in table.notes if "initial states" in note]
    assert note.startswith("fern on LORENZ_BASE from 3 initial states: mse 3 on average, standard deviation 2.646")
    assert note.endswith("from 1 to 6.")


def test_the_ablation_table_names_variants_and_meets_the_paper_at_336():
    rows = [
        row(preset=preset, metrics={"mse": 1.0, "mae": 1.0, "wd": 1.0, "ept": 1.0}, seconds={"train": 10.0})
        for preset in ("paper", "no-rotation")
    ]
    table = build_table(rows, task="mine", kind="ablation", paper=True)
    found = cell(table, ("LORENZ_BASE", "336", "fern:no-rotation"), "seconds_train")
    assert (found.mean, found.paper) == (10.0, 846.38)


def test_the_recency_table_reads_every_choice_of_an_epoch_off_the_history():
    history = [
        {"epoch": epoch, "validation": {"mse": validation}, "test": {"mse": test}}
        for epoch, (validation, test) in enumerate([(6.0, 8.0), (7.0, 5.0), (9.0, 7.0)], start=1)
    ]
    table = build_table([row(dataset="ETTh1", history=history)], task="mine", kind="recency", paper=True)
    keys = ("ETTh1", "336", "fern")
    found = {column.metric: cell(table, keys, column.metric).mean for column in table.columns}
    assert found == {
        "validation_mse_epoch_1": 6.0,
        "test_mse_epoch_1": 8.0,
        "epoch_by_validation": 1.0,
        "test_mse_by_validation": 8.0,
        "test_best_epoch": 2.0,
        "validation_mse_best": 7.0,
        "test_mse_best": 5.0,
        "test_difference": -3.0,
    }
    assert cell(table, keys, "test_difference").paper is None  # the paper's is of 192 steps


def test_the_recency_table_compares_with_the_epochs_of_the_last_batch():
    figures = [(6.0, 8.0, 20.0), (7.0, 5.0, 6.0), (9.0, 7.0, 5.51)]
    history = [
        {"epoch": epoch, "validation": {"mse": validation}, "test": {"mse": test, "last_mse": last}}
        for epoch, (validation, test, last) in enumerate(figures, start=1)
    ]
    rows = [row(dataset="ETTh1", horizon=192, history=history)]
    table = build_table(rows, task="mine", kind="recency", paper=True)
    keys = ("ETTh1", "192", "fern")
    found = {name: cell(table, keys, name) for name in ("test_mse_best", "test_best_epoch", "test_difference")}
    assert {name: (one.mean, one.last_batch) for name, one in found.items()} == {
        "test_mse_best": (5.0, 5.51),
        "test_best_epoch": (2.0, 3.0),
        "test_difference": (-3.0, pytest.approx(-14.49)),
    }
    assert found["test_mse_best"].ratio == pytest.approx(1.0)
    assert cell(table, keys, "validation_mse_epoch_1").ratio == pytest.approx(6.0 / 8.24)
    assert any("validation windows the paper scored is not known" in note for note in table.notes)


def test_the_footprint_table_counts_and_times():
    rows = [row(parameters=1_000_000, multiply_adds=3_500_000, seconds={"epoch": 2.0, "train": 6.0})]
    table = build_table(rows, task="mine", kind="footprint", paper=True)
    assert [found.mean for found in table.lines[0].cells] == [1_000_000, 3_500_000, 2.0, 6.0]
    assert table.lines[0].cells[0].paper == 1_025_000


def test_of_two_rows_of_one_run_the_newer_counts_and_a_note_says_so():
    old = scored("fern", 9.0, code_version="0")
    new = scored("fern", 1.0, finished="2026-02-01T00:00:00+00:00")
    table = build_table([new, old], task="mine")
    assert cell(table, ("LORENZ_BASE",), "mse", "fern").mean == 1.0
    assert any("1 older results" in note for note in table.notes)


def test_datasets_and_models_come_in_the_tasks_order():
    rows = [scored(model, 1.0, dataset=name) for name in ("OU_BASE", "LORENZ_BASE") for model in ("dlinear", "fern")]
    table = build_table(rows, task=TASK)
    assert [line.keys[0] for line in table.lines] == ["LORENZ_BASE", "OU_BASE", "average rank"]
    assert list(dict.fromkeys(column.model for column in table.columns)) == ["fern", "dlinear"]


def test_a_task_has_the_kind_of_its_name_and_any_other_one_by_its_horizons():
    assert {name: kind_of(name, []) for name in KINDS} == {name: name for name in KINDS}
    assert kind_of("mine", [row(horizon=96), row(horizon=192)]) == "detailed"
    assert kind_of("mine", [row()]) == "shock"


def test_real_data_have_no_oracle_and_that_is_not_missing():
    task = task_from_mapping({**_plain(TASK), "datasets": ["ETTh1"]}, name="mine")
    table = build_table([scored("fern", 1.0, dataset="ETTh1"), scored("dlinear", 2.0, dataset="ETTh1")], task=task)
    assert not any(found.missing for found in table.lines[0].cells if found is not None)


def _plain(task):
    return {"schema": 1, "models": ["fern", "dlinear", "oracle"], "horizons": list(task.horizons), "seeds": [7]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "shock"}, "task shock: has no results here"),
        ({"kind": "detaild"}, "unknown kind of table 'detaild': did you mean 'detailed'"),
        ({"metrics": ["msee"]}, "unknown metric 'msee': did you mean 'mse'"),
    ],
)
def test_bad_input_is_named(changes, message):
    with pytest.raises(FernError, match=message):
        build_table([scored("fern", 1.0)], **{"task": "mine", **changes})


def test_every_task_that_comes_with_fern_can_be_shown_from_one_row():
    for name in KINDS.keys() & set(task_names()):
        task = read_task(name)
        first = row(task.models[0].model, task.datasets[0].dataset, task.horizons[0], task.seeds[0], task=name)
        assert build_table([first], task=task, paper=True).lines


def test_runs_trained_otherwise_stand_apart_and_are_never_averaged():
    short, long = {"preset": "shock", "epochs": 1}, {"preset": "shock", "epochs": 50}
    rows = [
        scored("dlinear", 1.0, train_settings=long),
        scored("dlinear", 9.0, train_settings=short, seed=1955, finished="2026-02-01T00:00:00+00:00"),
    ]
    table = build_table([*rows, scored("fern", 2.0, train_settings=long)], task=TASK)
    assert cell(table, ("LORENZ_BASE",), "mse", "dlinear (epochs=50)").mean == 1.0
    assert cell(table, ("LORENZ_BASE",), "mse", "dlinear (epochs=1)").mean == 9.0
    assert cell(table, ("LORENZ_BASE",), "mse", "fern").mean == 2.0
    assert not any("dlinear" in note for note in table.notes if note.startswith("No result yet"))
    assert "Training: preset shock, at most 1 epoch; preset shock, at most 50 epochs." in table.notes


def test_the_same_dataset_of_other_lengths_or_values_stands_apart():
    rows = [
        scored("dlinear", 1.0, data_settings={"steps": 1200}, data_fingerprint="aaaaaaaaa"),
        scored("dlinear", 2.0, data_settings={"steps": 2400}, data_fingerprint="bbbbbbbbb"),
        scored("dlinear", 3.0, data_settings={"steps": 2400}, data_fingerprint="ccccccccc", seed=8),
    ]
    table = build_table(rows, task="mine")
    assert {line.keys[0]: line.cells[0].mean for line in table.lines} == {
        "LORENZ_BASE (steps=1200)": 1.0,
        "LORENZ_BASE (steps=2400, data=bbbbbbbb)": 2.0,
        "LORENZ_BASE (steps=2400, data=cccccccc)": 3.0,
    }


def test_a_newer_row_of_the_same_settings_counts_and_the_older_is_told():
    rows = [
        scored("dlinear", 1.0, code_version="1"),
        scored("dlinear", 2.0, code_version="2", finished="2026-02-01T00:00:00+00:00"),
    ]
    table = build_table(rows, task="mine")
    assert cell(table, ("LORENZ_BASE",), "mse", "dlinear").mean == 2.0
    assert any(note.startswith("1 older results of the same settings") for note in table.notes)


def test_nothing_is_called_best_while_a_run_is_missing():
    rows = [scored(model, mse, dataset=name) for name in ("LORENZ_BASE", "OU_BASE") for model, mse in PAIR]
    table = build_table([*rows, scored("koopa", 0.5, dataset="OU_BASE")], task=TASK)
    assert [cell(table, ("LORENZ_BASE",), "mse", model).place for model in ("fern", "dlinear")] == [None, None]
    assert [cell(table, ("OU_BASE",), "mse", model).place for model in ("koopa", "fern", "dlinear")] == [1, 2, None]


PAIR = (("fern", 1.0), ("dlinear", 2.0))


def test_the_main_table_holds_the_means_over_horizons_beside_the_papers():
    given = {"task": "detailed", "dataset": "LORENZ_MAIN"}
    rows = [scored(model, mse, **given, horizon=h) for model, mse in PAIR for h in (96, 192, 336, 720)]
    table = build_table(rows, task="detailed", kind="main", paper=True)
    assert [line.keys for line in table.lines[:2]] == [("LORENZ_MAIN", AVERAGE, m) for m in ("fern", "dlinear")]
    found = cell(table, ("LORENZ_MAIN", AVERAGE, "fern"), "mse")
    assert (found.mean, found.paper) == (1.0, 21.82)
    assert cell(table, ("LORENZ_MAIN", AVERAGE, "dlinear"), "swd").paper == 38.22


def test_a_model_from_outside_does_not_count_as_another_version_of_the_code():
    table = build_table([scored("fern", 1.0), scored("mine:forecast", 2.0, code_version="1+abc")], task="mine")
    assert not any("several versions" in note for note in table.notes)


def test_the_least_regret_may_be_of_a_model_whose_other_seed_is_missing():
    known = {"oracle_mse": 0.0, "wd": 1.0}
    rows = [row("last-value", seed=seed, metrics={"mse": 9.0, "regret": 2.0, **known}) for seed in (7, 1955)]
    rows.append(row("fern", metrics={"mse": 0.1, "regret": 0.02, **known}))
    found = cell(build_table(rows, task=TASK), ("LORENZ_BASE",), "regret")
    assert (found.mean, found.missing) == (0.02, 1)


def test_a_table_says_which_channels_each_model_sees():
    seeing = row("fern", model_settings={"channels_seen": "all"})
    table = build_table([row("fern"), seeing, row("analog", preset="joint"), row("oracle"), row("koopa")], task="mine")
    (note,) = (note for note in table.notes if note.startswith("What the forecast of a channel sees"))
    assert note == (
        "What the forecast of a channel sees. Its own channel alone: fern; "
        "all channels: fern (channels_seen=all), analog:joint, koopa."
    )


def test_ept_stands_in_lyapunov_times_too_where_the_exponent_is_known():
    rows = [
        scored("fern", 20.0, dataset=name, horizon=horizon)
        for name in ("LORENZ_MAIN", "OU_BASE")
        for horizon in (100, 200)
    ]
    table = build_table(rows, task="mine", kind="detailed")
    assert cell(table, ("LORENZ_MAIN", "100", "fern"), "ept").mean == 80.0
    assert cell(table, ("LORENZ_MAIN", "100", "fern"), "ept_lyapunov").mean == pytest.approx(80 * 0.01 * 0.906)
    assert cell(table, ("OU_BASE", "100", "fern"), "ept_lyapunov") is None
    assert any(
        "Lyapunov times (LT), where the exponent is known: LORENZ_MAIN 0.91, 1.81." in note for note in table.notes
    )


def test_lyapunov_times_are_those_of_the_scenario_that_a_row_holds():
    own = Scenario(system="lorenz63", steps=900, dt=0.02, shocks=(StateShock(0.5, 0.9),), id="LORENZ_MAIN")
    held = {"steps": 900, "cleaning": "none", "scenario": json.loads(json.dumps(asdict(own)))}
    foreign = held | {"scenario": held["scenario"] | {"system": "of somebody else"}}
    of_own, of_builtin, of_foreign = (
        scored("fern", 20.0, dataset="LORENZ_MAIN", data_settings=settings) for settings in (held, {}, foreign)
    )
    assert lyapunov_times_a_step(of_own) == pytest.approx(0.02 * 0.906)
    assert lyapunov_times_a_step(of_builtin) == pytest.approx(0.01 * 0.906)
    assert lyapunov_times_a_step(of_foreign) is None


def test_without_a_known_exponent_no_table_speaks_of_lyapunov_times():
    table = build_table([scored("fern", 20.0, dataset="OU_BASE")], task="mine", kind="detailed")
    assert "ept_lyapunov" not in {column.metric for column in table.columns}
    assert not any("Lyapunov" in note for note in table.notes)


def noisy(model, mse, noise, **changes):
    settings = {"steps": 100, "cleaning": "none"} | ({"noise": noise} if noise else {})
    return scored(model, mse, data_settings=settings, data_fingerprint=str(noise), **changes)


def test_noises_of_a_dataset_are_lines_of_their_own_in_the_order_of_the_task():
    datasets = ["OU_BASE", {"dataset": "LORENZ_BASE", "noise": 0.05}, "LORENZ_BASE"]
    task = task_from_mapping(
        {"schema": 1, "models": ["fern", "dlinear"], "datasets": datasets, "horizons": [336], "seeds": [7]}, name="mine"
    )
    rows = [noisy("fern", 1.0, 0.0), noisy("fern", 2.0, 0.05), noisy("dlinear", 3.0, 0.05)]
    table = build_table(rows, task=task)
    assert [line.keys[0] for line in table.lines if line.keys[0] != "average rank"] == [
        "LORENZ_BASE (noise=0.05)",
        "LORENZ_BASE",
    ]
    assert cell(table, ("LORENZ_BASE (noise=0.05)",), "mse", "fern").mean == 2.0
    assert cell(table, ("LORENZ_BASE",), "mse", "dlinear").missing == 1
    assert any("The oracle knows the true state" in note for note in table.notes)
    assert any("No result yet: OU_BASE at 336" in note for note in table.notes)


def test_noise_is_named_where_all_rows_have_the_same():
    table = build_table([noisy("fern", 1.0, 0.05), noisy("dlinear", 2.0, 0.05)], task="mine")
    assert table.lines[0].keys == ("LORENZ_BASE (noise=0.05)",)


def test_a_table_without_noise_does_not_speak_of_it():
    assert not any("noise" in note for note in build_table([noisy("fern", 1.0, 0.0)], task="mine").notes)
