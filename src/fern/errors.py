"""The one family of errors a user can cause, and the checks of single settings that raise them.

A truth value is no number here: ``True`` where a count is wanted is a mistake. NumPy's integers are refused too:
settings are compared, hashed and written as JSON, which knows Python's numbers alone; ``int(value)`` makes one.
"""

import inspect
import math
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from difflib import get_close_matches
from functools import wraps
from pathlib import Path
from typing import Final, ParamSpec, Self, TypeGuard

P = ParamSpec("P")

_MOST_KNOWN = 60  # names that a message lists
_MOST_SHOWN = 200  # characters of a wrong name or value
_LONG = 10**30

ABSENT: Final = object()
"""Where an error has no offending value: ``None`` is a value."""


class FernError(ValueError):
    """A mistake in the user's input: which argument, what it got, what was expected, and where.

    The text is ``where: argument: problem, needs expected``; without a problem it says what the argument got.

    Parameters:
        problem: what is wrong, in words; left out where ``got`` says it.
        argument: the argument, setting or column that is wrong.
        got: its value.
        expected: what would be right.
        where: the file, series, row or setting around the argument.

    Example:
        >>> raise FernError(argument="steps", got=1, expected="at least 2", where="lorenz.toml")
        Traceback (most recent call last):
            ...
        fern.errors.FernError: lorenz.toml: steps: got 1, needs at least 2
    """

    def __init__(
        self,
        problem: str = "",
        *,
        argument: object = "",
        got: object = ABSENT,
        expected: object = "",
        where: object = "",
    ) -> None:
        super().__init__(problem)
        self.problem, self.got = problem, got
        self.argument, self.expected, self.where = str(argument), str(expected), str(where)

    def __str__(self) -> str:
        return self.render()

    def __reduce__(self) -> tuple[object, ...]:
        got = self.got if self.got is ABSENT else show_value(self.got)  # a value may not survive between processes
        problem = self.problem or ("" if got is ABSENT else f"got {got}")
        return _rebuild, (type(self), problem, self.argument, self.expected, self.where)

    def render(self, *, argument: str | None = None) -> str:
        """The message; ``argument`` is what to call the argument, such as the option of a command.

        Example:
            >>> FernError(argument="id_col", got="sku", expected="a column").render(argument="--id")
            "--id: got 'sku', needs a column"
        """
        problem = self.problem or ("" if self.got is ABSENT else f"got {show_value(self.got)}")
        needs = f"needs {self.expected}" if self.expected else ""
        text = ", ".join(part for part in (problem, needs) if part)
        argument = self.argument if argument is None else argument
        return ": ".join(part for part in (self.where, argument, text) if part)

    def within(self, where: str) -> Self:
        """The same error, found inside of ``where``.

        Example:
            >>> str(FernError(argument="dt", got=0, expected="a number above 0").within("lorenz.toml"))
            'lorenz.toml: dt: got 0, needs a number above 0'
        """
        inner = type(self).__new__(type(self), *self.args)  # a copy by `__reduce__` would lose the value
        inner.__dict__.update(self.__dict__)
        inner.where = ": ".join(part for part in (where, self.where) if part)
        return inner


def _rebuild(kind: type[FernError], problem: str, argument: str, expected: str, where: str) -> FernError:
    error = kind.__new__(kind, problem)
    FernError.__init__(error, problem, argument=argument, expected=expected, where=where)
    return error


class NotWritten(FernError):  # noqa: N818 - what a result is
    """No mistake of the user: a result could not be written, because the disk is full or a device failed.

    The command line ends with exit code 1, as after any work that failed, and not with the 2 of a mistake.
    """


def unknown_name(kind: str, name: object, known: Iterable[str], *, argument: str = "", where: str = "") -> FernError:
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
    problem = f"unknown {kind} {str(name)[:_MOST_SHOWN]!r}:{hint} Known: {known}{more}"
    return FernError(problem, argument=argument, where=where)


def suggest_arguments(synonyms: Mapping[str, str]) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """A constructor that answers an unknown argument with the nearest right one.

    ``synonyms`` are names that other libraries use.

    Example:
        >>> class Forecaster:
        ...     @suggest_arguments({"h": "horizon"})
        ...     def __init__(self, horizon: int) -> None:
        ...         self.horizon = horizon
        >>> Forecaster(h=12)
        Traceback (most recent call last):
            ...
        fern.errors.FernError: h: unknown argument, did you mean 'horizon'?
    """

    def decorate(constructor: Callable[P, None]) -> Callable[P, None]:
        known = [name for name in inspect.signature(constructor).parameters if name != "self"]

        @wraps(constructor)
        def construct(*args: P.args, **values: P.kwargs) -> None:
            for name in values:
                if name in synonyms:
                    raise FernError(f"unknown argument, did you mean {synonyms[name]!r}?", argument=name)
                if name not in known:
                    raise unknown_name("argument", name, known)
            constructor(*args, **values)

        return construct

    return decorate


def show_value(value: object) -> str:
    """A value in a message: what it is, cut where it is long; of a class its name.

    Example:
        >>> show_value("96"), show_value(10**5000), show_value(int)
        ("'96'", 'a whole number of 5001 digits', 'int')
    """
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, int) and abs(value) >= _LONG:
        return f"a whole number of {math.ceil(math.log10(abs(value)) + 1e-9)} digits"
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001  whatever an object's own repr does
        text = f"an object of type {type(value).__name__}"
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


# --- checks ---------------------------------------------------------------------------------------------------


def is_whole(value: object, *, least: int) -> TypeGuard[int]:
    """Whether this is a Python int of at least ``least``.

    Example:
        >>> is_whole(3, least=1), is_whole(True, least=1), is_whole(3.0, least=1), is_whole(0, least=1)
        (True, False, False, False)
    """
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def require_whole(name: str, value: object, least: int) -> None:
    """Refuse what is not a whole number of at least ``least``.

    Example:
        >>> require_whole("horizon", 0, 1)
        Traceback (most recent call last):
            ...
        fern.errors.FernError: horizon: got 0, needs a whole number of at least 1
    """
    if not is_whole(value, least=least):
        raise FernError(argument=name, got=value, expected=f"a whole number of at least {least}")


def require_at_most(name: str, value: int, most: int, of: str) -> None:
    """Refuse a number above ``most``, which is the setting ``of``.

    Example:
        >>> require_at_most("season", 24, 12, "context_length")
        Traceback (most recent call last):
            ...
        fern.errors.FernError: season: got 24, needs at most context_length, which is 12
    """
    if value > most:
        raise FernError(argument=name, got=value, expected=f"at most {of}, which is {most}")


def require_flag(name: str, value: object) -> None:
    """Refuse what is not a truth value.

    Example:
        >>> require_flag("refit", "no")
        Traceback (most recent call last):
            ...
        fern.errors.FernError: refit: got 'no', needs True or False
    """
    if not isinstance(value, bool):
        raise FernError(argument=name, got=value, expected="True or False")


def require_number(name: str, value: object, needs: str, fits: Callable[[float], bool]) -> None:
    """Refuse what is not a finite number for which ``fits`` holds; ``needs`` says in the message what that is.

    Example:
        >>> require_number("dt", float("nan"), "a finite number above 0", lambda value: value > 0)
        Traceback (most recent call last):
            ...
        fern.errors.FernError: dt: got nan, needs a finite number above 0
    """
    if not is_number(value) or not fits(value):
        raise FernError(argument=name, got=value, expected=needs)


def require_choice(name: str, value: object, options: Iterable[str]) -> None:
    """Refuse a value that is none of the options.

    Example:
        >>> require_choice("layout", "rings", ("free", "ring"))
        Traceback (most recent call last):
            ...
        fern.errors.FernError: layout: unknown layout 'rings': did you mean 'ring'? Known: free, ring
    """
    known = tuple(options)
    if not isinstance(value, str) or value not in known:  # an array is compared one by one
        raise unknown_name(name, value, known, argument=name)


def is_number(value: object) -> TypeGuard[float]:
    """Whether this is a finite number of Python; a truth value and a number beyond float64 are none.

    Example:
        >>> is_number(3), is_number(0.5), is_number("3"), is_number(True), is_number(10**400)
        (True, True, False, False, False)
    """
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False


MOST_NAME_BYTES = 255
"""Of a file or folder, on the file systems of today."""


def require_path(path: object, *, argument: str = "path") -> Path:
    r"""The path, where it can be one: text or a `Path`, without NUL bytes and names of more than 255 bytes.

    Example:
        >>> require_path("weights\0.bin")
        Traceback (most recent call last):
            ...
        fern.errors.FernError: path: got 'weights\x00.bin', needs a path without NUL bytes
    """
    if not isinstance(path, str | Path):
        raise FernError(argument=argument, got=path, expected="the path of a file or folder")
    try:
        longest = max((len(os.fsencode(part)) for part in Path(path).parts), default=0)
    except ValueError:
        raise FernError(argument=argument, got=path, expected="a path that can be encoded") from None
    if "\0" in str(path):
        raise FernError(argument=argument, got=str(path), expected="a path without NUL bytes")
    if longest > MOST_NAME_BYTES:
        problem = f"a name in it has {longest} bytes"
        raise FernError(problem, argument=argument, got=path, expected=f"at most {MOST_NAME_BYTES}")
    return Path(path)


def require_level(level: float) -> float:
    """The level, if it is a percentage that a region can have.

    Example:
        >>> require_level(0)
        Traceback (most recent call last):
            ...
        fern.errors.FernError: level: got 0, needs a percentage between 0 and 100 (both excluded), such as 90
    """
    if not 0 < level < 100:
        hint = f" (did you mean {100 * level:g}?)" if 0 < level < 1 else ""
        raise FernError(
            argument="level", got=level, expected=f"a percentage between 0 and 100 (both excluded), such as 90{hint}"
        )
    return float(level)


ALWAYS_THERE = 1 << 24
"""Bytes that a process can have on any machine: not worth looking up how much there is."""


def memory_size() -> int | None:
    """The bytes of memory this process may have: the machine's, or fewer where a container limits it."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None
    with suppress(OSError, ValueError):
        total = min(total, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return total


def require_memory(what: str, needed: float) -> None:
    """Refuse what needs more bytes of memory than there are, before any are taken.

    Example:
        >>> require_memory("steps: 10^15 steps", 24e15)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        fern.errors.FernError: steps: 10^15 steps would need about 24 PB of memory, this machine has ...
    """
    if needed <= ALWAYS_THERE:
        return
    memory = memory_size()
    if memory is not None and needed > memory:
        raise FernError(
            f"{what} would need about {format_bytes(needed)} of memory, this machine has {format_bytes(memory)}"
        )


def format_bytes(count: float) -> str:
    """A number of bytes as people say it.

    Example:
        >>> format_bytes(2_500_000), format_bytes(4e14), format_bytes(10**400)
        ('2.5 MB', '400 TB', 'more than 1000 EB')
    """
    for size, unit in ((1e3, "kB"), (1e6, "MB"), (1e9, "GB"), (1e12, "TB"), (1e15, "PB"), (1e18, "EB")):
        if count < 1000 * size:
            return f"{count / size:.3g} {unit}"
    return "more than 1000 EB"
