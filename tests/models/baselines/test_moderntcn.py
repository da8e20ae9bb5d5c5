"""ModernTCN against a statement of its architecture with torch's own convolutions, and its matrix products."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Generator, Tensor, nn
from torch.nn import functional

from fern.errors import FernError
from fern.models import build_model
from fern.models.baselines.moderntcn import Block, ModernTCN, ModernTCNConfig, depthwise, grouped_linear
from fern.models.footprint import parameter_count


def moderntcn(seed: int = 7, **settings: object) -> ModernTCN:
    """A model whose normalisations are not the identity, so that every term of the architecture shows."""
    sizes = {"context_length": 50, "horizon": 12, "channels": 3, "width": 8, "large_kernel": 9, "small_kernel": 3}
    generator = Generator().manual_seed(seed)
    model = build_model("moderntcn", generator=generator, **{**sizes, **settings})
    assert isinstance(model, ModernTCN)
    for part in model.modules():
        if isinstance(part, nn.BatchNorm1d):
            assert part.running_mean is not None and part.running_var is not None
            with torch.no_grad():
                part.weight.uniform_(0.5, 2.0, generator=generator)
                part.bias.normal_(generator=generator)
            part.running_mean.normal_(generator=generator)
            part.running_var.uniform_(0.5, 2.0, generator=generator)
    return model.eval()


def walks(model: ModernTCN, *, windows: int = 5, seed: int = 3) -> Tensor:
    shape = (windows, model.config.context_length, model.config.channels)
    return 3 * torch.randn(shape, generator=Generator().manual_seed(seed)).cumsum(1) + 5


# ---------------------------------------------------------------------------------------------- the whole model


def statement(model: ModernTCN, past: Tensor) -> Tensor:
    """The forecast with torch's convolutions on (batch, channel·feature, patch), without dropout."""
    config, training = model.config, model.training

    def normalised(x: Tensor, norm: nn.BatchNorm1d) -> Tensor:
        assert norm.running_mean is not None and norm.running_var is not None
        mean, variance = norm.running_mean.clone(), norm.running_var.clone()
        return functional.batch_norm(x, mean, variance, norm.weight, norm.bias, training=training, eps=norm.eps)

    def convolved(x: Tensor, conv: nn.Conv1d, groups: int) -> Tensor:
        return functional.conv1d(x, conv.weight, conv.bias, padding=conv.kernel_size[0] // 2, groups=groups)

    batch, _, channels = past.shape
    width = config.width
    level = past.mean(dim=1, keepdim=True)
    spread = (past.var(dim=1, keepdim=True, correction=0) + 1e-5).sqrt()
    series = ((past - level) / spread).transpose(1, 2).reshape(batch * channels, 1, -1)
    series = functional.pad(series, (0, config.patch_size - config.patch_stride), mode="replicate")
    patches = functional.conv1d(series, model.stem.weight, model.stem.bias, stride=config.patch_stride)
    x = normalised(patches, model.stem_norm).reshape(batch, channels, width, -1)
    for block in model.blocks:
        assert isinstance(block, Block)
        rows = x.flatten(1, 2)
        moved = normalised(convolved(rows, block.large, channels * width), block.large_norm)
        moved = moved + normalised(convolved(rows, block.small, channels * width), block.small_norm)
        moved = normalised(moved.reshape(batch * channels, width, -1), block.norm).reshape(rows.shape)
        inside = functional.gelu(convolved(moved, block.features.widen, channels))
        mixed = convolved(inside, block.features.narrow, channels).reshape(x.shape)
        by_feature = mixed.transpose(1, 2).flatten(1, 2)
        inside = functional.gelu(convolved(by_feature, block.channels.widen, width))
        mixed = convolved(inside, block.channels.narrow, width)
        x = x + mixed.reshape(batch, width, channels, -1).transpose(1, 2)
    forecast = functional.linear(x.flatten(2), model.head.weight, model.head.bias)
    return forecast.transpose(1, 2) * spread + level


ARCHITECTURES = pytest.mark.parametrize(
    "settings",
    [
        {},
        {"channels": 1, "blocks": 2},
        {"blocks": 3, "ffn_ratio": 4, "channels": 7},
        {"patch_size": 1, "patch_stride": 1, "context_length": 6},
        {"patch_size": 6, "patch_stride": 3, "context_length": 51, "large_kernel": 3, "small_kernel": 3},
        {"context_length": 336, "horizon": 336, "width": 64, "large_kernel": 51, "small_kernel": 5},
    ],
)


@ARCHITECTURES
@pytest.mark.parametrize("training", [True, False])
def test_forecast_is_the_architecture_stated_with_torchs_convolutions(
    settings: dict[str, object], training: bool
) -> None:
    model = moderntcn(dropout=0.0, **settings).train(training)
    past = walks(model)
    expected = statement(model, past)
    # Values of about 100 in float32: a few units in the last place.
    assert torch.allclose(model(past).mean, expected, rtol=1e-5, atol=1e-4)


@ARCHITECTURES
def test_gradients_are_those_of_torchs_convolutions(settings: dict[str, object]) -> None:
    model = moderntcn(dropout=0.0, **settings).double().train()
    past = walks(model).double()
    parameters = list(model.parameters())
    found = torch.autograd.grad(model(past).mean.square().mean(), parameters)
    expected = torch.autograd.grad(statement(model, past).square().mean(), parameters)
    for (name, _), ours, theirs in zip(model.named_parameters(), found, expected, strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-8, atol=1e-8 * float(theirs.abs().max().clamp(min=1.0))), name


def test_training_updates_the_running_statistics_of_every_normalisation() -> None:
    model = moderntcn(blocks=2)
    norms = {name: part for name, part in model.named_modules() if isinstance(part, nn.BatchNorm1d)}
    before = {name: part.state_dict()["running_var"].clone() for name, part in norms.items()}
    model.train()(walks(model))
    for name, part in norms.items():
        assert not torch.equal(part.state_dict()["running_var"], before[name]), name


def test_dropout_acts_while_training_only() -> None:
    model = moderntcn(dropout=0.5)
    past = walks(model)
    assert torch.equal(model(past).mean, model(past).mean)
    model.train()
    first, again, other = (model(past, generator=Generator().manual_seed(seed)).mean for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.allclose(first, other)


def test_the_last_time_step_is_seen_whatever_the_context() -> None:
    for length in range(4, 22):
        model = moderntcn(context_length=length)
        past = walks(model)
        changed = past.clone()
        changed[:, -1] += 1.0
        # A change of one step moves mean and spread of the window too: compare what the stem makes of both.
        same = [model._embed(series.transpose(1, 2)) for series in (past, changed)]
        assert not torch.allclose(same[0], same[1]), length


def test_the_papers_setting_has_one_layer_for_each_official_one() -> None:
    model = build_model("moderntcn", context_length=336, horizon=336, channels=3, preset="paper")
    rows = 3 * 64
    stem = 64 * 8 + 64 + 2 * 64
    convolutions = rows * 51 + 2 * rows + rows * 5 + 2 * rows + 2 * 64
    features = 2 * (rows * 64 + rows)
    channels = 2 * (rows * 3 + rows)
    head = 64 * 84 * 336 + 336
    assert parameter_count(model) == stem + convolutions + features + channels + head == 1_845_520


# ------------------------------------------------------------------------------------------- its matrix products


@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 20), st.integers(0, 12), st.integers(0, 2**31 - 1))
def test_depthwise_is_torchs_depthwise_convolution_for_any_length_and_kernel(
    rows: int, batch: int, length: int, half: int, seed: int
) -> None:
    generator = Generator().manual_seed(seed)
    x = torch.randn(rows, batch, length, generator=generator, dtype=torch.float64, requires_grad=True)
    kernels = torch.randn(rows, 1, 2 * half + 1, generator=generator, dtype=torch.float64, requires_grad=True)
    found = depthwise(x, kernels)
    expected = functional.conv1d(x.transpose(0, 1), kernels, padding=half, groups=rows).transpose(0, 1)
    assert torch.allclose(found, expected, atol=1e-12)
    upstream = torch.randn(found.shape, generator=generator, dtype=torch.float64)
    ours = torch.autograd.grad(found, (x, kernels), upstream)
    theirs = torch.autograd.grad(expected, (x, kernels), upstream)
    for a, b in zip(ours, theirs, strict=True):
        assert torch.allclose(a, b, atol=1e-12)


@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 40), st.integers(0, 6), st.integers(0, 2**31 - 1))
def test_short_kernels_by_the_compiled_loop_are_the_same_convolution_in_single_precision(
    rows: int, batch: int, length: int, half: int, seed: int
) -> None:
    generator = Generator().manual_seed(seed)
    x = torch.randn(batch, rows, length, generator=generator).transpose(0, 1).requires_grad_()  # not contiguous
    kernels = torch.randn(rows, 1, 2 * half + 1, generator=generator, requires_grad=True)
    upstream = torch.randn(rows, batch, length, generator=generator)
    found = depthwise(x, kernels)
    expected = functional.conv1d(x.transpose(0, 1).double(), kernels.double(), padding=half, groups=rows)
    expected = expected.transpose(0, 1)
    ours = torch.autograd.grad(found, (x, kernels), upstream)
    plain = torch.autograd.grad(expected, (x, kernels), upstream.double())
    for a, b in zip((found, *ours), (expected, *plain), strict=True):
        assert torch.allclose(a.double(), b.double(), rtol=1e-5, atol=1e-4)  # sums of up to 120 products of about 1


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4), st.integers(1, 6), st.integers(0, 2**31 - 1))
def test_grouped_linear_is_torchs_grouped_convolution(
    groups: int, inputs: int, outputs: int, length: int, seed: int
) -> None:
    generator = Generator().manual_seed(seed)
    layer = nn.Conv1d(groups * inputs, groups * outputs, 1, groups=groups)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_(generator=generator)
    x = torch.randn(1, groups * inputs, length, generator=generator)
    found = grouped_linear(x.view(groups, inputs, length), layer).view(1, -1, length)
    assert torch.allclose(found, layer(x), atol=1e-5)


def test_both_convolutions_merge_into_one_in_evaluation() -> None:
    model = moderntcn()
    block = model.blocks[0]
    assert isinstance(block, Block)
    rows = torch.randn(24, 5, 12, generator=Generator().manual_seed(1))
    assert torch.allclose(block.convolve_merged(rows), block.convolve(rows), atol=1e-5)


# --------------------------------------------------------------------------------------------------- the settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"large_kernel": 50}, "large_kernel: "),
        ({"small_kernel": 4}, "small_kernel: "),
        ({"small_kernel": 11}, "small_kernel: "),
        ({"patch_stride": 9}, "patch_stride: "),
        ({"context_length": 3}, "patch_stride: "),
        ({"patch_size": 4, "patch_stride": 4}, "leaves the last 2 of 50 time steps unseen"),
        ({"dropout": 1.0}, "dropout: "),
        ({"head_dropout": -0.1}, "head_dropout: "),
        ({"blocks": 0}, "blocks: "),
        ({"ffn_ration": 2}, "unknown setting 'ffn_ration': did you mean 'ffn_ratio'"),
    ],
)
def test_impossible_settings_are_refused_by_name(settings: dict[str, object], message: str) -> None:
    with pytest.raises(FernError, match=message):
        moderntcn(**settings)


def test_published_defaults_are_those_of_etth1() -> None:
    config = ModernTCNConfig(context_length=336, horizon=336, channels=3)
    assert (config.patch_size, config.patch_stride, config.patches, config.blocks) == (8, 4, 84, 1)
    assert (config.large_kernel, config.small_kernel, config.width, config.ffn_ratio) == (51, 5, 64, 1)
    weather = build_model("moderntcn", context_length=336, horizon=96, channels=21, preset="weather")
    assert isinstance(weather, ModernTCN)
    assert (weather.config.ffn_ratio, weather.config.dropout) == (8, 0.4)
