"""When to look for work again (rule D3)."""

from jobfence.statemachine.clock import Clock
from jobfence.statemachine.values import Job

# A timer that fired while the store still says "not due" (two clocks differ a little)
# is set again after 1, 2, 4 ... ms: soon enough for the job, and never a busy loop.
RETRY_DOUBLINGS = 6


class Timer:
    """Says how long to sleep, given the job that falls due next."""

    def __init__(self, clock: Clock, poll_ms: int) -> None:
        self._clock = clock
        self._poll_ms = poll_ms
        self._exact = False
        self._early = 0
        self.armed_for: Job | None = None

    def arm(self, upcoming: Job | None, *, woken: bool) -> int:
        """
        Return the milliseconds until the next look, at most `poll_ms`.

        `upcoming` is the earliest job not due yet; `woken` says that the last look was
        asked for, and not the timer's own.
        """
        fired_early = (
            self._exact
            and not woken
            and upcoming is not None
            and self.armed_for is not None
            and self.armed_for.id == upcoming.id
        )
        self._early = self._early + 1 if fired_early else 0
        self.armed_for = upcoming
        if upcoming is None:
            self._exact = False
            return self._poll_ms
        delay = upcoming.scheduled_at_ms - self._clock.now_ms()
        self._exact = delay <= self._poll_ms
        again = 1 << min(self._early, RETRY_DOUBLINGS)
        return min(max(delay, again), self._poll_ms)
