"""PatchTST against plain statements of its two published forms, under the names of their weights."""

import math

import pytest
import torch
from tests.errors import raises_error
from torch import Generator, Tensor, nn
from torch.nn.functional import conv1d, scaled_dot_product_attention

from fern.errors import FernError
from fern.models import build_model
from fern.models.baselines.patchtst import PatchTST, PatchTSTConfig, SelfAttention, TokenBatchNorm, sinusoidal_positions
from fern.models.footprint import parameter_count

SMALL = {"layers": 2, "hidden": 12, "feedforward": 20, "heads": 3}


def built(variant: str, **settings: object) -> PatchTST:
    """A model in double precision whose norms are not the identity."""
    sizes = {"context_length": 50, "horizon": 24, "channels": 3, "variant": variant, **SMALL, **settings}
    model = build_model("patchtst", generator=Generator().manual_seed(7), **sizes)
    assert isinstance(model, PatchTST)
    generator = Generator().manual_seed(8)
    with torch.no_grad():
        for part in model.modules():
            if isinstance(part, nn.BatchNorm1d | nn.LayerNorm):
                part.weight.uniform_(0.5, 2.0, generator=generator)
                part.bias.normal_(generator=generator)
            if isinstance(part, nn.BatchNorm1d):
                part.running_mean.normal_(generator=generator)
                part.running_var.uniform_(0.5, 2.0, generator=generator)
    return model.double().eval()


def windows(model: PatchTST) -> Tensor:
    size = (4, model.config.context_length, model.config.channels)
    return 3.0 + torch.randn(size, generator=Generator().manual_seed(1), dtype=torch.float64).cumsum(dim=1)


OFFICIAL = {
    "embedding.linear": "backbone.W_P",
    "attention.query": "self_attn.W_Q",
    "attention.key": "self_attn.W_K",
    "attention.value": "self_attn.W_V",
    "attention.out": "self_attn.to_out.0",
    "norm_attention": "norm_attn.1",
    "feedforward.maps.0": "ff.0",
    "feedforward.maps.1": "ff.3",
    "norm_feedforward": "norm_ffn.1",
    "encoder": "backbone.encoder.layers",
    "head": "head.linear",
}
LIBRARY = {
    "embedding.linear": "patch_embedding.value_embedding",
    "attention.query": "attention.query_projection",
    "attention.key": "attention.key_projection",
    "attention.value": "attention.value_projection",
    "attention.out": "attention.out_projection",
    "norm_attention": "norm1",
    "feedforward.maps.0": "conv1",
    "feedforward.maps.1": "conv2",
    "norm_feedforward": "norm2",
    "encoder": "encoder.attn_layers",
    "norm": "encoder.norm.1",
    "head": "head.linear",
}


def renamed(model: PatchTST) -> dict[str, Tensor]:
    """The weights under the names of the published project, in its shapes."""
    table = OFFICIAL if model.config.variant == "official" else LIBRARY
    weights = {}
    for name, value in model.state_dict().items():
        if name == "embedding.positions":
            weights["backbone.W_pos"] = value
            continue
        where, kind = name.rsplit(".", 1)
        if where.startswith("encoder."):
            _, layer, inside = where.split(".", 2)
            where = f"{table['encoder']}.{layer}.{table[inside]}"
        else:
            where = table[where]
        convolution = where.endswith(("conv1", "conv2")) and kind == "weight"
        weights[f"{where}.{kind}"] = value[..., None] if convolution else value
    return weights


def _affine(weights: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def _gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1.0 + torch.erf(x / math.sqrt(2.0)))


def _batch_norm(weights: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    scale = weights[f"{name}.weight"] / (weights[f"{name}.running_var"] + 1e-5).sqrt()
    return (x - weights[f"{name}.running_mean"]) * scale + weights[f"{name}.bias"]


def _layer_norm(weights: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    centred = x - x.mean(dim=-1, keepdim=True)
    return (
        centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weights[f"{name}.weight"]
        + weights[f"{name}.bias"]
    )


def _patches(x: Tensor, config: PatchTSTConfig) -> Tensor:  # (L,) -> (patches, p)
    padded = torch.cat([x, x[-1].repeat(config.stride)])
    starts = range(0, len(padded) - config.patch_size + 1, config.stride)
    return torch.stack([padded[start : start + config.patch_size] for start in starts])


def _attention(query: Tensor, key: Tensor, value: Tensor, heads: int, before: list[Tensor] | None) -> tuple:
    """One head after another on ``(patches, hidden)``: the attended vectors, and the scores of each head."""
    width = query.shape[1] // heads
    attended, scores = [], []
    for head in range(heads):
        own = slice(head * width, (head + 1) * width)
        score = query[:, own] @ key[:, own].T / math.sqrt(width)
        if before is not None:
            score = score + before[head]
        scores.append(score)
        attended.append(score.softmax(dim=-1) @ value[:, own])
    return torch.cat(attended, dim=1), scores


def official_series(weights: dict[str, Tensor], x: Tensor, config: PatchTSTConfig) -> Tensor:
    u = _affine(weights, "backbone.W_P", _patches(x, config)) + weights["backbone.W_pos"]
    scores = None
    for layer in range(config.layers):
        name = f"backbone.encoder.layers.{layer}"
        qkv = (_affine(weights, f"{name}.self_attn.W_{letter}", u) for letter in "QKV")
        attended, scores = _attention(*qkv, config.heads, scores)
        u = _batch_norm(weights, f"{name}.norm_attn.1", u + _affine(weights, f"{name}.self_attn.to_out.0", attended))
        inner = _gelu(_affine(weights, f"{name}.ff.0", u))
        u = _batch_norm(weights, f"{name}.norm_ffn.1", u + _affine(weights, f"{name}.ff.3", inner))
    return _affine(weights, "head.linear", u.T.reshape(-1))


def library_series(weights: dict[str, Tensor], x: Tensor, config: PatchTSTConfig) -> Tensor:
    embedded = _patches(x, config) @ weights["patch_embedding.value_embedding.weight"].T
    u = embedded + sinusoidal_positions(len(embedded), config.hidden).double()
    for layer in range(config.layers):
        name = f"encoder.attn_layers.{layer}"
        qkv = (_affine(weights, f"{name}.attention.{part}_projection", u) for part in ("query", "key", "value"))
        attended, _ = _attention(*qkv, config.heads, None)
        u = _layer_norm(weights, f"{name}.norm1", u + _affine(weights, f"{name}.attention.out_projection", attended))
        inner = _gelu(conv1d(u.T[None], weights[f"{name}.conv1.weight"], weights[f"{name}.conv1.bias"]))
        outer = conv1d(inner, weights[f"{name}.conv2.weight"], weights[f"{name}.conv2.bias"])[0].T
        u = _layer_norm(weights, f"{name}.norm2", u + outer)
    return _affine(weights, "head.linear", _batch_norm(weights, "encoder.norm.1", u).T.reshape(-1))


@pytest.mark.parametrize("variant", ["official", "tslib"])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"context_length": 16, "horizon": 1, "channels": 1},
        {"context_length": 37, "horizon": 40, "patch_size": 5, "stride": 3, "layers": 3},
        {"context_length": 24, "patch_size": 4, "stride": 6, "heads": 12},
    ],
)
def test_forecast_is_that_of_the_published_layers(variant: str, settings: dict[str, int]) -> None:
    model = built(variant, **settings)
    weights, past = renamed(model), windows(model)
    series = official_series if variant == "official" else library_series
    mean, stddev = past.mean(dim=1, keepdim=True), (past.var(dim=1, correction=0, keepdim=True) + 1e-5).sqrt()
    rows = ((past - mean) / stddev).transpose(1, 2).flatten(0, 1)
    future = torch.stack([series(weights, row, model.config) for row in rows])
    expected = future.view(4, model.config.channels, -1).transpose(1, 2) * stddev + mean
    assert torch.allclose(model(past).mean, expected, rtol=0, atol=1e-10)


def test_plain_attention_is_torchs() -> None:
    layer = SelfAttention(12, 3, dropout=0.0, residual=False).double()
    x = torch.randn(4, 7, 12, generator=Generator().manual_seed(1), dtype=torch.float64)
    heads = [part(x).view(4, 7, 3, 4).transpose(1, 2) for part in (layer.query, layer.key, layer.value)]
    expected = layer.out(scaled_dot_product_attention(*heads).transpose(1, 2).reshape(4, 7, 12))
    attended, scores = layer(x)
    assert scores is None
    assert torch.allclose(attended, expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_attention_is_a_loop_over_rows_and_heads(residual: bool, training: bool) -> None:
    # In training a rate above 0 takes the way that can draw from a generator; so small a rate drops nothing here.
    layer = SelfAttention(12, 3, dropout=1e-9, residual=residual).double().train(training)
    x = torch.randn(4, 7, 12, generator=Generator().manual_seed(1), dtype=torch.float64)
    before = torch.randn(4 * 3, 7, 7, generator=Generator().manual_seed(2), dtype=torch.float64) if residual else None
    attended, scores = layer(x, before)
    for row in range(4):
        qkv = (part(x[row]) for part in (layer.query, layer.key, layer.value))
        given = None if before is None else [before[3 * row + head] for head in range(3)]
        expected, own = _attention(*qkv, 3, given)
        assert torch.allclose(attended[row], layer.out(expected), rtol=0, atol=1e-12)
        if residual:
            assert torch.allclose(scores[3 * row : 3 * row + 3], torch.stack(own), rtol=0, atol=1e-12)


def test_attention_dropout_draws_from_the_generator_of_the_call() -> None:
    model = built("tslib", attention_dropout=0.5, dropout=0.0).train()
    past, before = windows(model), torch.get_rng_state()
    drawn = [model(past, generator=Generator().manual_seed(seed)).mean for seed in (1, 1, 2)]
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.allclose(drawn[0], drawn[2])
    assert torch.equal(torch.get_rng_state(), before)


def test_a_batch_larger_than_a_block_is_forecast_window_by_window_and_trained_as_one() -> None:
    model = built("official", dropout=0.0)
    past = windows(model).repeat(50, 1, 1)  # 600 rows
    assert torch.allclose(model(past).mean, model(past[:4]).mean.repeat(50, 1, 1), rtol=0, atol=1e-12)
    before = int(model.encoder[0].norm_attention.num_batches_tracked)
    model.train()(past)
    assert int(model.encoder[0].norm_attention.num_batches_tracked) == before + 1


def test_batch_norm_takes_its_statistics_over_rows_and_patches() -> None:
    ours, plain = TokenBatchNorm(5).double(), nn.BatchNorm1d(5).double()
    x = 2.0 + torch.randn(4, 7, 5, generator=Generator().manual_seed(1), dtype=torch.float64)
    for _ in range(2):
        expected = plain(x.transpose(1, 2)).transpose(1, 2)
        assert torch.allclose(ours(x), expected, rtol=0, atol=1e-12)
    assert torch.allclose(ours.running_var, plain.running_var, rtol=1e-13)
    assert torch.allclose(ours.eval()(x), plain.eval()(x.transpose(1, 2)).transpose(1, 2), rtol=0, atol=1e-12)


@pytest.mark.parametrize("width", [6, 7])
def test_sinusoidal_positions_are_sines_and_cosines_of_falling_frequency(width: int) -> None:
    waves = sinusoidal_positions(42, width)
    for place in range(42):
        for feature in range(width):
            angle = place / 10000 ** ((feature - feature % 2) / width)
            expected = math.cos(angle) if feature % 2 else math.sin(angle)
            # Angles up to 42 in single precision are known to 2e-6.
            assert float(waves[place, feature]) == pytest.approx(expected, abs=5e-6)


def test_official_form_drops_the_attention_twice() -> None:
    rates = {
        variant: built(variant, dropout=0.3).encoder[0].dropout_attention.rate for variant in ("official", "tslib")
    }
    assert rates == {"official": pytest.approx(1 - 0.7**2), "tslib": 0.3}


def test_paper_settings_have_the_papers_parameters() -> None:
    model = build_model("patchtst", context_length=336, horizon=336, channels=3, preset="paper")
    assert parameter_count(model) == 2_008_144


def test_official_etth1_settings_have_the_published_parameters() -> None:
    model = build_model("patchtst", context_length=336, horizon=96, channels=7, preset="etth1")
    attention, feedforward, norms = 4 * (16 * 16 + 16), 16 * 128 + 128 + 128 * 16 + 16, 2 * 2 * 16
    embedding, head = 16 * 16 + 16 + 42 * 16, 42 * 16 * 96 + 96
    assert parameter_count(model) == embedding + 3 * (attention + feedforward + norms) + head == 81_728


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hidden": 16, "heads": 3}, "hidden: "),
        ({"patch_size": 51}, "patch_size: "),
        ({"stride": 0}, "stride: "),
        ({"variant": "tslibb"}, "variant"),
        ({"activation": "gelo"}, "unknown activation 'gelo': did you mean 'gelu'"),
        ({"head_dropout": -0.1}, "head_dropout: "),
        ({"attention_dropout": float("nan")}, "attention_dropout: "),
        ({"patch_sise": 8}, "unknown setting 'patch_sise': did you mean 'patch_size'"),
        ({"preset": "wether"}, "unknown preset of patchtst 'wether': did you mean 'weather'"),
    ],
)
def test_bad_settings_are_refused_by_name(settings: dict[str, object], message: str) -> None:
    with pytest.raises(FernError, match=message):
        build_model("patchtst", context_length=50, horizon=24, channels=3, **settings)


def test_config_refuses_an_unknown_variant_when_built_by_hand() -> None:
    with raises_error("variant"):
        PatchTSTConfig(context_length=50, horizon=24, channels=3, variant="third")
