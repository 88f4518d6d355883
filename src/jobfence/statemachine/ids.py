"""Job and handoff ids: UUID version 7, in order of creation within a process (E7)."""

import os
import secrets
import threading
import uuid
import weakref

from collections.abc import Callable

from jobfence.statemachine.clock import Clock, SystemClock

IdFactory = Callable[[], str]

_RANDOM_BITS = 74
_LOW_BITS = 62
# The first id of a millisecond starts in the lower half of the random space, so that
# counting up from it cannot run over into the timestamp.
_START_BITS = _RANDOM_BITS - 1
_STEP_BITS = 32

_MAKERS: "weakref.WeakSet[TimeOrderedIds]" = weakref.WeakSet()


def _start_over_after_fork() -> None:
    for maker in list(_MAKERS):
        maker._start_over()  # noqa: SLF001


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_start_over_after_fork)


class TimeOrderedIds:
    """
    Makes UUIDv7 strings, each greater than the last one made here.

    When the clock stands still or goes back, the last timestamp is kept and the random
    part grows by a random step, so ids stay hard to guess and first-in first-out.
    A forked child starts over: its ids would else run close beside its parent's.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._start_over()
        _MAKERS.add(self)

    def _start_over(self) -> None:
        # Another thread of the parent may hold the old lock, and never let go here.
        self._lock = threading.Lock()
        self._ms = -1
        self._tail = 0

    def __call__(self) -> str:
        """Return a fresh id of 36 characters."""
        with self._lock:
            now = max(self._clock.now_ms(), 0)
            if now > self._ms:
                self._ms, self._tail = now, secrets.randbits(_START_BITS)
            else:
                self._tail += 1 + secrets.randbits(_STEP_BITS)
            return _spell(self._ms, self._tail)


# One for the whole process: E7 holds between its stores too.
time_ordered_id: IdFactory = TimeOrderedIds()


def random_id() -> str:
    """Return a fresh random id, as used for handoffs that the caller did not name."""
    return str(uuid.uuid4())


def _spell(ms: int, tail: int) -> str:
    high = tail >> _LOW_BITS
    low = tail & ((1 << _LOW_BITS) - 1)
    number = (ms & ((1 << 48) - 1)) << 80 | 0x7 << 76 | high << 64 | 0b10 << 62 | low
    digits = f"{number:032x}"  # a third of the time that a UUID object takes
    return "-".join(
        (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
    )
