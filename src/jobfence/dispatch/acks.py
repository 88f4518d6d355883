"""From outcomes to stored acknowledgements and their events (rules D5, D7, M18)."""

import math
import time

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jobfence.dispatch import events
from jobfence.dispatch.board import Board
from jobfence.dispatch.events import EventHub
from jobfence.dispatch.runs import Run
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.table import Trigger
from jobfence.statemachine.values import Ack, Handoff, Settlement
from jobfence.store.contract import JobStore

FIRST_RETRY_S = 0.1
LONGEST_RETRY_S = 5.0
# So many calls in a row that fail mean that the database, and not one job, is at fault.
FAILURES_IN_A_ROW = 2

Pair = tuple[Run, Settlement]


def backoff_s(failures: int) -> float:
    """Return the wait after so many failed calls, in seconds."""
    return min(FIRST_RETRY_S * (1 << min(failures - 1, 16)), LONGEST_RETRY_S)


@dataclass(frozen=True, slots=True)
class Kept:
    """An acknowledgement that could not be stored, and when to try again."""

    settlement: Settlement
    failures: int
    failed_at: float
    due_at: float


class Acknowledger:
    """
    Stores acknowledgements, keeps those that cannot be, and says how each one ended.

    One that was refused is from then on tried by itself: whatever is wrong with it must
    not hold up the others (D5). Its run keeps its slot and its lease meanwhile.
    """

    def __init__(
        self,
        store: JobStore,
        board: Board,
        hub: EventHub,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._board, self._hub = store, board, hub
        self._monotonic = monotonic
        self._kept: dict[Run, Kept] = {}

    def sift(self, runs: Sequence[Run]) -> list[Pair]:
        """Return what is to be stored; runs with nothing left to say end here."""
        pairs: list[Pair] = []
        for run in runs:
            assert run.outcome is not None
            if run.outcome.settlement is None:
                self._end_by_transaction(run)
            else:
                pairs.append((run, run.outcome.settlement))
        return pairs

    def stored(self, pairs: Sequence[Pair], acks: Sequence[Ack]) -> None:
        """Take the store's answers: tell them, and free the slots."""
        answered = list(zip(pairs, acks, strict=True))
        try:
            for (run, settlement), ack in answered:
                announce(self._hub, run.handoff, settlement, ack)
        finally:  # a slot that is never freed keeps a stop waiting for ever
            for run, _ in pairs:
                self._kept.pop(run, None)
                self._board.release(run)

    def store_singly(self, pairs: Sequence[Pair]) -> bool:
        """Store each by itself and keep what cannot be; whether all could."""
        failed_in_a_row, all_stored = 0, True
        for run, settlement in pairs:
            if failed_in_a_row < FAILURES_IN_A_ROW:
                try:
                    acks, _ = self._store.settle([settlement])
                except Exception as error:  # noqa: BLE001  kept, told and tried again
                    self._hub.error("acknowledge", error)
                    failed_in_a_row += 1
                else:
                    failed_in_a_row = 0
                    self.stored([(run, settlement)], acks)
                    continue
            self._keep(run, settlement)
            all_stored = False
        return all_stored

    def retry_due(self, last_call: float = math.inf) -> bool:
        """
        Try what was kept and whose time has come, and say whether any was stored.

        At `last_call` the time of all has come.
        """
        now = self._monotonic()
        due = [
            (run, kept.settlement)
            for run, kept in self._kept.items()
            if kept.due_at <= now or kept.failed_at < last_call <= now
        ]
        self.store_singly(due)
        return any(run not in self._kept for run, _ in due)

    def due_at(self) -> float | None:
        """When the next kept one is to be tried, by the monotonic clock."""
        return min((kept.due_at for kept in self._kept.values()), default=None)

    def failed_since(self, moment: float) -> list[Handoff]:
        """Return the kept ones that were tried in vain at or after a moment."""
        return [
            run.handoff for run, kept in self._kept.items() if kept.failed_at >= moment
        ]

    def late(self, run: Run) -> None:
        """Acknowledge a run that was left behind and has ended after all (D6)."""
        for pair in self.sift([run]):
            try:
                acks, _ = self._store.settle([pair[1]])
            except Exception as error:  # noqa: BLE001  its lease runs out instead
                self._hub.error("late_acknowledgement", error)
            else:
                self.stored([pair], acks)

    def _keep(self, run: Run, settlement: Settlement) -> None:
        before = self._kept.get(run)
        failures = 1 if before is None else before.failures + 1
        now = self._monotonic()
        self._kept[run] = Kept(settlement, failures, now, now + backoff_s(failures))

    def _end_by_transaction(self, run: Run) -> None:
        completion = run.context.completion
        try:
            if completion is None:
                _tell_stale(self._hub, run.handoff, Trigger.COMPLETE)
            else:
                announce(
                    self._hub, run.handoff, Settlement.complete(run.handoff), completion
                )
        finally:  # as in `stored`
            self._board.release(run)


def announce(hub: EventHub, handoff: Handoff, settlement: Settlement, ack: Ack) -> None:
    """Emit the event that an acknowledgement's answer calls for."""
    if ack.stale:
        _tell_stale(hub, handoff, settlement.trigger)
        return
    worker_id, job = hub.worker_id, ack.job
    status = None if job is None else job.status
    event: events.WorkerEvent
    if settlement.trigger is Trigger.COMPLETE:
        event = events.JobCompleted(worker_id=worker_id, handoff=handoff, job=job)
    elif status is JobStatus.CANCELLED:
        event = events.JobCancelled(worker_id=worker_id, handoff=handoff, job=job)
    elif settlement.trigger is Trigger.FAIL or status is JobStatus.FAILED:
        event = events.JobFailed(
            worker_id=worker_id,
            handoff=handoff,
            job=job,
            attempts=handoff.job.attempts if job is None else job.attempts,
            will_retry=status is JobStatus.QUEUED,
            terminal=status is JobStatus.FAILED,
            error=settlement.error or (job.last_error if job else None) or "",
        )
    elif settlement.trigger is Trigger.RESCHEDULE:
        event = events.JobRescheduled(
            worker_id=worker_id,
            handoff=handoff,
            job=job,
            delay_ms=settlement.delay_ms or 0,
        )
    else:
        event = events.JobReturned(worker_id=worker_id, handoff=handoff, job=job)
    hub.emit(event)


def _tell_stale(hub: EventHub, handoff: Handoff, trigger: Trigger) -> None:
    hub.emit(
        events.AcknowledgementStale(
            worker_id=hub.worker_id, handoff=handoff, trigger=trigger
        )
    )
