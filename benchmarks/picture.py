"""``python -m benchmarks.picture``: draw docs/images/fan.png, the README's forecast with what came."""

from pathlib import Path

from fern import FernForecaster
from fern.data.samples import sample_load
from fern.plot.canvas import save_figure

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "fan.png"
HORIZON, DAYS = 48, 60


def main() -> None:
    """Forecast the README's table and lay the two days that follow over it."""
    load = sample_load(DAYS)
    later = sample_load(DAYS + 2).slice(load.num_rows)  # the same draws: the rows that follow
    forecaster = FernForecaster(HORIZON, seed=7).fit(load)
    figure = forecaster.plot(level=[50, 80, 95])
    axis = figure.axes[0]
    axis.plot(later["time"].to_numpy(), later["load"].to_numpy(), color="#c2410c", lw=1.3, ls=(0, (2, 1.4)), zorder=11)
    axis.set_title("Hourly load, two days ahead (dotted: what came)", loc="left", fontsize="medium")
    save_figure(figure, PICTURE)


if __name__ == "__main__":
    main()
