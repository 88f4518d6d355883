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
    from jobfence.store.sql import looking  # noqa: PLC0415  SQLAlchemy

    status, queue, name = filters
    # First, so that its checks come first.
    page = store.list_jobs(status=status, queue=queue, name=name, limit=limit)
    trimmed = filters._replace(queue=None if queue is None else queue.strip())
    given = {name: each for name, each in trimmed._asdict().items() if each is not None}
    before = looking.job_before_the_last(store, given, limit)
    if before is not None:
        page = store.list_jobs(
            status=status, queue=queue, name=name, limit=limit, after=before
        )
    return page[::-1]


def waits_for(store: "SqlJobStore", job: Job) -> list[str]:
    """Say why a queued job is not taken; more than one thing may keep it."""
    from jobfence.store.sql import looking  # noqa: PLC0415  SQLAlchemy

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
        _, active = looking.counter(store, derived_key(job.queue))
        what = f"queue {job.queue}"
    else:
        cap, active = looking.counter(store, key)
        what = f"concurrency key {key}"
    if cap is not None and active >= cap:
        reasons.append(f"a place of {what}: {active} of {cap} are taken")
    return reasons or ["a worker with a free place that takes its queue"]
