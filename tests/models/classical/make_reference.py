"""Writes reference.json: what statsforecast 2.1 fits to a few series. Run with statsforecast installed:

python tests/models/classical/make_reference.py
"""

import json
from pathlib import Path

import numpy as np
from statsforecast.models import AutoETS, DynamicOptimizedTheta

SPECIFICATIONS = {"ANN": None, "AAN": False, "AAdN": True, "MNN": None, "ANA": None, "AAA": False, "MNM": None}


def series() -> dict[str, tuple[int, np.ndarray]]:
    rng = np.random.default_rng(3)
    t = np.arange(96)
    season = 1 + 0.3 * np.sin(2 * np.pi * t / 12)
    return {
        "walk": (1, 100 + np.cumsum(rng.normal(0, 2, 60))),
        "trend": (1, 50 + 0.8 * np.arange(80) + rng.normal(0, 3, 80)),
        "additive": (12, 200 + 60 * (season - 1) + rng.normal(0, 4, 96)),
        "multiplicative": (12, (100 + 1.5 * t) * season * np.exp(rng.normal(0, 0.03, 96))),
    }


def main() -> None:
    written = []
    for name, (season, values) in series().items():
        values = values.round(3)
        mse = {}
        for model, damped in SPECIFICATIONS.items():
            if (season > 1) == (model[-1] != "N"):
                code = model.replace("d", "")
                mse[model] = float(AutoETS(season, model=code, damped=damped).fit(values).model_["mse"])
        theta = DynamicOptimizedTheta(season).forecast(values, h=12)["mean"]
        ets = AutoETS(season).forecast(values, h=12, level=[80])
        written.append(
            {
                "name": name,
                "season": season,
                "values": values.tolist(),
                "mse": mse,
                "theta": np.round(theta, 3).tolist(),
                "auto_ets": np.round(ets["mean"], 3).tolist(),
                "auto_ets_hi_80": np.round(ets["hi-80"], 3).tolist(),
            }
        )
    Path(__file__).with_name("reference.json").write_text(json.dumps(written) + "\n")


if __name__ == "__main__":
    main()
