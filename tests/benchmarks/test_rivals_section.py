"""What wins where is told from rows: who sees what, under which noise, and whether ranks tell models apart."""

from benchmarks.sections.rivals import beside_baselines, field, long, noise, training, what_wins_where

from fern.benchmark.rows import Row
from fern.benchmark.tasks import read_task

DATASETS = [choice.dataset for choice in read_task("shock").datasets]


def row(model: str, dataset: str, mse: float, *, task: str = "shock", share: float = 0.0, **changes: object) -> Row:
    given = {
        "task": task,
        "model": model,
        "preset": "default" if model in ("analog", "polymap", "oracle") else "paper",
        "dataset": dataset,
        "data_settings": {"steps": 100, "cleaning": "none"} | ({"noise": share} if share else {}),
        "data_fingerprint": f"{dataset}{share}",
        "context_length": 336,
        "horizon": 336,
        "split": "shock",
        "scaling": "none",
        "seed": 7,
        "code_version": "1",
        "status": "done",
        "metrics": {"mse": mse, "mae": mse, "wd": mse, "ept": 30.0},
    }
    return Row(**{**given, **changes})


def test_the_winner_of_each_dataset_is_told_with_what_it_sees() -> None:
    rows = [row("fern", "LORENZ_BASE", 20.0), row("polymap", "LORENZ_BASE", 1e-9), row("analog", "LORENZ_BASE", 11.0)]
    rows += [row("fern", "OU_BASE", 0.1), row("polymap", "OU_BASE", 0.2), row("analog", "OU_BASE", 0.3)]
    rows += [row("fern", "GARCH_BASE", 0.1)]  # the others have not run there
    assert what_wins_where(rows) == (
        "Of fern, analog and polymap, on the 2 of 23 datasets that all of them have run, the lowest MSE has "
        "polymap (all channels) on LORENZ_BASE; fern (own channel) on OU_BASE."
    )


def test_seeds_are_averaged_before_anyone_wins() -> None:
    rows = [row("fern", "OU_BASE", mse, seed=seed) for seed, mse in ((7, 1.0), (8, 4.0))] + [
        row("polymap", "OU_BASE", 2.0)
    ]
    assert "the lowest MSE has polymap (all channels) on OU_BASE." in what_wins_where(rows)


def test_variants_failed_runs_and_other_tasks_take_no_part() -> None:
    rows = [row("fern", "OU_BASE", 1.0), row("polymap", "OU_BASE", 2.0)]
    rows += [row("fern", "OU_BASE", 90.0, preset="no-rotation"), row("polymap", "OU_BASE", 0.1, task="noise")]
    rows += [
        row("fern", "LORENZ_BASE", 9.0, status="failed", error="nan", metrics={}),
        row("polymap", "LORENZ_BASE", 1.0),
    ]
    assert "on the 1 of 23 datasets that all of them have run, the lowest MSE has fern (own channel) on OU_BASE." in (
        what_wins_where(rows)
    )


def test_ranks_say_whom_the_critical_difference_keeps_apart_from_fern() -> None:
    errors = {"polymap": 1.0, "analog": 2.0, "fern": 3.0, "dlinear": 4.0, "last-value": 5.0}
    rows = [row(model, dataset, mse) for model, mse in errors.items() for dataset in DATASETS]
    last = what_wins_where(rows).splitlines()[-1]
    assert last.startswith(
        "Average ranks over them: polymap 1.00, analog 2.00, fern 3.00, dlinear 4.00, last-value 5.00;"
    )
    assert last.endswith(
        "By it, better than fern: polymap; not distinguishable from fern: dlinear, analog; worse than fern: last-value."
    )


def test_models_that_win_by_turns_are_called_indistinguishable() -> None:
    rows = [
        row(model, name, (i + j) % 2)
        for j, model in enumerate(("fern", "polymap"))
        for i, name in enumerate(DATASETS[:6])
    ]
    assert what_wins_where(rows).endswith("The models are not distinguishable.")


def test_a_dear_baseline_is_compared_under_one_seed_once_it_has_run_on_enough_datasets() -> None:
    errors = {"koopa": 1.0, "fern": 2.0, "polymap": 3.0}
    rows = [row(model, dataset, mse) for model, mse in errors.items() for dataset in DATASETS[:10]]
    rows += [row("fern", dataset, 0.1, seed=1955) for dataset in DATASETS[:10]]  # which koopa has not run under
    rows += [row("patchtst", dataset, 0.1) for dataset in DATASETS[:9]]
    text = beside_baselines(rows)
    assert text.startswith("Seed 7. Of fern, polymap and koopa, on the 10 of 23 datasets")
    assert "Average ranks over them: koopa 1.00, fern 2.00, polymap 3.00;" in text
    assert beside_baselines([one for one in rows if one.dataset != DATASETS[0]]) == ""


def test_the_noise_section_names_the_best_at_each_noise() -> None:
    rows = [
        row(model, "LORENZ_BASE", mse, task="noise", share=share)
        for model, share, mse in (
            ("fern", 0.0, 16.0),
            ("polymap", 0.0, 1e-9),
            ("oracle", 0.0, 0.0),
            ("fern", 0.05, 19.0),
            ("polymap", 0.05, 21.0),
        )
    ]
    text = "\n".join(noise(rows))
    assert "- Lowest MSE at noise 0%: polymap on LORENZ_BASE (1e-09, of 2 models)." in text
    assert "- Lowest MSE at noise 5%: fern on LORENZ_BASE (19, of 2 models)." in text
    assert "LORENZ_BASE (noise=0.05)" in text
    assert "judged by the true rows" in text


def test_without_rows_there_is_no_section_and_no_sentence() -> None:
    assert noise([]) == long([]) == field([]) == []
    assert what_wins_where([]) == ""


def test_the_long_section_shows_ept_in_lyapunov_times() -> None:
    text = "\n".join(long([row("polymap", "LORENZ_BASE", 1.0, task="long", horizon=2400)]))
    assert "EPT in LT" in text
    assert "LORENZ_BASE 21.74" in text


def test_the_field_section_says_what_each_polynomial_is_made_of() -> None:
    rows = [row("analog", "KS_BASE", 1.0, task="field"), row("fern-rolled", "KS_BASE", 4.6, task="field")]
    text = "\n".join(field([*rows, row("oracle", "KS_BASE", 0.0, task="field")]))
    assert "- KS_BASE, lowest MSE: analog (1, of 2 models); fern-rolled has 4.6 times that." in text
    assert "| KS_BASE |" in text
    assert "30 leading\nprincipal components" in text


def test_the_papers_protocol_stands_beside_our_training_where_both_have_run() -> None:
    rows = [row("fern", "OU_BASE", 0.2, seconds={"train": 80.0}), row("fern", "GARCH_BASE", 1.0)]
    rows += [row("fern", "OU_BASE", 0.1, task="training", seconds={"train": 40.0})]
    rows += [row("fern", "LORENZ_BASE", 9.0, task="training"), row("dlinear", "OU_BASE", 0.01)]
    text = "\n".join(training(rows))
    assert "| 0.2 | 0.1 | 0.50 | 80 | 40 |" in text
    assert (
        "Our default is more than 1 % better on 1 of 1, more than 1 % worse on 0; geometric mean of the ratios 0.50."
        in text
    )
    assert "GARCH_BASE" not in text
    assert "LORENZ_BASE" not in text
    assert training(rows[:2]) == []
