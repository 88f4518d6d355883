"""Running an ended job again, as a new one (R5)."""

from jobfence.statemachine.errors import InvalidOption
from jobfence.statemachine.options import Prepared
from jobfence.statemachine.policy import Concurrency, is_derived
from jobfence.store.sql.enqueue import NewJob, insert_rows, new_row
from jobfence.store.sql.rows import Row, job_from
from jobfence.store.sql.statements import counters, jobs
from jobfence.store.sql.tx import Tx


def requeue(tx: Tx, job_id: str, new_id: str) -> str:
    """Store an ended job again as a new one that names its origin (R5)."""
    row = tx.one(tx.latest(jobs.by_id(tx.schema)), at_id=job_id)
    if row is None:
        raise InvalidOption("job_id", job_id, "must be the id of a stored job")
    if not job_from(row).status.terminal:
        raise InvalidOption("job_id", job_id, "must be of a job that has ended")
    new = new_row(tx, NewJob(new_id, _again(tx, row)), origin_id=job_id)
    insert_rows(tx, [new], given_caps=False)
    tx.wake = True
    return new_id


def _again(tx: Tx, row: Row) -> Prepared:
    job = job_from(row)
    return Prepared(
        name=job.name,
        args_text=str(row["args"]),
        kwargs_text=str(row["kwargs"]),
        args_digest=str(row["args_digest"]),
        queue=job.queue,
        given_max_retries=job.max_retries,
        scheduled_at_ms=None,
        concurrency=_registered(tx, job.concurrency_key, job.max_concurrency),
        priority=job.priority if row["priority_explicit"] else None,
        deduplicate_while_queued=False,
        idempotency_key=None,
        timeout_ms=job.timeout_ms,
        given_execution_mode=job.execution_mode,
    )


def _registered(tx: Tx, key: str | None, cap: int | None) -> Concurrency:
    """Return an explicit key with the cap it is registered with now."""
    if key is None or is_derived(key):
        return Concurrency(None, None)
    counter = tx.one(counters.by_keys(tx.schema), in_keys=[key])
    registered = counter["max_concurrency"] if counter else cap
    return Concurrency(key, registered if isinstance(registered, int) else cap)
