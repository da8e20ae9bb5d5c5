"""The best possible forecaster of a simulated trajectory, to show what a model's error is made of."""

import torch

from fern.models.base import Forecast
from fern.systems import Trajectory, oracle
from fern.systems.oracle import Starts


class OracleForecaster:
    """E[future | true state and parameters] of a trajectory, as a `Forecast`: the floor under every model's error.

    It stands beside a `Forecaster`, not in its place. What it knows is where a window lies in the trajectory, so it is
    asked by row: a context holds float32 observations and could not be turned back into the true state without
    pretending. A shock that lies ahead is not foreseen (see `fern.systems.oracle`).

    A model's regret on the same windows is its squared error less the oracle's.

    Example:
        >>> from fern.systems import simulate
        >>> trajectory = simulate("OU_BASE")
        >>> starts = range(20_000, 21_000, 50)
        >>> best = OracleForecaster(trajectory).forecast_at(starts, 24).mean
        >>> future = torch.stack([torch.from_numpy(trajectory.values[row : row + 24]) for row in starts])
        >>> last = torch.stack([torch.from_numpy(trajectory.values[row - 1 : row]) for row in starts])
        >>> regret = (last - future).square().mean() - (best - future).square().mean()
        >>> bool(regret > 0)
        True
    """

    def __init__(self, trajectory: Trajectory) -> None:
        self.trajectory = trajectory

    def forecast_at(
        self,
        starts: Starts,  # (n,) the first row of each forecast
        horizon: int,
    ) -> Forecast:  # of mean (n, horizon, C), float64
        """The best forecast of ``horizon`` rows from each start on."""
        return Forecast(mean=torch.from_numpy(oracle(self.trajectory, starts, horizon)))

    def __repr__(self) -> str:
        return f"OracleForecaster({self.trajectory.scenario.system}, {len(self.trajectory.values)} rows)"
