"""Asking a forecaster under a time limit.

A TARGET that names somebody's code, ``module:callable``, lives in a process of its own, which is killed with all it
started when the time is up or the stress test ends. That is the safe way: whatever the forecaster does, the test goes
on.

A Python object stays in this process, because lambdas, fixtures and models on a device cannot be sent to another one,
and so does a registered or saved model of Fern, which needs no such guard: a process takes seconds to start.
On the main thread of a system with ``SIGALRM`` it is interrupted between two Python instructions: a single call into
compiled code is waited for, and a bare ``except:`` in the forecaster can swallow the interruption. On other threads
and systems it is left behind in a daemon thread, which goes on computing until the process ends.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Protocol, Self, TypeVar

import numpy as np

from fern.benchmark.adapters.callables import ForecastFunction
from fern.benchmark.adapters.outside import Floats
from fern.benchmark.stress.targets import ScenarioData, Target, as_target, forecast, is_code, open_target
from fern.errors import FernError
from fern.models import Forecaster, ModelConfig
from fern.processes import Servant, serve_alone

T = TypeVar("T")

OPENING_LIMIT = 300.0
"""Seconds that starting a process and importing a TARGET may take."""

SILENT, UNTRAINED = "returned no forecast", "was not trained"
"""What a forecaster that is too slow has not done."""


class GuardedForecaster(Protocol):
    """A forecaster that can be asked; whatever is wrong with it or its answer is a `FernError`."""

    name: str
    config: ModelConfig | None
    """The lengths and channels it has; None where it takes any."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *exception: object) -> None: ...
    def forecast_windows(self, data: ScenarioData, *, time_limit: float, training_limit: float) -> Floats:
        """The forecasts (n, H, C); the limits are in seconds, of the forecasts alone and of training before them."""


def guard_forecaster(forecaster: object) -> GuardedForecaster:
    """What to enter and ask: a process for a text that names other people's code, this one otherwise."""
    if not isinstance(forecaster, str):
        return SameProcess(as_target(forecaster))
    return ChildProcess(forecaster) if is_code(forecaster) else SameProcess(open_target(forecaster))


class OutOfTime(BaseException):
    """Ends a forecaster in this process; not an `Exception`, which a forecaster may catch."""


class _TrainOnce:
    """A target that is trained once for the same rows and lengths, however often it is asked."""

    def __init__(self, target: Target) -> None:
        self._target, self.config = target, target.config
        self._last: tuple[ScenarioData, Forecaster | ForecastFunction] | None = None

    def prepare(self, data: ScenarioData) -> Forecaster | ForecastFunction:
        """Ready to forecast."""
        if self._last is not None:
            former, ready = self._last
            if former.config == data.config and np.array_equal(former.rows, data.rows):
                return ready
        ready = self._target.prepare(data)
        self._last = data, ready
        return ready


class SameProcess:
    """A Python object, asked in this process."""

    def __init__(self, target: Target) -> None:
        self._target = _TrainOnce(target)
        self.name, self.config = target.name, target.config

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def forecast_windows(self, data: ScenarioData, *, time_limit: float, training_limit: float) -> Floats:
        """The forecasts; see the limits of this way above."""
        can_ring = hasattr(signal, "SIGALRM") and threading.current_thread() is threading.main_thread()
        limited = _run_with_alarm if can_ring else _run_in_thread
        forecaster = limited(lambda: self._target.prepare(data), training_limit, UNTRAINED)
        return limited(lambda: forecast(forecaster, data), time_limit, SILENT)


def _run_with_alarm(work: Callable[[], T], seconds: float, what: str) -> T:
    try:
        with _alarm(seconds):
            return work()
    except OutOfTime:
        raise FernError(_too_slow(seconds, what)) from None


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """`OutOfTime` in this block after so many seconds. An alarm that others set comes first or is set again."""
    others, interval = signal.getitimer(signal.ITIMER_REAL)
    if 0.0 < others <= seconds:
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:
        raise OutOfTime

    began = time.monotonic()
    handler = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL if handler is None else handler)
        if others:
            left = others - (time.monotonic() - began)
            signal.setitimer(signal.ITIMER_REAL, max(left, 1e-3), interval)


def _run_in_thread(work: Callable[[], T], seconds: float, what: str) -> T:
    done: list[T] = []
    trouble: list[BaseException] = []

    def run() -> None:
        try:
            done.append(work())
        except BaseException as error:  # noqa: BLE001  handed to the asking thread
            trouble.append(error)

    thread = threading.Thread(target=run, daemon=True, name="fern stress")
    thread.start()
    thread.join(seconds)
    if trouble:
        raise trouble[0]
    if not done:
        raise FernError(_too_slow(seconds, what))
    return done[0]


def _too_slow(seconds: float, what: str) -> str:
    return f"{what} within the time limit of {seconds:g} s"


@dataclass(frozen=True)
class _Opened:
    config: ModelConfig | None


@dataclass(frozen=True)
class _Refused:
    reason: str


class _Prepared:
    """Sent once the forecaster is trained or checked: the clock starts."""


class ChildProcess:
    """A TARGET in a process of its own, which is started again after a forecaster that hung or crashed."""

    def __init__(self, text: str) -> None:
        self.name = text
        self.config: ModelConfig | None = None
        self._servant: Servant | None = None

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._end()

    def forecast_windows(self, data: ScenarioData, *, time_limit: float, training_limit: float) -> Floats:
        """The forecasts; a process that does not give them in time is killed."""
        (self._servant or self._start()).send(data)
        self._take(_Prepared, training_limit, _too_slow(training_limit, UNTRAINED))
        forecast_windows: Floats = self._take(tuple, time_limit, _too_slow(time_limit, SILENT))[0]
        return forecast_windows

    def _start(self) -> Servant:
        self._servant = Servant(_serve, self.name, str(Path.cwd()), name="fern stress")
        try:
            self.config = self._take(_Opened, OPENING_LIMIT, f"was not imported within {OPENING_LIMIT:g} s").config
        except BaseException as error:
            self._end()
            if isinstance(error, FernError) and not str(error).startswith("TARGET"):
                raise FernError(f"TARGET {self.name}: {error}") from None
            raise
        return self._servant

    def _take(self, kind: type[T], seconds: float, late: str) -> T:
        """The next message; a refusal, a death and lateness are errors, and after the last two the process is gone."""
        assert self._servant is not None
        try:
            message = self._servant.take(seconds)
        except TimeoutError:
            self._end()
            raise FernError(late) from None
        except EOFError as death:
            self._end()
            raise FernError(str(death)) from None
        if isinstance(message, _Refused):
            raise FernError(message.reason)
        assert isinstance(message, kind)
        return message

    def _end(self) -> None:
        """Kill the process and what it started."""
        if self._servant is not None:
            servant, self._servant = self._servant, None
            servant.end()


def _serve(pipe: Connection, text: str, folder: str) -> None:
    """The life of a TARGET's process: open it, then answer until the pipe closes."""
    serve_alone()
    os.chdir(folder)
    try:
        target = _TrainOnce(open_target(text, folder=folder))
    except FernError as error:
        pipe.send(_Refused(str(error)))
        return
    with suppress(EOFError, OSError):
        pipe.send(_Opened(target.config))
        while True:
            data: ScenarioData = pipe.recv()
            try:
                forecaster = target.prepare(data)
                pipe.send(_Prepared())
                pipe.send((forecast(forecaster, data),))
            except FernError as error:
                pipe.send(_Refused(str(error)))
            sys.stdout.flush()
