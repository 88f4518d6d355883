"""Choosing a row of the table for a locked job, executing it, and what follows."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
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
from jobfence.store.sql import caps, writes
from jobfence.store.sql.rows import Row
from jobfence.store.sql.statements import counters, jobs, others
from jobfence.store.sql.statements.moves import (
    AT_ID,
    FENCE,
    NOW,
    SET,
    move,
    move_many,
    written,
)
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


@dataclass(frozen=True, slots=True)
class Move:
    """
    One job to move: its locked row, and the values the operation supplies.

    `handoff_id` is what the holder shows; the UPDATE compares it, not this code.
    """

    row: Row
    given: Mapping[str, Any] = field(default_factory=dict)
    handoff_id: str | None = None

    @property
    def job_id(self) -> str:
        """The job's id."""
        return str(self.row["id"])


def move_job(
    tx: Tx, transition: Transition, move: Move, *, whole: bool = False
) -> Row | None:
    """
    Execute one row of the table on one job; return the row as it is now.

    None when the fence was lost: the UPDATE changed nothing.
    """
    return move_jobs(tx, transition, [move], whole=whole)[0]


def move_jobs(
    tx: Tx, transition: Transition, moves: Sequence[Move], *, whole: bool = False
) -> list[Row | None]:
    """Execute one row of the table on several jobs, each once, in one round trip."""
    if not moves:
        return []
    changed = _execute(tx, transition, moves, whole=whole)
    assert changed <= len(moves), f"{transition.name} changed {changed} rows"
    won = _all(moves) if changed == len(moves) else _won(tx, moves, changed)
    results: list[Row | None] = []
    for each in moves:
        after = None
        if each.job_id in won:
            after = written(transition, each.row, tx.now, each.given)
            if tx.journal is not None:
                tx.journal.moved(transition, after, each.handoff_id, whole=whole)
        results.append(after)
    return results


def _execute(
    tx: Tx, transition: Transition, moves: Sequence[Move], *, whole: bool
) -> int:
    """Return how many rows changed: in one statement where that can be."""
    parameters = [_parameters(tx, transition, each, whole=whole) for each in moves]
    if len(moves) == 1 or not tx.room.has_tables_of_values:
        return tx.changed_by(move(tx.schema.jobs, transition, whole=whole), parameters)
    assert len(_all(moves)) == len(moves), "a job twice in one statement"
    statement, columns = move_many(
        tx.schema.jobs, transition, tx.room.table_of_values, whole=whole
    )
    values = {name: [each[name] for each in parameters] for name in columns}
    if NOW in parameters[0]:
        values[NOW] = parameters[0][NOW]
    return tx.changed(statement, **values)


def _all(moves: Sequence[Move]) -> set[str]:
    return {each.job_id for each in moves}


def _won(tx: Tx, moves: Sequence[Move], changed: int) -> set[str]:
    """Find which of several UPDATEs changed their rows: those raised the revision."""
    if changed == 0:
        return set()
    revs = {each.job_id: each.row["rev"] for each in moves}
    rows = tx.rows_in(tx.latest(jobs.by_ids(tx.schema)), jobs.IDS, revs)
    return {str(row["id"]) for row in rows if row["rev"] != revs[str(row["id"])]}


def _parameters(
    tx: Tx, transition: Transition, move: Move, *, whole: bool
) -> dict[str, Any]:
    parameters: dict[str, Any] = {AT_ID: move.row["id"]}
    parameters.update({SET + name: value for name, value in move.given.items()})
    for fence in transition.fence:
        if fence is Fence.HANDOFF:
            parameters[FENCE + "handoff_id"] = move.handoff_id
        elif fence not in _NEED_NOW:
            column = _COMPARED[fence]
            parameters[FENCE + column] = move.row[column]
    if needs_now(transition, whole=whole):
        parameters[NOW] = tx.now
    return parameters


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
    `needed` are caps by key, of counters to be made if they are missing.
    """

    released: Counter[str] = field(default_factory=Counter)
    ended: list[tuple[str, str]] = field(default_factory=list)
    needed: dict[str, int] = field(default_factory=dict)

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
        missing = caps.lacking(tx, self.needed)
        for key in sorted(missing.union(self.released)):
            if key in missing:
                caps.make(tx, key, self.needed[key])
            else:
                n = self.released[key]
                writes.counter(tx, counters.release(tx.schema), key, "release", n=n)
