"""From the name of a dataset to its windows and, where it is simulated, to the best possible forecasts of them."""

from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fern.benchmark.tasks import Cleaning, DatasetChoice, Scaling
from fern.data import datasets as published
from fern.data.scaling import Scaler, fit_scaler
from fern.data.splits import Part, Split, split
from fern.data.windows import Windows
from fern.errors import FernError, unknown_name
from fern.systems import SCENARIOS, Scenario, Trajectory, is_scenario_file, observed, open_scenario, oracle, simulate
from fern.systems.author import author_channels, author_values
from fern.systems.scenarios import is_builtin
from fern.systems.trajectory import fingerprint_of

Floats = NDArray[np.float32]

LAST_BATCH = 128
"""Windows in a batch of the paper's detailed protocol."""

NOISE, TRAJECTORY, START = "noise", "trajectory", "start"
"""Data settings that stand only in results to which they apply: results from before there were such stay valid."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """The values of a dataset as they are before splitting and scaling, and its truth where it was simulated.

    ``settings`` is what a result says about how the values came about. With observation noise ``values`` are what is
    observed, and the trajectory's own are what came: models get the former and are judged by the latter.
    """

    name: str
    values: Floats  # (T, C)
    channel_names: tuple[str, ...]
    settings: dict[str, Any]
    trajectory: Trajectory | None = None

    @cached_property
    def fingerprint(self) -> str:
        """Of the values; that of the trajectory where they are simulated and observed without noise."""
        return fingerprint_of(self.values)

    @property
    def noise(self) -> float:
        """The observation noise, as a share of each channel's standard deviation."""
        return float(self.settings.get(NOISE, 0.0))

    @property
    def truth(self) -> Floats:  # (T, C)
        """What came, without observation noise."""
        if not self.noise or self.trajectory is None:
            return self.values
        return np.asarray(self.trajectory.values, np.float32)


def load_dataset(choice: DatasetChoice) -> Dataset:
    """The dataset that a task names.

    Example:
        >>> dataset = load_dataset(DatasetChoice(dataset="OU_PARAM", steps=2000))
        >>> dataset.values.shape, dataset.settings, dataset.fingerprint == dataset.trajectory.fingerprint
        ((2000, 1), {'steps': 2000, 'cleaning': 'none'}, True)
    """
    plan = find_scenario(choice.dataset)
    if choice.trajectory != "fern":  # the rows of the paper's tables; `DatasetChoice` refused what they cannot have
        values = author_values(choice.dataset, again=choice.trajectory == "author-again")
        settings = {"steps": len(values), "cleaning": "none", TRAJECTORY: choice.trajectory}
        return Dataset(choice.dataset, values, author_channels(choice.dataset), settings)
    if plan is not None:
        return _simulate_dataset(plan, choice)
    for name, is_set in (("noise", choice.noise), ("start", choice.start), ("steps", choice.steps is not None)):
        if is_set:
            raise FernError(f"{name} applies to scenarios only; this is a published dataset", argument=choice.dataset)
    return _read_published(choice.dataset, choice.cleaning)


def find_scenario(name: str) -> Scenario | None:
    """The built-in scenario, or the one a TOML file defines; None for a published dataset."""
    if name.partition(":")[0] in published.PUBLISHED:
        return None
    if name not in SCENARIOS and not is_scenario_file(name):
        raise unknown_name("dataset", name, [*SCENARIOS, *published.PUBLISHED])
    return open_scenario(name)


def dataset_name(choice: DatasetChoice) -> str:
    """What rows call a dataset: by its name in the task, or by the id of the scenario that a file defines.

    Example:
        >>> dataset_name(DatasetChoice(dataset="Weather:air_parcel"))
        'Weather:air_parcel'
    """
    if choice.dataset.partition(":")[0] in published.PUBLISHED or not is_scenario_file(choice.dataset):
        return choice.dataset
    return open_scenario(choice.dataset).id or Path(choice.dataset).stem


def _simulate_dataset(plan: Scenario, choice: DatasetChoice) -> Dataset:
    if choice.cleaning != "none":
        raise FernError(
            "cleaning applies to published datasets only; a simulated one has nothing to clean", argument=choice.dataset
        )
    if choice.steps is not None:
        plan = replace(plan, steps=choice.steps)
    settings: dict[str, Any] = {"steps": plan.steps, "cleaning": "none"}
    if not is_builtin(plan):  # a file may bear the id of a built-in one
        settings["scenario"] = asdict(plan)
    if choice.start:
        settings[START] = choice.start
        plan = _start_later(plan, choice.start)
    trajectory = simulate(plan)
    values = np.asarray(trajectory.values, np.float32)
    if choice.noise:
        settings[NOISE] = float(choice.noise)
        values = observed(values.astype(np.float64), share=choice.noise, seed=plan.seed).astype(np.float32)
    return Dataset(dataset_name(choice), values, trajectory.channel_names, settings, trajectory)


def _start_later(plan: Scenario, start: int) -> Scenario:
    """The scenario from where its own trajectory is after ``start`` times its length, with noise of another seed."""
    if plan.shocks:
        raise FernError(
            "applies to scenarios without shocks; what is reached after a shock is another system",
            argument=f"{plan.id}: start",
        )
    before = simulate(replace(plan, steps=start * plan.steps))
    return replace(plan, initial_state=tuple(map(float, before.states[-1])), seed=plan.seed + start)


def _read_published(name: str, cleaning: Cleaning) -> Dataset:
    """A published dataset.

    Rows that cleaning removes leave no gap here: their neighbours are joined and windows run across the joint, as in
    the paper, whose numbers stand beside ours. `fern.data.read_frame` keeps such gaps as breaks, which no window
    crosses: that is for people's own tables.
    """
    from fern.data.cleaning import clean

    title, _, variant = name.partition(":")
    frame = published.load_dataset(title, variant=variant or None)
    if cleaning == "paper":
        frame, _ = clean(frame, grid=published.get_dataset(title).grid)
    names = tuple(column for column in frame.column_names if column != "date")
    values = np.column_stack([frame[column].to_numpy() for column in names]).astype(np.float32)
    if not np.isfinite(values).all():
        row, channel = np.argwhere(~np.isfinite(values))[0]
        raise FernError(
            f"{names[channel]} is {values[row, channel]} at row {row:,}; cleaning = 'paper' fills it", argument=name
        )
    return Dataset(name, values, names, {"steps": len(values), "cleaning": cleaning})


@dataclass(frozen=True, eq=False)
class Problem:
    """A dataset split, scaled and cut into windows: what a model is trained on and judged by."""

    dataset: Dataset
    split_name: str
    scaling: Scaling
    context_length: int
    horizon: int

    @cached_property
    def split(self) -> Split:
        """Which rows train, choose and judge."""
        return split(len(self.dataset.values), self.split_name)

    @cached_property
    def scaler(self) -> Scaler:
        """Fitted on the training part."""
        return fit_scaler(self.scaling, self.dataset.values, part=self.split.train)

    @cached_property
    def values(self) -> Floats:  # (T, C)
        """What the model sees."""
        return self._scale(self.dataset.values)

    @cached_property
    def truth(self) -> Floats:  # (T, C)
        """What forecasts are judged by: the values without observation noise."""
        return self.values if self.dataset.truth is self.dataset.values else self._scale(self.dataset.truth)

    def _scale(self, values: Floats) -> Floats:
        scaled: Floats = values if self.scaling == "none" else self.scaler.apply(values)
        return scaled

    @cached_property
    def train_std(self) -> NDArray[np.float64]:  # (C,)
        """The standard deviation of each channel over the training part: the envelope of EPT."""
        part = self.split.train
        deviations: NDArray[np.float64] = self.values[part.start : part.stop].astype(np.float64).std(axis=0)
        return deviations

    @cached_property
    def train(self) -> Windows:
        """The windows to learn from."""
        return self._windows("train")

    @cached_property
    def validation(self) -> Windows:
        """The windows that choose an epoch; contexts reach back into the training part."""
        return self._windows("validation")

    @cached_property
    def test(self) -> Windows:
        """The windows that judge, every one of them; contexts reach back into the validation part.

        Contexts are as observed, futures are the truth.
        """
        return self._windows("test")

    @cached_property
    def last_batch(self) -> Windows | None:
        """The last batch of the test windows taken in order, `LAST_BATCH` at a time; it is seldom full.

        Under the split ``detailed`` alone, else None: the paper's numbers under that protocol fit these windows and not
        all of them.
        """
        if self.split_name != "detailed":
            return None
        part, skipped = self.split.test, (len(self.test) - 1) // LAST_BATCH * LAST_BATCH
        return self._windows("test", rows=Part(part.start + skipped, part.stop))

    @cached_property
    def first_validation_window(self) -> Windows:
        """The first of the validation windows, for models that nothing is chosen of."""
        return self._windows("validation", stride=len(self.dataset.values))

    def _windows(self, part: str, *, stride: int = 1, rows: Part | None = None) -> Windows:
        try:
            return Windows(
                self.values,
                context_length=self.context_length,
                horizon=self.horizon,
                part=rows or getattr(self.split, part),
                stride=stride,
                targets=self.truth if part == "test" and self.dataset.noise else None,
            )
        except FernError as error:
            raise FernError(f"has no {part} windows ({error})", argument=self.dataset.name) from None

    def best_forecasts(
        self,
        starts: NDArray[np.int64],  # (n,) the first row of each forecast
    ) -> NDArray[np.float64]:  # (n, H, C)
        """The oracle's forecasts, in the units of `values`."""
        if self.dataset.trajectory is None:
            raise FernError("has no oracle, because its true process is not known", argument=self.dataset.name)
        forecasts: NDArray[np.float64] = self.scaler.apply(oracle(self.dataset.trajectory, starts, self.horizon))
        return forecasts
