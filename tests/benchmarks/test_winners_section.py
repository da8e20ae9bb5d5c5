"""What wins where is told from rows: who sees what, what is a tie, and whether ranks tell models apart."""

from benchmarks.sections.winners import (
    ORDER,
    beside_baselines,
    misses_of_the_paper,
    source_of,
    what_wins_where,
    where_fern_loses,
)
from tests.benchmarks.support import row

from fern.benchmark.significance import nemenyi


def test_the_winner_of_each_dataset_is_told_with_what_it_sees() -> None:
    rows = [row("fern", "LORENZ_BASE", 20.0), row("polymap", "LORENZ_BASE", 1e-9), row("analog", "LORENZ_BASE", 11.0)]
    rows += [row("fern", "OU_BASE", 0.1), row("polymap", "OU_BASE", 0.2), row("analog", "OU_BASE", 0.3)]
    rows += [row("fern", "GARCH_BASE", 0.1)]  # the others have not run there
    assert what_wins_where(rows) == (
        "Lowest MSE of fern, analog and polymap, seed 7, on the 2 of 23 datasets that all of them have run (a lead of "
        "less than 1% is a tie). In short: flows (1) polymap 1; random systems (1) fern 1.\n\n"
        "- flows (1): polymap (all channels) on LORENZ_BASE.\n"
        "- random systems (1): fern (own channel) on OU_BASE."
    )


def test_a_lead_of_less_than_a_hundredth_is_a_tie() -> None:
    rows = [row("fern", "OU_BASE", 1.0), row("polymap", "OU_BASE", 1.009), row("analog", "OU_BASE", 1.02)]
    rows += [row("fern", "ETTh1", 1.0), row("polymap", "ETTh1", 1.02), row("analog", "ETTh1", 1.02)]
    text = what_wins_where(rows)
    assert "random systems (1) ties 1; real series (1) fern 1." in text
    assert "- random systems (1): ties on OU_BASE (fern, polymap)." in text
    assert where_fern_loses(rows).startswith("None of dlinear, analog, polymap and last-value has an MSE more than 1%")


def test_every_dataset_on_which_a_simpler_model_wins_is_named() -> None:
    rows = [row("fern", "OU_BASE", 1.0), row("dlinear", "OU_BASE", 0.9), row("last-value", "OU_BASE", 2.0)]
    rows += [row("fern", "GARCH_BASE", 1.0), row("dlinear", "GARCH_BASE", 0.9), row("polymap", "GARCH_BASE", 0.5)]
    assert where_fern_loses(rows) == (
        "An MSE more than 1% below Fern's: dlinear on OU_BASE, GARCH_BASE; polymap on GARCH_BASE."
    )


def test_seeds_are_averaged_before_anyone_wins() -> None:
    rows = [row("fern", "OU_BASE", mse, seed=seed) for seed, mse in ((7, 1.0), (8, 4.0))]
    rows += [row("polymap", "OU_BASE", 2.0, seed=seed) for seed in (7, 8)]
    text = what_wins_where(rows)
    assert "mean over seeds 7 and 8" in text
    assert "polymap (all channels) on OU_BASE." in text


def test_variants_failed_runs_and_other_tasks_take_no_part() -> None:
    rows = [row("fern", "OU_BASE", 1.0), row("polymap", "OU_BASE", 2.0)]
    rows += [row("fern", "OU_BASE", 90.0, preset="no-rotation"), row("polymap", "OU_BASE", 0.1, task="noise")]
    rows += [
        row("fern", "LORENZ_BASE", 9.0, status="failed", error="nan", metrics={}),
        row("polymap", "LORENZ_BASE", 1.0),
    ]
    text = what_wins_where(rows)
    assert "on the 1 of 23 datasets" in text
    assert "fern (own channel) on OU_BASE." in text


def test_ranks_count_a_system_once_and_say_whom_the_critical_difference_keeps_apart_from_fern() -> None:
    errors = {"polymap": 1.0, "analog": 2.0, "fern": 3.0, "dlinear": 4.0}
    rows = [row(model, dataset, mse) for model, mse in errors.items() for dataset in ORDER]
    last = what_wins_where(rows).splitlines()[-1]
    sources = len({source_of(name) for name in ORDER})
    assert sources == 10  # nine systems, and one transformer read at two rates
    assert "over the 10 systems and sites" in last
    assert "polymap 1.00, analog 2.00, fern 3.00, dlinear 4.00;" in last
    assert f"{nemenyi(models=4, scenarios=sources, alpha=0.05):.2f}. By it, better than fern: polymap; " in last
    assert "not distinguishable from fern: dlinear, analog." in last


def test_many_scenarios_of_one_system_weigh_as_one() -> None:
    won = {"LORENZ_BASE", "LORENZ_PARAM", "LORENZ_STATE"}
    names = [*sorted(won), "OU_BASE", "GARCH_BASE"]
    rows = [
        row(model, name, 1.0 if (model == "fern") == (name in won) else 2.0)
        for model in ("fern", "polymap")
        for name in names
    ]
    assert "polymap 1.33, fern 1.67;" in what_wins_where(rows)


def test_models_that_win_by_turns_are_called_indistinguishable() -> None:
    rows = [
        row(model, name, 1.0 + (i + j) % 2)
        for j, model in enumerate(("fern", "polymap"))
        for i, name in enumerate(("LORENZ_BASE", "OU_BASE", "GARCH_BASE", "ETTh1"))
    ]
    assert "The models are not distinguishable (Friedman's test, p = " in what_wins_where(rows)


def test_a_dear_baseline_is_compared_under_one_seed_once_it_has_run_on_enough_datasets() -> None:
    errors = {"koopa": 1.0, "fern": 2.0, "polymap": 3.0}
    rows = [row(model, dataset, mse) for model, mse in errors.items() for dataset in ORDER[:10]]
    rows += [row("fern", dataset, 0.1, seed=1955) for dataset in ORDER[:10]]  # which koopa has not run under
    rows += [row("patchtst", dataset, 0.1) for dataset in ORDER[:9]]
    text = beside_baselines(rows)
    assert text.startswith("Lowest MSE of fern, polymap and koopa, seed 7, on the 10 of 23 datasets")
    assert "koopa 1.00, fern 2.00, polymap 3.00;" in text
    assert beside_baselines([one for one in rows if one.dataset != ORDER[0]]) == ""


def test_where_fern_is_far_from_the_papers_number_is_told_for_both_sides() -> None:
    rows = [row("fern", "LORENZ_STATE", 2 * 19.26), row("fern", "CHUA_BASE", 0.0056), row("fern", "LORENZ_BASE", 22.0)]
    assert misses_of_the_paper(rows) == (
        "Fern by the paper's protocol is more than 15% above the paper's number on LORENZ_STATE (×2.00); more than 15% "
        "below the paper's number on CHUA_BASE (×0.10); within that of it on 1."
    )


def test_without_rows_nothing_is_said() -> None:
    assert what_wins_where([]) == beside_baselines([]) == misses_of_the_paper([]) == ""
