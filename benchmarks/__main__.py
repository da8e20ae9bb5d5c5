"""``python -m benchmarks [TOPIC ...]``: run the speed measurements, all of them or the named ones."""

import importlib
import pkgutil
import sys

from benchmarks import speed

TOPICS = sorted(m.name for m in pkgutil.iter_modules(speed.__path__) if m.name != "harness")


def main(names: list[str]) -> None:
    unknown = [name for name in names if name not in TOPICS]
    if unknown:
        sys.exit(f"unknown topic {', '.join(unknown)}; known: {', '.join(TOPICS)}")
    for name in names or TOPICS:
        print(f"{name}:")
        importlib.import_module(f"benchmarks.speed.{name}").measure()


if __name__ == "__main__":
    main(sys.argv[1:])
