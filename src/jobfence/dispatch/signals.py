"""SIGTERM and SIGINT for a worker that is its process's main work (rule D6)."""

import contextlib
import signal
import threading

from collections.abc import Callable, Iterator

HANDLED = (signal.SIGTERM, signal.SIGINT)


def in_main_thread() -> bool:
    """Whether signal handlers can be installed here."""
    return threading.current_thread() is threading.main_thread()


@contextlib.contextmanager
def handled_by(handler: Callable[[], None]) -> Iterator[None]:
    """
    Call a handler on each of the signals, and put the old ones back afterwards.

    It runs between two instructions of whatever the main thread does, which may hold
    a lock: it must take none itself.
    """
    before = [
        (number, signal.signal(number, lambda _number, _frame: handler()))
        for number in HANDLED
    ]
    try:
        yield
    finally:
        for number, old in before:
            signal.signal(number, old if old is not None else signal.SIG_DFL)
