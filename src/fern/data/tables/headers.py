"""Column names as their authors wrote them, where copies in circulation have lost characters."""

from collections.abc import Sequence

DAMAGED = "\ufffd"
"""The mark that a program puts in place of a character it could not read."""

DAMAGED_IN_CIRCULATION = ("SWDR (W/m²)", "PAR (µmol/m²/s)", "max. PAR (µmol/m²/s)")
"""Names of Weather. Its header was Latin-1, read as UTF-8 and saved again: the ² and µ of every copy are lost."""


def repaired(names: Sequence[str]) -> list[str]:
    """Column names with their damaged characters restored, where it is known what they were.

    Example:
        >>> repaired(["date", "SWDR (W/m\\ufffd)"])
        ['date', 'SWDR (W/m²)']
    """
    return [_repaired(name) if DAMAGED in name else name for name in names]


def _repaired(name: str) -> str:
    return next((whole for whole in DAMAGED_IN_CIRCULATION if _same_but_damage(name, whole)), name)


def _same_but_damage(damaged: str, whole: str) -> bool:
    return len(damaged) == len(whole) and all(a in (DAMAGED, b) for a, b in zip(damaged, whole, strict=True))
