"""Taking jobs back from holders that are gone, and from those who should stop."""

from jobfence.statemachine import checks, texts
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.table import Trigger
from jobfence.statemachine.values import Cancellation, CancelOutcome, Job
from jobfence.store.memory.base import StoreBase
from jobfence.store.memory.rows import JobRow, read_job, unreadable
from jobfence.store.memory.transaction import Transaction

MAX_RECOVER = 10_000


class Recovery(StoreBase):
    """`recover_expired`, `recover_handed_off` and `cancel`."""

    def recover_handed_off(self) -> list[Job]:
        """Recover everything, leased or not (L2)."""
        with self._transaction() as transaction:
            held = transaction.rows(JobStatus.HANDED_OFF)
            held.sort(key=lambda row: (row.handed_off_at_ms, row.id))
            return _recover(transaction, held, every_lease=True)

    def recover_expired(self, *, limit: int = 100) -> list[Job]:
        """Recover what ran out of its lease, earliest first (L1)."""
        most = checks.integer("limit", limit, least=1, most=MAX_RECOVER)
        with self._transaction() as transaction:
            expired = [
                (row.lease_expires_at_ms, row.id, row)
                for row in transaction.rows(JobStatus.HANDED_OFF)
                if row.lease_expires_at_ms is not None
                and row.lease_expires_at_ms <= transaction.now
            ]
            expired.sort(key=lambda each: each[:2])
            rows = [row for _, _, row in expired[:most]]
            return _recover(transaction, rows, every_lease=False)

    def cancel(self, job_id: str) -> Cancellation:
        """Cancel a queued job, mark a handed-off one (R3)."""
        checks.storable("job_id", job_id)
        with self._transaction() as transaction:
            row = transaction.tables.jobs.get(job_id)
            if row is None:
                return Cancellation(None, CancelOutcome.NOT_FOUND)
            if transaction.move(row, Trigger.CANCEL) is not None:
                transaction.wake = True
                return Cancellation(row.id, CancelOutcome.CANCELLED)
            if transaction.move(row, Trigger.REQUEST_CANCEL) is not None:
                return Cancellation(row.id, CancelOutcome.REQUESTED)
            return Cancellation(row.id, CancelOutcome.TERMINAL)


def _recover(
    transaction: Transaction, rows: list[JobRow], *, every_lease: bool
) -> list[Job]:
    recovered: list[Job] = []
    for row in rows:
        transaction.wake = True
        problem = unreadable(row)
        if problem is not None:
            transaction.move(
                row,
                Trigger.REJECT,
                handoff_id=row.handoff_id,
                every_lease=every_lease,
                given={"last_error": texts.unreadable(problem.column, problem.problem)},
            )
            continue
        moved = transaction.move(
            row,
            Trigger.RECOVER,
            handoff_id=row.handoff_id,
            every_lease=every_lease,
            given={"last_error": texts.interrupted(row.worker_id)},
        )
        if moved is None:
            continue
        if moved.status is JobStatus.QUEUED:
            # Before anyone can claim it (L4); its old key was released by the move.
            moved = transaction.adopt(moved, transaction.policy(moved.queue))
        recovered.append(read_job(moved))
    return recovered
