"""What planning must know of a model from outside, and finding it out in a process that may die of it."""

import hashlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Self

from fern.errors import FernError
from fern.integrations.inward.outside import outside_model, source_fingerprint
from fern.models import ModelConfig
from fern.processes import Servant, serve_alone

LIMIT = 300.0
"""Seconds that a model from outside has to be imported, built or asked once."""


@dataclass(frozen=True)
class Sight:
    """``fingerprint`` of its source, whether it is ``trainable``, and the ``trouble`` that keeps it from being run."""

    fingerprint: str
    trainable: bool = False
    trouble: str | None = None


Look = Callable[[str, ModelConfig], Sight]
"""Finds out about the model that ``module:callable`` names, in these sizes. A mistake in the name is a `FernError`."""


def look_here(text: str, sizes: ModelConfig) -> Sight:
    """In this process: quick, and whatever the model does happens here."""
    model = outside_model(text, sizes, seed=0)
    return Sight(source_fingerprint(text), model.trainable)


class LookFromAfar:
    """In a process of its own: a model that exits, crashes or hangs is in trouble, and nobody else."""

    def __init__(self, *, limit: float = LIMIT) -> None:
        self._servant: Servant | None = None
        self._limit = limit

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def __call__(self, text: str, sizes: ModelConfig) -> Sight:
        """Ask the process, which is started where there is none."""
        if self._servant is None:
            self._servant = Servant(_look, name="fern plan")
        self._servant.send((text, sizes))
        fingerprint = hashlib.sha256(text.encode()).hexdigest()[:12]
        try:
            while True:
                message = self._servant.take(self._limit)
                if isinstance(message, FernError):
                    raise message
                if isinstance(message, Sight):
                    return message
                fingerprint = message
        except TimeoutError:
            trouble = f"was not ready within {self._limit:g} s of being asked"
        except EOFError as death:
            trouble = str(death)
        self._end()
        return Sight(fingerprint, trouble=f"{trouble} while the run was planned")

    def _end(self) -> None:
        if self._servant is not None:
            servant, self._servant = self._servant, None
            servant.end()


def _look(pipe: Connection) -> None:
    """The life of that process: first the fingerprint, which needs nothing executed, then the model itself."""
    serve_alone()
    with suppress(EOFError, OSError):
        while True:
            text, sizes = pipe.recv()
            fingerprint = _unexecuted_fingerprint(text)
            if fingerprint is not None:
                pipe.send(fingerprint)
            try:
                answer: Sight | FernError = look_here(text, sizes)
            except FernError as error:
                answer = FernError(str(error))
            except SystemExit as error:
                answer = Sight(fingerprint or "", trouble=f"called sys.exit({error.code!r}) while the run was planned")
            except KeyboardInterrupt:
                answer = Sight(fingerprint or "", trouble="raised KeyboardInterrupt while the run was planned")
            pipe.send(answer)


def _unexecuted_fingerprint(text: str) -> str | None:
    """`source_fingerprint` without importing the module; None where its file is not found that way."""
    try:
        spec = find_spec(text.partition(":")[0])
        if spec is None or spec.origin is None:
            return None
        return hashlib.sha256(Path(spec.origin).read_bytes()).hexdigest()[:12]
    except Exception:  # noqa: BLE001  a package around the module may do anything when it is imported
        return None
