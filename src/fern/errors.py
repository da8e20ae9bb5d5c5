"""The one family of errors a user can cause, and the words they share."""

from collections.abc import Iterable
from difflib import get_close_matches

_MOST_KNOWN = 60  # names that a message lists
_MOST_SHOWN = 200  # characters of a wrong name


class FernError(ValueError):
    """A mistake in what the user gave: names the argument, what it got and what it takes.

    Example:
        >>> raise FernError("steps: got 1, needs at least 2")
        Traceback (most recent call last):
            ...
        fern.errors.FernError: steps: got 1, needs at least 2
    """


class NotWritten(FernError):  # noqa: N818 - what a result is
    """No mistake of the user: a result could not be written, because the disk is full or a device failed.

    The command line ends with exit code 1, as after any work that failed, and not with the 2 of a mistake.
    """


def unknown_name(kind: str, name: object, known: Iterable[str]) -> FernError:
    """The error for a name that is not among the known ones, with the nearest right names.

    Example:
        >>> str(unknown_name("parameter", "roh", ["sigma", "rho", "beta"]))
        "unknown parameter 'roh': did you mean 'rho'? Known: beta, rho, sigma"
    """
    options = sorted(known)
    folded = {option.casefold(): option for option in options}
    near = [folded[match] for match in get_close_matches(str(name)[:_MOST_SHOWN].casefold(), folded, n=3, cutoff=0.6)]
    hint = f" did you mean {' or '.join(repr(n) for n in near)}?" if near else ""
    known = ", ".join(options[:_MOST_KNOWN]) or "(none)"
    more = f", … ({len(options):,} in all)" if len(options) > _MOST_KNOWN else ""
    return FernError(f"unknown {kind} {str(name)[:_MOST_SHOWN]!r}:{hint} Known: {known}{more}")
