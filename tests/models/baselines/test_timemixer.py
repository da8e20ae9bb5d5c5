"""TimeMixer against a plain statement of it, under the names of the Time-Series-Library's weights."""

import pytest
import torch
from torch import Generator, Tensor
from torch.nn.functional import avg_pool1d, conv1d, gelu, pad

from fern.errors import FernError
from fern.models import build_model
from fern.models.baselines.timemixer import TimeMixer, TimeMixerConfig
from fern.models.footprint import parameter_count


def built(*, seed: int = 7, **settings: int) -> TimeMixer:
    """A model in double precision whose RevIN is not the identity."""
    sizes = {"context_length": 50, "horizon": 24, "channels": 3, **settings}
    model = build_model("timemixer", generator=Generator().manual_seed(seed), **sizes)
    assert isinstance(model, TimeMixer)
    generator = Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for revin in model.revins:
            revin.weight.uniform_(0.5, 2.0, generator=generator)
            revin.bias.normal_(generator=generator)
    return model.double().eval()


def windows(model: TimeMixer) -> Tensor:
    size = (4, model.config.context_length, model.config.channels)
    return 3.0 + torch.randn(size, generator=Generator().manual_seed(1), dtype=torch.float64).cumsum(dim=1)


def library_name(name: str) -> str:
    """The name in thuml/Time-Series-Library of a weight of ours."""
    where, kind = name.rsplit(".", 1)
    part = where.split(".")
    if part[0] == "blocks" and part[2] in ("down", "up"):
        side = {"down": "season.down", "up": "trend.up"}[part[2]]
        return f"pdm_blocks.{part[1]}.mixing_multi_scale_{side}_sampling_layers.{part[3]}.{2 * int(part[5])}.{kind}"
    if part[0] == "blocks":
        return f"pdm_blocks.{part[1]}.out_cross_layer.{ {'expand': 0, 'contract': 2}[part[3]] }.{kind}"
    if part[0] == "embedding":
        return f"enc_embedding.value_embedding.tokenConv.{kind}"
    if part[0] == "revins":
        return f"normalize_layers.{part[1]}.affine_{kind}"
    return f"{where.replace('forecasts', 'predict_layers').replace('projection', 'projection_layer')}.{kind}"


def plain_forecast(weights: dict[str, Tensor], past: Tensor, config: TimeMixerConfig) -> Tensor:
    """The architecture as it is drawn: vectors last, one scale after another, the map to the horizon before the last.

    Written for one series at a time, with convolutions and pooling in place of our shortcuts.
    """
    futures = [
        _plain_series(weights, past[window, :, channel], channel, config)
        for window in range(past.shape[0])
        for channel in range(past.shape[2])
    ]
    return torch.stack(futures).view(past.shape[0], past.shape[2], -1).transpose(1, 2)


def _plain_series(weights: dict[str, Tensor], x: Tensor, channel: int, config: TimeMixerConfig) -> Tensor:
    states, first = [], None
    for scale in range(config.down_samplings + 1):
        if scale:
            x = avg_pool1d(x[None, None], config.factor)[0, 0]
        mean, stddev = x.mean(), (x.var(correction=0) + 1e-5).sqrt()
        first = first or (mean, stddev)
        w, b = (weights[f"normalize_layers.{scale}.affine_{kind}"][channel] for kind in ("weight", "bias"))
        z = w * (x - mean) / stddev + b
        token = weights["enc_embedding.value_embedding.tokenConv.weight"]
        states.append(conv1d(pad(z[None, None], (1, 1), mode="circular"), token)[0].T)  # (T, hidden)
    for block in range(config.layers):
        states = _plain_block(weights, f"pdm_blocks.{block}", states, config.kernel)
    total = torch.zeros(config.horizon, dtype=x.dtype)
    for scale, state in enumerate(states):
        vectors = _affine(weights, f"predict_layers.{scale}", state.T).T  # (H, hidden)
        total = total + _affine(weights, "projection_layer", vectors)[:, 0]
    w, b = (weights[f"normalize_layers.0.affine_{kind}"][channel] for kind in ("weight", "bias"))
    return (total - b) / (w + 1e-10) * first[1] + first[0]


def _plain_block(weights: dict[str, Tensor], name: str, states: list[Tensor], kernel: int) -> list[Tensor]:
    trends = [
        avg_pool1d(pad(state.T[None], (kernel // 2, kernel // 2), mode="replicate"), kernel, 1)[0].T for state in states
    ]
    seasons = [state - trend for state, trend in zip(states, trends, strict=True)]
    last = len(states) - 1
    for i in range(last):
        mixing = f"{name}.mixing_multi_scale_season.down_sampling_layers.{i}"
        seasons[i + 1] = seasons[i + 1] + _perceptron(weights, mixing, seasons[i].T).T
    for i in range(last):
        mixing = f"{name}.mixing_multi_scale_trend.up_sampling_layers.{i}"
        coarse = last - i
        trends[coarse - 1] = trends[coarse - 1] + _perceptron(weights, mixing, trends[coarse].T).T
    return [
        state + _perceptron(weights, f"{name}.out_cross_layer", season + trend)
        for state, season, trend in zip(states, seasons, trends, strict=True)
    ]


def _affine(weights: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def _perceptron(weights: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    return _affine(weights, f"{name}.2", gelu(_affine(weights, f"{name}.0", x)))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"context_length": 96, "horizon": 1, "channels": 1, "layers": 1},
        {"context_length": 53, "horizon": 7, "down_samplings": 2, "factor": 3, "kernel": 5, "hidden": 5},
        {"context_length": 8, "horizon": 30, "down_samplings": 3, "layers": 3, "feedforward": 9},
        {"context_length": 9, "horizon": 4, "down_samplings": 1},
    ],
)
def test_forecast_is_that_of_the_published_layers(settings: dict[str, int]) -> None:
    model = built(**settings)
    weights = {library_name(name): value for name, value in model.state_dict().items()}
    past = windows(model)
    expected = plain_forecast(weights, past, model.config)
    # RevIN restores windows of a spread of about 10: 1e-10 of that, where doubles keep 1e-15 a step.
    assert torch.allclose(model(past).mean, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("settings", [{}, {"down_samplings": 1, "channels": 1}, {"layers": 1, "feedforward": 9}])
def test_values_and_gradients_in_single_precision_are_those_of_the_published_layers(settings: dict[str, int]) -> None:
    exact = built(**settings)
    past = windows(exact)
    weights = {library_name(name): value for name, value in exact.named_parameters()}
    expected = plain_forecast(weights, past, exact.config)
    slopes = torch.autograd.grad(expected.square().mean(), list(exact.parameters()))
    model = built(**settings).float()
    found = model(past.float()).mean
    ours_slopes = torch.autograd.grad(found.square().mean(), list(model.parameters()))
    for ours, plain in zip((found.detach(), *ours_slopes), (expected.detach(), *slopes), strict=True):
        assert float((ours - plain).abs().max()) <= 1e-5 * float(plain.abs().max())


def test_every_weight_of_the_library_that_a_forecast_from_values_uses_is_ours() -> None:
    names = {library_name(name) for name in built(layers=1).state_dict()}
    mixing = {
        f"pdm_blocks.0.mixing_multi_scale_{side}_sampling_layers.{i}.{j}.{kind}"
        for side in ("season.down", "trend.up")
        for i in range(3)
        for j in (0, 2)
        for kind in ("weight", "bias")
    }
    assert mixing <= names
    assert len(names) == len(mixing) + 4 + 1 + 8 + 8 + 2


def test_paper_settings_have_the_papers_parameters() -> None:
    model = build_model("timemixer", context_length=336, horizon=336, channels=3, preset="paper")
    never_called = 2 * 2 * 16  # a LayerNorm in each of two blocks
    calendar = 4 * 16  # the embedding of four calendar features
    assert parameter_count(model) + never_called + calendar == 885_705
    assert parameter_count(model) == pytest.approx(885_705, rel=0.01)


def test_weather_has_three_blocks() -> None:
    model = build_model("timemixer", context_length=96, horizon=96, channels=21, preset="weather")
    assert isinstance(model, TimeMixer)
    assert len(model.blocks) == 3


def test_a_batch_larger_than_a_block_has_the_forecasts_and_gradients_of_its_windows() -> None:
    model = built(dropout=0)
    past = windows(model)
    many = past.repeat(50, 1, 1)  # 600 rows
    assert torch.allclose(model(many).mean, model(past).mean.repeat(50, 1, 1), rtol=0, atol=1e-12)
    gradients = [torch.autograd.grad(model(x).mean.square().mean(), model.projection.weight)[0] for x in (past, many)]
    assert torch.allclose(*gradients, rtol=1e-10)


def test_dropout_of_embedded_steps_acts_in_training_only() -> None:
    model, still = built(), built(dropout=0)
    past = windows(model)
    assert torch.equal(model(past).mean, still(past).mean)
    model.train()
    still.train()
    drawn = [model(past, generator=Generator().manual_seed(seed)).mean for seed in (1, 1, 2)]
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.allclose(drawn[0], drawn[2])
    assert torch.equal(still(past).mean, still.eval()(past).mean)


def test_embedding_starts_with_the_published_variance() -> None:
    weight = built(hidden=5000).embedding.weight.detach()
    # Variance 2/3 from 15,000 draws: known to 1.2 %.
    assert float(weight.var()) == pytest.approx(2 / 3, rel=0.04)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"context_length": 7}, "context_length: "),
        ({"down_samplings": 0}, "down_samplings: "),
        ({"factor": 1}, "factor: "),
        ({"kernel": 4}, "kernel: "),
        ({"dropout": 1.0}, "dropout: "),
        ({"hidden": 0}, "hidden: "),
        ({"down_sampling": 2}, "unknown setting 'down_sampling': did you mean 'down_samplings'"),
    ],
)
def test_bad_settings_are_refused_by_name(settings: dict[str, object], message: str) -> None:
    sizes = {"context_length": 50, "horizon": 24, "channels": 3, **settings}
    with pytest.raises(FernError, match=message):
        build_model("timemixer", **sizes)
