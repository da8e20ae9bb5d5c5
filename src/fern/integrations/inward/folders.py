"""Models that are named by a folder: a saved `fern.FernForecaster`, or a Chronos model on disk."""

import hashlib
from pathlib import Path

from fern.errors import FernError
from fern.integrations.inward.adapters import Builder
from fern.integrations.inward.chronos import ChronosForecaster, is_chronos
from fern.integrations.inward.saved import SavedForecaster, is_saved_forecaster
from fern.models import Forecaster


def folder_builder(folder: Path, *, where: str) -> Builder:
    """What gives the model of a folder."""
    if not is_saved_forecaster(folder) and not is_chronos(folder):
        raise FernError(
            f"{where}: holds neither a saved FernForecaster (forecaster.json) nor a Chronos model (config.json)"
        )

    def build(*, context_length: int, horizon: int, channels: int) -> Forecaster:
        if is_saved_forecaster(folder):
            return SavedForecaster(folder)
        return ChronosForecaster(folder, context_length=context_length, horizon=horizon, channels=channels)

    return build


def folder_fingerprint(folder: Path) -> str:
    """12 hexadecimal digits of the SHA-256 of the names, sizes and, up to a megabyte each, contents of its files.

    A saved forecaster's manifest holds the checksums of the rest; of large weights the beginning will do.
    """
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.iterdir() if path.is_file()):
        digest.update(f"{path.name} {path.stat().st_size} ".encode())
        with path.open("rb") as file:
            digest.update(file.read(1 << 20))
    return digest.hexdigest()[:12]
