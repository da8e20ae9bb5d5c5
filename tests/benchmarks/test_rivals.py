"""The measurements of rivals run at sizes that take no time, and the page shows what they found."""

import json

import numpy as np
import pytest
import torch
from benchmarks.rivals import flow_speed, particles, pfnn, protocol, rolled
from benchmarks.sections import trials

from fern.models import build_model
from fern.training import TrainConfig


def test_pfnn_is_trained_in_every_way_and_the_weights_beside_means_are_n_times_those_beside_sums():
    row = pfnn.compare("LORENZ_BASE", seed=7, epochs=1, stride=50, steps=700, length=24)
    assert list(row["ways"]) == list(pfnn.ways(1))
    for found in row["ways"].values():
        assert found["validation"]["mse"] > 0
        assert 0.0 <= found["test"]["held"] <= 1.0
    released, _, _, means = pfnn.ways(1140).values()
    assert released == {}
    assert (means["contraction"], means["invariance"]) == (1140.0, pytest.approx(114.0))
    assert trials.pfnn_part([json.loads(json.dumps(row))]).markdown().count("| LORENZ_BASE |") == 4


def test_a_way_that_diverges_is_shown_as_such():
    row = {"dataset": "ETTh2", "command": "python -m benchmarks.rivals.pfnn", "ways": {"no term": {"diverged": "nan"}}}
    assert "| ETTh2 | no term | diverged |" in trials.pfnn_part([row]).markdown()


def test_the_speed_of_the_flow_is_set_against_the_largest_eigenvalue():
    row = flow_speed.measure("LORENZ_BASE", seed=7, epochs=1, steps_per_epoch=5, steps=2000, length=48)
    assert row["patches"] == row["windows"] * 2  # 48 steps are two patches
    assert set(row["correlation"]) == {
        "speed of the flow",
        "distance of the state from its mean",
        "error of the forecast",
    }
    for found in row["correlation"].values():
        assert -1.0 <= found["spearman"] <= 1.0
    assert "| LORENZ_BASE | speed of the flow |" in trials.flow_speed_part([row]).markdown()


def test_correlations_are_of_values_and_of_ranks():
    first = np.array([1.0, 2.0, 3.0, 4.0])
    assert flow_speed.correlations(first, first**3)["spearman"] == 1.0
    assert flow_speed.correlations(first, first**3)["pearson"] < 1.0
    assert flow_speed.correlations(first, -first) == {"pearson": -1.0, "spearman": -1.0}


def test_a_way_changes_the_bounds_and_nothing_else():
    sizes = {"context_length": 24, "horizon": 24, "channels": 1, "preset": "paper-compact"}
    plain, same, free = (build_model("fern", **sizes, generator=torch.Generator().manual_seed(1)) for _ in range(3))
    protocol.change(same, protocol.Way(sharp=True))
    protocol.change(free, protocol.Way(free_shifts=True))
    past = 0.1 * torch.randn(600, 24, 1, generator=torch.Generator().manual_seed(2))
    expected = plain.eval()(past).mean
    for model in (same, free):  # within all bounds, where each clamp is the identity
        assert torch.allclose(model.eval()(past).mean, expected, atol=1e-5)
    with torch.no_grad():
        for model in (plain, free):
            model.heads_x[0].linear.bias[-96:] = 40.0  # shifts beyond the bound of 15
    assert not torch.allclose(free(past).mean, plain(past).mean, atol=1e-2)


def test_every_way_of_the_protocol_is_run_by_validation_alone():
    row = protocol.run("LORENZ_STATE", "both", seed=7, epochs=1, stride=50, steps=1500, length=24)
    assert row["validation_mse"] > 0
    assert (row["epochs"], row["best_epoch"]) == (1, 1)
    assert "| LORENZ_STATE | both |" in trials.protocol_part([row]).markdown()


def test_a_rolled_fern_is_trained_in_a_way_and_judged_by_validation_alone():
    short = {"epochs": 1, "steps_per_epoch": 5, "patience": 1}
    ways = [
        rolled.run("LORENZ_BASE", way, noise=0.01, seed=7, steps=1500, length=24, training=short)
        for way in ("relu", "chaos")
    ]
    assert all(0.0 < row["validation"]["ept"] <= 24 for row in ways)
    lines = trials.rolled_part(ways).table
    assert [line.split(" | ")[1] for line in lines if line.startswith("| LORENZ_BASE")] == ["chaos", "relu"]


def test_the_polynomial_alone_owes_nothing_to_the_network():
    short = {"epochs": 1, "steps_per_epoch": 2}
    found = {
        (way, seed): rolled.run("LORENZ_BASE", way, noise=0.0, seed=seed, steps=1500, length=24, training=short)
        for way in ("polynomial alone", "chaos")
        for seed in (7, 8)
    }
    errors = {place: row["validation"]["mse"] for place, row in found.items()}
    assert errors["polynomial alone", 7] == errors["polynomial alone", 8]
    assert errors["chaos", 7] != errors["chaos", 8]


def test_particles_of_a_rolled_fern_are_judged_by_what_they_cover_and_by_how_far_ahead():
    short = {"epochs": 1, "steps_per_epoch": 2}
    row = particles.run("LORENZ_BASE", noise=0.01, seed=7, steps=1500, length=48, particles=8, training=short)
    assert list(row["coverage"]) == ["1 to 24", "25 to 48"]
    assert all(0 <= share <= 1 for span in row["coverage"].values() for share in span.values())
    assert row["crps"]["particles"] < row["crps"]["mean path"]
    line = next(line for line in trials.particles_part([row]).table if line.startswith("| LORENZ_BASE"))
    assert all(f"| {100 * row['coverage'][span]['80']:.1f} %" in line for span in row["coverage"])


@pytest.mark.parametrize("way", rolled.WAYS)
def test_every_way_is_one_that_the_model_and_training_have(way):
    build_model("fern-rolled", preset="chaos", context_length=48, horizon=48, channels=3, **rolled.WAYS[way].model)
    assert TrainConfig(preset="chaos", **rolled.WAYS[way].train).epochs > 0
