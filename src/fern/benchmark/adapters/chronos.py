"""Chronos models that are on disk already, as forecasters of windows. Needs the extra ``chronos``."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fern.benchmark.adapters.callables import FunctionForecaster
from fern.errors import FernError
from fern.extras import import_optional

MEDIAN = 0.5


class ChronosForecaster(FunctionForecaster):
    """The medians of a Chronos, Chronos-Bolt or Chronos-2 model, read from a local folder and used as it is.

    Nothing is fetched: the folder must hold the model (``config.json`` and its weights). Chronos and Chronos-Bolt see
    each channel on its own; Chronos-2 sees the channels of a window together.

    Example:
        >>> model = ChronosForecaster("models/chronos-bolt-tiny", context_length=96, horizon=24, channels=1)
        ... # doctest: +SKIP
    """

    def __init__(self, folder: str | Path, *, context_length: int, horizon: int, channels: int) -> None:
        library = import_optional("chronos", extra="chronos")
        if not is_chronos(Path(folder)):
            raise FernError("is no folder of a Chronos model; needs a config.json with a chronos_config", where=folder)
        super().__init__(
            self._forecast_batch,
            context_length=context_length,
            horizon=horizon,
            channels=channels,
            takes="batch",
            name=f"chronos {Path(folder).name}",
        )
        self.pipeline: Any = library.BaseChronosPipeline.from_pretrained(
            str(folder), device_map="cpu", local_files_only=True
        )

    def _forecast_batch(self, contexts: NDArray[Any], horizon: int) -> NDArray[Any]:
        windows, length, channels = contexts.shape
        series = torch.from_numpy(np.ascontiguousarray(contexts.swapaxes(1, 2), dtype=np.float32))  # (B, C, L)
        together = type(self.pipeline).__name__ == "Chronos2Pipeline"
        quantiles, _ = self.pipeline.predict_quantiles(
            series if together else series.reshape(windows * channels, length),
            prediction_length=horizon,
            quantile_levels=[MEDIAN],
        )
        # A tensor (B·C, H, 1), or of Chronos-2 a list with (C, H, 1) for each window.
        medians = torch.stack(list(quantiles))[..., 0].reshape(windows, channels, horizon)
        return medians.transpose(1, 2).float().numpy()


def is_chronos(folder: Path) -> bool:
    """Whether a folder holds a Chronos model, by its ``config.json``."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and "chronos_config" in config
