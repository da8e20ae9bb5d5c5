"""The polynomial map: its features, its solution, its rollout, and what validation makes of a changed system."""

from itertools import combinations_with_replacement
from math import prod
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Generator, Tensor

from fern.errors import FernError
from fern.models import load_model, save_model
from fern.models.baselines.polymap import BEYOND, Polymap, PolymapConfig
from fern.systems import scenario, simulate

ONE_STATE = {"degree": 1, "ridge": 0.0, "share": 1.0, "delays": 1, "spacing": 1}


def fitted(rows: Tensor, *, until: int, horizon: int, context: int = 20, **settings: object) -> Polymap:
    """A map of the rows before ``until``, its settings chosen on a few windows after them."""
    model = Polymap(PolymapConfig(context_length=context, horizon=horizon, channels=rows.shape[1], **settings))
    starts = torch.linspace(until + context, len(rows) - horizon, 12).long().tolist()
    past = torch.stack([rows[start - context : start] for start in starts])
    future = torch.stack([rows[start : start + horizon] for start in starts])
    model.fit([rows[:until]], past, future)
    return model


def lorenz(steps: int) -> Tensor:
    return torch.from_numpy(simulate(scenario("LORENZ_BASE", steps=steps)).values)


def error(model: Polymap, rows: Tensor, *, first: int, windows: int = 8) -> float:
    context, horizon = model.config.context_length, model.config.horizon
    starts = torch.linspace(first, len(rows) - horizon, windows).long().tolist()
    past = torch.stack([rows[start - context : start] for start in starts])
    future = torch.stack([rows[start : start + horizon] for start in starts])
    return float((model(past).mean - future).square().mean())


@pytest.mark.parametrize("ridge", [0.0, 1e-3])
def test_coefficients_are_those_of_ridge_regression_with_numpy(ridge: float) -> None:
    rows = lorenz(1200)
    model = fitted(rows, until=900, horizon=5, degree=2, ridge=ridge, share=0.5, delays=1, spacing=1)
    known = rows[:900].double().numpy()
    z = (known - known.mean(0)) / known.std(0)
    states, steps = z[:-1][-450:], np.diff(z, axis=0)[-450:]  # half of the 899 pairs, the newest
    columns = [
        prod((states[:, i] for i in chosen), start=np.ones(len(states)))
        for degree in range(3)
        for chosen in combinations_with_replacement(range(3), degree)
    ]
    features = np.stack(columns, axis=1)
    size = np.sqrt((features**2).mean(0))
    scaled = features / size
    solved = np.linalg.solve(scaled.T @ scaled + ridge * len(scaled) * np.eye(10), scaled.T @ steps) / size[:, None]
    assert np.allclose(model.coefficients.numpy(), solved, rtol=1e-5, atol=1e-9)


def test_clean_chaos_is_solved_by_a_polynomial() -> None:
    rows = lorenz(6000)
    cubic = fitted(rows, until=4000, horizon=150, degree=3, ridge=0.0, share=1.0, delays=1, spacing=1)
    chosen = fitted(rows, until=4000, horizon=150)
    variance = float(rows.var())
    assert error(cubic, rows, first=4500) < 1e-3 * variance
    assert error(chosen, rows, first=4500) < 1e-7 * variance


def test_under_observation_noise_validation_takes_delays() -> None:
    clean = lorenz(6000)
    rows = clean + 0.02 * clean.std(0) * torch.randn(clean.shape, generator=Generator().manual_seed(2))
    without = fitted(rows, until=4000, horizon=100, delays=1, spacing=1)
    chosen = fitted(rows, until=4000, horizon=100)
    assert chosen.chosen["delays"] > 1
    assert error(chosen, rows, first=4500) < 0.7 * error(without, rows, first=4500)


def test_an_old_regime_is_forgotten_by_validation() -> None:
    rows = torch.from_numpy(simulate(scenario("LORENZ_PARAM", steps=6000)).values)  # shocked at row 2,100
    forgetting = fitted(rows, until=4200, horizon=150, delays=1, spacing=1)
    whole = fitted(rows, until=4200, horizon=150, share=1.0, delays=1, spacing=1)
    assert forgetting.chosen["share"] < 1.0
    assert error(forgetting, rows, first=4500) < 1e-3 * error(whole, rows, first=4500)


def test_a_rollout_that_runs_away_is_held_and_told() -> None:
    growing = torch.stack([1.05 ** torch.arange(80.0), 0.9 ** torch.arange(80.0)], dim=1)
    model = fitted(growing, until=60, horizon=10, context=4, degree=1, ridge=0.0, share=1.0, delays=1, spacing=1)
    low, high = growing[:60].amin(0), growing[:60].amax(0)
    reach = BEYOND * (high - low) / 2
    with pytest.warns(
        RuntimeWarning, match=r"polymap: 1 of 1 windows had values held at 1\.1 times the training range"
    ):
        made = model(growing[None, 56:60]).mean[0]
    assert made.isfinite().all()
    assert (made <= (low + high) / 2 + reach + 1e-4).all()
    assert torch.allclose(made[-1, 0], (low + high)[0] / 2 + reach[0])


def test_constant_channels_are_forecast_as_they_are() -> None:
    turn = 0.2 * torch.arange(300.0)
    rows = torch.stack((turn.sin(), turn.cos(), torch.full_like(turn, 4.0)), dim=1)
    model = fitted(rows, until=200, horizon=20)
    assert torch.allclose(model(rows[None, 240:260]).mean[0], rows[260:280], atol=1e-3)


@pytest.mark.parametrize(("share", "most"), [(0.45, 200_000), (1.0, 250)])
def test_the_rows_that_are_used_are_the_newest_of_each_stretch(
    share: float, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fern.models.baselines.polymap._MOST_ROWS", most)

    def changed(slow: float, fast: float) -> Tensor:
        """Turning slowly in the first half, fast in the second."""
        turn = torch.cat((torch.full((150,), slow), torch.full((150,), fast))).cumsum(0)
        return torch.stack((turn.cos(), turn.sin()), dim=1)

    one, other = changed(0.05, 0.3), changed(0.1, 0.3)
    window = (one[None, -30:-10], one[None, -10:])
    models = []
    for stretches in ([one, other], [other, one]):
        model = Polymap(PolymapConfig(context_length=20, horizon=10, channels=2, **ONE_STATE | {"share": share}))
        model.fit(stretches, *window)
        models.append(model)
    for model in models:  # the newest of both turn alike, and what is older is forgotten
        assert torch.allclose(model(window[0]).mean, window[1], atol=1e-4)
    assert torch.allclose(models[0].coefficients, models[1].coefficients, atol=1e-9)


def first_order(rows: int) -> Tensor:  # (rows, 1)
    """x' = 0.9 x + noise, within ±1."""
    noise = 0.2 * torch.randn(rows, generator=Generator().manual_seed(3))
    values = [torch.zeros(())]
    for one in noise:
        values.append((0.9 * values[-1] + one).clamp(-1.0, 1.0))
    return torch.stack(values[1:])[:, None]


def rotation(rows: int) -> Tensor:  # (rows, 2)
    turn = 0.1 * torch.arange(float(rows))
    return torch.stack((turn.cos(), turn.sin()), dim=1)


def test_a_context_outside_the_range_is_told_though_the_rollout_comes_back() -> None:
    model = fitted(first_order(400), until=300, horizon=60, **ONE_STATE)
    with pytest.warns(RuntimeWarning, match="polymap: 2 of 3 windows had values held"):
        model(torch.tensor([100.0, 0.5, -7.0])[:, None, None].expand(3, 20, 1))


def test_every_window_that_touches_the_bound_on_the_way_is_counted() -> None:
    model = fitted(rotation(400), until=300, horizon=63, **ONE_STATE)
    with pytest.warns(RuntimeWarning, match="polymap: 60 of 60 windows had values held"):
        model(1.5 * rotation(80).unfold(0, 20, 1).mT[:60])


def test_a_constant_channel_that_moved_is_told_and_its_rounding_is_not() -> None:
    rows = torch.cat((rotation(400), torch.full((400, 1), 0.1)), dim=1).double()
    model = fitted(rows, until=300, horizon=20)
    quiet = model(rows[None, 340:360].float()).mean[0]
    assert torch.allclose(quiet[:, 2], torch.tensor(0.1))
    moved = rows[None, 340:360].clone()
    moved[..., 2] = 5.0
    with pytest.warns(RuntimeWarning, match="polymap: 1 of 1 windows had values held"):
        model(moved)


def test_chaos_within_its_range_and_choosing_on_validation_are_quiet() -> None:
    rows = lorenz(4000)
    model = fitted(rows, until=3000, horizon=100)  # some of the candidates run away; any warning is an error here
    assert error(model, rows, first=3500) < float(rows.var())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"degree": 0}, "degree: "),
        ({"ridge": -1.0}, "ridge: "),
        ({"share": 0.0}, "share: "),
        ({"delays": 2}, "delays, spacing: got one without the other"),
        ({"delays": 5, "spacing": 5}, "delays: "),
        ({"delays": 4, "spacing": 1, "degree": 5}, "degree: "),
        ({"channels": 350}, "channels: "),
        ({"channels": 100, "delays": 4, "spacing": 1}, "delays: "),
        ({"channels": 30, "degree": 3}, "degree: "),
        ({"layout": "line"}, "layout: "),
        ({"reach": 2}, "reach: "),
        ({"least_wave": 0.1}, "least_wave: "),
        ({"layout": "ring", "reach": -1}, "reach: "),
        ({"layout": "ring", "least_wave": 2.0}, "least_wave: "),
        ({"layout": "ring", "channels": 999, "reach": 200}, "reach: "),
        (
            {"layout": "ring", "channels": 64, "reach": 8, "degree": 3},
            "degree: ",
        ),
    ],
)
def test_settings_that_make_no_model_are_refused_by_name(settings: dict[str, object], message: str) -> None:
    with pytest.raises(FernError, match=message):
        PolymapConfig(**{"context_length": 20, "horizon": 5, "channels": 3} | settings)


def advected(rows: int, *, channels: int = 16) -> Tensor:  # (rows, channels)
    """Smooth random waves round a ring, each with its own speed and life: a linear map, alike everywhere."""
    generator = Generator().manual_seed(4)
    number = torch.arange(channels // 2 + 1, dtype=torch.float64)
    turn = torch.exp(torch.complex(-0.02 * number**2, 0.3 * number))
    state = torch.zeros(channels // 2 + 1, dtype=torch.complex128)
    found = []
    for _ in range(rows):
        push = torch.randn(2, channels // 2 + 1, dtype=torch.float64, generator=generator) * torch.exp(-number)
        state = turn * state + torch.complex(push[0], push[1])
        found.append(torch.fft.irfft(state, n=channels))
    return torch.stack(found).float()


@pytest.mark.filterwarnings("ignore:polymap. .* windows had values held:RuntimeWarning")  # 60 rows show little range
def test_on_a_ring_one_map_serves_every_channel_and_few_rows_teach_it() -> None:
    rows = advected(600)
    near, free = (fitted(rows, until=60, horizon=4, layout=layout) for layout in ("ring", "free"))
    assert error(near, rows, first=100, windows=40) < error(free, rows, first=100, windows=40)
    assert near.coefficients.shape[1] == 1
    assert near.chosen["reach"] in (2, 4, 8) and near.chosen["least_wave"] in (1e-4, 1e-8)
    past = rows[None, 200:220]
    assert torch.allclose(near(past.roll(3, 2)).mean, near(past).mean.roll(3, 2), atol=1e-5)


def test_a_field_of_waves_does_not_run_away_on_a_ring() -> None:
    rows = torch.from_numpy(simulate(scenario("KS_BASE", steps=3000)).values)
    near = fitted(rows[1000:], until=1500, horizon=100, layout="ring", delays=1, spacing=1, share=1.0, degree=2)
    assert error(near, rows, first=2600) < 1e-3 * float(rows[1000:].var())


def test_a_map_of_a_ring_is_loaded_as_it_was_saved(tmp_path: Path) -> None:
    rows = advected(300)
    near = fitted(rows, until=200, horizon=4, layout="ring")
    save_model(near, tmp_path / "ring.safetensors")
    again = load_model(tmp_path / "ring.safetensors")
    assert torch.equal(again(rows[None, 210:230]).mean, near(rows[None, 210:230]).mean)
    assert near.config.sees == "near"
    assert torch.allclose(near.float()(rows[None, 210:230]).mean, again(rows[None, 210:230]).mean, atol=0.01)
