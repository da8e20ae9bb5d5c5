"""The author's trajectories: his order of operations, against plain NumPy and against what his logs print."""

import numpy as np
import pytest

from fern.errors import FernError
from fern.systems import SCENARIOS, simulate
from fern.systems.author import author_channels, author_ids, author_values


def test_the_switched_lorenz96_is_the_one_that_the_authors_logs_describe():
    """03nons.ipynb of QilinWang/Fern-icml2026: moments of the training rows, first rows of the other parts."""
    values = author_values("LORENZ96_SWITCH")
    assert values.shape == (55_001, 6)
    train, validation, test = values[:38_500], values[38_500], values[49_500]
    assert train.mean(axis=0).round(3).tolist() == pytest.approx([2.463, 2.486, 2.43, 2.256, 2.411, 2.434], abs=6e-4)
    assert train.std(axis=0).round(3).tolist() == pytest.approx([3.753, 3.78, 3.868, 3.903, 3.809, 3.885], abs=6e-4)
    assert validation[:5].tolist() == pytest.approx([1.144, 1.862, 1.332, 1.959, 4.818], abs=6e-4)
    assert test[:5].tolist() == pytest.approx([1.912, -4.47, 1.072, 0.705, 2.041], abs=6e-4)


def test_fern_saw_lorenz_63_without_its_parameter_shock():
    """The same logs, second model of LORENZ_PARAM: moments of the training rows, first rows of the other parts."""
    values = author_values("LORENZ_PARAM", again=True)
    assert values[:25_200].mean(axis=0).tolist() == pytest.approx([-0.275, -0.278, 23.656], abs=6e-4)
    assert values[:25_200].std(axis=0).tolist() == pytest.approx([7.992, 9.081, 8.660], abs=6e-4)
    assert values[25_200].tolist() == pytest.approx([-6.779, -9.361, 21.642], abs=6e-4)
    assert values[32_400].tolist() == pytest.approx([3.053, 1.944, 22.936], abs=6e-4)
    first = author_values("LORENZ_PARAM")
    assert not np.allclose(first[25_200], values[25_200])
    for name in ("LORENZ_BASE", "LORENZ_STATE", "CHUA_PARAM"):
        np.testing.assert_array_equal(author_values(name, again=True), author_values(name))


def plain(slope, x, dt, steps, shock=0, nudge=0.0):
    rows = [x]
    for i in range(1, steps + 1):
        if i == shock:
            x = x + np.array([nudge, 0.0, 0.0])
        k1 = slope(x)
        k2 = slope(x + 0.5 * dt * k1)
        k3 = slope(x + 0.5 * dt * k2)
        k4 = slope(x + dt * k3)
        x = x + (k1 + 2 * k2 + 2 * k3 + k4) * (dt / 6.0)
        rows.append(x)
    return np.array(rows).astype(np.float32)


def lorenz(x):
    return np.array([10.0 * (x[1] - x[0]), x[0] * (28.0 - x[2]) - x[1], x[0] * x[1] - 8.0 / 3 * x[2]])


def rossler(x):
    return np.array([-x[1] - x[2], x[0] + 0.2 * x[1], 0.2 + x[2] * (x[0] - 5.7)])


def chua(x):
    bent = -5.0 / 7.0 * x[0] + 0.5 * (-8.0 / 7.0 - -5.0 / 7.0) * (np.abs(x[0] + 1.0) - np.abs(x[0] - 1.0))
    return np.array([15.6 * (x[1] - x[0] - bent), x[0] - x[1] + x[2], -28.0 * x[1]])


@pytest.mark.parametrize(
    ("name", "slope", "start", "dt", "dropped"),
    [
        ("LORENZ_BASE", lorenz, (1.0, 0.98, 1.1), 0.01, 0),
        ("ROSSLER_BASE", rossler, (1.0, 1.0, 1.0), 0.01, 0),
        ("CHUA_BASE", chua, (0.1, 0.0, 0.0), 0.005, 1000),
    ],
)
def test_compiled_loops_keep_the_bits_of_plain_numpy(name, slope, start, dt, dropped):
    expected = plain(slope, np.array(start), dt, 9000)[dropped:]  # long enough for chaos to show another rounding
    np.testing.assert_array_equal(author_values(name)[: len(expected)], expected)


def test_a_nudge_comes_before_the_step_at_35_per_cent():
    base, nudged = author_values("LORENZ_BASE"), author_values("LORENZ_STATE")
    shock = round(0.35 * 35_999)
    np.testing.assert_array_equal(nudged[:shock], base[:shock])
    assert abs(nudged[shock, 0] - base[shock, 0]) > 0.5


def test_noise_is_drawn_step_by_step_from_seed_1955():
    rng, x, rows = np.random.default_rng(1955), 0.0, [0.0]
    for i in range(1, 12_000):
        mean = 0.5 if i >= 8750 else 0.0
        x = x + 0.2 * (mean - x) * 0.5 + 0.3 * np.sqrt(0.5) * rng.standard_normal()
        rows.append(x)
    np.testing.assert_allclose(author_values("OU_PARAM")[:12_000, 0], rows, atol=1e-6)


def test_trajectories_are_of_our_scenarios_with_the_initial_row_before():
    for name in author_ids():
        values = author_values(name)
        assert values.dtype == np.float32
        assert np.isfinite(values).all()
        assert values.shape == (SCENARIOS[name].steps + 1, len(author_channels(name)))


@pytest.mark.parametrize("name", ["LORENZ_BASE", "LORENZ_PARAM", "ROSSLER_BASE", "ROSSLER_PARAM", "LORENZ96_BASE"])
def test_our_scenarios_are_the_papers_rows_to_the_last_bit_but_for_the_initial_one(name):
    np.testing.assert_array_equal(author_values(name)[1:], simulate(name).values)


def test_the_author_nudges_one_channel_and_our_scenario_all():
    shock = round(0.35 * 35_999)
    his, ours = author_values("LORENZ_STATE"), simulate("LORENZ_STATE").values
    np.testing.assert_array_equal(his[1:shock], ours[: shock - 1])
    assert not np.allclose(his[shock], ours[shock - 1])


def test_what_has_no_seed_cannot_be_had():
    with pytest.raises(FernError, match="unknown scenario of the author's 'SLDS_BASE'"):
        author_values("SLDS_BASE")
