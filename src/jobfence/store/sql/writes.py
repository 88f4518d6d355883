"""Writing counters and schedule keys: executed here, and noted for the journal."""

from typing import Any

from sqlalchemy import Update

from jobfence.store.notes import Action, Entity
from jobfence.store.sql import locks
from jobfence.store.sql.statements import counters, journals
from jobfence.store.sql.tx import Tx


def counter(tx: Tx, statement: Update, key: str, action: str, **values: Any) -> bool:
    """Execute an UPDATE of one counter; say whether it changed."""
    changed = tx.changed(statement, at_key=key, **values)
    tx.holds_counters = tx.holds_counters or bool(changed)
    if changed and tx.journal is not None:
        tx.journal.touched(Entity.COUNTER, key, action)
    return bool(changed)


def make_counter(tx: Tx, key: str, cap: int) -> None:
    """Insert a counter at zero if there is none."""
    tx.holds_counters = True
    tx.run(
        tx.room.insert_if_missing(tx.schema.concurrency),
        concurrency_key=key,
        max_concurrency=cap,
        active_count=0,
        rev=0,
    )
    if tx.journal is not None:
        _note_creation(tx, key)


def _note_creation(tx: Tx, key: str) -> None:
    """
    Note a counter as made, unless somebody else made it and has noted that.

    Not every database tells an INSERT from one that found a row. One that found a row
    has waited for whoever made it to commit, note and all. The key may also have had a
    counter that was deleted: the new one goes on from its revisions.
    """
    last = tx.scalar(
        tx.latest(journals.last_rev(tx.schema)),
        entity=Entity.COUNTER.value,
        entity_id=key,
    )
    assert tx.journal is not None
    if last is None:
        tx.journal.touched(Entity.COUNTER, key, Action.CREATE)
        return
    (row,) = tx.rows(tx.latest(journals.rows_now(tx.schema.concurrency)), in_ids=[key])
    if row["rev"] == 0 and last > 0:
        tx.run(journals.set_counter_rev(tx.schema), at_key=key, set_rev=last + 1)
        tx.journal.touched(Entity.COUNTER, key, Action.CREATE)


def delete_counter(tx: Tx, key: str) -> None:
    """
    Delete a counter at zero whose key no job names any more (R1).

    Looked up before: a condition of the DELETE would lock jobs on MySQL, after the
    counter and so against the order (C4). A job stored meanwhile is left without a
    counter, and whoever claims it makes it again.
    """
    if tx.run(counters.jobs_naming(tx.schema), at_key=key).first() is not None:
        return
    before = None
    if tx.journal is not None:
        # Locked, so that the revision read is the last.
        before = locks.counter_rows(tx, [key]).get(key)
    deleted = tx.changed(counters.delete_unused(tx.schema), at_key=key)
    if deleted and before is not None and tx.journal is not None:
        tx.journal.deleted(Entity.COUNTER, key, before["rev"])


def schedule_key(
    tx: Tx, statement: Update, key: str, action: str, **values: Any
) -> bool:
    """Execute an UPDATE of one schedule key; say whether it changed."""
    changed = tx.changed(statement, at_key=key, **values)
    if changed and tx.journal is not None:
        tx.journal.touched(Entity.SCHEDULE_KEY, key, action)
    return bool(changed)


def make_schedule_key(tx: Tx, key: str) -> None:
    """
    Insert a schedule key without owner if there is none.

    Not noted: it says nothing yet. Its revision 1 is its first owner.
    """
    statement = tx.room.insert_if_missing(tx.schema.schedule_keys)
    tx.run(statement, schedule_key=key, job_id=None, last_order=0, rev=0)
