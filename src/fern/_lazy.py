"""Public names of a package that are imported when they are first used."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module


def lazy_names(
    package: str, where: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package whose public names lie in the modules of ``where``.

    A package writes its names out three times: imports under ``TYPE_CHECKING`` for type checkers, a literal
    ``__all__`` for readers and tools, and ``where`` for the running program. A test checks that the three agree.

    Example:
        >>> find, names = lazy_names("fern", {"fern.errors": ["FernError"]})
        >>> find("FernError").__name__, names()
        ('FernError', ['FernError'])
    """
    modules = {name: module for module, names in where.items() for name in names}

    def find(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(modules[name]), name)

    return find, lambda: sorted(modules)
