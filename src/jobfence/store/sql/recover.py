"""Handoffs whose worker will not answer any more (M8, M21, the L rules)."""

from collections.abc import Sequence

from jobfence.statemachine import texts
from jobfence.statemachine.checks import later_ms
from jobfence.statemachine.errors import UnreadableJob
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.table import Transition, Trigger, row as table_row
from jobfence.statemachine.values import Job
from jobfence.store.sql import locks
from jobfence.store.sql.acks import backoff_ms, given_values
from jobfence.store.sql.caps import adopted, differs
from jobfence.store.sql.handing import adopt
from jobfence.store.sql.moving import Effects, Move, choose, move_job
from jobfence.store.sql.rows import Row, job_from, readable
from jobfence.store.sql.statements import jobs
from jobfence.store.sql.tx import Tx

_REJECT = table_row(Trigger.REJECT, "reject", JobStatus.HANDED_OFF)


def recover_expired(tx: Tx, limit: int) -> list[Job]:
    """Recover handoffs whose lease is over; those being touched are left (L1, L4)."""
    ids = tx.run(
        jobs.expired(tx.schema), at_now=tx.read_clock(), row_limit=limit
    ).scalars()
    return _recover(tx, list(ids), whole=False)


def recover_handed_off(tx: Tx) -> list[Job]:
    """Recover every handoff (L2)."""
    ids = tx.run(jobs.all_held(tx.schema)).scalars()
    return _recover(tx, list(ids), whole=True)


def _recover(tx: Tx, ids: Sequence[str], *, whole: bool) -> list[Job]:
    locked = locks.job_rows(tx, ids, skip_locked=not whole)
    effects = Effects()
    moved = []
    for job_id in ids:
        before = locked.get(job_id)
        after = (
            None if before is None else _recover_one(tx, before, effects, whole=whole)
        )
        if after is not None:
            moved.append(_with_policy(tx, after, effects))
    effects.apply(tx)
    tx.wake = tx.wake or bool(moved)
    # The error text may have been what could not be read: mended, but still rejected.
    return readable(row for row in moved if row["last_ack"] != _REJECT.trigger)


def _recover_one(tx: Tx, before: Row, effects: Effects, *, whole: bool) -> Row | None:
    """Recover one locked job under the handoff id that was read with it."""
    transition, error = _chosen(tx, before)
    given = given_values(
        transition,
        {
            "last_ack": lambda: transition.trigger.value,
            "last_error": lambda: error,
            "scheduled_at_ms": lambda: later_ms(tx.now, backoff_ms(tx, before)),
        },
    )
    move = Move(before, given, str(before["handoff_id"]))
    after = move_job(tx, transition, move, whole=whole)
    if after is not None:
        effects.add(tx, transition, before)
    return after


def _chosen(tx: Tx, row: Row) -> tuple[Transition, str]:
    """Return what becomes of the job, and the error text it gets."""
    try:
        job = job_from(row)
    except UnreadableJob as problem:
        return _REJECT, texts.unreadable(problem.column, problem.problem)
    transition = choose(tx, Trigger.RECOVER, JobStatus.HANDED_OFF, row)
    assert transition is not None
    if transition.name == "give_up":
        return transition, texts.handoffs_spent(tx.settings.max_handoffs or 0)
    return transition, texts.interrupted(job.worker_id)


def _with_policy(tx: Tx, row: Row, effects: Effects) -> Row:
    """Let a job that went back follow its queue's policy before it is claimed (L4)."""
    if row["status"] != JobStatus.QUEUED:
        return row
    after = adopted(tx, row)
    if differs(row, after):
        (after,) = adopt(tx, [(row, after)])
    key, cap = after["concurrency_key"], after["max_concurrency"]
    if isinstance(key, str) and isinstance(cap, int):
        effects.needed[key] = cap
    return after
