"""One operation: its working copy of the data, its time, and its moves."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, cast

from jobfence.statemachine.machine import JobMachine
from jobfence.statemachine.policy import (
    NO_POLICY,
    QueuePolicy,
    is_derived,
    resolve_concurrency,
)
from jobfence.statemachine.retry import RetryPolicy
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.table import Slot, Transition, Trigger
from jobfence.store.memory import interpreter
from jobfence.store.memory.data import Tables
from jobfence.store.memory.rows import CounterRow, JobRow

NOTHING: Mapping[str, object] = MappingProxyType({})


@dataclass(slots=True)
class Transaction:
    """
    What an operation reads and writes. Thrown away whole when the operation fails.

    `now` is the operation's one reading of the clock, taken under the lock.
    """

    tables: Tables
    now: int
    machine: JobMachine
    queues: Mapping[str, QueuePolicy] | None
    retry_policy: RetryPolicy
    max_handoffs: int | None
    wake: bool = field(default=False)

    def move(
        self,
        seen: JobRow,
        trigger: Trigger,
        *,
        handoff_id: str | None = None,
        every_lease: bool = False,
        given: Mapping[str, object] = NOTHING,
    ) -> JobRow | None:
        """
        Fire a trigger at a row that was read; return it as written, None if refused.

        The only place where a status changes (M20): the machine picks the row of the
        table by its guards, then that row's fence, writes, slot and ownership follow.
        """
        attempt = interpreter.Attempt(
            now=self.now,
            seen=seen,
            slot_free=self.slot_free(seen),
            paused=self.paused(seen.queue),
            max_handoffs=self.max_handoffs,
            retry_policy=self.retry_policy,
            handoff_id=handoff_id,
            every_lease=every_lease,
            given=given,
        )
        step = self.machine.fire(
            trigger, seen.status, lambda guard: interpreter.GUARDS[guard](attempt)
        )
        current = self.tables.jobs[seen.id]
        if step is None or not interpreter.fence_holds(
            step.transition, attempt, current
        ):
            return None
        columns = interpreter.written(step.transition, attempt, current)
        # The table names columns by text: their types are beyond the checker.
        moved = replace(current, status=step.status, **cast("dict[str, Any]", columns))
        self.tables.jobs[moved.id] = moved
        self._count(step.transition, current.concurrency_key)
        if step.transition.ends_ownership:
            self._end_ownership(current)
        return moved

    def _count(self, step: Transition, key: str | None) -> None:
        """Keep the key's counter equal to its handed-off jobs (C5)."""
        if step.slot is Slot.RELEASE and (key or step.dest is JobStatus.QUEUED):
            self.wake = True
        counter = self.tables.counters.get(key) if key is not None else None
        if counter is None:
            return
        active = counter.active_count
        if step.slot is Slot.RESERVE:
            self.tables.counters[counter.concurrency_key] = replace(
                counter, active_count=active + 1
            )
        elif step.slot is Slot.RELEASE:
            # Zero already means drift, which reconciling reports; it never goes below.
            self.tables.counters[counter.concurrency_key] = replace(
                counter, active_count=max(active - 1, 0)
            )

    def _end_ownership(self, row: JobRow) -> None:
        """Give up the job's own schedule key, and no other job's (K2)."""
        if row.schedule_key is None:
            return
        owner = self.tables.schedule_keys.get(row.schedule_key)
        if owner is not None and owner.job_id == row.id:
            self.tables.schedule_keys[row.schedule_key] = replace(owner, job_id=None)

    def policy(self, queue: str) -> QueuePolicy:
        """Return a queue's current policy: the store's own, else the durable (C0)."""
        if self.queues is not None:
            return self.queues.get(queue, NO_POLICY)
        return self.tables.queue(queue).policy

    def paused(self, queue: str) -> bool:
        """Whether claims from the queue are stopped (R4)."""
        return self.tables.queue(queue).paused

    def slot_free(self, row: JobRow) -> bool:
        """
        Whether the row's stored key lets it be claimed (O1).

        A queue-derived key is judged by the cap of the current policy, if there is one.
        """
        counter = self.counter(row)
        if counter is None:
            return True
        cap = counter.max_concurrency
        if is_derived(counter.concurrency_key):
            cap = self.policy(row.queue).max_concurrent or cap
        return counter.active_count < cap

    def counter(self, row: JobRow) -> CounterRow | None:
        """Return the counter of the row's key, if it has a key and that a counter."""
        if row.concurrency_key is None:
            return None
        return self.tables.counters.get(row.concurrency_key)

    def adopt(self, row: JobRow, policy: QueuePolicy) -> JobRow:
        """
        Give a queued row what its queue's policy says, where that is the policy's say.

        An explicit key and an explicit priority stay (M13, C7). A key always has a
        counter afterwards.
        """
        key, cap = row.concurrency_key, row.max_concurrency
        if is_derived(key):
            key, cap = resolve_concurrency(row.queue, policy)
        priority = row.priority if row.priority_explicit else policy.priority
        wanted = {"concurrency_key": key, "max_concurrency": cap, "priority": priority}
        row = self.move(row, Trigger.ADOPT_POLICY, given=wanted) or row
        if row.concurrency_key is not None and self.counter(row) is None:
            assert row.max_concurrency is not None
            self.make_counter(row.concurrency_key, row.max_concurrency)
        return row

    def make_counter(self, key: str, cap: int) -> None:
        """Make a missing counter, true to the handed-off jobs of its key."""
        self.tables.counters[key] = CounterRow(key, cap, self.handed_off_with(key))

    def set_cap(self, key: str, cap: int) -> None:
        """Change a counter's cap, or make the counter."""
        counter = self.tables.counters.get(key)
        if counter is None:
            self.make_counter(key, cap)
        else:
            self.tables.counters[key] = replace(counter, max_concurrency=cap)

    def handed_off_with(self, key: str) -> int:
        """Count the handed-off jobs of a key: what its counter should say."""
        return sum(
            row.concurrency_key == key for row in self.rows(JobStatus.HANDED_OFF)
        )

    def rows(self, status: JobStatus) -> list[JobRow]:
        """Return all rows in a status."""
        return [row for row in self.tables.jobs.values() if row.status is status]
