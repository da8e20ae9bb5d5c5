"""Whatever `save` writes, `load` reads; whatever else a state file holds is refused at load, or makes a forecaster."""

import hashlib
import json
import shutil
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import safetensors.numpy
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from tests.errors import raises_error
from tests.hostile.support import examples

from fern.data.reading import unwrap
from fern.errors import FernError
from fern.forecaster import FernForecaster
from fern.forecaster.saved_folder import MANIFEST

pytestmark = pytest.mark.filterwarnings("ignore::fern.forecaster.FernWarning")

DAYS = pd.date_range("2024-01-01", periods=90, freq="D")
NAMES = ["brief", "fern", "known", "short", "updated", "wide"]
FIXTURES = Path(__file__).parents[1] / "forecaster" / "fixtures"


def make_panel(names: list[str], rows: int = 90) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    week = np.sin(2 * np.pi * np.arange(rows) / 7)
    values = [10 + place % 100 + week + 0.2 * rng.standard_normal(rows) for place in range(len(names))]
    return pd.DataFrame(
        {"unique_id": np.repeat(names, rows), "ds": np.tile(DAYS[:rows], len(names)), "y": np.concatenate(values)}
    )


def make_forecaster(**settings: Any) -> FernForecaster:
    return FernForecaster(4, model="dlinear", epochs=1, context_length=8, progress="silent", threads=1, **settings)


def update_many(count: int, folder: Path) -> None:
    """Fit a panel, update every series, save and load, and compare all bits of the forecasts."""
    frame = make_panel([f"s{place}" for place in range(count)], rows=24)
    known = frame["ds"] < DAYS[20]
    forecaster = make_forecaster(classical=False).fit(frame[known]).update(frame[~known])
    assert len(forecaster._require_fitted().online) == count
    forecaster.save(folder)
    pd.testing.assert_frame_equal(
        forecaster.predict(level=[80]), FernForecaster.load(folder).predict(level=[80]), check_exact=True
    )


@pytest.mark.parametrize("count", [1, 300, pytest.param(100_000, marks=pytest.mark.slow)])
def test_an_updated_forecaster_forecasts_the_same_bits_after_it_was_saved(count: int, tmp_path: Path) -> None:
    update_many(count, tmp_path / "saved")


# --- forged state files --------------------------------------------------------------------------------------


class Saved:
    """A saved forecaster whose manifest and arrays can be changed and signed anew, as an attacker can."""

    def __init__(self, folder: Path, scratch: Path) -> None:
        self.body = json.loads((folder / MANIFEST).read_text())
        del self.body["sha256"]
        self.parts = {
            part: safetensors.numpy.load_file(folder / entry["name"]) for part, entry in self.body["files"].items()
        }
        self.folder = scratch / folder.name
        shutil.copytree(folder, self.folder)

    def load(self, body: Any = None, **parts: dict[str, Any]) -> FernForecaster:
        signed = deepcopy(self.body if body is None else body)
        for part, arrays in parts.items():
            data = safetensors.numpy.save(arrays)
            digest = hashlib.sha256(data).hexdigest()
            name = f"{part}-{digest[:16]}.safetensors"
            (self.folder / name).write_bytes(data)
            signed["files"][part] = {"name": name, "sha256": digest, "bytes": len(data)}
        if isinstance(signed, dict):
            signed["sha256"] = hashlib.sha256(json.dumps(signed, sort_keys=True).encode()).hexdigest()
        (self.folder / MANIFEST).write_text(json.dumps(signed))
        return FernForecaster.load(self.folder)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Saved]:
    """Forecasters that hold all there is: Fern with findings, updated series, many channels, covariates, no model."""
    honest, scratch = (tmp_path_factory.mktemp(name) for name in ("honest", "forged"))
    panel = make_panel(["a", "b"])
    early = panel["ds"] < DAYS[80]
    make_forecaster().fit(panel[early]).update(panel[~early]).save(honest / "updated")
    make_forecaster().fit(panel.pivot(index="ds", columns="unique_id", values="y")).save(honest / "wide")
    make_forecaster().fit(panel[panel["ds"] < DAYS[9]]).save(honest / "short")
    known = panel.assign(promo=np.arange(180) % 5 == 0, region=panel["unique_id"], load=np.arange(180.0) % 3)
    lists = {"futr_exog_list": ["promo"], "hist_exog_list": ["load"], "stat_exog_list": ["region"]}
    make_forecaster(**lists, calendar=True).fit(known.assign(y=known["y"] + 5 * known["promo"])).save(honest / "known")
    few = make_panel([f"s{place}" for place in range(12)], rows=14)
    few = few.assign(promo=few["ds"].dt.day % 3 == 0)
    few["y"] += 20 * few["promo"]
    make_forecaster(futr_exog_list=["promo"]).fit(few).save(honest / "brief")
    folders = [*honest.iterdir(), FIXTURES / "fern"]
    return {folder.name: Saved(folder, scratch) for folder in sorted(folders)}


def require_working(forecaster: FernForecaster) -> None:
    """Finite forecasts and paths, a diagnosis, and a state that can be saved and loaded."""
    future, _ = unwrap(forecaster.make_future_dataframe())
    covariates = forecaster._require_fitted().covariates
    names = () if covariates is None else covariates.encoding.names.known
    for name in names:
        future = future.set_column(future.column_names.index(name), name, pa.array(np.zeros(len(future))))
    options = {"futr_df": future} if names else {}
    for made in (forecaster.predict(level=[80], **options), forecaster.simulate(n_paths=2, **options)):
        for column in unwrap(made)[0].columns:  # its other columns may have any name
            assert not pa.types.is_floating(column.type) or np.isfinite(column.to_numpy()).all()
    forecaster.diagnose()
    forecaster.save("again")
    FernForecaster.load("again")


def places_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place, the whole included, and one more in every mapping."""
    yield path
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in entries:
        yield from places_in(entry, (*path, key))
    if isinstance(value, dict):
        yield (*path, NEW)


def change_at(body: dict[str, Any], path: tuple[Any, ...], value: Any) -> Any:
    changed = deepcopy(body)
    if not path:
        return {} if value is DELETED else value
    entry = changed
    for key in path[:-1]:
        entry = entry[key]
    if value is DELETED:
        entry.pop(path[-1], None) if isinstance(entry, dict) else entry.pop(path[-1])
    else:
        entry[path[-1]] = value
    return changed


DELETED, NEW = object(), "another"
WHOLE = st.sampled_from([-1, 0, 1, 2, 3, 7, 2**31, 10**9, 2**62, 10**18, 2**63, 10**400])
REAL = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([1e308, -1e308, 0.5, 1e-300])
TEXT = st.text(max_size=8) | st.sampled_from(
    ["none", "auto", "a", "ds", "y", "double", "timestamp[ns]", "int64", "row"]
)
SIMPLE = st.none() | st.booleans() | WHOLE | REAL | TEXT
JSON = st.recursive(
    SIMPLE, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=6
)
KINDS = ["float64", "float32", "float16", "int64", "int32", "int8", "uint64", "uint8", "bool"]
NUMBERS = st.sampled_from([0.0, 1.0, -1.0, 0.5, 1e-300, 1e30, -1e30, 3e38, 1e308, np.nan, np.inf, -np.inf, 2.0**62])
SHAPE = st.lists(st.integers(0, 5), max_size=4)


@pytest.mark.parametrize("name", NAMES)
@examples(12, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_json_anywhere_is_refused_or_makes_a_forecaster(name: str, saved: dict[str, Saved], data: Any) -> None:
    forged = saved[name]
    path = data.draw(st.sampled_from(list(places_in(forged.body))))
    body = change_at(forged.body, path, data.draw(JSON | st.just(DELETED)))
    try:
        loaded = forged.load(body)
    except FernError:
        return
    require_working(loaded)


def change_array(arrays: dict[str, Any], place: str, data: Any) -> dict[str, Any]:
    """Of another type, shape or values, gone, moved to another place, or any array at all."""
    own, changed = arrays[place], dict(arrays)
    kind = data.draw(st.sampled_from(["type", "shape", "values", "one value", "gone", "moved", "any"]))
    if kind == "type":
        changed[place] = own.astype(data.draw(st.sampled_from(KINDS)))
    elif kind == "shape":
        changed[place] = np.resize(own, data.draw(SHAPE))
    elif kind == "values":
        changed[place] = np.full(own.shape, data.draw(NUMBERS)).astype(own.dtype)
    elif kind == "one value":
        changed[place] = own.copy()
        changed[place].reshape(-1)[:1] = np.array(data.draw(NUMBERS)).astype(own.dtype)
    elif kind == "gone":
        del changed[place]
    elif kind == "moved":
        changed[data.draw(st.sampled_from([*sorted(arrays), NEW]))] = own
    else:
        drawn = np.full(data.draw(SHAPE), data.draw(NUMBERS)).astype(data.draw(st.sampled_from(KINDS)))
        changed[data.draw(st.sampled_from([place, NEW]))] = drawn
    return changed


@pytest.mark.parametrize("name", NAMES)
@examples(12, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_array_anywhere_is_refused_or_makes_a_forecaster(name: str, saved: dict[str, Saved], data: Any) -> None:
    forged = saved[name]
    part, place = data.draw(st.sampled_from([(part, name) for part in forged.parts for name in forged.parts[part]]))
    with np.errstate(all="ignore"):
        changed = change_array(forged.parts[part], place, data)
    try:
        loaded = forged.load(**{part: changed})
    except FernError:
        return
    require_working(loaded)


FORGED_VALUES: dict[str, tuple[str, tuple[Any, ...], Any]] = {
    "a profile's name": ("fern", ("state", "findings", "profiled", 0, "name"), 3),
    "an identifier": ("updated", ("state", "form", "identifier"), ["unique_id"]),
    "a time column": ("updated", ("state", "form", "time"), 7),
    "an index": ("wide", ("state", "form", "index"), {"a": 1}),
    "two columns of one name": ("updated", ("state", "form", "time"), "unique_id"),
    "a patch size as text": ("updated", ("state", "calibration", "patch_size"), "4"),
    "an endless season": ("updated", ("state", "season"), 2**62),
    "an endless step": ("updated", ("state", "frequency", "count"), 2**62),
    "a horizon without a model": ("short", ("state", "horizon"), 10**9),
    "a profile's stamps": ("fern", ("state", "findings", "profiled", 0, "stamp_type"), None),
    "a model without a calibration": ("updated", ("state", "calibration"), None),
    "noise": ("fern", ("model", "config", "noise"), 1e308),
    "half of a pair": ("updated", ("state", "label"), "\ud800"),
    "a number beyond numbers": ("updated", ("state", "combination", "learnt", "weight"), 1e400),
}


@pytest.mark.parametrize("case", FORGED_VALUES)
def test_a_forged_value_is_refused_at_load(case: str, saved: dict[str, Saved]) -> None:
    name, path, value = FORGED_VALUES[case]
    with raises_error(where=name):
        saved[name].load(change_at(saved[name].body, path, value))


FORGED_ARRAYS: dict[str, tuple[str, str, Any]] = {
    "radii that are whole numbers": ("updated", "calibration.high.values", lambda own: own.astype(np.int64)),
    "radii beyond products": ("updated", "calibration.high.values", lambda own: own * 1e200),
    "radii of another length": ("updated", "calibration.high.values", lambda own: own[:, :-1]),
    "online weights that are not numbers": ("updated", "online.weights", lambda own: np.full_like(own, np.nan)),
    "huge online weights": ("updated", "online.weights", lambda own: own * 1e300),
    "huge online factors": ("updated", "online.log_factors", lambda own: own + 1e6),
    "a series that is not there": ("updated", "online.series", lambda own: own + 5),
    "scales of 0": ("updated", "spread", lambda own: own * 0),
    "rows that are not numbers": ("updated", "recent", lambda own: own * np.nan),
    "stamps at the end of time": ("updated", "last", lambda own: np.full_like(own, 2**63 - 1)),
    "names that are not the profiles'": ("fern", "names.bytes", lambda own: own ^ 1),
    "weights without a number": ("brief", "covariates.brief.weights.0.0", lambda own: own[:0]),
    "names of two series alike": ("updated", "names.bytes", lambda own: np.full_like(own, 97)),
}


@pytest.mark.parametrize("case", FORGED_ARRAYS)
def test_a_forged_array_is_refused_at_load(case: str, saved: dict[str, Saved]) -> None:
    name, place, change = FORGED_ARRAYS[case]
    arrays = saved[name].parts["state"]
    with raises_error(where=name):
        saved[name].load(state={**arrays, place: change(arrays[place])})


@pytest.mark.parametrize("value", [np.nan, np.inf, 3e38])
def test_weights_whose_forecast_is_not_finite_are_refused_at_load(value: float, saved: dict[str, Saved]) -> None:
    weights = saved["updated"].parts["model"]
    with raises_error(where="updated"):
        saved["updated"].load(model={name: np.full_like(own, value) for name, own in weights.items()})


def test_what_could_not_be_read_again_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    forecaster = make_forecaster().fit(make_panel(["a", "b"]))
    monkeypatch.setattr("fern.forecaster.saved_folder.MOST_HEADER", 2**10)
    with raises_error(where="saved"):
        forecaster.save("saved")
