"""Faults of what handoffs and acknowledgements leave in a job (the M rules)."""

from typing import Any

from jobfence.conformance.faults.base import Faulty, fault
from jobfence.statemachine.policy import QueuePolicy
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import Ack, Cancellation, Handoff, Job


class AfterAck(Faulty):
    """Writes something wrong after an accepted acknowledgement."""

    def spoil(self, ack: Ack, **columns: Any) -> Ack:
        """Write columns past every rule."""
        if ack.accepted and ack.job is not None:
            self.edit(ack.job.id, **columns)
        return ack


@fault("M16", "matrix", "return_to_queue leaves the handoff id in the row")
class HandoffIdLeft(AfterAck):
    def return_to_queue(self, job_id: str, handoff_id: str) -> Ack:
        ack = super().return_to_queue(job_id, handoff_id)
        return self.spoil(ack, handoff_id=handoff_id)


@fault("M16", "matrix", "complete leaves the worker in the row")
class WorkerLeft(AfterAck):
    def complete(self, job_id: str, handoff_id: str) -> Ack:
        return self.spoil(super().complete(job_id, handoff_id), worker_id="local")


@fault("M16", "matrix", "reschedule leaves the lease in the row")
class LeaseLeft(AfterAck):
    def reschedule(self, job_id: str, handoff_id: str, *, delay_ms: int) -> Ack:
        ack = super().reschedule(job_id, handoff_id, delay_ms=delay_ms)
        return self.spoil(ack, lease_expires_at_ms=self.now + 60_000)


@fault("M18", "matrix", "the last handoff id is cleared with the handoff")
class LastHandoffForgotten(AfterAck):
    def complete(self, job_id: str, handoff_id: str) -> Ack:
        return self.spoil(super().complete(job_id, handoff_id), last_handoff_id=None)


@fault("M3", "matrix", "complete does not say when")
class CompletedWithoutTime(AfterAck):
    def complete(self, job_id: str, handoff_id: str) -> Ack:
        return self.spoil(super().complete(job_id, handoff_id), completed_at_ms=None)


@fault("M4", "matrix", "a failure does not keep its text")
class ErrorLost(AfterAck):
    def fail(self, job_id: str, handoff_id: str, error: object) -> Ack:
        return self.spoil(super().fail(job_id, handoff_id, error), last_error=None)


@fault("B1", "matrix", "a retry is due at once")
class RetryAtOnce(AfterAck):
    def fail(self, job_id: str, handoff_id: str, error: object) -> Ack:
        ack = super().fail(job_id, handoff_id, error)
        return self.spoil(ack, scheduled_at_ms=self.now)


@fault("B1", "examples", "the wait grows by the number of handoffs, not of failures")
class BackoffByHandoffs(AfterAck):
    def fail(self, job_id: str, handoff_id: str, error: object) -> Ack:
        ack, row = super().fail(job_id, handoff_id, error), self.row(job_id)
        if row is None or row.status is not JobStatus.QUEUED:
            return ack
        wait = self._retry_policy.delay_ms(row.handoffs + 1)
        return self.spoil(ack, scheduled_at_ms=self.now + wait)


@fault("B2", "matrix", "one retry more than max_retries")
class OneRetryTooMany(Faulty):
    def fail(self, job_id: str, handoff_id: str, error: object) -> Ack:
        row = self.row(job_id)
        if row is not None:
            self.edit(job_id, max_retries=row.max_retries + 1)
        ack = super().fail(job_id, handoff_id, error)
        if row is not None:
            self.edit(job_id, max_retries=row.max_retries)
        return ack


@fault("M17", "matrix", "return_to_queue costs an attempt")
class ReturnCostsAnAttempt(AfterAck):
    def return_to_queue(self, job_id: str, handoff_id: str) -> Ack:
        row, ack = self.row(job_id), super().return_to_queue(job_id, handoff_id)
        return ack if row is None else self.spoil(ack, attempts=row.attempts + 1)


@fault("M17", "matrix", "reschedule forgets the attempts")
class RescheduleForgetsAttempts(AfterAck):
    def reschedule(self, job_id: str, handoff_id: str, *, delay_ms: int) -> Ack:
        ack = super().reschedule(job_id, handoff_id, delay_ms=delay_ms + 1)
        return self.spoil(ack, attempts=0, last_error=None)


class Claiming(Faulty):
    """Changes what `claim_job` does."""

    def again(self, job_id: str, options: dict[str, Any]) -> Handoff | None:
        """Claim as the model does."""
        return super().claim_job(job_id, **options)


@fault("M17", "matrix", "a claim costs an attempt")
class ClaimCostsAnAttempt(Claiming):
    def claim_job(self, job_id: str, **options: Any) -> Handoff | None:
        handoff, row = self.again(job_id, options), self.row(job_id)
        if handoff is not None and row is not None:
            self.edit(job_id, attempts=row.attempts + 1)
        return handoff


@fault("M2", "matrix", "handoffs are not counted")
class HandoffsNotCounted(Claiming):
    def claim_job(self, job_id: str, **options: Any) -> Handoff | None:
        row, handoff = self.row(job_id), self.again(job_id, options)
        if handoff is not None and row is not None:
            self.edit(job_id, handoffs=row.handoffs)
        return handoff


@fault("M2", "matrix", "a completed job can be claimed by its id")
class CompletedClaimed(Claiming):
    def claim_job(self, job_id: str, **options: Any) -> Handoff | None:
        row = self.row(job_id)
        if row is not None and row.status is JobStatus.COMPLETED:
            self.edit(job_id, status=JobStatus.QUEUED, completed_at_ms=None)
        return self.again(job_id, options)


@fault("M19", "matrix", "a chosen handoff id is replaced by the store's own")
class ChosenIdIgnored(Claiming):
    def claim_job(self, job_id: str, **options: Any) -> Handoff | None:
        return self.again(job_id, {**options, "handoff_id": None})


@fault("M19", "examples", "a claim asked again finds nothing")
class ClaimNotRepeatable(Claiming):
    def claim_job(self, job_id: str, **options: Any) -> Handoff | None:
        row = self.row(job_id)
        if row is not None and row.status is JobStatus.HANDED_OFF:
            return None
        return self.again(job_id, options)


@fault("M19", "examples", "a handoff id that was used before is taken again")
class UsedIdTaken(Claiming):
    def claim_job(self, job_id: str, **options: Any) -> Handoff | None:
        chosen = options.get("handoff_id")
        for row in list(self.data.tables.jobs.values()):
            if row.last_handoff_id == chosen and row.handoff_id != chosen:
                self.edit(row.id, last_handoff_id=None)
        return self.again(job_id, options)


@fault("M9", "matrix", "a cancellation does not say when")
class CancelledWithoutTime(Faulty):
    def cancel(self, job_id: str) -> Cancellation:
        answer = super().cancel(job_id)
        self.edit(job_id, cancelled_at_ms=None)
        return answer


@fault("M14", "matrix", "cancelling ends a job that is running")
class CancelEndsTheRunning(Faulty):
    def cancel(self, job_id: str) -> Cancellation:
        row = self.row(job_id)
        if row is not None and row.status is JobStatus.HANDED_OFF:
            self.return_to_queue(job_id, row.handoff_id or "")
        return super().cancel(job_id)


class Unmarked(Faulty):
    """Forgets that a running job was to be cancelled."""

    def unmark(self, job_id: str) -> None:
        """Take the mark away."""
        self.edit(job_id, cancel_requested=False)


@fault("M15", "matrix", "a job cancelled while it ran is retried")
class CancelledRetried(Unmarked):
    def fail(self, job_id: str, handoff_id: str, error: object) -> Ack:
        row = self.row(job_id)
        if row is not None and row.handoff_id == handoff_id:
            self.unmark(job_id)
        return super().fail(job_id, handoff_id, error)


@fault("M15", "matrix", "a job cancelled while it ran is recovered and runs again")
class CancelledRecovered(Unmarked):
    def recover_expired(self, *, limit: int = 100) -> list[Job]:
        for row in list(self.data.tables.jobs.values()):
            if row.status is JobStatus.HANDED_OFF:
                self.unmark(row.id)
        return super().recover_expired(limit=limit)


@fault("M7b", "matrix", "max_handoffs is not looked at")
class HandoffsWithoutEnd(Faulty):
    def return_to_queue(self, job_id: str, handoff_id: str) -> Ack:
        limit, self._max_handoffs = self._max_handoffs, None
        try:
            return super().return_to_queue(job_id, handoff_id)
        finally:
            self._max_handoffs = limit


@fault("M13", "matrix", "a policy changes jobs that are running")
class PolicyTouchesTheRunning(Faulty):
    def reconcile_queue_policies(
        self, queues: Any = None, *, release_others: bool = True
    ) -> None:
        super().reconcile_queue_policies(queues, release_others=release_others)
        for row in list(self.data.tables.jobs.values()):
            policy = (queues or {}).get(row.queue, QueuePolicy())
            if row.status is JobStatus.HANDED_OFF and not row.priority_explicit:
                self.edit(row.id, priority=policy.priority)
