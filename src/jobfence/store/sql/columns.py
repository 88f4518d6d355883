"""The columns of each table, and since which step of the schema they are there."""

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Integer,
    false,
    text,
)
from sqlalchemy.types import TypeEngine

from jobfence.store.sql.types import Key, LongText

ID_LENGTH = 255
DIGEST_LENGTH = 64
# "queue:" and a queue's name.
CONCURRENCY_KEY_LENGTH = 261


def _column(
    name: str,
    kind: TypeEngine[Any],
    *,
    since: int = 1,
    null: bool = False,
    key: bool = False,
    default: str | None = None,
) -> Column[Any]:
    return Column(
        name,
        kind,
        primary_key=key,
        nullable=null,
        server_default=None if default is None else text(default),
        autoincrement=False,
        info={"since": since},
    )


def job_columns() -> list[Column[Any]]:
    """Return a job's: the public `Job`, and what only the store needs."""
    time = BigInteger
    return [
        _column("id", Key(ID_LENGTH), key=True),
        _column("name", Key(255)),
        _column("queue", Key(255)),
        _column("args", LongText()),
        _column("kwargs", LongText()),
        _column("args_digest", Key(DIGEST_LENGTH)),
        _column("status", Key(16)),
        _column("priority", Integer()),
        _column("priority_explicit", Boolean()),
        _column("attempts", Integer(), default="0"),
        _column("max_retries", Integer()),
        _column("handoffs", Integer(), default="0"),
        _column("created_at_ms", time()),
        _column("scheduled_at_ms", time()),
        _column("handed_off_at_ms", time(), null=True),
        _column("handoff_id", Key(ID_LENGTH), null=True),
        _column("worker_id", Key(ID_LENGTH), null=True),
        _column("lease_ms", Integer(), null=True),
        _column("lease_expires_at_ms", time(), null=True),
        _column("last_handoff_id", Key(ID_LENGTH), null=True),
        _column("last_worker_id", Key(ID_LENGTH), null=True),
        _column("last_handed_off_at_ms", time(), null=True),
        _column("last_ack", Key(32), null=True),
        _column("completed_at_ms", time(), null=True),
        _column("failed_at_ms", time(), null=True),
        _column("cancelled_at_ms", time(), null=True),
        _column("last_error", LongText(medium=True), null=True),
        _column("concurrency_key", Key(CONCURRENCY_KEY_LENGTH), null=True),
        _column("max_concurrency", Integer(), null=True),
        Column(
            "cancel_requested",
            Boolean(),
            nullable=False,
            server_default=false(),
            info={"since": 1},
        ),
        _column("schedule_key", Key(255), null=True, since=2),
        _column("schedule_order", BigInteger(), null=True, since=3),
        _column("timeout_ms", Integer(), null=True, since=3),
        _column("execution_mode", Key(16), since=3, default="'inline'"),
        _column("origin_id", Key(ID_LENGTH), null=True, since=3),
        _column("rev", BigInteger(), since=3, default="0"),
    ]


def concurrency_columns() -> list[Any]:
    """Return those of a counter of a concurrency key (C1)."""
    return [
        _column("concurrency_key", Key(CONCURRENCY_KEY_LENGTH), key=True),
        _column("max_concurrency", Integer()),
        _column("active_count", Integer(), default="0"),
        _column("rev", BigInteger(), since=3, default="0"),
        CheckConstraint("max_concurrency > 0 AND active_count >= 0"),
    ]


def migration_columns() -> list[Any]:
    """Return those of the ledger of steps."""
    return [_column("version", Integer(), key=True), _column("at_ms", BigInteger())]


def lock_columns() -> list[Any]:
    """Return those of names that are locked by rows."""
    return [_column("lock_key", Key(DIGEST_LENGTH), key=True)]


def schedule_columns() -> list[Any]:
    """Return those of a schedule key: its owner and its high-water order (K3)."""
    return [
        _column("schedule_key", Key(255), key=True, since=2),
        _column("job_id", Key(ID_LENGTH), null=True, since=2),
        _column("last_order", BigInteger(), since=3, default="0"),
        _column("rev", BigInteger(), since=3, default="0"),
    ]


def idempotency_columns() -> list[Any]:
    """Return those of the first enqueue of an idempotency key (E5)."""
    return [
        _column("scope", Key(DIGEST_LENGTH), key=True, since=3),
        _column("name", Key(255), since=3),
        _column("queue", Key(255), since=3),
        _column("idempotency_key", Key(255), since=3),
        _column("job_id", Key(ID_LENGTH), since=3),
        _column("request", LongText(), since=3),
        _column("created_at_ms", BigInteger(), since=3),
    ]


def queue_columns() -> list[Any]:
    """Return those of a queue's durable policy and pause (C0, R4)."""
    return [
        _column("queue", Key(255), key=True, since=3),
        _column("max_concurrent", Integer(), null=True, since=3),
        _column("priority", Integer(), since=3, default="0"),
        Column(
            "paused",
            Boolean(),
            nullable=False,
            server_default=false(),
            info={"since": 3},
        ),
    ]


def owner_columns() -> list[Any]:
    """Return those of the one worker that has the database alone (L2)."""
    return [
        _column("name", Key(64), key=True, since=3),
        _column("worker_id", Key(ID_LENGTH), since=3),
        _column("expires_at_ms", BigInteger(), since=3),
    ]


def journal_columns() -> list[Any]:
    """Return those of one row for each row written, in the transaction that wrote it."""
    return [
        _column("entity", Key(16), key=True, since=3),
        _column("entity_id", Key(CONCURRENCY_KEY_LENGTH), key=True, since=3),
        _column("rev", BigInteger(), key=True, since=3),
        _column("tx", Key(36), since=3),
        _column("writes", Integer(), since=3),
        _column("action", Key(64), since=3),
        _column("handoff_id", Key(ID_LENGTH), null=True, since=3),
        _column("at_ms", BigInteger(), since=3),
        _column("post", LongText(), null=True, since=3),
    ]
