"""Choosing a row of the table for a locked job, executing it, and what follows."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.table import (
    Fence,
    Guard,
    Slot,
    Transition,
    Trigger,
    Value,
    alternatives,
)
from jobfence.store.sql import writes
from jobfence.store.sql.rows import Row
from jobfence.store.sql.statements import counters, others
from jobfence.store.sql.statements.moves import AT_ID, FENCE, NOW, SET, move, written
from jobfence.store.sql.tx import Tx

_NEED_NOW = (Fence.DUE, Fence.LEASE_OVER)


def choose(tx: Tx, trigger: Trigger, status: JobStatus, row: Row) -> Transition | None:
    """Return the first row of the table whose guards hold for this job."""
    for each in alternatives(trigger, status):
        if all(_holds(tx, guard, row) for guard in each.guards):
            return each
    return None


def _holds(tx: Tx, guard: Guard, row: Row) -> bool:
    """
    Answer a guard from the row as read.

    What other rows or the UPDATE itself decide (the slot, the pause, the lease) is
    taken for granted here: the caller and the fence see to it.
    """
    answer = _ANSWERS.get(guard)
    return answer is None or answer(tx, row)


def _retries_left(row: Row) -> bool:
    return _number(row, "attempts") + 1 <= _number(row, "max_retries")


def _number(row: Row, column: str) -> int:
    """Read an integer; a damaged one counts as 0 and must not stop a job's end."""
    value = row[column]
    return value if isinstance(value, int) else 0


def _handoffs_spent(tx: Tx, row: Row) -> bool:
    most = tx.settings.max_handoffs
    return most is not None and _number(row, "handoffs") >= most


_ANSWERS: Mapping[Guard, Callable[[Tx, Row], bool]] = {
    Guard.CANCEL_REQUESTED: lambda _, row: bool(row["cancel_requested"]),
    Guard.RETRIES_LEFT: lambda _, row: _retries_left(row),
    Guard.NO_RETRIES_LEFT: lambda _, row: not _retries_left(row),
    Guard.HANDOFFS_SPENT: _handoffs_spent,
    Guard.DUE: lambda tx, row: _number(row, "scheduled_at_ms") <= tx.now,
    Guard.FUTURE: lambda tx, row: _number(row, "scheduled_at_ms") > tx.now,
}


def move_job(
    tx: Tx,
    transition: Transition,
    row: Row,
    *,
    handoff_id: str | None = None,
    given: Mapping[str, Any] | None = None,
    whole: bool = False,
) -> Row | None:
    """
    Execute one row of the table on one job; return the row as it is now.

    None when the fence was lost: the UPDATE changed nothing. `handoff_id` is what the
    holder shows; the UPDATE compares it, not this code.
    """
    given = given or {}
    statement = move(tx.schema.jobs, transition, whole=whole)
    parameters: dict[str, Any] = {AT_ID: row["id"]}
    parameters.update({SET + name: value for name, value in given.items()})
    for fence in transition.fence:
        if fence is Fence.HANDOFF:
            parameters[FENCE + "handoff_id"] = handoff_id
        elif fence not in _NEED_NOW:
            column = _COMPARED[fence]
            parameters[FENCE + column] = row[column]
    if needs_now(transition, whole=whole):
        parameters[NOW] = tx.now
    changed = tx.changed(statement, **parameters)
    if changed == 0:
        return None
    assert changed == 1, f"{transition.name} changed {changed} rows"
    after = written(transition, row, tx.now, given)
    if tx.journal is not None:
        tx.journal.moved(transition, after)
    return after


_COMPARED = {
    Fence.SCHEDULED_AT: "scheduled_at_ms",
    Fence.CONCURRENCY_KEY: "concurrency_key",
}


def needs_now(transition: Transition, *, whole: bool = False) -> bool:
    """Whether the statement of this row of the table has the time in it."""
    fences = set(transition.fence) - ({Fence.LEASE_OVER} if whole else set())
    return Value.NOW in transition.writes.values() or bool(fences & set(_NEED_NOW))


@dataclass(slots=True)
class Effects:
    """
    What won transitions owe to other tables: slots to give back, ownerships to end.

    Collected and applied at the end, so that counters are taken in key order (C4).
    """

    released: Counter[str] = field(default_factory=Counter)
    ended: list[tuple[str, str]] = field(default_factory=list)

    def add(self, tx: Tx, transition: Transition, before: Row) -> None:
        """Note what follows from a transition that changed its row."""
        key = before["concurrency_key"]
        if transition.slot is Slot.RELEASE:
            if isinstance(key, str):
                self.released[key] += 1
            tx.wake = tx.wake or isinstance(key, str)
        owned = before["schedule_key"]
        if transition.ends_ownership and isinstance(owned, str):
            self.ended.append((owned, str(before["id"])))
        if transition.dest is JobStatus.QUEUED and transition.source is not None:
            tx.wake = True

    def apply(self, tx: Tx) -> None:
        """Write it."""
        for key, job_id in sorted(self.ended):
            writes.schedule_key(
                tx, others.disown(tx.schema), key, "disown", at_job_id=job_id
            )
        for key, n in sorted(self.released.items()):
            writes.counter(tx, counters.release(tx.schema), key, "release", n=n)
