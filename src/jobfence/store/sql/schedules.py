"""Stable schedule keys (the K rules): lock the key, then read its owner."""

from jobfence.statemachine.options import Prepared
from jobfence.statemachine.states import ACTIVE, JobStatus
from jobfence.statemachine.table import Trigger
from jobfence.statemachine.values import (
    Cancellation,
    CancelOutcome,
    Replacement,
    ScheduledJob,
    Wake,
    WakeOutcome,
)
from jobfence.store.sql import locks, writes
from jobfence.store.sql.enqueue import NewJob, check_cap, insert_rows, new_row
from jobfence.store.sql.moving import Move, choose, move_job
from jobfence.store.sql.rows import Row, job_from
from jobfence.store.sql.single import cancel_queued, request_cancel
from jobfence.store.sql.statements import others
from jobfence.store.sql.tx import Tx


def replace_scheduled(tx: Tx, key: str, job_id: str, request: Prepared) -> Replacement:
    """Make a new job the key's owner; a queued owner before it is cancelled."""
    check_cap(tx, request.concurrency)
    writes.make_schedule_key(tx, key)
    held = locks.schedule_keys(tx, [key])[key]
    previous = _owner(tx, held)
    if previous is not None and previous["status"] == JobStatus.QUEUED:
        cancel_queued(tx, previous)
    last = held["last_order"]
    assert isinstance(last, int)
    new = NewJob(job_id, request)
    row = new_row(tx, new, schedule_key=key, schedule_order=last + 1)
    insert_rows(tx, [row])
    writes.schedule_key(
        tx,
        others.own(tx.schema),
        key,
        "own",
        set_job_id=job_id,
        set_order=last + 1,
    )
    tx.wake = True
    if previous is None:
        return Replacement(job_id, None, None)
    return Replacement(job_id, str(previous["id"]), JobStatus(str(previous["status"])))


def cancel_scheduled(tx: Tx, key: str) -> Cancellation:
    """End the key's ownership; cancel a queued owner, mark a handed-off one."""
    held = locks.schedule_keys(tx, [key]).get(key)
    owner = None if held is None else _owner(tx, held)
    if held is not None and held["job_id"] is not None:
        writes.schedule_key(
            tx, others.disown(tx.schema), key, "disown", at_job_id=held["job_id"]
        )
    if owner is None:
        return Cancellation(None, CancelOutcome.NOT_FOUND)
    tx.wake = True
    if owner["status"] == JobStatus.QUEUED:
        cancel_queued(tx, owner)
        return Cancellation(str(owner["id"]), CancelOutcome.CANCELLED)
    request_cancel(tx, owner)
    return Cancellation(str(owner["id"]), CancelOutcome.HANDED_OFF)


def wake_scheduled(tx: Tx, key: str) -> Wake:
    """Make the key's queued owner due now."""
    held = locks.schedule_keys(tx, [key]).get(key)
    owner = None if held is None else _owner(tx, held)
    if owner is None:
        return Wake(None, WakeOutcome.NOT_FOUND)
    owner_id = str(owner["id"])
    if owner["status"] == JobStatus.HANDED_OFF:
        return Wake(owner_id, WakeOutcome.HANDED_OFF)
    tx.wake = True
    transition = choose(tx, Trigger.WAKE, JobStatus.QUEUED, owner)
    if transition is None:
        return Wake(owner_id, WakeOutcome.ALREADY_DUE)
    after = move_job(tx, transition, Move(owner))
    assert after is not None, "a locked queued job could not be woken"
    return Wake(owner_id, WakeOutcome.WOKEN)


def scheduled_job(tx: Tx, key: str, *, include_latest_terminal: bool) -> ScheduledJob:
    """Look up the active owner, and the latest ended one if asked for."""
    statement = (
        others.owner_and_latest_terminal(tx.schema)
        if include_latest_terminal
        else others.active_owner(tx.schema)
    )
    current = latest = None
    for row in tx.rows(statement, at_key=key):
        if row["status"] in ACTIVE:
            current = job_from(row)
        else:
            latest = job_from(row)
    return ScheduledJob(current, latest)


def _owner(tx: Tx, held: Row) -> Row | None:
    """Return the active owner of a locked key, locked too; K1: read after the lock."""
    job_id = held["job_id"]
    if job_id is None:
        return None
    row = locks.job_rows(tx, [str(job_id)]).get(str(job_id))
    return row if row is not None and row["status"] in ACTIVE else None
