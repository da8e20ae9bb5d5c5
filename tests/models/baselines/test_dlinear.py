"""DLinear against a plain statement of it, under the names of the authors' weights."""

import pytest
import torch
from tests.errors import raises_error
from torch import Generator, Tensor
from torch.nn.functional import conv1d, pad

from fern.errors import FernError
from fern.models import build_model
from fern.models.baselines.dlinear import DLinear, DLinearConfig
from fern.models.footprint import parameter_count


def built(*, individual: bool, context: int = 50, horizon: int = 24, kernel: int = 25, channels: int = 3) -> DLinear:
    model = build_model(
        "dlinear",
        context_length=context,
        horizon=horizon,
        channels=channels,
        individual=individual,
        kernel=kernel,
        generator=Generator().manual_seed(7),
    )
    assert isinstance(model, DLinear)
    return model.double().eval()


def windows(*, context: int = 50, channels: int = 3, seed: int = 1) -> Tensor:
    return torch.randn(4, context, channels, generator=Generator().manual_seed(seed), dtype=torch.float64)


def official_weights(model: DLinear) -> dict[str, Tensor]:
    """The weights as cure-lab/LTSF-Linear names them."""
    parts = {"Linear_Seasonal": model.seasonal, "Linear_Trend": model.trend}
    if not model.config.individual:
        return {f"{name}.{kind}": getattr(part, kind) for name, part in parts.items() for kind in ("weight", "bias")}
    return {
        f"{name}.{channel}.{kind}": getattr(part, kind)[channel]
        for name, part in parts.items()
        for channel in range(model.config.channels)
        for kind in ("weight", "bias")
    }


def plain_forecast(weights: dict[str, Tensor], past: Tensor, kernel: int, *, individual: bool) -> Tensor:
    """Channel by channel: the trend by a convolution, two linear maps, their sum."""
    averaging = torch.full((1, 1, kernel), 1.0 / kernel, dtype=past.dtype)
    futures = []
    for channel in range(past.shape[2]):
        x = past[:, :, channel]
        trend = conv1d(pad(x[:, None], (kernel // 2, kernel // 2), mode="replicate"), averaging)[:, 0]
        which = f".{channel}" if individual else ""
        futures.append(
            (x - trend) @ weights[f"Linear_Seasonal{which}.weight"].T
            + weights[f"Linear_Seasonal{which}.bias"]
            + trend @ weights[f"Linear_Trend{which}.weight"].T
            + weights[f"Linear_Trend{which}.bias"]
        )
    return torch.stack(futures, dim=-1)


@pytest.mark.parametrize("individual", [False, True])
@pytest.mark.parametrize(("context", "horizon", "kernel"), [(50, 24, 25), (7, 1, 25), (96, 720, 3), (1, 5, 1)])
def test_forecast_is_that_of_the_official_layers(individual: bool, context: int, horizon: int, kernel: int) -> None:
    model = built(individual=individual, context=context, horizon=horizon, kernel=kernel)
    past = windows(context=context)
    expected = plain_forecast(official_weights(model), past, kernel, individual=individual)
    assert torch.allclose(model(past).mean, expected, rtol=0, atol=1e-12)


def test_paper_settings_have_the_papers_parameters() -> None:
    model = build_model("dlinear", context_length=336, horizon=336, channels=3, preset="paper")
    assert parameter_count(model) == 679_392


def test_shared_maps_do_not_grow_with_the_channels() -> None:
    sizes = {parameter_count(built(individual=False, channels=channels)) for channels in (1, 7)}
    assert sizes == {2 * (50 * 24 + 24)}


def test_individual_maps_see_their_own_channel_only() -> None:
    model, past = built(individual=True), windows()
    changed = past.clone()
    changed[:, :, 1] += 1.0
    assert torch.equal(model(changed).mean[:, :, [0, 2]], model(past).mean[:, :, [0, 2]])
    assert not torch.allclose(model(changed).mean[:, :, 1], model(past).mean[:, :, 1])


def test_weights_start_as_pytorchs_linear_maps_do() -> None:
    model = built(individual=True, context=400)
    weights = torch.cat([part.weight.detach().flatten() for part in (model.seasonal, model.trend)])
    # Uniform within ±1/√400: standard deviation 0.05/√3 = 0.02887, known to 0.5 % from 57,600 draws.
    assert weights.abs().max() <= 0.05
    assert float(weights.std()) == pytest.approx(0.02887, rel=0.02)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernel": 24}, "kernel: "),
        ({"kernel": 0}, "kernel: "),
        ({"individuel": True}, "unknown setting 'individuel': did you mean 'individual'"),
        ({"individual": "perhaps"}, "individual"),
        ({"preset": "etth3"}, "unknown preset of dlinear 'etth3': did you mean 'etth2' or 'etth1'"),
    ],
)
def test_bad_settings_are_refused_by_name(settings: dict[str, object], message: str) -> None:
    with pytest.raises(FernError, match=message):
        build_model("dlinear", context_length=50, horizon=24, channels=3, **settings)


def test_config_refuses_a_bad_kernel_when_built_by_hand() -> None:
    with raises_error("kernel"):
        DLinearConfig(context_length=50, horizon=24, channels=3, kernel=2)
