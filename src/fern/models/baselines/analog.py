"""Analog forecasts (Lorenz, 1969): find the nearest state in the training rows and repeat what followed it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from fern.errors import FernError, require_choice, require_whole
from fern.models.base import ChannelsSeen, FittedForecaster, ModelConfig, Sees
from fern.models.registry import register_model

Level = Literal["kept", "removed"]

DELAYS = (1, 3, 6, 12)
SPACINGS = (1, 4, 8)
NEIGHBOURS = (1, 4, 16, 64)
LEVELS: tuple[Level, ...] = get_args(Level)
"""What validation chooses among, the simplest first."""

_AT_ONCE = 1 << 24  # distances that are held at a time


@dataclass(frozen=True, kw_only=True)
class AnalogConfig(ModelConfig):
    """The settings of `Analog`; None leaves one to validation.

    ``channels_seen``  ``own``: each channel looks for its own past, the information that Fern and DLinear have.
                       ``all``: the state of all channels together.
    ``delays``         past values that make up a state.
    ``spacing``        time steps from one of them to the next.
    ``neighbours``     nearest states; what followed them is averaged.
    ``level``          ``kept``: values as they are. ``removed``: relative to the last value, which is added again.
    """

    channels_seen: ChannelsSeen = "own"
    delays: int | None = None
    spacing: int | None = None
    neighbours: int | None = None
    level: Level | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("delays", "spacing", "neighbours"):
            if getattr(self, name) is not None:
                require_whole(name, getattr(self, name), 1)
        require_choice("channels_seen", self.channels_seen, get_args(ChannelsSeen))
        if self.level is not None:
            require_choice("level", self.level, LEVELS)
        reach = (self.delays or 1) * (self.spacing or 1) - (self.spacing or 1)
        if reach >= self.context_length:
            problem = f"{self.delays} values {self.spacing} steps apart reach {reach} steps back"
            expected = f"less than context_length, which is {self.context_length}"
            raise FernError(problem, argument="delays", expected=expected)
        if self.level == "removed" and self.delays == 1:
            expected = "at least 2: nothing would be left of the state"
            raise FernError("got 1 with level 'removed'", argument="delays", expected=expected)

    @property
    def sees(self) -> Sees:
        """As ``channels_seen`` says."""
        return self.channels_seen


class Analog(FittedForecaster):
    """The average of what followed the k training states nearest to the present one.

    A state is (x_t, x_{t-s}, …, x_{t-(d-1)s}) of one channel, or of all of them in units of their training deviation;
    nearness is Euclidean. With ``level="removed"`` the state is x_{t-js} - x_t and the future is relative to x_t.
    By Takens' theorem the delays of one channel stand for the whole state of a deterministic system, so this learns an
    attractor by heart; its error is what a model must beat to have understood anything. Only states whose H following
    rows are training rows too take part.

    Reference: E. N. Lorenz, Atmospheric predictability as revealed by naturally occurring analogues, J. Atmos. Sci. 26.

    Example:
        >>> rows = torch.arange(60.0)[:, None] % 7
        >>> model = Analog(AnalogConfig(context_length=4, horizon=3, channels=1, delays=2, spacing=1, neighbours=1))
        >>> model.fit([rows], rows[None, :4], rows[None, 4:7])
        >>> model(torch.tensor([[[3.0], [4.0], [5.0], [6.0]]])).mean.flatten()
        tensor([0., 1., 2.])
    """

    config: AnalogConfig
    open_settings = ("delays", "spacing", "neighbours", "level")
    library: Tensor
    begins: Tensor

    def __init__(self, config: AnalogConfig) -> None:
        super().__init__(config)
        self.register_buffer("library", torch.empty(0, config.channels))
        self.register_buffer("begins", torch.empty(0, dtype=torch.bool))

    def make_room(self, shapes: Mapping[str, torch.Size]) -> None:
        """As many rows as the file has."""
        rows = shapes.get("begins", torch.Size((0,)))
        if len(rows) == 1:
            self.library = self.library.new_empty((rows[0], self.config.channels))
            self.begins = self.begins.new_empty(rows)

    def fit_rows(self, stretches: Sequence[Tensor], past: Tensor, future: Tensor) -> dict[str, Any]:
        """Keep the rows, and choose what makes up a state and how many neighbours are averaged."""
        self.library = torch.cat([rows.float() for rows in stretches])
        self.begins = torch.zeros(len(self.library), dtype=torch.bool)
        self.begins[torch.tensor([0, *(len(rows) for rows in stretches)]).cumsum(0)[:-1]] = True
        best, least = None, float("inf")
        for delays, spacing, level in self._states():
            counts = self._counts(delays, spacing)
            for neighbours, forecast in self._averages(past.float(), delays, spacing, level, counts):
                error = float((forecast.double() - future.double()).square().mean())
                if error < least:
                    best, least = (delays, spacing, level, neighbours), error
        if best is None:
            raise FernError(
                f"none is long enough for one state and the {self.config.horizon} rows that follow it; needs longer "
                "ones, fewer delays or a shorter horizon",
                argument="stretches",
            )
        return dict(zip(("delays", "spacing", "level", "neighbours"), best, strict=True))

    def predict(self, past: Tensor) -> Tensor:
        """What followed the nearest states."""
        self.require_fitted(self.library)
        config = self.config
        if config.delays is None or config.spacing is None or config.level is None or config.neighbours is None:
            problem = f"the settings {', '.join(self.open_settings)} are not chosen yet; call fit first"
            raise FernError(problem, argument="model")
        counts = (config.neighbours,)
        places = self._places(config.delays, config.spacing)
        at_once = max(1, _AT_ONCE // max(1, len(places) * config.channels))
        forecasts = []
        for part in torch.split(past.to(self.library.dtype), at_once):
            forecasts += [mean for _, mean in self._averages(part, config.delays, config.spacing, config.level, counts)]
        if not forecasts:
            problem = "no stored row has a whole state before it and a horizon after it; fit it again"
            raise FernError(problem, argument="model")
        return torch.cat(forecasts).to(past.dtype)

    def _states(self) -> Iterator[tuple[int, int, Level]]:
        """The ways to make up a state that fit into the context and leave places in the library."""
        config, seen = self.config, set()
        for delays, spacing, level in product(
            DELAYS if config.delays is None else (config.delays,),
            SPACINGS if config.spacing is None else (config.spacing,),
            LEVELS if config.level is None else (config.level,),
        ):
            step = 1 if delays == 1 and config.spacing is None else spacing  # of a single value there is no spacing
            fits = (delays - 1) * step < config.context_length and (level == "kept" or delays > 1)
            if fits and (delays, step, level) not in seen and len(self._places(delays, step)):
                seen.add((delays, step, level))
                yield delays, step, level

    def _counts(self, delays: int, spacing: int) -> tuple[int, ...]:
        """The numbers of neighbours to try; no more than there are places, unless one is asked for."""
        if self.config.neighbours is not None:
            return (self.config.neighbours,)
        most = len(self._places(delays, spacing))
        return tuple(count for count in NEIGHBOURS if count <= most)

    def _places(self, delays: int, spacing: int) -> Tensor:  # (n,) rows of the library
        """The rows with a whole state before them and a whole horizon after them, both without a break."""
        before, after = (delays - 1) * spacing, self.config.horizon
        stretch = self.begins.cumsum(0)
        rows = torch.arange(before, max(before, len(stretch) - after), device=stretch.device)
        return rows[stretch[rows - before] == stretch[rows + after]]

    def _averages(
        self,
        past: Tensor,  # (B, L, C)
        delays: int,
        spacing: int,
        level: Level,
        counts: Sequence[int],
    ) -> Iterator[tuple[int, Tensor]]:  # (B, H, C) each
        """The forecast for each number of neighbours, the fewest first."""
        places = self._places(delays, spacing)
        if not len(places):
            return
        lags = torch.arange(delays, device=past.device) * spacing
        rows = self.library.double()  # neighbours on a smooth path differ by less than float32 keeps of a level
        centre, scale = rows.mean(dim=0), rows.std(dim=0, correction=0)
        scale = torch.where(rows.amax(dim=0) > rows.amin(dim=0), scale, 1.0)
        states = ((rows - centre) / scale)[places[:, None] - lags]  # (n, d, C)
        queries = ((past.double() - centre) / scale)[:, past.shape[1] - 1 - lags]  # (B, d, C)
        if level == "removed":
            states, queries = states[:, 1:] - states[:, :1], queries[:, 1:] - queries[:, :1]
        if self.config.channels_seen == "all":
            nearest = _nearest(queries.flatten(1), states.flatten(1), max(counts))[..., None]  # (B, k, 1)
        else:
            each = [_nearest(queries[..., c], states[..., c], max(counts)) for c in range(past.shape[2])]
            nearest = torch.stack(each, dim=-1)  # (B, k, C)
        yield from self._average_successors(past, places[nearest], level, counts)

    def _average_successors(
        self,
        past: Tensor,  # (B, L, C)
        rows: Tensor,  # (B, k, C or 1), of the library
        level: Level,
        counts: Sequence[int],
    ) -> Iterator[tuple[int, Tensor]]:
        """Averages of the rows after the first 1, 2, … neighbours, given out at the numbers that are wanted."""
        channels = torch.arange(past.shape[2], device=past.device)
        ahead = torch.arange(1, self.config.horizon + 1, device=past.device)[:, None]
        last = past[:, -1:] if level == "removed" else torch.zeros_like(past[:, -1:])
        total = torch.zeros(len(past), self.config.horizon, past.shape[2], dtype=past.dtype, device=past.device)
        for taken in range(rows.shape[1]):
            row = rows[:, taken, None]  # (B, 1, C or 1)
            total += self.library[row + ahead, channels]
            if level == "removed":
                total -= self.library[row, channels]
            if taken + 1 in counts or taken + 1 == rows.shape[1]:
                yield taken + 1, total / (taken + 1) + last


def _nearest(
    queries: Tensor,  # (B, d)
    states: Tensor,  # (n, d)
    count: int,
) -> Tensor:  # (B, min(count, n)) numbers of known states, the nearest first
    """The nearest known states; of equally near ones the oldest first, whatever is asked beside them.

    Distances come from differences: by products, |a|² − 2a·k + |k|², rounding hides which near state is nearest.
    """
    distances = torch.cdist(queries.float(), states.float(), compute_mode="donot_use_mm_for_euclid_dist")
    numbers = torch.arange(len(states), device=states.device)
    # The bits of floats that are not negative are in the floats' order; the number below them settles ties.
    order = distances.view(torch.int32).long().bitwise_left_shift_(32).bitwise_or_(numbers)
    return order.topk(min(count, len(states)), dim=1, largest=False).indices


register_model("analog", AnalogConfig, Analog, presets={"joint": {"channels_seen": "all"}})
