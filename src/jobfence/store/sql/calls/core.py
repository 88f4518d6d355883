"""Jobs, acknowledgements and recovery: checked input, then work on a `Tx`."""

from collections.abc import Iterable
from typing import Any

from jobfence.statemachine import checks, options
from jobfence.statemachine.errortext import error_text
from jobfence.statemachine.settling import settled
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.table import Trigger
from jobfence.statemachine.values import (
    Ack,
    Cancellation,
    Handoff,
    Job,
    Settlement,
)
from jobfence.store.sql import (
    acks,
    enqueue,
    owners,
    reads,
    recover,
    single,
)
from jobfence.store.sql.calls.base import Call, Mode
from jobfence.store.sql.requeue import requeue as requeue_job
from jobfence.store.sql.tx import Settings, Tx

MOST_AT_ONCE = 10_000


def nothing() -> Call[None]:
    """Do nothing, in a transaction: what makes the tables ready."""
    return Call(lambda _: None, Mode.READ)


def enqueue_one(
    settings: Settings, name: object, args: object, kwargs: object, given: Any
) -> Call[str]:
    """Check and store one job."""
    new = enqueue.NewJob(settings.ids(), options.prepare(name, args, kwargs, **given))
    return Call(lambda tx: enqueue.enqueue(tx, [new])[0])


def enqueue_many(
    settings: Settings, requests: Iterable[options.JobRequest]
) -> Call[list[str]]:
    """Check and store several jobs, all or none."""
    wanted = [
        enqueue.NewJob(settings.ids(), request.prepared)
        for request in checks.each_of("requests", requests, options.JobRequest)
    ]
    return Call(lambda tx: enqueue.enqueue(tx, wanted))


def get(job_id: object) -> Call[Job | None]:
    """Look one job up."""
    found = checks.storable("job_id", job_id)
    return Call(lambda tx: reads.get(tx, found), Mode.READ)


def list_jobs(
    status: object, queue: object, name: object, limit: object, after: object
) -> Call[list[Job]]:
    """Look a page of jobs up."""
    filters: dict[str, str] = {}
    if status is not None:
        filters["status"] = checks.job_status(status).value
    if queue is not None:
        filters["queue"] = checks.queue_name(queue)
    if name is not None:
        filters["name"] = checks.text("name", name)
    most = checks.integer("limit", limit, least=1, most=MOST_AT_ONCE)
    behind = (
        after
        if after is None or isinstance(after, Job)
        else checks.storable("after", after)
    )
    return Call(lambda tx: reads.list_jobs(tx, filters, most, behind), Mode.READ)


def next_available(asked_queues: object, execution_modes: object) -> Call[Job | None]:
    """Look up what a claim would try first."""
    names = options.queue_names(asked_queues)
    modes = options.execution_modes(execution_modes)
    return Call(lambda tx: reads.next_available(tx, names, modes), Mode.READ)


def next_scheduled(asked_queues: object) -> Call[Job | None]:
    """Look up what falls due next."""
    names = options.queue_names(asked_queues)
    return Call(lambda tx: reads.next_scheduled(tx, names), Mode.READ)


def handoffs_for_worker(worker_id: object) -> Call[list[Handoff]]:
    """Look up what a worker holds."""
    worker = checks.text("worker_id", worker_id)
    return Call(lambda tx: reads.handoffs_for_worker(tx, worker), Mode.READ)


def counts() -> Call[dict[JobStatus, int]]:
    """Count jobs by status."""
    return Call(reads.counts, Mode.READ)


def acknowledge(
    trigger: Trigger,
    job_id: str,
    handoff_id: str,
    *,
    error: object = None,
    delay_ms: int | None = None,
) -> Call[Ack]:
    """Check and make one acknowledgement."""
    text = error_text(error) if trigger is Trigger.FAIL else None
    ack = settled(Settlement(trigger, job_id, handoff_id, text, delay_ms))
    return Call(lambda tx: acks.acknowledge(tx, [ack])[0])


def extend(extensions: Iterable[tuple[str, str]], lease_ms: object) -> Call[list[Ack]]:
    """Check and renew leases."""
    length = checks.lease_ms(lease_ms)
    wanted = [acks.Extension(*each, length) for each in extensions]
    return Call(lambda tx: acks.extend(tx, wanted))


def recover_handed_off() -> Call[list[Job]]:
    """Recover every handoff."""
    return Call(recover.recover_handed_off)


def recover_expired(limit: object) -> Call[list[Job]]:
    """Recover handoffs whose lease is over."""
    most = checks.integer("limit", limit, least=1, most=MOST_AT_ONCE)
    return Call(lambda tx: recover.recover_expired(tx, most))


def cancel(job_id: object) -> Call[Cancellation]:
    """Cancel by id."""
    found = checks.storable("job_id", job_id)
    return Call(lambda tx: single.cancel(tx, found))


def requeue(settings: Settings, job_id: object) -> Call[str]:
    """Run an ended job again as a new one."""
    found, new_id = checks.storable("job_id", job_id), settings.ids()
    return Call(lambda tx: requeue_job(tx, found, new_id))


def clear() -> Call[None]:
    """Delete every row of every table but the ledger."""

    def work(tx: Tx) -> None:
        for table in tx.schema.tables_for(tx.connection.dialect.name):
            if table is not tx.schema.migrations:
                tx.run(table.delete())
        if tx.journal is not None:
            tx.journal.begun(empty=True)

    return Call(work)


def acquire_ownership(worker_id: object, ttl_ms: object) -> Call[bool]:
    """Take or renew the ownership row (L2)."""
    worker = checks.text("worker_id", worker_id)
    ttl = checks.integer("ttl_ms", ttl_ms, least=1, most=checks.INT32_MAX)
    return Call(lambda tx: owners.acquire_ownership(tx, worker, ttl))


def release_ownership(worker_id: object) -> Call[None]:
    """Let the ownership row run out, if it is this worker's."""
    worker = checks.text("worker_id", worker_id)
    return Call(lambda tx: owners.release_ownership(tx, worker))
