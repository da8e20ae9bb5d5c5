"""neuralforecast models as forecasters, against neuralforecast's own predictions."""

import logging
import sys
import warnings
from typing import Any

import pytest
import torch
from tests.errors import raises_error
from torch import Generator, Tensor

from fern.benchmark.adapters.neuralforecast import NeuralForecastForecaster, neuralforecast_model
from fern.errors import FernError

SIZES = {"context_length": 48, "horizon": 12, "channels": 3}


@pytest.fixture
def library() -> Any:
    """neuralforecast, quietly; the test is skipped where it is not installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its dependencies deprecate things at import
        return pytest.importorskip("neuralforecast", reason="needs the extra neuralforecast")


def walks(windows: int = 4, channels: int = 3) -> Tensor:
    return torch.randn(windows, 48, channels, generator=Generator().manual_seed(3)).cumsum(1) + 20


def built(name: str = "NHITS", *, seed: int = 1, **settings: Any) -> NeuralForecastForecaster:
    import neuralforecast.models

    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")
        torch.manual_seed(seed)
        return neuralforecast_model(getattr(neuralforecast.models, name), **SIZES, settings=settings)


def test_without_the_library_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.partition(".")[0] == "neuralforecast"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "neuralforecast", None)
    message = r"neuralforecast is not installed: pip install 'fern-forecast\[neuralforecast\]'"
    with pytest.raises(FernError, match=message):
        NeuralForecastForecaster(object(), channels=1)


@pytest.mark.parametrize("name", ["NHITS", "DLinear", "TSMixer", "MLPMultivariate"])
@pytest.mark.parametrize("scaler", ["identity", "standard", "robust", "revin"])
def test_forecasts_are_those_of_neuralforecasts_own_predict(
    library: Any, name: str, scaler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pandas as pd

    monkeypatch.setattr(logging.root.manager, "disable", logging.INFO)  # its trainer announces itself
    past = walks(windows=1)
    long = pd.DataFrame(
        {
            "unique_id": [str(c) for c in range(3) for _ in range(48)],
            "ds": [step for _ in range(3) for step in range(48)],
            "y": past[0].T.reshape(-1).double().numpy(),
        }
    )
    training = pd.concat([long, long.assign(ds=long["ds"] + 48, y=long["y"] + 1.0)]).sort_values(["unique_id", "ds"])
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False, "accelerator": "cpu"}
    series = {"n_series": 3} if name in ("TSMixer", "MLPMultivariate") else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import neuralforecast.models

        model = getattr(neuralforecast.models, name)(
            h=12, input_size=48, max_steps=3, scaler_type=scaler, **series, **quiet
        )
        fitted = library.NeuralForecast(models=[model], freq=1)
        fitted.fit(training)
        expected = fitted.predict(long)[name].to_numpy().reshape(3, 12).T
    ours = NeuralForecastForecaster(fitted.models[0], channels=3).eval()(past).mean[0].detach()
    assert torch.allclose(ours, torch.tensor(expected, dtype=ours.dtype), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["NHITS", "PatchTST", "iTransformer", "LSTM"])
def test_models_train_in_our_loop_reproducibly(library: Any, name: str) -> None:
    past, future = walks(), walks()[:, :12]

    def trained(seed: int) -> list[Tensor]:
        model = built(name, seed=seed, scaler_type="standard").train()
        optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
        generator, losses = Generator().manual_seed(seed), []
        for _ in range(8):
            optimiser.zero_grad()
            loss = model.loss(past, future, lambda f, y: (f.mean - y).square().mean(), generator=generator)
            loss.backward()
            optimiser.step()
            losses.append(loss.detach())
        return losses

    before = torch.get_rng_state()
    first, again, other = trained(7), trained(7), trained(8)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(torch.stack(first), torch.stack(again))
    assert not torch.equal(torch.stack(first), torch.stack(other))
    assert first[-1] < first[0]


@pytest.mark.parametrize("name", ["NHITS", "TSMixer"])
def test_windows_are_forecast_on_their_own_and_evaluation_is_deterministic(library: Any, name: str) -> None:
    model, past = built(name).eval(), walks()
    together = model(past).mean
    assert together.shape == (4, 12, 3)
    assert torch.equal(together, model(past).mean)
    assert torch.allclose(model(past[2:3]).mean[0], together[2], rtol=1e-5, atol=1e-4)


def test_bad_models_are_refused_by_name(library: Any) -> None:
    from neuralforecast.losses.pytorch import MQLoss
    from neuralforecast.models import NHITS, DeepAR, TSMixer

    with raises_error("model"):
        NeuralForecastForecaster(NHITS, channels=3)
    with raises_error("model"):
        NeuralForecastForecaster("NHITS", channels=3)
    cases = [
        (DeepAR(h=12, input_size=48), "got DeepAR, which forecasts recursively"),
        (NHITS(h=12, input_size=48, loss=MQLoss(level=[80])), "needs a point loss"),
        (NHITS(h=12, input_size=48, futr_exog_list=["price"]), r"exogenous variables \['price'\]"),
        (TSMixer(h=12, input_size=48, n_series=2), "channels: got 3, but TSMixer was made with n_series=2"),
    ]
    for model, message in cases:
        with pytest.raises(FernError, match=message):
            NeuralForecastForecaster(model, channels=3)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("NHITS", {"mlp_unit": 3}, "NHITS: unknown setting 'mlp_unit': did you mean 'mlp_units'"),
        ("NHITS", {"h": 3}, "NHITS: the setting 'h' follows from"),
        ("NHITS", {"activation": "Nothing"}, "NHITS: cannot be built with {'activation': 'Nothing'}"),
    ],
)
def test_bad_names_and_settings_are_refused_by_name(library: Any, name: str, settings: Any, message: str) -> None:
    with pytest.raises(FernError, match=message):
        built(name, **settings)
