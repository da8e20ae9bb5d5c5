"""How the scripts of this folder keep what they measured: a JSON file for each row."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def save_row(path: Path, row: Mapping[str, Any]) -> None:
    """Write a row where it belongs, and print it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(row, indent=1) + "\n")
    print(json.dumps(row), flush=True)
