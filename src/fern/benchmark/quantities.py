"""What a run's figures are: their titles in tables, with the unit where they have one, and which way is better."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from fern.training.inputs import LAST as LAST

Better = Literal["lower", "higher"]


@dataclass(frozen=True)
class Quantity:
    """A figure by its name in a row. ``better`` is None where neither way is; such figures are not ranked."""

    title: str
    better: Better | None = None


QUANTITIES: Mapping[str, Quantity] = MappingProxyType(
    {
        "mse": Quantity("MSE", "lower"),
        "mae": Quantity("MAE", "lower"),
        "wd": Quantity("WD", "lower"),
        "swd": Quantity("SWD", "lower"),
        "ept": Quantity("EPT", "higher"),
        "ept_lyapunov": Quantity("EPT in LT", "higher"),
        f"{LAST}mse": Quantity("last batch MSE", "lower"),
        f"{LAST}mae": Quantity("last batch MAE", "lower"),
        f"{LAST}wd": Quantity("last batch WD", "lower"),
        f"{LAST}swd": Quantity("last batch SWD", "lower"),
        f"{LAST}ept": Quantity("last batch EPT", "higher"),
        "oracle_mse": Quantity("oracle MSE"),
        "excess_mse": Quantity("excess mse", "lower"),
        "regret": Quantity("regret", "lower"),
        "relative_regret": Quantity("relative regret", "lower"),
        "skill": Quantity("skill", "higher"),
        "crps": Quantity("CRPS", "lower"),
        "nll": Quantity("NLL", "lower"),
        "coverage_90": Quantity("90 % coverage"),
        "parameters": Quantity("parameters"),
        "multiply_adds": Quantity("multiply-adds"),
        "seconds_epoch": Quantity("seconds an epoch"),
        "seconds_train": Quantity("seconds of training"),
        "seconds_train_cpu": Quantity("processor seconds of training"),
        "validation_mse_epoch_1": Quantity("epoch 1: validation", "lower"),
        "test_mse_epoch_1": Quantity("epoch 1: test", "lower"),
        "epoch_by_validation": Quantity("best by validation: epoch"),
        "test_mse_by_validation": Quantity("best by validation: test", "lower"),
        "test_best_epoch": Quantity("best by test: epoch"),
        "validation_mse_best": Quantity("best by test: validation", "lower"),
        "test_mse_best": Quantity("best by test: test", "lower"),
        "test_difference": Quantity("best by test less epoch 1: test"),
    }
)
"""MSE and WD (a squared distance) are in squared units of the data, MAE and CRPS in units of the data, EPT in steps,
or in Lyapunov times (LT)."""


def title_of(name: str) -> str:
    """A figure's title; the name itself in words where the table has none.

    Example:
        >>> title_of("mse"), title_of("seconds_total")
        ('MSE', 'seconds total')
    """
    return QUANTITIES[name].title if name in QUANTITIES else name.replace("_", " ")


def direction_of(name: str) -> int:
    """1 where higher is better, -1 where lower is, 0 where it is neither or not known.

    Example:
        >>> direction_of("ept"), direction_of("mse"), direction_of("parameters")
        (1, -1, 0)
    """
    better = QUANTITIES[name].better if name in QUANTITIES else None
    return 0 if better is None else 1 if better == "higher" else -1
