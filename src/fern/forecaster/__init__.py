"""FernForecaster: frames in, calibrated forecasts as frames out.

Names are imported when they are first used: what only looks whether a folder is a saved forecaster loads no tables.
"""

from typing import TYPE_CHECKING

from fern._lazy import lazy_names

if TYPE_CHECKING:
    from fern.forecaster.forecaster import FernForecaster, FernWarning
else:  # unseen by type checkers: a __getattr__ would make every name, misspelt ones too, an Any
    __getattr__, __dir__ = lazy_names(__name__, {"fern.forecaster.forecaster": ["FernForecaster", "FernWarning"]})

__all__ = ["FernForecaster", "FernWarning"]
