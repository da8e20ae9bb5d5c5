"""When to stop and which epoch to keep: a pure state machine over the validation objective."""

from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any, Literal, get_args

from fern.checks import is_whole, require_number, require_whole
from fern.errors import FernError, unknown_name
from fern.settings import STRICT, from_mapping

Keep = Literal["best", "last"]
Reason = Literal["epochs", "patience", "time", "interrupted", "nothing to train"]


@dataclass(frozen=True)
class StoppingRule:
    """When training stops, and which epoch's weights it keeps.

    ``epochs``     the maximum number of epochs.
    ``patience``   stop after this many epochs in a row without a new best; None never stops early.
    ``grace``      the number of first epochs that are only logged: they can neither stop the run nor be kept.
    ``smoothing``  α of an exponential mean of the validation objective, s_e = α·s_{e-1} + (1 - α)·v_e, on which
                   the rule then works; None for the values themselves. It starts after the grace period.
    ``tolerance``  an epoch is a new best only where it lowers the (smoothed) objective by more than this share of the
                   best; 0 for any lowering. Of two epochs that validation hardly tells apart it prefers the earlier,
                   which is less fitted to the training windows.
    ``keep``       ``best``: the epoch of the last new best; ``last``: the last epoch, as in fixed-epoch schemes.

    Example: the values of epochs 1, 2, … and what became of the run.
        >>> rule, state = StoppingRule(epochs=50, patience=2, grace=1), StoppingState()
        >>> for value in (0.5, 3.0, 2.0, 2.5, 2.2, 1.0):
        ...     state, reason = rule.after_epoch(state, value)
        ...     if reason:
        ...         break
        >>> state.epoch, state.kept_epoch, reason
        (5, 3, 'patience')
    """

    epochs: int
    patience: int | None = None
    grace: int = 0
    smoothing: float | None = None
    tolerance: float = 0.0
    keep: Keep = "best"

    def __post_init__(self) -> None:
        require_whole("epochs", self.epochs, 1)
        if self.patience is not None:
            require_whole("patience", self.patience, 1)
        if not is_whole(self.grace, least=0) or self.grace >= self.epochs:
            raise FernError(
                argument="grace",
                got=self.grace,
                expected=(
                    f"at least 0 and fewer than the {self.epochs} epochs: an epoch of the grace period cannot be kept"
                ),
            )
        if self.smoothing is not None:
            needs = "a number between 0 and 1, or None"
            require_number("smoothing", self.smoothing, needs, lambda number: 0.0 < number < 1.0)
        require_number("tolerance", self.tolerance, "a fraction, at least 0 and below 1", lambda share: 0 <= share < 1)
        if self.keep not in get_args(Keep):
            raise unknown_name("keep", self.keep, get_args(Keep))

    def after_epoch(self, state: "StoppingState", value: float) -> tuple["StoppingState", Reason | None]:
        """The state after one more epoch with this validation objective, and why to stop now, if so."""
        if not isfinite(value):
            where = f"epoch {state.epoch + 1}"
            raise FernError(argument="validation objective", got=value, expected="a finite number", where=where)
        epoch = state.epoch + 1
        if epoch <= self.grace:
            return StoppingState(epoch=epoch), None
        judged = value
        if self.smoothing is not None and state.judged is not None:
            judged = self.smoothing * state.judged + (1.0 - self.smoothing) * value
        improved = state.best is None or judged < state.best - self.tolerance * abs(state.best)
        after = StoppingState(
            epoch=epoch,
            judged=judged,
            best=judged if improved else state.best,
            kept_epoch=epoch if improved or self.keep == "last" else state.kept_epoch,
            waited=0 if improved else state.waited + 1,
        )
        if self.patience is not None and after.waited >= self.patience:
            return after, "patience"
        return after, "epochs" if epoch >= self.epochs else None


@dataclass(frozen=True)
class StoppingState:
    """Where a `StoppingRule` is: plain values, which JSON keeps to the bit."""

    __pydantic_config__ = STRICT

    epoch: int = 0
    judged: float | None = None  # the (smoothed) objective of the last epoch after the grace period
    best: float | None = None  # the objective of the last new best
    kept_epoch: int | None = None
    waited: int = 0

    def to_mapping(self) -> dict[str, Any]:
        """Plain values for a JSON file."""
        return asdict(self)


def stopping_state(values: dict[str, Any]) -> StoppingState:
    """The state that `StoppingState.to_mapping` wrote down."""
    return from_mapping(StoppingState, values, where="stopping state")
