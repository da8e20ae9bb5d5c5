"""``python -m fern`` is the ``fern`` command, and the installed command begins here too."""

import sys


def main() -> None:
    """Load the commands and run the one that is asked for; Ctrl-C while they load is no traceback either."""
    try:
        from fern.cli.app import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
