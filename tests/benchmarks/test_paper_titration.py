"""Titration: coverage under noise of a known size, beside what the author publishes."""

from benchmarks.paper import titration

from fern.systems import scenario


def test_coverage_is_counted_on_noisy_rows_that_nothing_was_fitted_to() -> None:
    sizes = titration.Sizes(context=24, horizon=12, epochs=1, rows=1500, series=3)
    result = titration.measure("DOUBLEWELL_BASE", 1.0, sizes, seed=7)
    coverage = result["coverage"]
    for kind in ("calibrated", "as trained"):
        assert coverage[f"{kind}/50"] < coverage[f"{kind}/80"] < coverage[f"{kind}/95"] <= 1
    assert abs(coverage["calibrated/90"] - 0.9) < 0.06
    assert result["series"] == 3
    assert all(spread > 0 for spread in result["spread"].values())
    assert "| DOUBLEWELL_BASE | 1 | 61.5% |" in titration.table([result])


def test_the_trajectories_of_a_flow_begin_along_its_own_and_keep_its_shock() -> None:
    base = scenario("ROSSLER_PARAM", steps=1200)
    others = titration.trajectories(base, 4)[1:]
    assert len({other.initial_state for other in others}) == 3
    assert all(other.shocks == base.shocks for other in others)


def test_what_the_author_publishes_is_there_for_every_system_and_size_of_noise() -> None:
    assert set(titration.published()) == {(name, sigma) for name in titration.SYSTEMS for sigma in titration.SIGMAS}
    assert all(0 < share < 1 for share in titration.published().values())
