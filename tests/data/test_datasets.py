"""Published data sets are found, checked, read right; without a copy the error says which file goes where."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from fern.data import datasets
from fern.data.csv_files import DAMAGED, repair_name
from fern.data.datasets import PUBLISHED, find_dataset, get_dataset, load_dataset
from fern.errors import FernError

SMALL = b"date,HUFL,HULL,MUFL,MULL,LUFL,LULL,OT\n2016-07-01 00:00:00,1,2,3,4,5,6,7\n2016-07-01 01:00:00,2,3,4,5,6,7,8\n"


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine with nothing on it: no folder of data, an empty cache, and a small file published as ETTh1."""
    (tmp_path / "public").mkdir()
    (tmp_path / "public" / "ETTh1.csv").write_bytes(SMALL)
    monkeypatch.delenv("FERN_DATA_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    small = replace(
        PUBLISHED["ETTh1"],
        sha256=hashlib.sha256(SMALL).hexdigest(),
        address=(tmp_path / "public" / "ETTh1.csv").as_uri(),
    )
    monkeypatch.setattr(datasets, "get_dataset", lambda name: small if name == "ETTh1" else get_dataset(name))
    return tmp_path


def test_a_download_lands_in_the_cache_and_is_used_again(elsewhere: Path) -> None:
    path = find_dataset("ETTh1")
    assert path == elsewhere / "cache" / "fern" / "data" / "ETTh1.csv"
    assert path.read_bytes() == SMALL
    (elsewhere / "public" / "ETTh1.csv").unlink()
    assert find_dataset("ETTh1") == path
    assert load_dataset("ETTh1").num_rows == 2


def test_the_folder_named_by_the_user_comes_first(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = elsewhere / "own"
    own.mkdir()
    (own / "ETTh1.csv").write_bytes(SMALL)
    monkeypatch.setenv("FERN_DATA_DIR", str(own))
    assert find_dataset("ETTh1") == own / "ETTh1.csv"
    assert not (elsewhere / "cache").exists()


def test_offline_without_a_copy_the_error_says_which_file_goes_where(elsewhere: Path) -> None:
    (elsewhere / "public" / "ETTh1.csv").unlink()
    with pytest.raises(FernError) as error:
        find_dataset("ETTh1")
    message = str(error.value)
    assert "Put ETTh1.csv into" in message
    assert str(elsewhere / "cache" / "fern" / "data") in message
    assert "FERN_DATA_DIR" in message
    assert list((elsewhere / "cache" / "fern" / "data").iterdir()) == []


class _BreaksOff(BaseHTTPRequestHandler):
    """Promises more than it sends."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(SMALL)))
        self.end_headers()
        self.wfile.write(SMALL[:50])

    def log_message(self, *_: object) -> None:
        pass


def test_a_download_that_breaks_off_leaves_nothing(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with HTTPServer(("127.0.0.1", 0), _BreaksOff) as server:
        thread = Thread(target=server.handle_request)
        thread.start()
        broken = replace(PUBLISHED["ETTh1"], address=f"http://127.0.0.1:{server.server_port}/ETTh1.csv")
        monkeypatch.setattr(datasets, "get_dataset", lambda _: broken)
        with pytest.raises(FernError, match=r"download failed \(.*50"):
            find_dataset("ETTh1")
        thread.join()
    assert list((elsewhere / "cache" / "fern" / "data").iterdir()) == []


def test_a_download_with_other_bytes_is_refused_and_not_kept(elsewhere: Path) -> None:
    (elsewhere / "public" / "ETTh1.csv").write_bytes(SMALL[:-10])
    with pytest.raises(FernError, match="is not the published ETTh1"):
        find_dataset("ETTh1")
    assert list((elsewhere / "cache" / "fern" / "data").iterdir()) == []


def test_a_changed_copy_is_refused(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (elsewhere / "ETTh1.csv").write_bytes(SMALL.replace(b"7\n", b"9\n", 1))
    monkeypatch.setenv("FERN_DATA_DIR", str(elsewhere))
    with pytest.raises(FernError, match=r"is not the published ETTh1 \(sha256 .* remove it, or replace it"):
        load_dataset("ETTh1")


def test_a_misspelt_name_gets_the_nearest() -> None:
    with pytest.raises(FernError, match="did you mean 'ETTh1'"):
        load_dataset("ETTh11")
    with pytest.raises(FernError, match="unknown variant of Weather 'air_parcels': did you mean 'air_parcel'"):
        load_dataset("Weather", variant="air_parcels")
    with pytest.raises(FernError, match="unknown column of ETTh1 'OTT': did you mean 'OT'"):
        load_dataset("ETTh1", columns=["OTT"])
    with pytest.raises(FernError, match="a variant or columns"):
        load_dataset("Weather", variant="air_parcel", columns=["OT"])


@pytest.mark.parametrize("name", sorted(set(PUBLISHED) - {"ETTm2"}))
def test_each_published_file_is_read_whole(name: str, published_path: Callable[[str], Path]) -> None:
    published_path(name)
    table = load_dataset(name)
    assert table.num_rows == PUBLISHED[name].rows
    assert table.column_names == ["date", *PUBLISHED[name].columns]
    assert all(np.isfinite(table[column].to_numpy()).all() for column in PUBLISHED[name].columns)


def test_weather_has_its_names_and_the_papers_air_parcel(published_path: Callable[[str], Path]) -> None:
    published_path("Weather")
    table = load_dataset("Weather", variant="air_parcel", kind="pandas")
    assert list(table.columns)[1:] == list(PUBLISHED["Weather"].variant("air_parcel").columns)
    assert len(table.columns) == 15
    assert PUBLISHED["Weather"].variant("air_parcel").scaling == "robust"
    assert not any(DAMAGED in column for column in load_dataset("Weather").column_names)
    assert "max. PAR (µmol/m²/s)" in load_dataset("Weather", kind="polars").columns
    with pytest.raises(FernError, match="unknown kind of frame"):
        load_dataset("Weather", kind="numpy")


def test_only_damaged_names_are_repaired() -> None:
    assert repair_name(f"PAR ({DAMAGED}mol/m{DAMAGED}/s)") == "PAR (µmol/m²/s)"
    assert [repair_name(name) for name in ("OT", f"x{DAMAGED}")] == ["OT", f"x{DAMAGED}"]
