"""What an operator asks of jobs beyond one call: the newest ones, and why one waits."""

import time

from typing import TYPE_CHECKING, NamedTuple

from jobfence.cli import output
from jobfence.statemachine.policy import DERIVED_PREFIX, derived_key
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import Job

if TYPE_CHECKING:
    from jobfence.store.sql.store import SqlJobStore


class Filters(NamedTuple):
    """Which jobs to list."""

    status: JobStatus | None
    queue: str | None
    name: str | None


def newest(store: "SqlJobStore", filters: Filters, limit: int) -> list[Job]:
    """Return the last page of the listing (O2), from its end."""
    status, queue, name = filters
    # First, so that its checks come first.
    page = store.list_jobs(status=status, queue=queue, name=name, limit=limit)
    before = _job_before_the_last(store, filters, limit)
    if before is not None:
        page = store.list_jobs(
            status=status, queue=queue, name=name, limit=limit, after=before
        )
    return page[::-1]


def _job_before_the_last(
    store: "SqlJobStore", filters: Filters, count: int
) -> str | None:
    jobs = store.tables.jobs
    query = jobs.select().with_only_columns(jobs.c.id)
    for column, value in filters._asdict().items():
        if value is not None:
            query = query.where(jobs.c[column] == value.strip())
    order = (jobs.c.created_at_ms.desc(), jobs.c.id.desc())
    with store.engine.connect() as connection:
        found = connection.scalar(query.order_by(*order).offset(count).limit(1))
    return None if found is None else str(found)


def waits_for(store: "SqlJobStore", job: Job) -> list[str]:
    """Say why a queued job is not taken; more than one thing may keep it."""
    if job.status is not JobStatus.QUEUED:
        return []
    reasons = []
    if job.scheduled_at_ms > time.time() * 1000:
        failed = f", after failure {job.attempts}" if job.attempts else ""
        reasons.append(f"its time, {output.when(job.scheduled_at_ms)}{failed}")
    stats = {each.queue: each for each in store.queue_stats()}.get(job.queue)
    if stats is not None and stats.paused:
        reasons.append(f"queue {job.queue} to be resumed: it is paused")
    key = job.concurrency_key
    if key is None or key.startswith(DERIVED_PREFIX):
        # By the policy as it is now, for a claim adopts it.
        cap = None if stats is None else stats.max_concurrent
        _, active = _counter(store, derived_key(job.queue))
        what = f"queue {job.queue}"
    else:
        cap, active = _counter(store, key)
        what = f"concurrency key {key}"
    if cap is not None and active >= cap:
        reasons.append(f"a place of {what}: {active} of {cap} are taken")
    return reasons or ["a worker with a free place that takes its queue"]


def _counter(store: "SqlJobStore", key: str) -> tuple[int | None, int]:
    counters = store.tables.concurrency
    query = counters.select().where(counters.c.concurrency_key == key)
    with store.engine.connect() as connection:
        row = connection.execute(query).mappings().first()
    return (None, 0) if row is None else (row["max_concurrency"], row["active_count"])
