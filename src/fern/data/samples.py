"""Sample tables for examples: made by a formula and a seed, no download."""

import numpy as np
import pyarrow as pa


def sample_load(days: int = 60, *, seed: int = 7, temperature: bool = False) -> pa.Table:
    """Hourly electricity load of a made-up town: days, weeks, weather and noise.

    Parameters:
        days: the number of days.
        seed: random seed.
        temperature: also return the column ``temperature``, which the load follows.

    Example:
        >>> sample_load(2).column_names, sample_load(2).num_rows
        (['time', 'load'], 48)
    """
    hours = np.arange(24 * days)
    # Hour by hour: more days begin with the same ones.
    noise = np.random.default_rng(seed).standard_normal((len(hours), 2))
    weather = np.zeros(len(hours))
    for hour in range(1, len(hours)):
        weather[hour] = 0.97 * weather[hour - 1] + 0.5 * noise[hour, 0]
    day = 2 * np.pi * hours / 24
    degrees = 11 + 5 * np.sin(day - 2.2) + 3 * np.sin(hours / 24 / 30) + weather
    weekend = (hours // 24) % 7 >= 5
    load = 420 - 60 * weekend + 90 * np.sin(day - 1.9) + 35 * np.sin(2 * day - 0.6) - 6 * (degrees - 11)
    load += 12 * noise[:, 1]
    stamps = np.datetime64("2024-01-01T00:00") + hours.astype("timedelta64[h]")
    columns = {"load": load.round(1), **({"temperature": degrees.round(1)} if temperature else {})}
    return pa.table({"time": pa.array(stamps.astype("datetime64[s]")), **columns})
