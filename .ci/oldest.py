"""Print a constraints file with the oldest versions that ``pyproject.toml`` allows: ``python .ci/oldest.py``.

Names after the file are left to pip: ``python .ci/oldest.py torch`` constrains everything but torch.
"""

import re
import sys
import tomllib
from pathlib import Path

EXTRAS = ("plots", "report", "dev")
"""Extras that the default tests need."""


def oldest(project: dict, free: set[str]) -> list[str]:
    """One ``name==version`` for each dependency with a lower bound."""
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(line for extra in EXTRAS for line in extras[extra])]
    bounds = (re.fullmatch(r"([\w.-]+)(?:\[[\w,]+\])?>=([\d.]+)", line) for line in wanted)
    return sorted({f"{bound[1]}=={bound[2]}" for bound in bounds if bound and bound[1].lower() not in free})


if __name__ == "__main__":
    settings = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
    lines = oldest(settings["project"], {name.lower() for name in sys.argv[1:]})
    sys.stdout.write("\n".join(lines) + "\n")
