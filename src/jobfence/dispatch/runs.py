"""One run of one handed-off job, from the claim to its outcome (rules D4 and D6)."""

import enum
import threading

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from jobfence.dispatch.context import JobContext, Reschedule, delay_of
from jobfence.dispatch.errors import HandoffLost, JobProcessFailed
from jobfence.statemachine.values import Handoff, Settlement


class StopReason(enum.Enum):
    """Why a worker ends a run before its function returns."""

    CANCEL_REQUESTED = enum.auto()
    LOST = enum.auto()
    SHUTDOWN = enum.auto()


class State(enum.Enum):
    """Where a run stands."""

    WAITING = enum.auto()  # claimed; its function was not called yet
    RUNNING = enum.auto()
    FINISHED = enum.auto()  # the outcome is known
    LEFT = enum.auto()  # the worker no longer waits for it


@dataclass(frozen=True, slots=True)
class Outcome:
    """
    What is to be acknowledged.

    No settlement: nothing is left to say, because the job's own transaction completed
    it, or found that the handoff was lost.
    """

    settlement: Settlement | None


class Run:
    """
    A claimed job on its way through the worker; it occupies a slot.

    `stopper` ends the function if that is possible (a task, a process); `done` is told
    once when the outcome is known, or when a run that was left behind ends after all.
    """

    def __init__(
        self,
        handoff: Handoff,
        context: JobContext,
        *,
        done: Callable[["Run"], None],
        timeout_ms: int | None = None,
    ) -> None:
        self.handoff = handoff
        self.context = context
        self.timeout_ms = timeout_ms
        self.stopper: Callable[[], None] | None = None
        self.outcome: Outcome | None = None
        self.stop_reason: StopReason | None = None
        self.state = State.WAITING
        self._done = done
        self._lock = threading.Lock()

    def begin(self) -> bool:
        """Say that the function is about to be called; False if it must not be."""
        with self._lock:
            if self.state is not State.WAITING:
                return False
            self.state = State.RUNNING
            return True

    def finish(self, error: BaseException | None) -> None:
        """
        Take the function's end: what it raised, or None when it returned.

        What a function raises after it was told to end is how it ended, and no failure
        of the job: that goes back, and ends there if it was asked to cancel (M15).
        """
        if self.stop_reason is None or self._is_answer(error):
            self._end(self._conclude(error))
        else:
            self.give_back()

    def give_back(self) -> None:
        """Return the job to its queue, whatever its function still does."""
        self._end(self._unless_completed(Settlement.return_to_queue(self.handoff)))

    def stop(self, reason: StopReason) -> None:
        """
        End the run if that is possible; a thread only gets the cancel mark.

        A run whose function was not called yet ends at once, and goes back.
        """
        if reason is StopReason.LOST:
            self.context.mark_lost()
        else:
            self.context.mark_cancelled()
        if self.withdraw():
            return
        with self._lock:
            if self.state is not State.RUNNING or self.stop_reason is not None:
                return
            self.stop_reason = reason
        if self.stopper is not None:
            self.stopper()

    def withdraw(self) -> bool:
        """Give the job back if its function was not called yet."""
        with self._lock:
            if self.state is not State.WAITING:
                return False
            self.state = State.RUNNING  # so that no thread calls the function now
        self.give_back()
        return True

    def leave(self) -> bool:
        """Stop waiting for the function; False if it has just ended."""
        with self._lock:
            if self.state is not State.RUNNING:
                return False
            self.state = State.LEFT
            return True

    def _end(self, outcome: Outcome) -> None:
        """Keep the first outcome: a function may end after its job was given back."""
        with self._lock:
            if self.outcome is not None:
                return
            self.outcome = outcome
            if self.state is State.RUNNING:
                self.state = State.FINISHED
        self._done(self)

    def _is_answer(self, error: BaseException | None) -> bool:
        return error is None or _is(error, Reschedule) or self._is_loss(error)

    def _is_loss(self, error: BaseException | None) -> bool:
        """Whether there is nothing to say: not on the word of the job alone."""
        return self.context.lost and _is(error, HandoffLost)

    def _conclude(self, error: BaseException | None) -> Outcome:
        """Rule D4: returned is complete, `Reschedule` comes back, all else failed."""
        if self._is_loss(error):
            return Outcome(None)
        return self._unless_completed(_settlement(self.handoff, error))

    def _unless_completed(self, settlement: Settlement) -> Outcome:
        return Outcome(None if self.context.completion else settlement)


def _is(error: object, kind: type[BaseException]) -> bool:
    """Do as `isinstance`, which runs the code of an error that lies of its class."""
    return issubclass(type(error), kind)


def _settlement(handoff: Handoff, error: BaseException | None) -> Settlement:
    """Return what to acknowledge; never raises, for then the run would never end."""
    if error is None:
        return Settlement.complete(handoff)
    try:
        if _is(error, Reschedule):
            return Settlement.reschedule(handoff, delay_of(cast("Reschedule", error)))
        if _is(error, JobProcessFailed):
            return Settlement.fail(handoff, cast("JobProcessFailed", error).text)
    except BaseException as problem:  # noqa: BLE001  a subclass is the job's own code
        error = problem
    try:
        return Settlement.fail(handoff, error)
    except BaseException as problem:  # noqa: BLE001  its text is its own code as well
        # `object.__repr__` runs none of it.
        said, why = object.__repr__(error), object.__repr__(problem)
        return Settlement.fail(handoff, f"{said} without a text: {why}")
