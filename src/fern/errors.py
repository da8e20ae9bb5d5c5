"""The one family of errors a user can cause. Their texts are made from fields, in one place."""

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import wraps
from typing import Final, ParamSpec, Self

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
        said = ", ".join(part for part in (problem, needs) if part)
        named = self.argument if argument is None else argument
        return ": ".join(part for part in (self.where, named, said) if part)

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
        def checked(*args: P.args, **values: P.kwargs) -> None:
            for name in values:
                if name in synonyms:
                    raise FernError(f"unknown argument, did you mean {synonyms[name]!r}?", argument=name)
                if name not in known:
                    raise unknown_name("argument", name, known)
            constructor(*args, **values)

        return checked

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
