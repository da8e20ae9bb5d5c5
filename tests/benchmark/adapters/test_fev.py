"""fev models as forecasters of windows."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tests.errors import raises_error

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("channels", [1, 12])
def test_each_window_is_a_series_and_each_channel_a_target(needs: Callable[..., Any], channels: int) -> None:
    fev = needs("fev")
    adapter = needs("fev", "fern.benchmark.adapters.windowwise").FevForecaster
    seen = []

    class Drift(fev.ForecastingModel):  # type: ignore[misc,name-defined]
        model_name = f"drift of {channels}"

        def _fit_predict(self, task: Any) -> list[Any]:
            (window,) = task.iter_windows()
            past, _ = window.get_input_data()
            seen.append(
                np.isnan(
                    np.concatenate([past[i][name] for i in range(len(past)) for name in task.target_columns])
                ).any()
            )
            steps = np.arange(1, task.horizon + 1)
            return [
                {
                    name: [{"predictions": row[name][-1] + (row[name][-1] - row[name][-2]) * steps} for row in past]
                    for name in task.target_columns
                }
            ]

    past = torch.randn(11, 8, channels).cumsum(1)
    made = adapter(Drift(), context_length=8, horizon=3, channels=channels)(past).mean
    slope = past[:, -1:] - past[:, -2:-1]
    torch.testing.assert_close(made, past[:, -1:] + slope * torch.arange(1.0, 4.0)[:, None])
    assert seen == [False]  # all rows that it gets are known ones
    with raises_error("model"):
        adapter(Drift, context_length=8, horizon=3, channels=channels)
