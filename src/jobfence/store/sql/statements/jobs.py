"""Reading, locking, inserting and deleting jobs."""

from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    BindParameter,
    Delete,
    Select,
    and_,
    bindparam,
    case,
    delete,
    func,
    or_,
    select,
)

from jobfence.statemachine.states import JobStatus
from jobfence.store.sql.schema import Schema, ended_columns
from jobfence.store.sql.statements.claims import HANDED_OFF, NOW, QUEUED

IDS = "in_ids"


@cache
def by_id(schema: Schema) -> Select[Any]:
    """Return one job by its id."""
    return select(schema.jobs).where(schema.jobs.c.id == bindparam("at_id"))


@cache
def by_ids(schema: Schema) -> Select[Any]:
    """Return jobs by id, in id order: the order in which jobs are locked (C4)."""
    jobs = schema.jobs
    return (
        select(jobs)
        .where(jobs.c.id.in_(bindparam(IDS, expanding=True)))
        .order_by(jobs.c.id)
    )


@cache
def schedule_keys_of(schema: Schema) -> Select[Any]:
    """Return the schedule keys of jobs: a job's never changes, so no lock is needed."""
    jobs = schema.jobs.c
    return (
        select(jobs.schedule_key)
        .where(
            jobs.id.in_(bindparam(IDS, expanding=True)), jobs.schedule_key.is_not(None)
        )
        .distinct()
        .order_by(jobs.schedule_key)
    )


@cache
def having_handoff(schema: Schema) -> Select[Any]:
    """Return the job whose latest handoff has this id."""
    jobs = schema.jobs.c
    return select(jobs.id).where(jobs.last_handoff_id == bindparam("handoff_id"))


@cache
def twin(schema: Schema) -> Select[Any]:
    """Return the earliest queued job that a new one would repeat (E4)."""
    jobs = schema.jobs.c
    return (
        select(jobs.id, jobs.scheduled_at_ms, jobs.created_at_ms)
        .where(
            jobs.status == QUEUED,
            jobs.args_digest == bindparam("args_digest"),
            jobs.name == bindparam("name"),
            jobs.queue == bindparam("queue"),
            jobs.args == bindparam("args"),
            jobs.kwargs == bindparam("kwargs"),
            jobs.schedule_key.is_(None),
            jobs.scheduled_at_ms <= bindparam("scheduled_at_ms"),
        )
        .order_by(jobs.scheduled_at_ms, jobs.created_at_ms, jobs.id)
        .limit(1)
    )


@cache
def listing(schema: Schema, filters: tuple[str, ...], *, after: bool) -> Select[Any]:
    """Return jobs by (created, id), from just behind a place in that order (O2)."""
    jobs = schema.jobs.c
    found = select(schema.jobs).where(
        *(jobs[name] == bindparam(f"is_{name}") for name in filters)
    )
    if after:
        created: BindParameter[int] = bindparam("after_created")
        behind: BindParameter[str] = bindparam("after_id")
        found = found.where(
            or_(
                jobs.created_at_ms > created,
                and_(jobs.created_at_ms == created, jobs.id > behind),
            )
        )
    return found.order_by(jobs.created_at_ms, jobs.id).limit(bindparam("row_limit"))


@cache
def held_by(schema: Schema) -> Select[Any]:
    """Return what a worker holds."""
    jobs = schema.jobs.c
    return (
        select(schema.jobs)
        .where(jobs.status == HANDED_OFF, jobs.worker_id == bindparam("is_worker"))
        .order_by(jobs.handed_off_at_ms, jobs.id)
    )


@cache
def expired(schema: Schema) -> Select[Any]:
    """Return the ids of handoffs whose lease has run out, earliest first (L1)."""
    jobs = schema.jobs.c
    return (
        select(jobs.id)
        .where(
            jobs.status == HANDED_OFF,
            jobs.lease_expires_at_ms <= bindparam(NOW, type_=BigInteger()),
        )
        .order_by(jobs.lease_expires_at_ms, jobs.id)
        .limit(bindparam("row_limit"))
    )


@cache
def all_held(schema: Schema) -> Select[Any]:
    """Return the ids of every handoff, oldest first (L2)."""
    jobs = schema.jobs.c
    return (
        select(jobs.id)
        .where(jobs.status == HANDED_OFF)
        .order_by(jobs.handed_off_at_ms, jobs.id)
    )


@cache
def counts(schema: Schema) -> Select[Any]:
    """Return the number of jobs by status."""
    jobs = schema.jobs.c
    return select(jobs.status, func.count().label("jobs")).group_by(jobs.status)


@cache
def queue_counts(schema: Schema) -> Select[Any]:
    """Return jobs by queue and status, and the earliest due time among the queued."""
    jobs = schema.jobs.c
    due = and_(
        jobs.status == QUEUED,
        jobs.scheduled_at_ms <= bindparam(NOW, type_=BigInteger()),
    )
    return select(
        jobs.queue,
        jobs.status,
        func.count().label("jobs"),
        func.min(case((due, jobs.scheduled_at_ms))).label("oldest_due"),
    ).group_by(jobs.queue, jobs.status)


@cache
def ended(schema: Schema, status: JobStatus) -> Select[Any]:
    """Return ids and keys of jobs that ended in this status by a time, oldest first."""
    jobs = schema.jobs.c
    at = jobs[ended_columns()[status]]
    return (
        select(jobs.id, jobs.concurrency_key, jobs.rev)
        .where(at <= bindparam("ended_by"), jobs.status == status.value)
        .order_by(at, jobs.id)
        .limit(bindparam("row_limit"))
    )


@cache
def delete_ended(schema: Schema, status: JobStatus) -> Delete:
    """
    Delete a job, if it still is as `ended` found it (R1).

    One by one: for a list of ids MySQL may read the whole table, and wait for every lock
    in it.
    """
    jobs = schema.jobs.c
    return delete(schema.jobs).where(
        jobs.id == bindparam("at_id"),
        jobs.status == status.value,
        jobs[ended_columns()[status]] <= bindparam("ended_by"),
    )
