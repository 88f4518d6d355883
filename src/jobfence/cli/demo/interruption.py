"""Ctrl-C, SIGTERM and SIGHUP: they end the demo, but never between two halves."""

import signal
import threading

from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _State:
    """How many blocks are not to be interrupted, what came meanwhile, and what came."""

    blocks = 0
    waiting: BaseException | None = None
    came: BaseException | None = None


def _handle(number: int, _frame: FrameType | None) -> None:
    end = KeyboardInterrupt() if number == signal.SIGINT else SystemExit(128 + number)
    _State.came = end
    if not _State.blocks:
        raise end
    _State.waiting = end


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """
    Raise what ends a block as Ctrl-C does, so that its workers end with it.

    At the latest where the block ends by itself: what a signal raises is lost if it comes
    while Python finalizes an object, and a caller asked for an end.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _State.came = None
    before = [(number, signal.signal(number, _handle)) for number in _ENDING]
    try:
        yield
        if _State.came is not None:
            raise _State.came
    finally:
        for number, handler in before:
            signal.signal(number, handler)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Let a block end first: a process half started would never be reaped."""
    _State.blocks += 1
    try:
        yield
    finally:
        _State.blocks -= 1
        if not _State.blocks:
            waiting, _State.waiting = _State.waiting, None
            if waiting is not None:
                raise waiting
