"""
The one lock order (rule C4), and the ways to take locks in it.

1. names: dedupe and idempotency identities, sorted; then schedule keys, sorted
2. job rows, in id order; a claim skips those that are locked
3. counters, in key order: one waiting acquisition in a transaction, further ones only
   without waiting; a missing one is inserted at its place in that order

Rows of queues come before all of these, by name: only reconciling and pausing take them.

A transaction that needs something from an earlier line while it holds a later one
takes it without waiting, or leaves it.
"""

from collections.abc import Collection

from jobfence.store.sql.rows import Row
from jobfence.store.sql.statements import counters, jobs, others
from jobfence.store.sql.tx import Tx


def identities(tx: Tx, digests: Collection[str]) -> None:
    """Hold dedupe and idempotency identities until the transaction ends."""
    if digests:
        tx.room.lock_identities(
            tx.connection,
            sorted(set(digests)),
            jobs=tx.schema.jobs,
            locks=tx.schema.locks,
        )


def schedule_keys(tx: Tx, keys: Collection[str]) -> dict[str, Row]:
    """Hold schedule keys that exist, and return their rows."""
    statement = tx.room.locked(others.schedule_keys(tx.schema))
    rows = tx.rows_in(statement, "in_keys", keys)
    return {str(row["schedule_key"]): row for row in rows}


def free_schedule_keys(tx: Tx, keys: Collection[str]) -> set[str]:
    """Hold those schedule keys that nobody else holds, without waiting."""
    statement = tx.room.locked(others.schedule_keys(tx.schema), skip_locked=True)
    rows = tx.rows_in(statement, "in_keys", keys)
    return {str(row["schedule_key"]) for row in rows}


def job_rows(
    tx: Tx, ids: Collection[str], *, skip_locked: bool = False
) -> dict[str, Row]:
    """
    Hold the schedule keys of these jobs, then the jobs, and return their rows by id.

    The keys first, for any of these steps may end a job and its ownership with it.
    """
    wanted = set(ids)
    if not wanted:
        return {}
    if tx.room.locks_rows:
        owned = tx.rows_in(jobs.schedule_keys_of(tx.schema), jobs.IDS, wanted)
        if owned:
            schedule_keys(tx, {str(row["schedule_key"]) for row in owned})
    statement = tx.room.locked(jobs.by_ids(tx.schema), skip_locked=skip_locked)
    return {str(row["id"]): row for row in tx.rows_in(statement, jobs.IDS, wanted)}


def share_jobs(tx: Tx, ids: Collection[str], held: dict[str, Row]) -> None:
    """
    Hold jobs against every change, beside others who do so, and add their rows to `held`.

    In id order; one before another that is held already is not waited for: the database
    asks to run the transaction again instead. Each by its id: of a list MySQL may lock
    jobs that are not in it.
    """
    last = max(held, default="")
    for job_id in sorted(set(ids) - set(held)):
        statement = jobs.by_id(tx.schema).with_for_update(
            read=True, nowait=job_id < last
        )
        row = tx.one(statement, at_id=job_id)
        if row is not None:
            held[job_id] = row


def counter_rows(
    tx: Tx, keys: Collection[str], *, skip_locked: bool = False
) -> dict[str, Row]:
    """Hold the counters of these keys that exist, and return their rows by key."""
    if not keys:
        return {}
    statement = tx.room.locked(counters.by_keys(tx.schema), skip_locked=skip_locked)
    rows = tx.rows_in(statement, "in_keys", keys)
    tx.holds_counters = tx.holds_counters or bool(rows)
    return {str(row["concurrency_key"]): row for row in rows}
