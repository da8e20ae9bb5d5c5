"""What seeing all channels is worth: the state of a coupled system is in all of them."""

import torch

from fern.data.windows import Windows
from fern.models import build_model
from fern.systems import scenario, simulate
from fern.training import TrainConfig, train


def test_on_lorenz_63_all_channels_forecast_the_near_future_better_than_each_on_its_own() -> None:
    series = torch.from_numpy(simulate(scenario("LORENZ_BASE", steps=3000)).values).float()
    parts = {"train": series[:2200], "validation": series[2200:]}
    windows = {name: Windows(rows, context_length=32, horizon=24) for name, rows in parts.items()}
    error = {}
    for seen in ("own", "all"):
        model = build_model(
            "fern",
            context_length=32,
            horizon=24,
            channels=3,
            hidden=64,
            latent=12,
            normalise="instance",
            mean="direct",
            skip="linear",
            channels_seen=seen,
        )
        config = TrainConfig(epochs=4, batch_size=64, threads=1)
        history = train(model, windows["train"], windows["validation"], config, progress="silent").history
        error[seen] = min(epoch.validation["mse"] for epoch in history)
    assert error["all"] < 0.9 * error["own"], error
