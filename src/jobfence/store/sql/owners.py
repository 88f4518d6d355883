"""The ownership row: one live worker that has the database alone (L2)."""

from jobfence.store.sql.statements import others
from jobfence.store.sql.tx import Tx

# One row for the whole database.
_NAME = "database"


def acquire_ownership(tx: Tx, worker_id: str, ttl_ms: int) -> bool:
    """Take the row if it is free, run out or this worker's own; renew it then."""
    tx.run(
        tx.room.insert_if_missing(tx.schema.owners),
        name=_NAME,
        worker_id=worker_id,
        expires_at_ms=0,
    )
    return bool(
        tx.changed(
            others.take_ownership(tx.schema),
            at_name=_NAME,
            at_now=tx.now,
            set_worker=worker_id,
            set_expires=tx.now + ttl_ms,
        )
    )


def release_ownership(tx: Tx, worker_id: str) -> None:
    """Let the row run out now, if it is this worker's."""
    tx.run(others.drop_ownership(tx.schema), at_name=_NAME, set_worker=worker_id)
