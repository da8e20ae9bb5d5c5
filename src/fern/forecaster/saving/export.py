"""The point forecast as a program of ``torch.export``, which runs without fern."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from fern.errors import FernError
from fern.files import check_writable, written_whole
from fern.forecaster.state import State
from fern.models import Forecaster


class MeanPath(nn.Module):
    """Contexts in the units of the data to means in the same: (y − shift) / spread, the model, and back.

    Without ``shift`` and ``spread`` each context is scaled by its own mean and deviation, as `predict_array` does.
    """

    shift: Tensor | None
    spread: Tensor | None

    def __init__(self, model: Forecaster, shift: Tensor | None, spread: Tensor | None) -> None:
        super().__init__()
        self.model = model
        self.register_buffer("shift", shift)
        self.register_buffer("spread", spread)

    def forward(
        self,
        past: Tensor,  # (N, L, C)
    ) -> Tensor:  # (N, H, C)
        """The mean."""
        wide = past.double()  # a series near 1e6 has no digits left in float32
        if self.shift is None or self.spread is None:
            spread, shift = torch.std_mean(wide, dim=1, keepdim=True, correction=0)
            spread = torch.where(spread > 0, spread, 1.0)
        else:
            shift, spread = self.shift, self.spread
        scaled = ((wide - shift) / spread).to(past.dtype)
        mean = self.model.forecast(scaled, samples=0, generator=None).mean
        return (mean.double() * spread + shift).to(past.dtype)


def export_mean(state: State, path: Path) -> None:
    """Write the program; see `FernForecaster.export`."""
    if state.model is None:
        raise FernError("every series was too short to learn from; there is no model", argument="export")
    if path.suffix != ".pt2":
        raise FernError(f"an exported program ends in .pt2, got {path.suffix or 'no ending'!r}", where=path)
    check_writable(path)
    with written_whole(path) as temporary:
        torch.export.save(exported(state), temporary)


def exported(state: State) -> "torch.export.ExportedProgram":
    """The mean path of a state as a program for any number of windows."""
    assert state.model is not None
    shift = spread = None
    if len(state.scales) == 1:
        scale = next(iter(state.scales.values()))
        shift, spread = (torch.from_numpy(np.array(value)) for value in (scale.shift, scale.spread))
    module = MeanPath(state.model, shift, spread).eval()
    # Two windows: a batch of one would be taken for a constant.
    example = torch.zeros(2, state.context_length, len(state.channel_names))
    windows = torch.export.Dim("windows", min=1)
    with torch.no_grad():
        try:
            return torch.export.export(module, (example,), dynamic_shapes={"past": {0: windows}}, strict=False)
        except Exception as error:  # torch.export has no family of errors of its own
            raise FernError(
                f"{type(state.model).__name__} cannot be exported by torch.export ({str(error)[:300]})",
                argument="export",
            ) from error
