"""When a failed job runs again (rules B1 and B2)."""

import logging
import math
import random
import sys

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from jobfence.statemachine.checks import LAST_MS, integer
from jobfence.statemachine.errors import InvalidOption, shown

_log = logging.getLogger(__name__)

_SECOND = 1000
_HOUR = 3600 * _SECOND
# More failures than any column counts; an integer without bound overflows a float.
_MANY = 2**53
_FIRST_STEPS = (10 * _SECOND, 60 * _SECOND, 600 * _SECOND, _HOUR)


class RetryPolicy(Protocol):
    """Says how long to wait after the n-th failure of a job."""

    def delay_ms(self, failures: int) -> int:
        """Return the wait in milliseconds after this many failures (1 or more)."""
        ...


@dataclass(frozen=True, slots=True)
class SteppedRetry:
    """
    Rule B1, the default: 10 s, 60 s, 600 s, 3600 s, then (n - 3) hours.

    `max_ms` caps the wait; the default lets the hours grow until year 9999 ends them.
    """

    max_ms: int = LAST_MS

    def __post_init__(self) -> None:
        integer("max_ms", self.max_ms, least=0, most=LAST_MS)

    def delay_ms(self, failures: int) -> int:
        """Return the wait after this many failures."""
        if failures <= len(_FIRST_STEPS):
            return min(_FIRST_STEPS[max(failures, 1) - 1], self.max_ms)
        return min((failures - 3) * _HOUR, self.max_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExponentialRetry:
    """
    `base_ms * factor ** (failures - 1)`, at most `max_ms`, then spread by `jitter`.

    With jitter j a wait w becomes a random number between w * (1 - j) and w, so the cap
    holds for it too. `random` returns numbers in [0, 1).
    """

    base_ms: int
    factor: float = 2.0
    max_ms: int
    jitter: float = 0.0
    random: Callable[[], float] = field(
        default=random.random, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        integer("base_ms", self.base_ms, least=0, most=LAST_MS)
        integer("max_ms", self.max_ms, least=0, most=LAST_MS)
        if not _is_number(self.factor) or not 1 <= self.factor <= sys.float_info.max:
            raise InvalidOption("factor", self.factor, "must be a number from 1 up")
        if not _is_number(self.jitter) or not 0 <= self.jitter <= 1:
            raise InvalidOption("jitter", self.jitter, "must be a number from 0 to 1")

    def delay_ms(self, failures: int) -> int:
        """Return the wait after this many failures; never overflows (case F43)."""
        wait = float(self._wait(max(failures, 1)))
        if self.jitter:
            wait *= 1 - self.jitter * self.random()
        return min(max(int(wait), 0), self.max_ms)

    def _wait(self, failures: int) -> int:
        if self.base_ms == 0:
            return 0
        # Compared as logarithms first: the power itself overflows a float.
        steps = min(failures, _MANY) - 1
        if math.log(self.base_ms) + steps * math.log(self.factor) >= math.log(
            max(self.max_ms, 1)
        ):
            return self.max_ms
        return min(int(self.base_ms * self.factor**steps), self.max_ms)


DEFAULT_RETRY: RetryPolicy = SteppedRetry()


def retry_delay_ms(policy: RetryPolicy, failures: int) -> int:
    """
    Ask a policy for a wait and keep it within what a time can hold.

    A user's policy may answer anything or raise; recording a failure must not fail for
    it, nor the job wait for ever. What is no number is logged, and rule B1 taken.
    """
    try:
        wait = int(policy.delay_ms(failures))
    except Exception:  # noqa: BLE001  any class may fail in its own way
        _log.exception("retry policy %s gave no delay; rule B1 is used", shown(policy))
        wait = DEFAULT_RETRY.delay_ms(failures)
    return min(max(wait, 0), LAST_MS)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
