"""Fern against an independent statement of the paper's Alg. 1, its ablations and its footprint."""

import pickle
from copy import deepcopy
from math import sqrt

import pytest
import torch
from tests.errors import raises_error
from torch import Generator, Tensor
from torch.nn.functional import huber_loss

from fern.errors import FernError
from fern.models import Fern, FernConfig, build_model
from fern.models.fern_parts.coupling import ROTATION, SCALE, SHIFT, soft_clamp
from fern.models.fern_parts.heads import EIGENVALUES
from fern.models.footprint import multiply_adds, parameter_count
from fern.training.optimisation import criterion

SIZES = {"context_length": 40, "horizon": 30, "channels": 2}
SMALL = {**SIZES, "patch_size": 12, "reflections": 3, "hidden": 16, "latent": 5}


def fern(seed: int = 7, **settings: object) -> Fern:
    model = build_model("fern", generator=Generator().manual_seed(seed), **{**SMALL, **settings})
    assert isinstance(model, Fern)
    return stirred(model.eval(), seed)


def stirred(model: Fern, seed: int) -> Fern:
    """Away from the near-identity start, so that every term of the algorithm shows."""
    generator = Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.add_(noise, alpha=parameter.shape[-1] ** -0.5)
    return model


def windows(batch: int = 3, seed: int = 5, length: int = SIZES["context_length"]) -> Tensor:
    return 4 * torch.randn(batch, length, SIZES["channels"], generator=Generator().manual_seed(seed))


def algorithm(model: Fern, x: Tensor, z: Tensor, y0: Tensor) -> Tensor:
    """Alg. 1 for one series, with dense reflections, from the state of a model: (L,), (latent,), (H,) -> (H,)."""
    w = dict(model.state_dict())

    def linear(name: str, value: Tensor) -> Tensor:
        return w[f"{name}.weight"] @ value + w[f"{name}.bias"]

    layers = model.config.layers
    for i in range(layers):
        raw = linear(f"heads_x.{i}.linear", linear("features_x", x).relu())
        n = len(z)
        z = soft_clamp(raw[:n], SCALE) * z + soft_clamp(raw[n:], SHIFT)
        if i == layers - 1:
            break
        raw, n = linear(f"heads_z.{i}.linear", linear("features_z", z).relu()), len(x)
        shift = soft_clamp(raw[n:], SHIFT)
        if i in (1, 3):
            scale = torch.view_as_complex(soft_clamp(raw[:n], ROTATION).reshape(-1, 2))
            state = torch.view_as_complex(x.reshape(-1, 2).contiguous())
            x = torch.view_as_real(scale * state).flatten() + shift
        else:
            x = soft_clamp(raw[:n], SCALE) * x + shift
    features = linear("head.hidden", linear("features_z", z).relu()).relu()
    raw, vectors = linear("head.spectrum", features), linear("head.vectors", features)
    horizon, patch, count = model.config.horizon, model.config.patch_size, model.config.reflections
    eigenvalues, shift = soft_clamp(raw[:horizon], EIGENVALUES), soft_clamp(raw[horizon:], SHIFT)
    out, used = [], 0
    for start in range(0, horizon, patch):
        size = min(patch, horizon - start)
        rotation = torch.eye(size, dtype=x.dtype)
        for _ in range(count):
            v = vectors[used : used + size]
            rotation = (torch.eye(size, dtype=x.dtype) - 2 * torch.outer(v, v) / (v @ v)) @ rotation
            used += size
        here = slice(start, start + size)
        out.append(rotation.T @ torch.diag(eigenvalues[here]) @ rotation @ (y0[here] + shift[here]))
    assert used == len(vectors)
    return torch.cat(out)


def test_evaluation_is_algorithm_1_on_the_mean_path() -> None:
    model, past = fern().double(), windows().double()
    mean = model(past).mean
    for b in range(past.shape[0]):
        for c in range(past.shape[2]):
            expected = algorithm(model, past[b, :, c], past.new_zeros(5), past.new_zeros(30))
            assert torch.allclose(mean[b, :, c], expected, rtol=1e-10, atol=1e-10)


def test_training_is_algorithm_1_with_a_fresh_z_and_y0_of_variance_a() -> None:
    model, past = fern().double().train(), windows().double()
    draw = model(past, generator=Generator().manual_seed(11)).mean
    generator = Generator().manual_seed(11)
    z = sqrt(0.1) * torch.randn(6, 5, generator=generator, dtype=torch.float64)
    y0 = sqrt(0.1) * torch.randn(3, 2, 30, generator=generator, dtype=torch.float64)
    for b in range(3):
        for c in range(2):
            expected = algorithm(model, past[b, :, c], z[2 * b + c], y0[b, c])
            assert torch.allclose(draw[b, :, c], expected, rtol=1e-10, atol=1e-10)
    assert not torch.equal(draw, model(past, generator=Generator().manual_seed(12)).mean)


def test_the_distribution_is_the_ellipsoid_the_training_draw_comes_from() -> None:
    model, past = fern(), windows()
    forecast = model(past)
    assert forecast.ellipsoid is not None
    assert torch.equal(forecast.ellipsoid.mean.transpose(1, 2), forecast.mean)
    assert forecast.ellipsoid.base_variance == 0.1
    assert (forecast.ellipsoid.batch_shape, forecast.ellipsoid.event_shape) == ((3, 2), (30,))
    assert forecast.stddev.shape == forecast.mean.shape
    low, middle, high = forecast.quantile([0.05, 0.5, 0.95])
    assert torch.allclose(middle, forecast.mean, rtol=1e-5, atol=1e-5)
    assert (low < middle).all()
    assert (middle < high).all()


def test_samples_spread_like_the_distribution_and_more_where_z_adds_to_it() -> None:
    model, past = fern(), windows(batch=1)
    forecast = model(past, samples=6000, generator=Generator().manual_seed(2))
    assert forecast.samples is not None
    total, inside = forecast.samples.var(0).mean(), forecast.stddev.square().mean()
    assert total > inside
    without_z = fern(layers=0)
    with torch.no_grad():
        without_z.features_z.weight.zero_()
    forecast = without_z(past, samples=6000, generator=Generator().manual_seed(2))
    assert forecast.samples is not None
    # 6000 draws know a variance to √(2/6000) = 1.8 %; 8 % is four deviations and more.
    ratio = forecast.samples.var(0) / forecast.stddev.square()
    assert ratio.sub(1).abs().max() < 0.08
    assert (forecast.samples.mean(0) - forecast.mean).abs().max() < 0.06 * forecast.stddev.max()


def test_a_training_draw_adds_the_trace_of_the_covariance_to_the_squared_error() -> None:
    model, past = fern(layers=0).train(), windows(batch=1).expand(4000, -1, -1)
    with torch.no_grad():
        model.features_z.weight.zero_()  # no spread from z
    truth = torch.ones(30, 2)
    with torch.no_grad():
        drawn = model(past, generator=Generator().manual_seed(3)).mean
        forecast = model.eval()(past[:1])
    expected = (forecast.mean[0] - truth).square().mean() + forecast.stddev.square().mean()
    assert float((drawn - truth).square().mean()) == pytest.approx(float(expected), rel=0.02)


def test_channels_are_independent_and_share_their_weights() -> None:
    model, past = fern(), windows()
    assert torch.allclose(model(past.flip(2)).mean, model(past).mean.flip(2), rtol=1e-5, atol=1e-5)
    alone = past.clone()
    alone[:, :, 1] = 0.0
    assert torch.allclose(model(alone).mean[:, :, 0], model(past).mean[:, :, 0], rtol=1e-5, atol=1e-5)


def test_starts_near_the_identity() -> None:
    model = build_model("fern", generator=Generator().manual_seed(7), **SIZES)
    assert isinstance(model, Fern)
    x = torch.randn(9, 40, generator=Generator().manual_seed(1))
    features = torch.rand(9, 128, generator=Generator().manual_seed(2))
    for head in model.heads_z:
        assert (head(features, x) - x).abs().max() < 0.5
    distribution = model.eval()(windows()).ellipsoid
    assert distribution is not None
    assert (distribution.eigenvalues - 1).abs().max() < 0.5
    assert distribution.shift.abs().max() < 0.5


def test_heads_start_as_far_from_the_identity_as_asked_for() -> None:
    near, far = (
        build_model("fern", generator=Generator().manual_seed(7), head_spread=spread, **SIZES).state_dict()
        for spread in (0.1, 1.0)
    )
    scaled = {name for name in near if name.endswith(("linear.weight", "spectrum.weight"))}
    assert scaled
    for name, values in near.items():
        torch.testing.assert_close(far[name], values * 10 if name in scaled else values)


def test_two_of_five_layers_turn_and_the_last_has_no_dead_update() -> None:
    model = fern()
    assert [head.linear.rotating for head in model.heads_z] == [False, True, False, True]
    assert not any(head.linear.rotating for head in model.heads_x)
    assert len(model.heads_x) == 5


def test_an_odd_context_keeps_its_last_element() -> None:
    model = fern(context_length=41)
    past = torch.randn(2, 41, 2, generator=Generator().manual_seed(1)).requires_grad_()
    (grad,) = torch.autograd.grad(model(past).mean.sum(), past)
    assert grad.isfinite().all()
    assert (grad[:, -1] != 0).all()


def test_footprint_of_the_default_is_the_papers() -> None:
    model = build_model("fern", context_length=336, horizon=336, channels=3)
    hidden, latent, length, horizon = 128, 96, 336, 336
    x_side, z_side = hidden * length, hidden * latent
    heads = 5 * hidden * 2 * latent + 4 * hidden * 2 * length
    head = hidden * hidden + hidden * (2 + 8) * horizon
    assert multiply_adds(model) == 3 * (5 * x_side + 5 * z_side + heads + head)
    biases = hidden + hidden + 5 * 2 * latent + 4 * 2 * length + hidden + (2 + 8) * horizon
    assert parameter_count(model) == x_side + z_side + heads + head + biases
    assert parameter_count(model) == pytest.approx(1.025e6, rel=0.05)
    assert multiply_adds(model) == pytest.approx(0.0035e9, rel=0.15)


def test_ablation_no_encoder_forecasts_the_same_whatever_the_past() -> None:
    model = stirred(build_model("fern", preset="no-encoder", **SIZES).eval(), 1)
    assert torch.equal(model(windows(seed=1)).mean, model(windows(seed=2)).mean)


def test_ablation_only_encoder_takes_the_mean_past_the_transport() -> None:
    seeded = Generator().manual_seed(1)
    model = stirred(build_model("fern", preset="only-encoder", generator=seeded, **SIZES).eval(), 1)
    before = model(windows())
    with torch.no_grad():
        model.head.vectors.bias.add_(torch.randn(model.head.vectors.bias.shape, generator=Generator().manual_seed(1)))
        model.head.spectrum.bias[:30].add_(0.5)
    after = model(windows())
    assert torch.equal(after.mean, before.mean)
    assert not torch.allclose(after.stddev, before.stddev, rtol=1e-2)
    assert not torch.allclose(before.mean[0], before.mean[1], rtol=1e-2)


def test_ablation_no_rotation_has_a_diagonal_jacobian_and_the_base_has_not() -> None:
    for preset, diagonal in (("no-rotation", True), ("paper", False)):
        distribution = stirred(build_model("fern", preset=preset, **SIZES).eval(), 1)(windows()).ellipsoid
        off = distribution.jacobian - torch.diag_embed(distribution.jacobian.diagonal(dim1=-2, dim2=-1))
        assert bool((off == 0).all()) is diagonal


@pytest.mark.parametrize(
    ("preset", "patches", "patch_size", "reflections"),
    [
        ("paper", 8, 24, 8),
        ("paper-compact", 8, 24, 8),
        ("no-patching", 1, 192, 8),
        ("reflections-2", 8, 24, 2),
        ("reflections-24", 8, 24, 24),
        ("no-rotation", 8, 24, 0),
    ],
)
def test_ablations_of_patches_and_reflections(preset: str, patches: int, patch_size: int, reflections: int) -> None:
    model = build_model("fern", context_length=336, horizon=192, channels=1, preset=preset).eval()
    distribution = model(torch.zeros(1, 336, 1)).ellipsoid
    assert distribution is not None
    assert distribution.reflections.shape == (1, 1, patches, reflections, patch_size)


def test_a_patch_larger_than_the_horizon_becomes_the_horizon() -> None:
    config = FernConfig(context_length=40, horizon=5, channels=1)
    assert (config.used_patch_size, config.used_reflections, config.patches) == (5, 5, 1)
    assert FernConfig(context_length=40, horizon=25, channels=1).patches == 2


def test_the_head_has_no_output_beyond_the_horizon() -> None:
    model = fern(horizon=30, patch_size=12, reflections=3)
    assert model.head.spectrum.out_features == 60
    assert model.head.vectors.out_features == 90


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"reflections": 25}, "reflections: got 25, needs at most patch_size, which is 24"),
        ({"reflections": -1}, "reflections: got -1, needs a whole number of at least 0"),
        ({"patch_size": 0}, "patch_size: got 0, needs a whole number of at least 1"),
        ({"layers": -1}, "layers: got -1"),
        ({"hidden": 0}, "hidden: got 0"),
        ({"latent": 0}, "latent: got 0"),
        ({"noise": 0.0}, "noise: got 0.0, needs a variance above 0"),
        ({"noise": float("nan")}, "noise: got nan"),
        ({"head_spread": 0.0}, "head_spread: got 0.0, needs a number above 0"),
        ({"activation": "rulu"}, "unknown activation 'rulu': did you mean 'relu'"),
        ({"mean": "none"}, "mean: "),
        ({"normalise": "revin"}, "normalise: "),
        ({"skip": True}, "skip: "),
        ({"channels_seen": "some"}, "channels_seen: "),
        ({"reflections": "many"}, "reflections: "),
        ({"patch": 3}, "unknown setting 'patch': did you mean 'patch_size'"),
    ],
)
def test_bad_settings_are_refused_by_name(settings: dict[str, object], message: str) -> None:
    with pytest.raises(FernError, match=message):
        build_model("fern", **{**SIZES, **settings})


def test_config_refuses_bad_settings_without_build_model_too() -> None:
    with raises_error("horizon"):
        FernConfig(context_length=40, horizon="3", channels=1)  # type: ignore[arg-type]
    with raises_error("mean"):
        FernConfig(context_length=40, horizon=3, channels=1, mean="none")  # type: ignore[arg-type]


def test_diverged_weights_are_not_passed_off_as_a_forecast() -> None:
    model = fern()
    with torch.no_grad():
        model.features_x.bias[0] = torch.nan
    with pytest.raises(FernError, match="eigenvalues"):
        model(windows())


@pytest.mark.parametrize("name", ["relu", "gelu", "silu", "tanh"])
def test_every_activation_trains(name: str) -> None:
    model = fern(activation=name).train()
    past, future = windows(), torch.zeros(3, 30, 2)
    loss = model.loss(past, future, lambda f, y: (f.mean - y).square().mean())
    loss.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


# --- the distribution of people's own data ---------------------------------------------------------------------------

DISTRIBUTION = {"normalise": "instance", "skip": "linear", "mean": "direct"}


@pytest.mark.parametrize("seen", ["own", "all"])
@pytest.mark.parametrize("kind", ["instance", "last"])
@pytest.mark.parametrize("mean", ["transported", "direct"])
def test_a_normalised_distribution_follows_the_units_of_the_data(kind: str, mean: str, seen: str) -> None:
    model = fern(normalise=kind, mean=mean, skip="linear", channels_seen=seen).double()
    past, unit = windows().double(), torch.tensor([10.0, 0.2], dtype=torch.float64)
    distribution, other = model(past).ellipsoid, model(past * unit + 7.0).ellipsoid
    assert distribution is not None
    assert other is not None
    moved = distribution.affine(unit, 7.0)
    y = moved.sample(generator=Generator().manual_seed(1))
    for ours, theirs in ((other.mean, moved.mean), (other.stddev, moved.stddev)):
        assert torch.allclose(ours, theirs, rtol=1e-9, atol=1e-9)
    assert torch.allclose(other.log_prob(y), moved.log_prob(y), rtol=1e-7)  # rounding, over small eigenvalues
    assert torch.allclose(other.spectral_radius, unit[:, None] * distribution.spectral_radius, rtol=1e-9)


@pytest.mark.parametrize("seen", ["own", "all"])
def test_training_draw_and_paths_come_from_the_distribution_in_the_units_of_the_data(seen: str) -> None:
    model = fern(**DISTRIBUTION, channels_seen=seen)
    with torch.no_grad():
        model.features_z.weight.zero_()  # no spread from z
    past = 50.0 + windows(batch=1)
    forecast = model(past, samples=6000, generator=Generator().manual_seed(2))
    drawn = model.train()(past.expand(6000, -1, -1), generator=Generator().manual_seed(3)).mean
    for paths in (forecast.samples[:, 0], drawn):
        # 6000 draws know a variance to √(2/6000) = 1.8 % and a mean to 1.3 % of the deviation: four deviations and more
        assert (paths.var(0) / forecast.stddev[0].square() - 1).abs().max() < 0.08
        assert ((paths.mean(0) - forecast.mean[0]) / forecast.stddev[0]).abs().max() < 0.06


def test_a_direct_mean_is_the_offset_and_does_not_feel_the_transport() -> None:
    model = fern(mean="direct")
    before = model(windows())
    with torch.no_grad():
        model.head.vectors.bias.add_(1.0)
        model.head.spectrum.bias[:30].sub_(300.0)
    after = model(windows())
    assert torch.equal(after.mean, before.mean)
    assert after.stddev.mean() < 0.5 * before.stddev.mean()


def test_a_direct_distribution_may_be_sharp_or_wide() -> None:
    model = fern(**DISTRIBUTION)
    past = windows()
    context = past.std(1, correction=0).unsqueeze(1)
    with torch.no_grad():
        for bias, least, most in ((-300.0, 1e-6, 1e-3), (1000.0, 25.0, 35.0)):
            model.head.spectrum.bias[:30] = bias
            share = model(past).stddev / context
            assert least < share.min() <= share.max() < most


def test_the_skip_starts_as_the_mean_of_the_context() -> None:
    model = build_model("fern", generator=Generator().manual_seed(7), skip="linear", **SMALL).eval()
    plain = build_model("fern", generator=Generator().manual_seed(7), **SMALL).eval()
    past = windows()
    added = model(past).mean - plain(past).mean
    assert torch.allclose(added, past.mean(1, keepdim=True).expand_as(added), rtol=1e-4, atol=1e-5)


def test_all_channels_are_seen_where_asked_for() -> None:
    past, other = windows(), windows()
    other[:, :, 1] = windows(seed=9)[:, :, 1]
    for seen, same in (("own", True), ("all", False)):
        model = fern(channels_seen=seen, **DISTRIBUTION)
        assert torch.allclose(model(past).mean[:, :, 0], model(other).mean[:, :, 0], rtol=1e-5, atol=1e-5) is same


@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("kind", ["instance", "last"])
@pytest.mark.parametrize("value", [0.0, 5.0, -1e6])
def test_a_constant_context_has_a_finite_distribution_of_positive_width(
    value: float, kind: str, prepared: bool
) -> None:
    model = fern(**{**DISTRIBUTION, "normalise": kind})
    if prepared:
        model.prepare([(windows(), windows())])
    forecast = model(torch.full((1, 40, 2), value), samples=3)
    assert forecast.samples is not None
    assert forecast.samples.isfinite().all()
    assert (forecast.stddev > 0).all()
    assert ((forecast.mean - value).abs() <= 100 * max(1.0, 1e-6 * abs(value))).all()


def test_a_series_far_from_zero_keeps_its_spread() -> None:
    past = windows()
    model = build_model("fern", generator=Generator().manual_seed(7), **SMALL, **DISTRIBUTION).eval()
    near, far = model(past), model(past + 1e6)
    # Numbers near 1e6 are 0.06 apart in float32, and the context has a deviation of 4: a few roundings.
    assert ((far.mean - 1e6) - near.mean).abs().max() < 0.3
    assert (far.stddev / near.stddev - 1).abs().max() < 0.05


def test_a_context_with_a_gap_is_refused_normalised_or_not() -> None:
    past = windows()
    past[1, 3, 0] = torch.nan
    with raises_error("past"):
        fern(**DISTRIBUTION)(past)


@pytest.mark.parametrize("seen", ["own", "all"])
def test_every_part_of_a_distribution_learns(seen: str) -> None:
    model = fern(**DISTRIBUTION, channels_seen=seen).train()
    model.loss(windows(), torch.zeros(3, 30, 2), criterion({"whitened_crps": 1.0})).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() and p.grad.any() for p in model.parameters())


def test_a_loss_of_the_distribution_alone_draws_z_and_no_y0() -> None:
    model, past, future = fern(**DISTRIBUTION).train(), windows(), torch.zeros(3, 30, 2)
    drawn = Generator().manual_seed(1)
    loss = model.loss(past, future, criterion({"crps": 1.0}), generator=drawn)
    torch.randn(6, 5, generator=(z_alone := Generator().manual_seed(1)))
    assert torch.equal(drawn.get_state(), z_alone.get_state())
    forecast = model(past, generator=Generator().manual_seed(1))
    assert loss.item() == criterion({"crps": 1.0})(forecast, future).item()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        DISTRIBUTION,
        {"channels_seen": "all"},
        {"horizon": 31, "hidden": 17, "context_length": 39},
        {"layers": 1},
        {"latent": 1},
    ],
)
def test_few_windows_without_gradients_take_a_shorter_way_to_the_same_distribution(
    settings: dict[str, object], dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build_model("fern", generator=Generator().manual_seed(7), **{**SMALL, **settings}).eval().to(dtype)
    past = windows(length=model.config.context_length).to(dtype)
    with torch.no_grad():
        short = model(past, samples=2, generator=Generator().manual_seed(1))
        monkeypatch.setattr("fern.models.fern_parts.heads.SMALL_BATCH", 0)
        usual = model(past, samples=2, generator=Generator().manual_seed(1))
    assert short.samples is not None
    assert usual.samples is not None
    tolerance = 2e-6 if dtype == torch.float32 else 1e-13  # sums of 40 products in another order
    for ours, theirs in ((short.mean, usual.mean), (short.stddev, usual.stddev), (short.samples, usual.samples)):
        assert (ours - theirs).abs().max() <= tolerance * max(1.0, float(theirs.abs().max()))


def test_the_shorter_way_sees_every_change_of_the_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    def trained(model: Fern) -> Fern:
        optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
        with torch.enable_grad():
            model(windows()).mean.square().mean().backward()
        optimiser.step()
        return model

    def replaced(model: Fern) -> Fern:
        model.features_z.weight = torch.nn.Parameter(model.features_z.weight + 0.5)
        return model

    def assigned(model: Fern) -> Fern:
        model.load_state_dict({name: value * 1.5 for name, value in model.state_dict().items()}, assign=True)
        return model

    model = fern()
    few = "fern.models.fern_parts.heads.SMALL_BATCH"
    with torch.no_grad():
        before = model(windows()).mean  # the weights are kept from here on
        for change in (trained, replaced, assigned, deepcopy, lambda model: pickle.loads(pickle.dumps(model))):  # noqa: S301
            changed = change(model)
            short = changed(windows()).mean
            with monkeypatch.context() as patch:
                patch.setattr(few, 0)
                torch.testing.assert_close(short, changed(windows()).mean, atol=2e-5, rtol=1e-5)
        assert (short - before).abs().max() > 1e-2
        changed.features_z.weight.mul_(0.5)  # a copy's own weights, not the original's
        assert torch.equal(model(windows()).mean, short) and not torch.equal(changed(windows()).mean, short)


def test_the_shorter_way_shows_diverged_weights_too() -> None:
    model = fern()
    with torch.no_grad():
        model.features_x.bias[0] = torch.nan
        with pytest.raises(FernError, match="eigenvalues"):
            model(windows())


def test_the_papers_model_trains_to_the_same_weights_as_ever() -> None:
    """Recorded at commit 497986f, before there were settings for a distribution; float64, so that a machine hardly
    matters.
    """
    recorded = {(30, 2): (2.585204309709052, 850.7595446461854), (48, 3): (2.703649084522308, 917.4227897638834)}
    for (horizon, channels), (last_loss, squared) in recorded.items():
        sizes = {"context_length": 40, "horizon": horizon, "channels": channels}
        model = (
            build_model("fern", preset="paper-compact", generator=Generator().manual_seed(7), **sizes).double().train()
        )
        generator = Generator().manual_seed(11)
        past, future = (
            4 * torch.randn(6, steps, channels, generator=generator, dtype=torch.float64) for steps in (40, horizon)
        )
        optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0)
        for _ in range(5):
            loss = model.loss(past, future, lambda f, y: huber_loss(f.mean, y), generator=generator)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        assert loss.item() == pytest.approx(last_loss, rel=1e-10)
        assert sum(p.square().sum().item() for p in model.parameters()) == pytest.approx(squared, rel=1e-10)
