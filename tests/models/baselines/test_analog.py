"""Analog forecasts: the right neighbours, by brute force and by hand."""

import pytest
import torch
from torch import Generator, Tensor

from fern.errors import FernError
from fern.models.baselines.analog import Analog, AnalogConfig

SIZES = {"context_length": 12, "horizon": 5, "channels": 2}


def walk(rows: int, seed: int = 1) -> Tensor:
    return torch.randn(rows, 2, generator=Generator().manual_seed(seed)).cumsum(0)


def fitted(stretches: list[Tensor], **settings: object) -> Analog:
    model = Analog(AnalogConfig(**SIZES, **{"delays": 3, "spacing": 2, "neighbours": 2, "level": "kept", **settings}))
    model.fit(stretches, torch.zeros(1, 12, 2), torch.zeros(1, 5, 2))
    return model


def by_brute_force(stretches: list[Tensor], past: Tensor, *, joint: bool, neighbours: int, removed: bool) -> Tensor:
    """One window's forecast by going over all states one at a time, in float64."""
    scale = torch.cat(stretches).double().std(0, correction=0)
    made = []
    for c in range(2):
        seen = [0, 1] if joint else [c]
        found = []
        for rows in stretches:
            for t in range(4, len(rows) - 5):
                state, asked = rows[[t, t - 2, t - 4]][:, seen].double(), past[[-1, -3, -5]][:, seen].double()
                if removed:
                    state, asked = state - state[0], asked - asked[0]
                distance = float((((state - asked) / scale[seen]) ** 2).sum())
                level = past[-1, c] - rows[t, c] if removed else 0.0
                found.append((distance, rows[t + 1 : t + 6, c] + level))
        nearest = sorted(found, key=lambda entry: entry[0])[:neighbours]
        made.append(torch.stack([future for _, future in nearest]).mean(0))
    return torch.stack(made, dim=1)


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("level", ["kept", "removed"])
@pytest.mark.parametrize("neighbours", [1, 3])
def test_forecast_is_that_of_a_brute_force_search(joint: bool, level: str, neighbours: int) -> None:
    stretches = [walk(90), walk(60, seed=2) + 1.0]
    seen = "all" if joint else "own"
    model = fitted(stretches, channels_seen=seen, level=level, neighbours=neighbours)
    past = walk(12, seed=5)
    wanted = by_brute_force(stretches, past, joint=joint, neighbours=neighbours, removed=level == "removed")
    assert torch.allclose(model(past[None]).mean[0], wanted, atol=1e-5)


def test_a_large_batch_is_forecast_as_its_windows_are() -> None:
    model = fitted([walk(400)])
    past = torch.stack([walk(12, seed=seed) for seed in range(20)])
    assert torch.equal(model(past).mean, torch.cat([model(one[None]).mean for one in past]))


@pytest.mark.parametrize("neighbours", [1, 3])
def test_the_nearest_state_of_a_smooth_path_after_a_step_in_its_level_is_found(neighbours: int) -> None:
    # Next to the step of 1e4 the circle is small: squares of values in units of the deviation hide its distances.
    turn = torch.arange(900, dtype=torch.float64) / 40
    rows = torch.stack((turn.cos(), turn.sin()), dim=1)
    rows[450:] += 1e4
    stretches, past = [rows[:800].float()], rows[850:862].float()
    model = fitted(stretches, neighbours=neighbours)
    wanted = by_brute_force(stretches, past, joint=False, neighbours=neighbours, removed=False)
    assert torch.allclose(model(past[None]).mean[0], wanted, rtol=0, atol=2e-3)  # the floats there are 1e-3 apart


def test_of_equally_near_states_the_oldest_is_taken_whatever_else_is_asked() -> None:
    counts = torch.randint(0, 3, (400, 2), generator=Generator().manual_seed(4)).float()
    windows = torch.randint(0, 3, (12, 12, 2), generator=Generator().manual_seed(5)).float()
    for neighbours in (1, 4):
        model = fitted([counts], neighbours=neighbours)
        one_by_one = torch.cat([model(one[None]).mean for one in windows])
        assert torch.equal(model(windows).mean, one_by_one)
        wanted = [by_brute_force([counts], one, joint=False, neighbours=neighbours, removed=False) for one in windows]
        assert torch.allclose(one_by_one, torch.stack(wanted), atol=1e-6)


def test_a_series_that_drifts_has_its_level_removed_by_validation() -> None:
    steps = torch.arange(500.0)
    rows = torch.stack((0.3 * steps + torch.sin(steps / 3), -0.2 * steps), dim=1)
    model = Analog(AnalogConfig(**SIZES))
    model.fit([rows[:400]], rows[None, 430:442], rows[None, 442:447])
    assert model.chosen["level"] == "removed"
    assert (model(rows[None, 470:482]).mean - rows[482:487]).abs().max() < 0.3


def test_noise_makes_validation_average_many_neighbours() -> None:
    rows = torch.randn(900, 2, generator=Generator().manual_seed(3))
    model = Analog(AnalogConfig(**SIZES))
    windows = rows[700:].unfold(0, 17, 3).transpose(1, 2)
    model.fit([rows[:700]], windows[:, :12], windows[:, 12:])
    assert model.chosen["neighbours"] == 64
    assert model.chosen["level"] == "kept"


def test_more_neighbours_than_there_are_states_are_all_of_them() -> None:
    rows = walk(20)
    model = fitted([rows], neighbours=500)
    assert model.chosen["neighbours"] == 11
    assert torch.allclose(model(walk(12)[None]).mean[0, 0], rows[5:16].mean(0), atol=1e-5)


def test_rows_too_few_for_a_state_are_refused_with_what_would_help() -> None:
    with pytest.raises(FernError, match="long enough for one state and the 5 rows that follow it"):
        fitted([walk(8)])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"delays": 0}, "delays: "),
        ({"neighbours": 0}, "neighbours: "),
        ({"delays": 4, "spacing": 4}, "delays: "),
        ({"level": "lost"}, "level: "),
        ({"channels_seen": "both"}, "channels_seen: "),
        ({"delays": 1, "level": "removed"}, "nothing would be left of the state"),
    ],
)
def test_settings_that_make_no_model_are_refused_by_name(settings: dict[str, object], message: str) -> None:
    with pytest.raises(FernError, match=message):
        AnalogConfig(**SIZES, **settings)
