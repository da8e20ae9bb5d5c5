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
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any, Protocol, Self, TypeVar

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
        run = _run_with_alarm if can_ring else _run_in_thread
        late = _describe_timeout(UNTRAINED, training_limit)
        forecaster = run(lambda: self._target.prepare(data), training_limit, late)
        return run(lambda: forecast(forecaster, data), time_limit, _describe_timeout(SILENT, time_limit))


def _run_with_alarm(work: Callable[[], T], seconds: float, late: str) -> T:
    try:
        with _alarm(seconds):
            return work()
    except OutOfTime:
        raise FernError(late) from None


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """`OutOfTime` in this block after so many seconds. An alarm that others set comes first or is set again."""
    outer_seconds, interval = signal.getitimer(signal.ITIMER_REAL)
    if 0.0 < outer_seconds <= seconds:
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:
        raise OutOfTime

    start_time = time.monotonic()
    handler = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL if handler is None else handler)
        if outer_seconds:
            remaining = outer_seconds - (time.monotonic() - start_time)
            signal.setitimer(signal.ITIMER_REAL, max(remaining, 1e-3), interval)


def _run_in_thread(work: Callable[[], T], seconds: float, late: str) -> T:
    answer: Future[T] = Future()

    def run() -> None:
        try:
            answer.set_result(work())
        except BaseException as error:  # noqa: BLE001  handed to the asking thread
            answer.set_exception(error)

    threading.Thread(target=run, daemon=True, name="fern stress").start()
    wait([answer], seconds)
    if not answer.done():
        raise FernError(late)
    return answer.result()


def _describe_timeout(what: str, seconds: float) -> str:
    """``what`` a forecaster has not done."""
    return f"{what} within the time limit of {seconds:g} s"


class ChildProcess:
    """A TARGET in a process of its own, which is started again after a forecaster that hung or crashed.

    The process answers with its lengths and channels once it has opened the TARGET, then to each question twice: with
    None when the forecaster is trained or checked, at which the clock of the forecasts starts, and with the forecasts.
    A `FernError` in place of an answer is why there is none.
    """

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
        self._take(training_limit, _describe_timeout(UNTRAINED, training_limit))
        forecasts: Floats = self._take(time_limit, _describe_timeout(SILENT, time_limit))
        return forecasts

    def _start(self) -> Servant:
        self._servant = Servant(_serve, self.name, str(Path.cwd()), name="fern stress")
        try:
            self.config = self._take(OPENING_LIMIT, f"was not imported within {OPENING_LIMIT:g} s")
        except BaseException as error:
            self._end()
            if isinstance(error, FernError) and not str(error).startswith("TARGET"):
                raise FernError(f"TARGET {self.name}: {error}") from None
            raise
        return self._servant

    def _take(self, seconds: float, late: str) -> Any:
        """The next answer; a refusal, a death and lateness are errors, and after the last two the process is gone."""
        assert self._servant is not None
        try:
            answer = self._servant.take(seconds)
        except (TimeoutError, EOFError) as error:
            self._end()
            raise FernError(str(error) if isinstance(error, EOFError) else late) from None
        if isinstance(answer, FernError):
            raise answer
        return answer

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
        pipe.send(FernError(str(error)))
        return
    with suppress(EOFError, OSError):
        pipe.send(target.config)
        while True:
            data: ScenarioData = pipe.recv()
            try:
                forecaster = target.prepare(data)
                pipe.send(None)
                pipe.send(forecast(forecaster, data))
            except FernError as error:
                pipe.send(FernError(str(error)))
            sys.stdout.flush()
