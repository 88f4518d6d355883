"""SIGTERM and SIGINT for a worker that is its process's main work (rule D6)."""

import contextlib
import signal
import socket
import threading

from collections.abc import Callable, Iterator

HANDLED = (signal.SIGTERM, signal.SIGINT)
_NO_SIGNAL = b"\0"


def in_main_thread() -> bool:
    """Whether signal handlers can be installed here."""
    return threading.current_thread() is threading.main_thread()


class Doorbell:
    """
    Lets one thread sleep until a signal comes or another thread rings.

    A socket, and no lock: the system may hand a signal to any thread, and Python then
    leaves a main thread that waits for a lock asleep. It writes the signal's number to
    this socket at once, in whichever thread.
    """

    def __init__(self) -> None:
        self._rung, self._ringer = socket.socketpair()
        self._ringer.setblocking(False)  # noqa: FBT003  what `set_wakeup_fd` asks for

    def ring(self) -> None:
        """Wake the sleeper without a signal."""
        # Full or closed: it is awake already.
        with contextlib.suppress(BlockingIOError, OSError):
            self._ringer.send(_NO_SIGNAL)

    def sleep(self) -> bool:
        """Return when there is news; whether that is a signal."""
        return self._rung.recv(1) != _NO_SIGNAL

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
        """
        before_fd = signal.set_wakeup_fd(
            self._ringer.fileno(), warn_on_full_buffer=False
        )
        before = [
            (number, signal.signal(number, lambda _number, _frame: handler()))
            for number in HANDLED
        ]
        try:
            yield
        finally:
            for number, old in before:
                signal.signal(number, old if old is not None else signal.SIG_DFL)
            signal.set_wakeup_fd(before_fd)
