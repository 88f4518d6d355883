"""Faults of schedule keys (the K rules)."""

from dataclasses import replace
from typing import Any

from jobfence.conformance.faults.base import Faulty, fault, in_transaction
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import Ack, Cancellation, Replacement, Wake
from jobfence.store.memory.rows import JobRow
from jobfence.store.memory.transaction import Transaction


class Owning(Faulty):
    """Reads and writes ownership past the rules."""

    def disown(self, job_id: str) -> None:
        """Take the key from whoever owns it, if this job has had it."""
        row = self.row(job_id)
        if row is not None and row.schedule_key in self.data.tables.schedule_keys:
            self.data.edit_schedule_key(row.schedule_key or "", job_id=None)


@fault("K2", "examples", "a retry gives the schedule key up")
class KeyLostAtRetry(Owning):
    def fail(self, job_id: str, handoff_id: str, error: object) -> Ack:
        ack = super().fail(job_id, handoff_id, error)
        if ack.accepted:
            self.disown(job_id)
        return ack


@in_transaction("K2", "examples", "a detached job takes its successor's key away")
class SuccessorDisowned(Transaction):
    def _end_ownership(self, row: JobRow) -> None:
        owner = self.tables.schedule_keys.get(row.schedule_key or "")
        if owner is not None and row.status is JobStatus.HANDED_OFF:
            self.tables.schedule_keys[owner.schedule_key] = replace(owner, job_id=None)
        super()._end_ownership(row)


@fault("K3", "examples", "the order starts again when the jobs are pruned")
class OrderUsedAgain(Faulty):
    def prune_terminal(self, **options: Any) -> int:
        number = super().prune_terminal(**options)
        kept = {row.schedule_key for row in self.data.tables.jobs.values()}
        for key in set(self.data.tables.schedule_keys) - kept:
            del self.data.tables.schedule_keys[key]
        return number


@fault("K", "examples", "a replaced job stays queued")
class ReplacedStaysQueued(Faulty):
    def replace_scheduled(
        self, schedule_key: str, name: str, *args: Any, **options: Any
    ) -> Replacement:
        answer = super().replace_scheduled(schedule_key, name, *args, **options)
        if answer.previous_status is JobStatus.QUEUED:
            self.edit(
                answer.previous_job_id or "",
                status=JobStatus.QUEUED,
                cancelled_at_ms=None,
            )
        return answer


@fault("K0", "examples", "replacing ends a job that is running")
class ReplacedIsStopped(Faulty):
    def replace_scheduled(
        self, schedule_key: str, name: str, *args: Any, **options: Any
    ) -> Replacement:
        answer = super().replace_scheduled(schedule_key, name, *args, **options)
        row = self.row(answer.previous_job_id or "")
        if row is not None and row.handoff_id is not None:
            self.return_to_queue(row.id, row.handoff_id)
            self.cancel(row.id)
        return answer


@fault("K", "examples", "cancelling by key leaves a running job unmarked")
class RunningOwnerUnmarked(Faulty):
    def cancel_scheduled(self, schedule_key: str) -> Cancellation:
        answer = super().cancel_scheduled(schedule_key)
        if answer.job_id is not None:
            self.edit(answer.job_id, cancel_requested=False)
        return answer


@fault("K", "examples", "cancelling by key keeps the ownership")
class CancelledKeepsTheKey(Faulty):
    def cancel_scheduled(self, schedule_key: str) -> Cancellation:
        answer = super().cancel_scheduled(schedule_key)
        row = self.row(answer.job_id or "")
        if row is not None and row.status is JobStatus.HANDED_OFF:
            self.data.edit_schedule_key(schedule_key, job_id=row.id)
        return answer


@fault("M10", "examples", "waking forgets the attempts")
class WakeForgetsAttempts(Faulty):
    def wake_scheduled(self, schedule_key: str) -> Wake:
        answer = super().wake_scheduled(schedule_key)
        if answer.outcome == "woken":
            self.edit(answer.job_id or "", attempts=0, last_error=None)
        return answer


@fault("M10", "examples", "waking a job that is due writes a new time")
class WakeMovesTheDue(Faulty):
    def wake_scheduled(self, schedule_key: str) -> Wake:
        answer = super().wake_scheduled(schedule_key)
        if answer.outcome == "already_due":
            self.edit(answer.job_id or "", scheduled_at_ms=self.now + 1)
        return answer


@fault("C3", "examples", "the old owner is cancelled before the cap is checked")
class CapCheckedTooLate(Faulty):
    def replace_scheduled(
        self, schedule_key: str, name: str, *args: Any, **options: Any
    ) -> Replacement:
        self.cancel_scheduled(schedule_key)
        return super().replace_scheduled(schedule_key, name, *args, **options)
