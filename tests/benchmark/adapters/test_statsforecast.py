"""statsforecast models as forecasters of windows."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tests.errors import raises_error
from torch import Generator

from fern.errors import FernError

pytestmark = pytest.mark.filterwarnings("ignore")

SIZES = {"context_length": 30, "horizon": 6, "channels": 2}


@pytest.fixture
def Adapter(needs: Callable[..., Any]) -> Any:
    needs("statsforecast", "statsforecast.models")
    return needs("statsforecast", "fern.benchmark.adapters.windowwise").StatsForecastForecaster


@pytest.mark.parametrize("name", ["AutoETS", "AutoARIMA", "Theta"])
def test_each_channel_of_each_window_is_a_series_of_its_own(Adapter: Any, name: str) -> None:
    import pandas as pd
    from statsforecast import StatsForecast, models

    past = torch.randn(2, 30, 2, generator=Generator().manual_seed(3)).cumsum(1) + 20
    made = Adapter(getattr(models, name)(), **SIZES)(past).mean
    long = pd.DataFrame(
        {
            "unique_id": [f"{w}{c}" for w in range(2) for c in range(2) for _ in range(30)],
            "ds": list(range(30)) * 4,
            "y": past.transpose(1, 2).reshape(-1).double().numpy(),
        }
    )
    there = StatsForecast([getattr(models, name)()], freq=1).forecast(h=6, df=long)
    expected = there[name].to_numpy().reshape(2, 2, 6).swapaxes(1, 2)
    np.testing.assert_allclose(made.numpy(), expected, rtol=1e-4)


def test_bad_models_are_refused_by_name(Adapter: Any) -> None:
    from statsforecast.models import AutoETS, NaNModel

    with raises_error("model"):
        Adapter(AutoETS, **SIZES)
    with pytest.raises(FernError, match="NaNModel: returned nan for window 0, step 0, channel 0"):
        Adapter(NaNModel(), **SIZES)(torch.ones(1, 30, 2))
