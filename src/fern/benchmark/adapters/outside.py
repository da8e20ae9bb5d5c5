"""Forecasters from outside, named ``module:callable`` or by a folder."""

import hashlib
import inspect
import sys
import warnings
from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fern.benchmark.adapters.callables import ForecastFunction, FunctionForecaster, ModuleForecaster
from fern.benchmark.adapters.libraries import (
    Builder,
    adapter_of,
    builder_of,
    extra_for,
    library_version,
    split_settings,
)
from fern.benchmark.adapters.windowwise import ChronosForecaster, is_chronos
from fern.errors import FernError
from fern.extras import MissingExtra, import_optional
from fern.models import Forecaster, ModelConfig

FORECASTER_MANIFEST = "forecaster.json"
"""The file by which a folder that `FernForecaster.save` wrote is known."""


def is_saved_forecaster(folder: Path) -> bool:
    """Whether `FernForecaster.save` wrote this folder."""
    return (folder / FORECASTER_MANIFEST).is_file()


def load_saved_forecaster(folder: Path) -> Forecaster:
    """The point forecasts of a saved `FernForecaster`.

    Its module is imported by name: the benchmark takes any library's forecasters, and depends on none, ours included.
    """
    wrapper: Callable[[Path], Forecaster] = import_module("fern.integrations.saved_forecaster").SavedForecaster
    return wrapper(folder)


def make_folder_builder(folder: Path, *, where: str) -> Builder:
    """What gives the model of a folder."""
    if not is_saved_forecaster(folder) and not is_chronos(folder):
        raise FernError(
            "holds neither a saved FernForecaster (forecaster.json) nor a Chronos model (config.json)", where=where
        )

    def build(*, context_length: int, horizon: int, channels: int) -> Forecaster:
        if is_saved_forecaster(folder):
            return load_saved_forecaster(folder)
        return ChronosForecaster(folder, context_length=context_length, horizon=horizon, channels=channels)

    return build


Floats = NDArray[np.float32]
Form = Literal["batch", "window"]
SIZES = ("context_length", "horizon", "channels")
_PROBE = 3  # windows by which a function's form is found out


def import_object(text: str, *, what: str = "TARGET") -> Any:
    """The callable that ``module:callable`` or a folder names; of a known library's forecaster, what builds the model.

    Example:
        >>> import_object("fern.metrics:msee")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        fern.errors.FernError: TARGET fern.metrics:msee: fern.metrics was imported, but has no 'msee': ...
    """
    where = f"{what} {text}"
    if is_folder(text):
        return make_folder_builder(Path(text), where=where)
    module, _, called = text.partition(":")
    try:
        name, settings = split_settings(called)
    except FernError as error:
        raise error.within(where) from None
    if not module or not name:
        raise FernError(expected="a module and a callable in it, such as my_package.models:forecast", where=where)
    extra = extra_for(module)
    try:
        target: Any = import_module(module) if extra is None else import_optional(module, extra=extra)
    except MissingExtra as error:
        raise error.within(where) from None
    except SystemExit as error:
        raise FernError(f"{module} cannot be imported: it called sys.exit({error.code!r})", where=where) from None
    except BaseException as error:  # noqa: BLE001  whatever a user's module does when it is imported
        raise FernError(f"{module} cannot be imported: {type(error).__name__}: {error}", where=where) from None
    for part in name.split("."):
        if not hasattr(target, part):
            raise FernError(_missing(module, part, target), where=where)
        target = getattr(target, part)
    adapter = adapter_of(target)
    if adapter is not None:
        if settings and not isinstance(target, type):
            raise FernError(f"is an object, so the settings {settings} cannot be given to it", where=where)
        return builder_of(target, adapter, settings)
    if settings:
        raise FernError("takes no settings; only the classes of a known library do", where=where)
    if not callable(target) or (isinstance(target, type) and not is_builder(target)):
        kind = f"the class {target.__name__}" if isinstance(target, type) else type(target).__name__
        raise FernError(
            f"is {kind}", expected=f"a callable taking (context, horizon) or ({', '.join(SIZES)})", where=where
        )
    return target


def source_fingerprint(text: str) -> str:
    """12 hexadecimal digits of the SHA-256 of the file that holds a ``module:callable``; its own imports do not count.

    Of a known library the version counts too. Of a folder it is of the names, sizes and, up to a megabyte each,
    contents of its files: a saved forecaster's manifest has the rest's checksums, of weights the beginning will do.

    Example:
        >>> len(source_fingerprint("fern.metrics:mse"))
        12
    """
    if is_folder(text):
        digest = hashlib.sha256()
        for path in sorted(path for path in Path(text).iterdir() if path.is_file()):
            digest.update(f"{path.name} {path.stat().st_size} ".encode())
            with path.open("rb") as opened:
                digest.update(opened.read(1 << 20))
        return digest.hexdigest()[:12]
    import_object(text, what="outside model")
    file = getattr(sys.modules[text.partition(":")[0]], "__file__", None)
    content = Path(file).read_bytes() if file else text.encode()
    return hashlib.sha256(content + library_version(text).encode()).hexdigest()[:12]


def is_folder(text: str) -> bool:
    """Whether an outside model is named by its folder; module names have no slashes."""
    return ("/" in text or "\\" in text) and Path(text).is_dir()


def is_builder(source: object) -> bool:
    """Whether a callable builds models: it has the parameters ``context_length``, ``horizon`` and ``channels``.

    Example:
        >>> is_builder(lambda context, horizon: context[-horizon:])
        False
    """
    try:
        return set(SIZES) <= inspect.signature(source).parameters.keys()  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False


def build_from(builder: Callable[..., Forecaster | nn.Module], sizes: ModelConfig, *, seed: int) -> Forecaster:
    """The untrained model that a builder gives; torch's own generator, seeded, gives its starting weights."""
    lengths = _lengths(sizes)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = builder(**lengths)
    if isinstance(model, Forecaster):
        require_sizes(model.config, sizes)
        return model
    if isinstance(model, nn.Module):
        return ModuleForecaster(model, **lengths)
    raise FernError(f"built {type(model).__name__}", expected="a fern Forecaster or a torch.nn.Module")


def build_outside_model(text: str, sizes: ModelConfig, *, seed: int) -> Forecaster:
    """The model that ``module:callable`` stands for: what a builder builds, or the function itself.

    A function's form is found out by a few windows of noise.
    """
    source = import_object(text, what="outside model")
    if is_builder(source):
        try:
            return build_from(source, sizes, seed=seed)
        except Exception as error:  # whatever a user's builder does
            reason = str(error) if isinstance(error, FernError) else f"raised {type(error).__name__}: {error}"
            raise FernError(f"outside model {text}: {reason}") from error
    windows = np.random.default_rng(seed).standard_normal((_PROBE + 1, sizes.context_length, sizes.channels))
    try:
        form = detect_form(source, windows.astype(np.float32), sizes.horizon)
    except FernError as error:
        raise FernError(f"outside model {text}: {error}") from None
    return as_model(source, sizes, takes=form, name=text)


def require_sizes(has: ModelConfig, needs: ModelConfig) -> None:
    """Refuse a model of other lengths or channels."""
    for name in SIZES:
        if getattr(has, name) != getattr(needs, name):
            raise FernError(f"the model's {name} is {getattr(has, name)}", expected=f"{getattr(needs, name)}")


def _lengths(sizes: ModelConfig) -> dict[str, int]:
    return {name: getattr(sizes, name) for name in SIZES}


def as_model(function: ForecastFunction, sizes: ModelConfig, *, takes: Form, name: str | None = None) -> Forecaster:
    """A function as a model."""
    return FunctionForecaster(function, takes=takes, name=name, **_lengths(sizes))


def detect_form(function: ForecastFunction, contexts: Floats, horizon: int) -> Form:
    """The form in which a few windows (n, L, C) give the right shape; a function that takes both must agree in both."""
    # A probe of as many windows as the horizon has steps could have the right shape by accident.
    probe = contexts[: _PROBE + (horizon == _PROBE)]
    inputs: dict[Form, Floats] = {"batch": probe, "window": probe[0]}
    fitting: dict[Form, Any] = {}
    troubles: dict[Form, str] = {}
    for form, context in inputs.items():
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):  # the other form may well be nonsense to it
                warnings.simplefilter("ignore")
                outputs = function(context.copy(), horizon)
            shape = tuple(np.shape(outputs))
        except Exception as error:  # noqa: BLE001  told when neither form will do
            troubles[form] = f"raised {type(error).__name__}: {error}"
            continue
        expected = (*context.shape[:-2], horizon, context.shape[-1])
        if shape == expected or (expected[-1] == 1 and shape == expected[:-1]):
            fitting[form] = outputs
        else:
            troubles[form] = f"returned shape {shape}, needs {expected}"
    if len(fitting) == 2 and not _agree(fitting["batch"], fitting["window"]):
        if not _agree(fitting["batch"], function(probe.copy(), horizon)[0]):
            return "batch"  # it draws at random: no two answers agree
        raise FernError(
            "returns different forecasts for a batch (B, L, C) and for its windows (L, C) one by one; "
            "say which it takes: batch or window"
        )
    if fitting:
        return "batch" if "batch" in fitting else "window"
    if len(set(troubles.values())) == 1:
        raise FernError(troubles["batch"])
    raise FernError(
        f"for a batch {probe.shape}: {troubles['batch']}; for a window {probe[0].shape}: {troubles['window']}"
    )


def _agree(batch: Any, window: Any) -> bool:
    """Whether a batch's first answer is that of its first window; other things than floats are not compared."""
    first, alone = (
        outputs.detach().cpu().numpy() if isinstance(outputs, torch.Tensor) else np.asarray(outputs)
        for outputs in (batch[0], window)
    )
    if not all(np.issubdtype(values.dtype, np.floating) for values in (first, alone)):
        return True
    return bool(np.allclose(first.ravel(), alone.ravel(), rtol=1e-3, atol=1e-6, equal_nan=True))


def _missing(module: str, name: str, owner: object) -> str:
    local_file = Path(*module.split(".")).with_suffix(".py").absolute()
    file = getattr(sys.modules.get(module), "__file__", None)
    if local_file.is_file() and (file is None or Path(file).resolve() != local_file.resolve()):
        return f"{module} is another module than {local_file.name} in the current folder; give yours a name of its own"
    near = get_close_matches(name, [entry for entry in dir(owner) if not entry.startswith("_")], n=3)
    hint = f": did you mean {' or '.join(map(repr, near))}?" if near else ""
    return f"{module} was imported, but has no {name!r}{hint}"
