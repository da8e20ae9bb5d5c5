"""``python docs/extensions/reference.py``: bring the members on docs/reference.md up to date with the packages' lists.

Headings and their order are written by hand; a package that is new is added before the integrations.
"""

import importlib
import importlib.util
import pkgutil
import re
from pathlib import Path

import fern

PAGE = Path(__file__).parents[1] / "reference.md"
LAST = "\n## fern.integrations.sktime\n"


def update(text: str) -> str:
    """The page with the public names of today."""
    packages = [module.name for module in pkgutil.walk_packages(fern.__path__, "fern.") if module.ispkg]
    for package in packages:
        names = getattr(importlib.import_module(package), "__all__", None)
        if names is None:
            continue
        block = _block(package, names)
        own = re.escape(package)
        text = re.sub(rf"\n::: {own}\.(\w+)\.\1(?=\n)", "", text)
        pattern = rf"::: {own}\n    options:\n      members:\n(?:        - \w+\n)*"
        if re.search(pattern, text):
            text = re.sub(pattern, lambda _, block=block: block, text, count=1)
        else:
            text = text.replace(LAST, f"\n## {package}\n\n{block}{LAST}")
    text = re.sub(r"\n## (fern[\w.]+)\n\n::: \1\n(?!\n##)", _keep_if_there, text)
    return _update_top(text)


def _block(package: str, names: list[str]) -> str:
    """Members, and names that a module has too by their full path: the generator would show the module."""
    modules = [name for name in names if importlib.util.find_spec(f"{package}.{name}") is not None]
    members = "".join(f"        - {name}\n" for name in sorted(set(names) - set(modules)))
    full = "".join(f"\n::: {package}.{name}.{name}\n" for name in sorted(modules))
    return f"::: {package}\n    options:\n      members:\n{members}{full}"


def _keep_if_there(match: re.Match[str]) -> str:
    return match[0] if importlib.util.find_spec(match[1]) is not None else "\n"


def _update_top(text: str) -> str:
    """The names that `fern` itself has, each with a link to where it is documented."""
    lines = []
    for name in sorted(fern.__all__):
        home = re.findall(rf"^- \[`fern\.{name}`\]\[([\w.]+)\]$", text, re.M)
        value = getattr(fern, name)
        place = home[0] if home else f"{getattr(value, '__module__', '')}.{name}"
        lines.append(f"- `fern.{name}`" if name == "__version__" else f"- [`fern.{name}`][{place}]")
    return re.sub(r"(?:^- \[?`fern\.\w+`.*\n)+", "\n".join(lines) + "\n", text, count=1, flags=re.M)


if __name__ == "__main__":
    PAGE.write_text(update(PAGE.read_text()))
