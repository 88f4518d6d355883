"""What a worker holds and what is news to it, under one lock (rule D3)."""

import threading

from collections.abc import Sequence

from jobfence.dispatch.runs import Run, State
from jobfence.statemachine.values import Handoff

# Longer waits overflow some platforms' timers; waking once an hour costs nothing.
LONGEST_WAIT_S = 3600.0


class Board:
    """
    The slots, and the one condition that the dispatcher and all waiters share.

    A run keeps its slot from the claim until its acknowledgement is stored (D5).
    """

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self._runs: dict[str, Run] = {}
        self._finished: list[Run] = []
        self._woken = False
        self._poked = False
        self._quiet = False
        self._closed = False
        self._stuck: tuple[Handoff, ...] = ()
        self._changed = threading.Condition()

    @property
    def held(self) -> list[Run]:
        """All runs that have a slot."""
        with self._changed:
            return list(self._runs.values())

    @property
    def free(self) -> int:
        """How many more jobs may be claimed."""
        with self._changed:
            return self._concurrency - len(self._runs)

    def add(self, run: Run) -> None:
        """Give a claimed job its slot."""
        with self._changed:
            self._quiet = False
            self._runs[run.handoff.handoff_id] = run

    def holds(self, handoff_id: str) -> bool:
        """Whether a handoff is known here."""
        with self._changed:
            return handoff_id in self._runs

    def finished(self, run: Run) -> None:
        """Note that a run's outcome is known."""
        with self._changed:
            self._finished.append(run)
            self._changed.notify_all()

    def release(self, run: Run) -> None:
        """Free the slot of a run: its acknowledgement is stored, or it was left."""
        with self._changed:
            self._runs.pop(run.handoff.handoff_id, None)
            self._changed.notify_all()

    def wake(self) -> None:
        """Note that there may be new work; many calls before a look are one (D3)."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def poke(self) -> None:
        """Make the dispatcher look at its own state, such as a stop."""
        with self._changed:
            self._poked = True
            self._changed.notify_all()

    def take_finished(self) -> list[Run]:
        """Return the runs whose outcome is news."""
        with self._changed:
            finished, self._finished = self._finished, []
            if finished:
                self._quiet = False  # what they free or enqueue was not looked for yet
            return finished

    def take_woken(self) -> bool:
        """Return whether somebody called `wake` since the last look."""
        with self._changed:
            woken, self._woken = self._woken, False
            if woken:
                self._quiet = False  # until the look that begins now has ended
            return woken

    def set_quiet(self) -> None:
        """Note that a look found nothing to do."""
        with self._changed:
            self._quiet = True
            self._changed.notify_all()

    def close(self) -> None:
        """Let every waiter go: nobody looks for work any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def wait(self, seconds: float) -> None:
        """Sleep until there is news the dispatcher can act on, at most this long."""
        with self._changed:
            self._changed.wait_for(self._has_news, min(seconds, LONGEST_WAIT_S))
            self._poked = False

    def idle(self) -> bool:
        """Whether nothing runs, and the last look found nothing more."""
        with self._changed:
            return self._closed or (
                self._quiet and not (self._woken or self._runs or self._finished)
            )

    def wait_idle(self, timeout_s: float | None) -> bool:
        """Sleep until nothing runs and a look that began after this call found none."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()
            return self._changed.wait_for(self.idle, _bounded(timeout_s))

    @property
    def stuck(self) -> bool:
        """Whether a stop could not store everything in its time."""
        with self._changed:
            return bool(self._stuck)

    def set_stuck(self, handoffs: Sequence[Handoff]) -> None:
        """Note which acknowledgements a stop could not store in its time."""
        with self._changed:
            self._stuck = tuple(handoffs)
            self._changed.notify_all()

    def wait_closed(self) -> tuple[Handoff, ...]:
        """Sleep until `close`, or return what is stuck."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._stuck)
            return () if self._closed else self._stuck

    def running(self) -> list[Run]:
        """Return the runs whose functions have not ended."""
        return [run for run in self.held if run.state is State.RUNNING]

    def _has_news(self) -> bool:
        # A wake-up is no news while every slot is taken: it is kept for later.
        can_claim = self._woken and len(self._runs) < self._concurrency
        return bool(self._finished) or self._poked or can_claim


def _bounded(timeout_s: float | None) -> float | None:
    return None if timeout_s is None else min(timeout_s, threading.TIMEOUT_MAX)
