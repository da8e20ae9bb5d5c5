"""Noise, long horizons, a field and our training are told from rows."""

from benchmarks.sections.rivals import field, horizons_in_words, long, noise, training
from tests.benchmarks.support import row


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
    assert horizons_in_words([]) == ""


def test_the_noise_section_says_how_many_lyapunov_times_the_horizon_is() -> None:
    rows = [row("fern", name, 1.0, task="noise") for name in ("LORENZ_BASE", "ROSSLER_BASE")]
    assert horizons_in_words(rows) == "The horizon in Lyapunov times: 3 on LORENZ_BASE, 0.24 on ROSSLER_BASE."


def test_the_long_section_tells_models_apart_by_ept_in_lyapunov_times() -> None:
    found = {"polymap": (30.0, 1864.0), "fern-rolled": (90.0, 786.0), "dlinear": (68.0, 47.0)}
    rows = [
        row(model, "LORENZ_BASE", mse, task="long", horizon=2400, metrics={"mse": mse, "ept": ept})
        for model, (mse, ept) in found.items()
    ]
    text = "\n".join(long(rows))
    assert "EPT in LT" in text
    assert "- LORENZ_BASE, longest EPT: polymap (16.9 of 21.7 LT, of 3 models); fern-rolled 7.12." in text


def test_the_field_section_says_what_each_polynomial_is_made_of() -> None:
    rows = [row("analog", "KS_BASE", 1.0, task="field"), row("fern-rolled", "KS_BASE", 4.6, task="field")]
    text = "\n".join(field([*rows, row("oracle", "KS_BASE", 0.0, task="field")]))
    assert "- KS_BASE, lowest MSE: analog (1, of 2 models); fern-rolled has 4.6 times that (4.6)." in text
    assert "| KS_BASE |" in text
    assert "30 leading principal components" in text
    assert "3.36 time units" in text


def test_the_field_section_ranks_each_noise_by_itself() -> None:
    rows = [
        row(model, "KS_BASE", mse, task="field", share=share)
        for model, share, mse in (("analog", 0.0, 1.0), ("fern-rolled", 0.0, 2.0), ("analog", 0.05, 9.0))
    ]
    rows.append(row("fern-rolled", "KS_BASE", 3.0, task="field", share=0.05))
    text = "\n".join(field(rows))
    assert "- KS_BASE, lowest MSE: analog (1, of 2 models); fern-rolled has 2 times that (2)." in text
    assert "- KS_BASE (noise=0.05), lowest MSE: fern-rolled (3, of 2 models)." in text


def test_a_fern_that_is_worse_than_the_last_value_is_said_to_be() -> None:
    found = {"analog": 1.0, "fern-rolled": 4.6, "last-value": 4.5}
    text = "\n".join(field([row(model, "KS_BASE", mse, task="field") for model, mse in found.items()]))
    assert "fern-rolled has 4.6 times that (4.6), worse than the last value repeated (4.5)." in text


def test_the_papers_protocol_stands_beside_our_training_where_both_have_run() -> None:
    rows = [row("fern", name, 0.2) for name in ("OU_BASE", "CHUA_BASE")] + [row("fern", "GARCH_BASE", 1.0)]
    rows += [row("fern", "OU_BASE", 0.1, task="training"), row("fern", "CHUA_BASE", 0.05, task="training")]
    rows += [row("fern", "ROSSLER_BASE", 9.0, task="training"), row("dlinear", "OU_BASE", 0.01)]
    rows += [row("fern", "LORENZ_BASE", 20.0), row("fern", "LORENZ_BASE", 2.0, task="training")]  # tuned on
    text = "\n".join(training(rows))
    assert "| 0.2 | 0.1 | 0.50 |" in text
    assert (
        "Our default is more than 1 % better on 2 of the 2 series that it was not chosen by, more than 1 % worse on 0; "
        "median ratio 0.38, geometric mean 0.25 on flows (1), 0.50 on random systems (1)." in text
    )
    assert "GARCH_BASE" not in text
    assert "ROSSLER_BASE" not in text
