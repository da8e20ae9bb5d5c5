"""Optional libraries for tests: given where they are installed, a skip with a reason where they are not."""

import importlib
import logging
import warnings
from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def needs(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """``needs("sktime")``: the library, quietly; the test is skipped where it is not installed."""
    monkeypatch.setattr(logging.root.manager, "disable", logging.INFO)  # trainers announce themselves

    def given(extra: str, module: str | None = None) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # dependencies deprecate things at import
            pytest.importorskip(extra, reason=f"needs the extra {extra}")
            return importlib.import_module(module or extra)

    return given
