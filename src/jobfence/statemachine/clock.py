"""Clocks: where a store reads its one `now` per operation."""

import threading
import time

from dataclasses import dataclass
from typing import Protocol


class Clock(Protocol):
    """Anything that tells the time in integer epoch milliseconds, UTC."""

    def now_ms(self) -> int:
        """Return the time now, in milliseconds since 1970-01-01 UTC."""
        ...


class SystemClock:
    """The process's own clock: right on one machine, and the default on SQLite."""

    def now_ms(self) -> int:
        """Return the process's time, rounded down to a millisecond."""
        return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class DatabaseClock:
    """
    Says that the database server's clock judges due and lease times (rule L3).

    The default on servers: a worker host whose clock is wrong then neither starts a
    job early nor takes over a live one.
    """


class ManualClock:
    """A clock that moves only when told, for tests."""

    def __init__(self, start_ms: int = 0) -> None:
        self._now = start_ms
        self._lock = threading.Lock()

    def now_ms(self) -> int:
        """Return the time last set."""
        return self._now

    def advance(self, ms: int) -> None:
        """Move the clock; a negative number moves it back."""
        with self._lock:
            self._now += ms

    def set(self, ms: int) -> None:
        """Put the clock at this time."""
        with self._lock:
            self._now = ms
