"""Writing counters and schedule keys: executed here, and noted for the journal."""

from typing import Any

from sqlalchemy import Update

from jobfence.store.sql.statements import counters, journals
from jobfence.store.sql.tx import Tx


def counter(tx: Tx, statement: Update, key: str, action: str, **values: Any) -> bool:
    """Execute an UPDATE of one counter; say whether it changed."""
    changed = tx.changed(statement, at_key=key, **values)
    if changed and tx.journal is not None:
        tx.journal.touched("counter", key, action)
    return bool(changed)


def make_counter(tx: Tx, key: str, cap: int) -> bool:
    """Insert a counter at zero if there is none; say whether this call may have."""
    statement = tx.room.insert_if_missing(tx.schema.concurrency)
    rev = 0 if tx.journal is None else _next_rev(tx, key)
    made = bool(
        tx.changed(
            statement,
            concurrency_key=key,
            max_concurrency=cap,
            active_count=0,
            rev=rev,
        )
    )
    if made and tx.journal is not None:
        tx.journal.touched("counter", key, "create")
    return made


def _next_rev(tx: Tx, key: str) -> int:
    """Go on from a counter of this key that was deleted."""
    last = tx.scalar(journals.last_rev(tx.schema), entity="counter", entity_id=key)
    return 0 if last is None else int(last) + 1


def delete_counter(tx: Tx, key: str) -> None:
    """Delete a counter at zero whose key no job names any more (R1)."""
    before = None
    if tx.journal is not None:
        before = tx.one(counters.by_keys(tx.schema), in_keys=[key])
    deleted = tx.changed(counters.delete_unused(tx.schema), at_key=key)
    if deleted and before is not None and tx.journal is not None:
        tx.journal.deleted("counter", key, before["rev"])


def schedule_key(
    tx: Tx, statement: Update, key: str, action: str, **values: Any
) -> bool:
    """Execute an UPDATE of one schedule key; say whether it changed."""
    changed = tx.changed(statement, at_key=key, **values)
    if changed and tx.journal is not None:
        tx.journal.touched("schedule_key", key, action)
    return bool(changed)


def make_schedule_key(tx: Tx, key: str) -> None:
    """Insert a schedule key without owner if there is none."""
    statement = tx.room.insert_if_missing(tx.schema.schedule_keys)
    tx.run(statement, schedule_key=key, job_id=None, last_order=0, rev=0)
