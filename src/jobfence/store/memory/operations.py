"""Figures, pauses and retention (the R rules)."""

from dataclasses import replace

from jobfence.statemachine import checks
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import QueueStats
from jobfence.store.contract import (
    CANCELLED_TTL_MS,
    COMPLETED_TTL_MS,
    FAILED_TTL_MS,
)
from jobfence.store.memory.base import StoreBase
from jobfence.store.memory.rows import JobRow
from jobfence.store.memory.transaction import Transaction

MAX_BATCH = 10_000


class Operations(StoreBase):
    """`queue_stats`, `pause_queue`, `resume_queue` and `prune_terminal`."""

    def queue_stats(self) -> list[QueueStats]:
        """Return figures for each queue that has a job or a durable row (R2)."""
        with self._transaction() as transaction:
            tables = transaction.tables
            names = {row.queue for row in tables.jobs.values()} | tables.queues.keys()
            return [_stats(transaction, name) for name in sorted(names)]

    def pause_queue(self, queue: str) -> None:
        """Stop claims, in the queue's durable row (R4)."""
        name = checks.queue_name(queue)
        with self._transaction() as transaction:
            tables = transaction.tables
            tables.queues[name] = replace(tables.queue(name), paused=True)

    def resume_queue(self, queue: str) -> None:
        """Allow claims again; a queue without a durable row was never paused (R4)."""
        name = checks.queue_name(queue)
        with self._transaction() as transaction:
            transaction.wake = True
            row = transaction.tables.queues.get(name)
            if row is not None:
                transaction.tables.queues[name] = replace(row, paused=False)

    def prune_terminal(
        self,
        *,
        completed_ttl_ms: int | None = COMPLETED_TTL_MS,
        failed_ttl_ms: int | None = FAILED_TTL_MS,
        cancelled_ttl_ms: int | None = CANCELLED_TTL_MS,
        batch_size: int = 1000,
    ) -> int:
        """Delete what ended long enough ago, in one step: nobody waits for it (R1)."""
        ttls = {
            JobStatus.COMPLETED: _ttl("completed_ttl_ms", completed_ttl_ms),
            JobStatus.FAILED: _ttl("failed_ttl_ms", failed_ttl_ms),
            JobStatus.CANCELLED: _ttl("cancelled_ttl_ms", cancelled_ttl_ms),
        }
        checks.integer("batch_size", batch_size, least=1, most=MAX_BATCH)
        with self._transaction() as transaction:
            jobs, now = transaction.tables.jobs, transaction.now
            old = [row for row in jobs.values() if _is_old(row, ttls, now)]
            for row in old:
                del jobs[row.id]
            _drop_idle_counters(transaction, {row.concurrency_key for row in old})
            return len(old)


def _stats(transaction: Transaction, name: str) -> QueueStats:
    rows = [row for row in transaction.tables.jobs.values() if row.queue == name]
    counts = {status: sum(row.status is status for row in rows) for status in JobStatus}
    due = [
        row.scheduled_at_ms
        for row in rows
        if row.status is JobStatus.QUEUED and row.scheduled_at_ms <= transaction.now
    ]
    durable = transaction.tables.queue(name)
    return QueueStats(
        queue=name,
        counts=counts,
        paused=durable.paused,
        max_concurrent=durable.policy.max_concurrent,
        active=counts[JobStatus.HANDED_OFF],
        oldest_due_age_ms=transaction.now - min(due) if due else None,
    )


def _ttl(option: str, value: object) -> int | None:
    if value is None:
        return None
    return checks.integer(option, value, least=0, most=checks.LAST_MS)


def _is_old(row: JobRow, ttls: dict[JobStatus, int | None], now: int) -> bool:
    """Whether it ended at or before the cut-off of its status; active ones never."""
    ended, ttl = row.ended_at_ms, ttls.get(row.status)
    return ended is not None and ttl is not None and ended <= now - ttl


def _drop_idle_counters(transaction: Transaction, keys: set[str | None]) -> None:
    """Delete counters at zero of keys that no job names any more (R1)."""
    tables = transaction.tables
    used = {row.concurrency_key for row in tables.jobs.values()}
    for key in keys - used:
        counter = None if key is None else tables.counters.get(key)
        if counter is not None and counter.active_count == 0:
            del tables.counters[counter.concurrency_key]
