"""The Hub through huggingface_hub: pushed and fetched file by file, absent it names its extra."""

import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pytest

from fern.errors import FernError
from fern.forecaster import FernForecaster


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for huggingface_hub whose repositories are folders, and whose cache holds links as the real one's."""
    repositories, cache = tmp_path / "hub", tmp_path / "cache"
    cache.mkdir()

    class HfApi:
        def __init__(self, token: str | None = None) -> None:
            self.token = token

        def create_repo(self, repo_id: str, *, private: bool, exist_ok: bool) -> None:
            (repositories / repo_id).mkdir(parents=True, exist_ok=exist_ok)

        def upload_folder(self, *, repo_id: str, folder_path: str, delete_patterns: list[str], **_: Any) -> str:
            for pattern in delete_patterns:
                for stale in (repositories / repo_id).glob(pattern):
                    stale.unlink()
            shutil.copytree(folder_path, repositories / repo_id, dirs_exist_ok=True)
            return f"https://hub/{repo_id}"

    def hf_hub_download(*, repo_id: str, filename: str, revision: str | None, token: str | None) -> str:
        source = repositories / repo_id / filename
        if not source.exists():
            raise FileNotFoundError(f"404: {filename}")
        link = cache / filename
        link.unlink(missing_ok=True)
        link.symlink_to(source)
        return str(link)

    module = ModuleType("huggingface_hub")
    module.HfApi, module.hf_hub_download = HfApi, hf_hub_download  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)
    return repositories


def test_a_pushed_forecaster_comes_back(fitted: FernForecaster, hub: Path) -> None:
    assert fitted.push_to_hub("someone/loads") == "https://hub/someone/loads"
    fitted.push_to_hub("someone/loads")  # replaces, leaves no stale file
    assert len(list((hub / "someone" / "loads").iterdir())) == 3
    loaded = FernForecaster.from_pretrained("someone/loads")
    pd.testing.assert_frame_equal(loaded.predict(level=[80]), fitted.predict(level=[80]), check_exact=True)


def test_what_the_hub_does_not_have_is_told(hub: Path) -> None:
    with pytest.raises(FernError, match=r"someone/else: forecaster.json cannot be fetched from the Hub \(404"):
        FernForecaster.from_pretrained("someone/else")


def test_a_folder_needs_no_hub(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert FernForecaster.from_pretrained(saved).horizon == 7
    with pytest.raises(FernError, match=r"is no folder here.*pip install 'fern-forecast\[hub\]'"):
        FernForecaster.from_pretrained("someone/loads")


def test_pushing_without_the_extra_names_it(fitted: FernForecaster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(FernError, match=r"pip install 'fern-forecast\[hub\]'"):
        fitted.push_to_hub("someone/loads")
