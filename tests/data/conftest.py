"""The published files, where this machine has them; tests never download."""

from collections.abc import Callable
from pathlib import Path

import pytest

from fern.data.catalogue import PUBLISHED
from fern.data.datasets import cache_folder, local_folders


@pytest.fixture
def published_path() -> Callable[[str], Path]:
    """``published_path("ETTh1")`` is its file; the test is skipped where there is none."""

    def find(name: str) -> Path:
        file = PUBLISHED[name].file
        for folder in (*local_folders(), cache_folder()):
            if (folder / file).is_file():
                return folder / file
        pytest.skip(f"{file} is not on this machine (FERN_DATA_DIR, ../shared/data or the cache)")

    return find
