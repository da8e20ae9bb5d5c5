"""``python -m benchmarks [TOPIC ...]``: run the speed measurements, all of them or the named ones."""

import sys

from benchmarks.speed.harness import FULL, TOPICS, measured, record


def main(names: list[str]) -> None:
    unknown = [name for name in names if name not in TOPICS]
    if unknown:
        sys.exit(f"unknown topic {', '.join(unknown)}; known: {', '.join(TOPICS)}")
    for name in names or TOPICS:
        print(f"{name}:")
        found = measured(name, FULL)
        if isinstance(found, str):
            print(f"  {found} is not installed: left out")
            continue
        topic, measurements = found
        record(name, measurements, packages=topic.PACKAGES)


if __name__ == "__main__":
    main(sys.argv[1:])
