"""
Taking turns at writing to a SQLite file, among the threads and processes of a machine.

SQLite lets one writer in, and nobody queues: a writer that finds the file locked sleeps,
up to 100 ms at a time, and whoever comes by when it is free gets it. With eight busy
processes some wait for seconds. See docs/decisions/0014.
"""

import os
import threading
import time
import weakref

from contextlib import suppress
from pathlib import Path

with suppress(ImportError):  # Windows has none: only threads take turns there
    import fcntl

SUFFIX = "-turn"
PAUSE_S = 0.001
# Who has waited so long goes before all who have not.
URGENT_AFTER_S = 0.03
# Then without a turn: its owner may be stopped, and SQLite's own lock decides.
PATIENCE_S = 5.0


class _Mark:
    """What one thread of one process has at a time; it is taken or not, never awaited."""

    def __init__(self, place: int) -> None:
        self._place = place
        self._lock = threading.Lock()

    def take(self, file: int | None) -> bool:
        """Have it, unless somebody else does."""
        if not self._lock.acquire(blocking=False):
            return False
        if file is None:
            return True
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, self._place)
        except OSError:
            self._lock.release()
            return False
        return True

    def drop(self, file: int | None) -> None:
        """Let others have it."""
        if file is not None:
            fcntl.lockf(file, fcntl.LOCK_UN, 1, self._place)
        self._lock.release()


class Turn:
    """
    The turn to write to one database file; `turn_for` gives a process its only one.

    Processes share it by locks on a file beside the database. Such a lock ends with its
    process, however that ends, and a forked child does not inherit it. Where the file
    cannot be made, threads of one process take turns all the same.
    """

    def __init__(self, database: Path) -> None:
        self._beside = database.with_name(database.name + SUFFIX)
        self._opened = False
        self._file: int | None = None
        self.start_over()

    def start_over(self) -> None:
        """Begin anew in a forked child: marks that other threads had are nobody's now."""
        self.turn, self.urgent = _Mark(0), _Mark(1)
        self._opening = threading.Lock()

    @property
    def file(self) -> int | None:
        """The file's descriptor, opened when first asked for; None without one."""
        with self._opening:
            if not self._opened:
                self._opened = True
                self._file = _opened(self._beside)
                if self._file is not None:
                    weakref.finalize(self, os.close, self._file)
            return self._file

    def ask(self) -> "Asking":
        """Begin to wait for the turn."""
        return Asking(self)


def _opened(path: Path) -> int | None:
    if os.name == "nt":
        return None
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError:
        return None


class Asking:
    """
    One caller's wait: pause until `over`, then write, then `end` in any case.

    It is asked again and again rather than woken up, so that it waits alike on a thread
    and on an event loop, and no longer than it has patience. Whoever comes when the turn
    is free takes it at once, for to hand it over in order would cost a switch of
    processes each time; only behind somebody urgent all others stand back.
    """

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._file = turn.file
        self._since = time.monotonic()
        self._has_turn = False
        self._is_urgent = False

    def over(self) -> bool:
        """Try; whether there is nothing more to wait for."""
        waited = time.monotonic() - self._since
        urgent = self._turn.urgent
        if waited > URGENT_AFTER_S and not self._is_urgent:
            self._is_urgent = urgent.take(self._file)
        if self._is_urgent:
            self._has_turn = self._turn.turn.take(self._file)
        elif urgent.take(self._file):
            # Nobody is urgent.
            urgent.drop(self._file)
            self._has_turn = self._turn.turn.take(self._file)
        if self._has_turn and self._is_urgent:
            urgent.drop(self._file)
            self._is_urgent = False
        return self._has_turn or waited > PATIENCE_S

    def end(self) -> None:
        """Let others write."""
        if self._is_urgent:
            self._turn.urgent.drop(self._file)
        if self._has_turn:
            self._turn.turn.drop(self._file)


_turns: "weakref.WeakValueDictionary[Path, Turn]" = weakref.WeakValueDictionary()
_looking = threading.Lock()


def turn_for(database: str) -> Turn:
    """
    Return this process's turn for a database file.

    One for all stores on it: to close a second descriptor would drop the first one's
    locks.
    """
    path = Path(os.path.realpath(database))
    with _looking:
        return _turns.setdefault(path, Turn(path))


def _start_over_in_child() -> None:
    global _looking  # noqa: PLW0603
    _looking = threading.Lock()
    for turn in list(_turns.values()):
        turn.start_over()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_over_in_child)
