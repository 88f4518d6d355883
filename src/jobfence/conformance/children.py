"""
One call of a store in a process of its own, which is ended or held at any line of it.

The process is forked, so that whatever an author's `open_store` closes over is there.
It opens a store of its own, and only the lines of that store's own files are counted:
those are where its data is between one state and the next.
"""

import gc
import inspect
import os
import pickle
import select
import signal
import sys
import sysconfig
import time
import warnings

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from jobfence.conformance.threads import patient
from jobfence.store.contract import JobStore

PATIENCE_S = 60.0
_OCCURRENCES = 2  # of a line in a loop: before the first round, and between two
_HELD, _ANSWER = b"h", b"a"
_SITE = {sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")}

Point = tuple[str, int, int]  # a file, a line of it, and how often it was come to


@dataclass(frozen=True, slots=True)
class Work:
    """A store to open, and the call to make of it."""

    open_store: Callable[[], JobStore]
    call: Callable[[JobStore], object]


def forks() -> bool:
    """Whether this system can fork a process."""
    return hasattr(os, "fork")


def learn(work: Work) -> list[Point]:
    """Do the work to its end; return the places where it can be ended or held."""
    child = _Child(work)
    try:
        points: list[Point] = child.answer(PATIENCE_S)
    finally:
        child.kill()
    return points


def die(work: Work, at: Point) -> None:
    """Do the work, and end it as `kill -9` does at this line."""
    child = _Child(work, at, dying=True)
    try:
        child.wait_end(PATIENCE_S)
    finally:
        child.kill()


def overtake(work: Work, at: Point, other: Work, patience_s: float) -> None:
    """
    Hold the work at this line, do the other meanwhile, and then the rest.

    The other may not end before what is held goes on: it waits for a lock, as it
    should. It is given this long.
    """
    first = _Child(work, at)
    try:
        first.wait_held(PATIENCE_S)
        second = _Child(other)
        try:
            second.ready(patience_s)
            first.go_on()
            first.answer(PATIENCE_S)
            second.answer(PATIENCE_S)
        finally:
            second.kill()
    finally:
        first.kill()


class _Child:
    """A forked process, and what it says."""

    def __init__(
        self, work: Work, at: Point | None = None, *, dying: bool = False
    ) -> None:
        self._told, told = os.pipe()
        go, self._go = os.pipe()
        self._pid = _fork()
        if self._pid == 0:
            os.close(self._told)
            os.close(self._go)
            _live(work, at, told=told, go=None if dying else go)
        os.close(told)
        os.close(go)

    def ready(self, timeout_s: float) -> bool:
        """Whether it says something, or has ended, in this time."""
        return bool(select.select([self._told], [], [], timeout_s)[0])

    def wait_held(self, timeout_s: float) -> None:
        """Wait until it is at the line where it is held, or does not come there."""
        if not self.ready(timeout_s):
            raise AssertionError(_stuck(timeout_s))

    def go_on(self) -> None:
        """Let it go on; nothing happens where it was not held, or has ended."""
        with suppress(BrokenPipeError):
            os.write(self._go, b"g")

    def answer(self, timeout_s: float) -> Any:
        """Wait for its end; return the points it came to, or raise what it met."""
        told = b""
        end = time.monotonic() + timeout_s
        while self.ready(max(0.0, end - time.monotonic())):
            more = os.read(self._told, 65536)
            if not more:
                return _read(told.removeprefix(_HELD))
            told += more
        raise AssertionError(_stuck(timeout_s))

    def wait_end(self, timeout_s: float) -> None:
        """Wait until it has ended, whatever it says before."""
        end = time.monotonic() + timeout_s
        while self.ready(max(0.0, end - time.monotonic())):
            if not os.read(self._told, 65536):
                return
        raise AssertionError(_stuck(timeout_s))

    def kill(self) -> None:
        """End it if it runs, and forget it."""
        os.kill(self._pid, signal.SIGKILL)  # until it is waited for, there is one
        os.waitpid(self._pid, 0)
        os.close(self._told)
        os.close(self._go)


def _fork() -> int:
    """Fork; the child never collects garbage: what ends then is the parent's to end."""
    collects = gc.isenabled()
    gc.disable()
    try:
        with warnings.catch_warnings():
            # Of threads that a fork leaves behind; this one needs none of them.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
    except BaseException:
        if collects:
            gc.enable()
        raise
    if pid and collects:
        gc.enable()
    return pid


def _stuck(timeout_s: float) -> str:
    return f"a call in another process: no answer after {timeout_s:.0f} s"


def _read(told: bytes) -> Any:
    if not told.startswith(_ANSWER):
        raise AssertionError("a call in another process: the process ended in it")
    points, problem = pickle.loads(told[1:])  # noqa: S301  our own child wrote it
    if problem is not None:
        raise AssertionError(f"a call in another process raised {problem}")
    return points


def _live(work: Work, at: Point | None, *, told: int, go: int | None) -> NoReturn:
    """Be the child: nothing of the parent's may run here, at the end least of all."""
    try:
        points: list[Point] = []
        problem = None
        try:
            points = _do(work, at, told, go)
        except BaseException as error:  # noqa: BLE001  whatever it is, it is told
            problem = f"{type(error).__name__}: {error}"
        _write(told, _ANSWER + pickle.dumps((points, problem)))
    finally:
        os._exit(0)


def _do(work: Work, at: Point | None, told: int, go: int | None) -> list[Point]:
    store = work.open_store()
    store.counts()  # what a first call does to begin with is not of interest

    def stop() -> None:
        if go is None:
            os.kill(os.getpid(), signal.SIGKILL)
        else:
            _write(told, _HELD)
            os.read(go, 1)

    lines = _Lines(_own_files(store), at, stop)
    sys.settrace(lines.enter)
    try:
        work.call(patient(store))
    finally:
        sys.settrace(None)
    return lines.points


def _write(pipe: int, data: bytes) -> None:
    while data:
        data = data[os.write(pipe, data) :]


class _Lines:
    """Counts the lines of a call as it comes to them, and stops at one."""

    def __init__(
        self, own: Callable[[str], bool], at: Point | None, stop: Callable[[], None]
    ) -> None:
        self.points: list[Point] = []
        self._own, self._at, self._stop = own, at, stop
        self._seen: Counter[tuple[str, int]] = Counter()

    def enter(self, frame: FrameType, _event: str, _arg: object) -> Any:
        """Look at the lines of a function if it is of interest."""
        return self._step if self._own(frame.f_code.co_filename) else None

    def _step(self, frame: FrameType, event: str, _arg: object) -> Any:
        if event == "line":
            line = frame.f_code.co_filename, frame.f_lineno
            self._seen[line] += 1
            point = (*line, self._seen[line])
            if point == self._at:
                self._stop()
            elif self._seen[line] <= _OCCURRENCES:
                self.points.append(point)
        return self._step


def _own_files(store: JobStore) -> Callable[[str], bool]:
    """Return what tells the files of a store's author from all others."""
    classes = [
        each
        for each in type(store).__mro__
        if each.__module__.split(".")[0] not in sys.stdlib_module_names
        and not getattr(each, "_is_protocol", False)
    ]
    theirs = [each for each in classes if not each.__module__.startswith("jobfence.")]
    files: set[str] = set()
    for each in theirs or classes[:1]:
        with suppress(TypeError, OSError):
            files.add(inspect.getfile(each))
    folders = {str(Path(file).parent) for file in files} - _SITE
    roots = tuple(f"{folder}{os.sep}" for folder in folders)
    return lambda name: name in files or name.startswith(roots)
