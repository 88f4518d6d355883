"""Counters of concurrency keys, and what the jobs say they should be (the C rules)."""

from functools import cache
from typing import Any

from sqlalchemy import (
    Delete,
    Select,
    Update,
    bindparam,
    case,
    delete,
    exists,
    func,
    not_,
    or_,
    select,
    update,
)

from jobfence.statemachine.states import ACTIVE
from jobfence.store.sql.schema import Schema
from jobfence.store.sql.statements.claims import HANDED_OFF, QUEUED

KEYS = "in_keys"


def _keys() -> Any:
    return bindparam(KEYS, expanding=True)


@cache
def by_keys(schema: Schema) -> Select[Any]:
    """Return counters in key order: the order in which they are locked (C4)."""
    counters = schema.concurrency
    key = counters.c.concurrency_key
    return select(counters).where(key.in_(_keys())).order_by(key)


@cache
def reserve(schema: Schema) -> Update:
    """Take `n` slots if the cap leaves them free; else change nothing (C4)."""
    counters = schema.concurrency
    active, cap = counters.c.active_count, counters.c.max_concurrency
    return (
        update(counters)
        .where(
            counters.c.concurrency_key == bindparam("at_key"),
            active + bindparam("n") <= cap,
        )
        .values(active_count=active + bindparam("n"), rev=counters.c.rev + 1)
    )


@cache
def release(schema: Schema) -> Update:
    """
    Give `n` slots back.

    A counter that had drifted too low stops at zero: the acknowledgement must not fail
    for it, and the repair (C9) mends it.
    """
    counters = schema.concurrency
    active = counters.c.active_count
    less = active - bindparam("n")
    return (
        update(counters)
        .where(counters.c.concurrency_key == bindparam("at_key"))
        .values(active_count=case((less > 0, less), else_=0), rev=counters.c.rev + 1)
    )


@cache
def set_cap(schema: Schema) -> Update:
    """Change a key's cap."""
    counters = schema.concurrency
    return (
        update(counters)
        .where(counters.c.concurrency_key == bindparam("at_key"))
        .values(max_concurrency=bindparam("set_cap"), rev=counters.c.rev + 1)
    )


@cache
def set_active(schema: Schema) -> Update:
    """Correct a counter (C9)."""
    counters = schema.concurrency
    return (
        update(counters)
        .where(counters.c.concurrency_key == bindparam("at_key"))
        .values(active_count=bindparam("set_active"), rev=counters.c.rev + 1)
    )


@cache
def held_counts(schema: Schema, *, one: bool) -> Select[Any]:
    """Return the handed-off jobs of every key, or of one: what counters must say (C5)."""
    jobs = schema.jobs.c
    found = select(jobs.concurrency_key, func.count().label("held")).where(
        jobs.status == HANDED_OFF, jobs.concurrency_key.is_not(None)
    )
    if one:
        found = found.where(jobs.concurrency_key == bindparam("at_key"))
    return found.group_by(jobs.concurrency_key)


@cache
def counters_to_check(schema: Schema) -> Select[Any]:
    """Return every counter that is not zero, or whose key has handed-off jobs."""
    counters, jobs = schema.concurrency.c, schema.jobs.c
    held = exists().where(
        jobs.concurrency_key == counters.concurrency_key, jobs.status == HANDED_OFF
    )
    return select(schema.concurrency).where(or_(counters.active_count != 0, held))


@cache
def keys_without_counter(schema: Schema) -> Select[Any]:
    """Return the keys that active jobs name and that have no counter."""
    counters, jobs = schema.concurrency.c, schema.jobs.c
    known = exists().where(counters.concurrency_key == jobs.concurrency_key)
    return (
        select(jobs.concurrency_key)
        .where(
            jobs.concurrency_key.is_not(None),
            or_(jobs.status == QUEUED, jobs.status == HANDED_OFF),
            not_(known),
        )
        .distinct()
        .order_by(jobs.concurrency_key)
    )


@cache
def latest_cap(schema: Schema) -> Select[Any]:
    """Return the cap that the latest active job of a key was enqueued with."""
    jobs = schema.jobs.c
    return (
        select(jobs.max_concurrency)
        .where(
            jobs.concurrency_key == bindparam("at_key"),
            jobs.status.in_(sorted(status.value for status in ACTIVE)),
        )
        .order_by(jobs.created_at_ms.desc(), jobs.id.desc())
        .limit(1)
    )


@cache
def jobs_naming(schema: Schema) -> Select[Any]:
    """Return one job with this key, in any status."""
    jobs = schema.jobs.c
    return select(jobs.id).where(jobs.concurrency_key == bindparam("at_key")).limit(1)


@cache
def delete_unused(schema: Schema) -> Delete:
    """Delete a counter at zero (R1)."""
    counters = schema.concurrency.c
    return delete(schema.concurrency).where(
        counters.concurrency_key == bindparam("at_key"), counters.active_count == 0
    )
