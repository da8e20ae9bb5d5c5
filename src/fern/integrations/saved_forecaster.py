"""A fitted `FernForecaster` that was saved to a folder, under the contract of every model."""

from pathlib import Path

import torch
from torch import Tensor

from fern.errors import FernError
from fern.forecaster import FernForecaster
from fern.models.base import ModelConfig, PointForecaster


class SavedForecaster(PointForecaster):
    """The point forecasts of a saved `FernForecaster`: its own model, context, horizon and scale.

    It is not trained any further: what is judged is what was saved.
    """

    def __init__(self, folder: str | Path) -> None:
        forecaster = FernForecaster.load(folder)
        state = forecaster._require_fitted()
        if state.model is None:
            raise FernError("its series were too short to learn from, so it has no model", where=folder)
        super().__init__(
            ModelConfig(context_length=state.context_length, horizon=state.horizon, channels=len(state.channel_names))
        )
        self.forecaster = forecaster  # no module: its weights are not to be trained

    def predict(self, past: Tensor) -> Tensor:
        """`FernForecaster.predict_array`."""
        return torch.from_numpy(self.forecaster.predict_array(past.detach().cpu().numpy())).to(past)
