"""Fixtures of the tables' tests."""

import pytest

from fern.benchmark.store import Store


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "runs").for_writing()
