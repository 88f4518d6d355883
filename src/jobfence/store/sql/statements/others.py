"""Schedule keys, idempotency keys, queues and the ownership row."""

from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    CompoundSelect,
    Select,
    Update,
    and_,
    bindparam,
    case,
    func,
    not_,
    or_,
    select,
    union_all,
    update,
)

from jobfence.statemachine.policy import DERIVED_PREFIX
from jobfence.statemachine.states import ACTIVE, TERMINAL
from jobfence.store.sql.schema import Schema
from jobfence.store.sql.statements.claims import QUEUED


@cache
def schedule_keys(schema: Schema) -> Select[Any]:
    """Return schedule keys in key order: the order in which they are locked (C4)."""
    table = schema.schedule_keys
    return (
        select(table)
        .where(table.c.schedule_key.in_(bindparam("in_keys", expanding=True)))
        .order_by(table.c.schedule_key)
    )


@cache
def own(schema: Schema) -> Update:
    """Make a job the owner of a key that is locked (K3)."""
    table = schema.schedule_keys
    return (
        update(table)
        .where(table.c.schedule_key == bindparam("at_key"))
        .values(
            job_id=bindparam("set_job_id"),
            last_order=bindparam("set_order"),
            rev=table.c.rev + 1,
        )
    )


@cache
def disown(schema: Schema) -> Update:
    """End a job's ownership, if it still owns the key (K2); the order stays."""
    table = schema.schedule_keys
    return (
        update(table)
        .where(
            table.c.schedule_key == bindparam("at_key"),
            table.c.job_id == bindparam("at_job_id"),
        )
        .values(job_id=None, rev=table.c.rev + 1)
    )


@cache
def active_owner(schema: Schema) -> Select[Any]:
    """Return the job that owns a key, if it is active."""
    jobs, keys = schema.jobs, schema.schedule_keys
    return (
        select(jobs)
        .select_from(keys)
        .join(jobs, jobs.c.id == keys.c.job_id)
        .where(
            keys.c.schedule_key == bindparam("at_key"),
            jobs.c.status.in_(sorted(status.value for status in ACTIVE)),
        )
    )


def _latest_terminal(schema: Schema) -> Select[Any]:
    """Return the ended jobs of a key, latest owner first, no order last (K3)."""
    jobs = schema.jobs.c
    return (
        select(schema.jobs)
        .where(
            jobs.schedule_key == bindparam("at_key"),
            jobs.status.in_(sorted(status.value for status in TERMINAL)),
        )
        .order_by(
            func.coalesce(jobs.schedule_order, -1).desc(),
            jobs.created_at_ms.desc(),
            jobs.id.desc(),
        )
        .limit(1)
    )


@cache
def owner_and_latest_terminal(schema: Schema) -> CompoundSelect[Any]:
    """
    Return the active owner of a key, and the latest of its jobs that ended.

    One statement, for each has a snapshot of its own at READ COMMITTED: between two of
    them an owner that is replaced would be either both or neither.
    """
    # SQLite wants what has an order in a sub-select.
    latest = _latest_terminal(schema).subquery("latest")
    return union_all(active_owner(schema), select(latest))


@cache
def owners_from_jobs(schema: Schema) -> Select[Any]:
    """Return every job with a schedule key, to rebuild a lost owner table from (K3)."""
    jobs = schema.jobs.c
    return (
        select(
            jobs.schedule_key,
            jobs.id,
            jobs.status,
            jobs.schedule_order,
            jobs.cancel_requested,
        )
        .where(jobs.schedule_key.is_not(None))
        .order_by(
            jobs.schedule_key,
            func.coalesce(jobs.schedule_order, -1),
            jobs.created_at_ms,
            jobs.id,
        )
    )


@cache
def idempotent(schema: Schema) -> Select[Any]:
    """Return the first enqueue of an idempotency key (E5)."""
    table = schema.idempotency
    return select(table).where(table.c.scope == bindparam("scope"))


@cache
def queues(schema: Schema) -> Select[Any]:
    """Return every durable queue row."""
    return select(schema.queues).order_by(schema.queues.c.queue)


@cache
def set_queue(schema: Schema, *columns: str) -> Update:
    """Change these columns of one queue's row."""
    table = schema.queues
    return (
        update(table)
        .where(table.c.queue == bindparam("at_queue"))
        .values({name: bindparam(f"set_{name}") for name in columns})
    )


def _derived(schema: Schema) -> ColumnElement[bool]:
    # Not LIKE: SQLite's folds case, and "QUEUE:x" is a key like any other.
    key = schema.jobs.c.concurrency_key
    return or_(
        key.is_(None), func.substr(key, 1, len(DERIVED_PREFIX)) == DERIVED_PREFIX
    )


def _policy_differs(schema: Schema) -> ColumnElement[bool]:
    jobs = schema.jobs.c
    key = bindparam("set_key", type_=jobs.concurrency_key.type)
    cap = bindparam("set_cap", type_=jobs.max_concurrency.type)
    return or_(
        and_(
            _derived(schema),
            or_(
                jobs.concurrency_key.is_distinct_from(key),
                jobs.max_concurrency.is_distinct_from(cap),
            ),
        ),
        and_(not_(jobs.priority_explicit), jobs.priority != bindparam("set_priority")),
    )


@cache
def rows_to_adopt(schema: Schema, *, others: bool) -> Select[Any]:
    """
    Return ids of queued jobs that a queue's policy would change, in id order (C7).

    With `others`, of every queue that is not named: they are to have no policy.
    """
    jobs = schema.jobs.c
    which = (
        jobs.queue.not_in(bindparam("in_queues", expanding=True))
        if others
        else jobs.queue == bindparam("at_queue")
    )
    return (
        select(jobs.id)
        .where(jobs.status == QUEUED, which, _policy_differs(schema))
        .order_by(jobs.id)
        .limit(bindparam("row_limit"))
    )


@cache
def adopt_many(schema: Schema) -> Update:
    """Give locked queued jobs their queue's policy, each part where it applies (M13)."""
    jobs = schema.jobs.c
    derived = _derived(schema)
    key = bindparam("set_key", type_=jobs.concurrency_key.type)
    cap = bindparam("set_cap", type_=jobs.max_concurrency.type)
    priority = bindparam("set_priority", type_=jobs.priority.type)
    return (
        update(schema.jobs)
        .where(
            jobs.id.in_(bindparam("in_ids", expanding=True)),
            jobs.status == QUEUED,
            _policy_differs(schema),
        )
        # MySQL sets from left to right: the cap must be set while the key it depends on
        # is still the old one.
        .ordered_values(
            (
                jobs.priority,
                case((jobs.priority_explicit, jobs.priority), else_=priority),
            ),
            (jobs.max_concurrency, case((derived, cap), else_=jobs.max_concurrency)),
            (jobs.concurrency_key, case((derived, key), else_=jobs.concurrency_key)),
            (jobs.rev, jobs.rev + 1),
        )
    )


@cache
def take_ownership(schema: Schema) -> Update:
    """Take the ownership row if it is ours or has run out (L2)."""
    table = schema.owners
    return (
        update(table)
        .where(
            table.c.name == bindparam("at_name"),
            or_(
                table.c.worker_id == bindparam("set_worker"),
                table.c.expires_at_ms <= bindparam("at_now", type_=BigInteger()),
            ),
        )
        .values(
            worker_id=bindparam("set_worker"), expires_at_ms=bindparam("set_expires")
        )
    )


@cache
def drop_ownership(schema: Schema) -> Update:
    """Let the ownership row run out, if it is ours."""
    table = schema.owners
    return (
        update(table)
        .where(
            table.c.name == bindparam("at_name"),
            table.c.worker_id == bindparam("set_worker"),
        )
        .values(expires_at_ms=0)
    )
