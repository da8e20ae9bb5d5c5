"""Synthetic series from the dynamical systems: varied, bounded, and never the paper's own."""

import numpy as np
import pytest

from fern.synthetic import is_near_paper
from fern.synthetic.dynamics import PAPER, draw_settings, dynamics, play
from fern.systems import SCENARIOS
from fern.systems.registry import PREMADE


def test_no_scenario_of_the_paper_is_ever_drawn():
    rng = np.random.default_rng(1)
    for _ in range(1500):
        drawn = draw_settings(rng, 1024)
        for params in filter(None, (drawn.params, drawn.changed)):
            for regime in PAPER[drawn.system.name]:
                kept = [name for name in regime if name != "nx"]
                distance = max(abs(params[name] - regime[name]) / (abs(regime[name]) or 1e-12) for name in kept)
                assert distance > 0.02


def test_every_scenario_counts_as_the_paper():
    for name, plan in SCENARIOS.items():
        assert is_near_paper(plan.system, plan.source.complete(plan.params)), name


def test_all_ten_systems_are_drawn_with_shocks_and_without():
    rng = np.random.default_rng(2)
    drawn = [draw_settings(rng, 512) for _ in range(1000)]
    assert {d.system.name for d in drawn} == set(PREMADE)
    shocked = np.mean([d.changed is not None or d.displaced > 0 for d in drawn])
    assert 0.1 < shocked < 0.3


@pytest.mark.parametrize("name", PREMADE)
def test_trajectories_of_every_system_stay_bounded_and_move(name):
    rng = np.random.default_rng(3)
    kept = 0
    while kept < 3:
        drawn = draw_settings(rng, 256)
        if drawn.system.name != name:
            continue
        channels = play(rng, drawn, 256)
        if channels is None:
            continue
        kept += 1
        assert channels.shape[0] == 256
        assert np.isfinite(channels).all()
        assert (channels.std(0) > 0).all()


def test_the_family_gives_as_many_series_as_asked():
    assert dynamics(np.random.default_rng(4), 17, 300).shape == (17, 300)
