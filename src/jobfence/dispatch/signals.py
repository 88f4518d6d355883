"""SIGTERM and SIGINT for a worker that is its process's main work (rule D6)."""

import contextlib
import os
import signal
import socket
import threading

from collections.abc import Callable, Iterator
from typing import Any

HANDLED = (signal.SIGTERM, signal.SIGINT)
_MANY = 4096


def in_main_thread() -> bool:
    """Whether signal handlers can be installed here."""
    return threading.current_thread() is threading.main_thread()


class Doorbell:
    """
    Lets one thread sleep until a signal comes or another thread rings.

    A socket, and no lock: the system may hand a signal to any thread, and Python then
    leaves a main thread that waits for a lock asleep. It writes to this socket at once,
    in whichever thread.

    What it writes only wakes: it does so for each signal with any handler, and in a
    child that another program's fork left with our socket. Our handlers count.
    """

    def __init__(self) -> None:
        self._rung, self._ringer = socket.socketpair()
        self._ringer.setblocking(False)  # noqa: FBT003  what `set_wakeup_fd` asks for
        self._signals: list[int] = []  # appended to in one step, unlike a number

    @property
    def signals(self) -> int:
        """How many handled signals came to this process so far."""
        return len(self._signals)

    def ring(self) -> None:
        """Wake the sleeper without a signal."""
        # Full or closed: it is awake already.
        with contextlib.suppress(BlockingIOError, OSError):
            self._ringer.send(b"\0")

    def sleep(self) -> None:
        """Return when there may be news."""
        self._rung.recv(_MANY)

    def close(self) -> None:
        """Let go of the sockets."""
        self._rung.close()
        self._ringer.close()

    @contextlib.contextmanager
    def rung_by_signals(self, handler: Callable[[], None]) -> Iterator[None]:
        """
        Be rung by the handled signals; in the main thread only.

        `handler` is called as well, when the main thread runs next, between two
        instructions of whatever it does, which may hold a lock: it must take none.
        A process that is forked meanwhile is as if nobody had listened.
        """

        def handle(number: int, _frame: object) -> None:
            self._signals.append(number)
            handler()

        listening = _Listening()
        _all.append(listening)
        try:
            listening.begin(self._ringer.fileno(), handle)
            yield
        finally:
            if listening in _all:  # else this is a forked child
                listening.end()
                _all.remove(listening)


class _Listening:
    """What was there before us, to be put back."""

    def __init__(self) -> None:
        self._handlers = [(number, signal.getsignal(number)) for number in HANDLED]
        self._wakeup = -1

    def begin(self, wakeup: int, handler: Callable[[int, object], None]) -> None:
        self._wakeup = signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
        for number in HANDLED:
            signal.signal(number, handler)

    def end(self) -> None:
        for number, old in self._handlers:
            signal.signal(number, old if old is not None else signal.SIG_DFL)
        signal.set_wakeup_fd(self._wakeup)

    def end_in_child(self) -> None:
        # Whatever descriptor was there before is the parent's to be woken by.
        self._wakeup = -1
        self.end()


_all: list[_Listening] = []
_forking = threading.local()


def _hold_signals() -> None:
    """Keep signals from a child until it has let go of our handlers."""
    if _all:
        _forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)


def _release_signals() -> None:
    mask: Any = _forking.__dict__.pop("mask", None)
    if mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _let_go_in_child() -> None:
    """Undo all, the last first; in the child any thread that forked is the main one."""
    while _all:
        _all.pop().end_in_child()
    _release_signals()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(
        before=_hold_signals,
        after_in_parent=_release_signals,
        after_in_child=_let_go_in_child,
    )
