"""Fine-tuning: better on the series it sees, the same by seed, and only where there are windows enough."""

import numpy as np
import torch
from tests.errors import raises_error

from fern.models.pretrained.forecasting import Contexts, forecast_distribution
from fern.models.pretrained.network import NEWEST, read_weights, rebuild_network
from fern.models.pretrained.tuning import FEWEST_WINDOWS, count_windows, tune_network


def saws(count: int, rows: int = 160) -> list[np.ndarray]:
    """Falls to a new height every 9 rows: nothing that a wave or a line tells."""
    rng = np.random.default_rng(0)
    return [rng.uniform(1, 2, rows // 9 + 1).repeat(9)[:rows] * (9 - np.arange(rows) % 9) for _ in range(count)]


def error(network, series) -> float:
    made = forecast_distribution(network, Contexts.of([values[:-9] for values in series]), 9).mean.numpy()
    return float(np.abs(made - np.stack([values[-9:] for values in series])).mean())


def test_a_few_steps_make_it_better_on_series_like_those_it_was_tuned_to():
    series = saws(24)
    tuned = tune_network(read_weights()[0], series[:16], 9, seed=0, steps=40)
    assert error(tuned, series[16:]) < 0.95 * error(read_weights()[0], series[16:])


def test_the_package_s_network_is_left_as_it_was():
    before = {name: value.clone() for name, value in read_weights()[0].state_dict().items()}
    tune_network(read_weights()[0], saws(8), 9, seed=0, steps=2)
    assert all(torch.equal(value, before[name]) for name, value in read_weights()[0].state_dict().items())


def test_the_same_seed_gives_the_same_weights_and_they_are_kept_in_half_precision():
    one, two, other = (tune_network(read_weights()[0], saws(8), 9, seed=seed, steps=2) for seed in (1, 1, 2))
    same = [torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True)]
    assert all(same)
    assert not all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
    kept = {name: value.half().numpy() for name, value in one.state_dict().items()}
    again = rebuild_network(NEWEST, kept)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), again.parameters(), strict=True))


def test_constant_and_short_series_do_no_harm():
    series = [*saws(8), np.full(200, 3.0), np.ones(5)]
    tuned = tune_network(read_weights()[0], series, 9, seed=0, steps=3)
    assert all(bool(value.isfinite().all()) for value in tuned.parameters())


def test_too_few_windows_are_not_learnt_from():
    few = saws(1, 100)
    assert count_windows(few, 9) < FEWEST_WINDOWS
    assert tune_network(read_weights()[0], few, 9, seed=0) is None


def test_foreign_weights_are_refused():
    kept = {name: value.numpy() for name, value in read_weights()[0].state_dict().items()}
    name = next(iter(kept))
    for wrong in ({**kept, name: kept[name][:1]}, {**kept, name: kept[name] * np.nan}, dict(list(kept.items())[1:])):
        with raises_error(argument="network"):
            rebuild_network(NEWEST, wrong)
