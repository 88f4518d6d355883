"""
The meaning of the table's words over one row in memory (rule M20).

The SQL store reads the same table by itself and shares nothing with this module: two
interpreters of one table, compared by the conformance suite.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from jobfence.statemachine import texts
from jobfence.statemachine.checks import later_ms
from jobfence.statemachine.retry import RetryPolicy, retry_delay_ms
from jobfence.statemachine.table import Fence, Guard, Transition, Value
from jobfence.store.memory.rows import JobRow, unreadable


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try to move one row: all that guards, fences and writes may ask."""

    now: int
    seen: JobRow  # the row as the operation read it
    slot_free: bool
    paused: bool
    max_handoffs: int | None
    retry_policy: RetryPolicy
    handoff_id: str | None  # the one presented
    every_lease: bool  # the single owner's start: every lease counts as over (L2)
    given: Mapping[str, object]  # what the operation supplies, by column

    def lease_over(self, row: JobRow) -> bool:
        """Whether a handoff may be taken from its holder (L1, L2)."""
        end = row.lease_expires_at_ms
        return self.every_lease or (end is not None and end <= self.now)


GUARDS: Mapping[Guard, Callable[[Attempt], bool]] = {
    Guard.DUE: lambda a: a.seen.scheduled_at_ms <= a.now,
    Guard.FUTURE: lambda a: a.seen.scheduled_at_ms > a.now,
    Guard.SLOT_FREE: lambda a: a.slot_free,
    Guard.NOT_PAUSED: lambda a: not a.paused,
    Guard.CANCEL_REQUESTED: lambda a: a.seen.cancel_requested,
    Guard.RETRIES_LEFT: lambda a: a.seen.attempts + 1 <= a.seen.max_retries,
    Guard.NO_RETRIES_LEFT: lambda a: a.seen.attempts + 1 > a.seen.max_retries,
    Guard.HANDOFFS_SPENT: lambda a: (
        a.max_handoffs is not None and a.seen.handoffs >= a.max_handoffs
    ),
    Guard.LEASE_OVER: lambda a: a.lease_over(a.seen),
    Guard.UNREADABLE: lambda a: unreadable(a.seen) is not None,
    Guard.POLICY_DIFFERS: lambda a: any(
        getattr(a.seen, column) != value for column, value in a.given.items()
    ),
}

FENCES: Mapping[Fence, Callable[[Attempt, JobRow], bool]] = {
    Fence.HANDOFF: lambda a, row: row.handoff_id == a.handoff_id,
    Fence.DUE: lambda a, row: row.scheduled_at_ms <= a.now,
    Fence.LEASE_OVER: lambda a, row: a.lease_over(row),
    Fence.SCHEDULED_AT: lambda a, row: row.scheduled_at_ms == a.seen.scheduled_at_ms,
    Fence.CONCURRENCY_KEY: lambda a, row: row.concurrency_key == a.seen.concurrency_key,
}


def fence_holds(step: Transition, attempt: Attempt, row: JobRow) -> bool:
    """Whether the row as it stands is the one that this step may change."""
    return row.status is step.source and all(
        FENCES[fence](attempt, row) for fence in step.fence
    )


def written(step: Transition, attempt: Attempt, row: JobRow) -> dict[str, object]:
    """Return the columns that the step writes, with their new values."""
    return {
        column: _new_value(step, attempt, row, column, value)
        for column, value in step.writes.items()
    }


def _new_value(
    step: Transition, attempt: Attempt, row: JobRow, column: str, value: Value
) -> object:
    match value:
        case Value.NOW:
            return attempt.now
        case Value.NULL:
            return None
        case Value.TRUE:
            return True
        case Value.INCREMENT:
            return getattr(row, column) + 1
        case Value.GIVEN:
            return _given(step, attempt, row, column)


def _given(step: Transition, attempt: Attempt, row: JobRow, column: str) -> object:
    """Supply a column: by a rule that holds for every operation, else by this one."""
    if column == "last_ack":
        return step.trigger.value
    if column == "last_error" and step.name == "give_up":
        assert attempt.max_handoffs is not None
        return texts.handoffs_spent(attempt.max_handoffs)
    if column == "scheduled_at_ms" and step.consumes_attempt:
        wait = retry_delay_ms(attempt.retry_policy, row.attempts + 1)
        return later_ms(attempt.now, wait)
    return attempt.given[column]
