"""Optional libraries."""

import importlib
import sys
from pathlib import Path

import pytest

from fern.errors import FernError
from fern.extras import import_optional


def test_a_library_that_is_not_installed_is_named_with_the_command_that_installs_it() -> None:
    with pytest.raises(FernError, match=r"no_such_library is not installed: pip install 'fern-forecast\[such\]'"):
        import_optional("no_such_library.models", extra="such")


@pytest.mark.parametrize("line", ["import no_such_dependency", "from math import no_such_name"])
def test_a_library_that_is_broken_is_not_called_missing(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("broken_library.py").write_text(line)
    monkeypatch.syspath_prepend(str(Path.cwd()))
    monkeypatch.delitem(sys.modules, "broken_library", raising=False)
    with pytest.raises(FernError, match=r"broken_library is installed but cannot be imported: .*no_such"):
        import_optional("broken_library", extra="such")


def test_the_package_imports_without_any_extra() -> None:
    import fern.benchmark.adapters

    assert fern.benchmark.adapters.FunctionForecaster.__module__ == "fern.benchmark.adapters.callables"


@pytest.mark.parametrize("library", ["sktime", "neuralforecast", "fev"])
def test_fern_in_a_library_that_is_not_there_names_the_extra(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.partition(".")[0] == library]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(sys.modules, f"fern.integrations.{library}", raising=False)
    with pytest.raises(FernError, match=rf"pip install 'fern-forecast\[{library}\]'") as told:
        importlib.import_module(f"fern.integrations.{library}")
    assert isinstance(told.value, ImportError)  # what `try: import` expects
