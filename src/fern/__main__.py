"""``python -m fern`` is the ``fern`` command."""

from fern.cli.app import main

if __name__ == "__main__":
    main()
