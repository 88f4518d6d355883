"""
Each method of the contract as a call or a plan: checked input, then work on a `Tx`.

The sync and the async store run the same ones; only how a transaction is had differs.
Ids are made here, once, so that a transaction that is run again uses them again (M19).
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from types import EllipsisType
from typing import Any, Generic, TypeVar

from jobfence.statemachine import checks, options
from jobfence.statemachine.errors import InvalidOption
from jobfence.statemachine.errortext import error_text
from jobfence.statemachine.policy import NO_POLICY, QueuePolicy, check_queues
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.table import Trigger
from jobfence.statemachine.values import (
    Ack,
    Cancellation,
    Handoff,
    Job,
    QueueStats,
    Reconciliation,
    Repair,
    Replacement,
    ScheduledJob,
    Settlement,
    Wake,
)
from jobfence.store.contract import Lease
from jobfence.store.sql import (
    acks,
    claim,
    enqueue,
    owners,
    queues,
    reads,
    recover,
    schedules,
    single,
)
from jobfence.store.sql.tx import Settings, Tx

T = TypeVar("T")
MOST_AT_ONCE = 10_000
REPAIRS_SHOWN = 10


class Mode(Enum):
    """What a call does to the database."""

    WRITE = "write"
    READ = "read"


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One transaction's work. It may be run more than once, until it commits."""

    work: Callable[[Tx], T]
    mode: Mode = Mode.WRITE


# Several transactions in a row: yields calls and is sent their results.
Plan = Generator[Call[Any], Any, T]


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
    wanted = []
    for request in requests:
        if not isinstance(request, options.JobRequest):
            raise InvalidOption("requests", request, "must be JobRequest objects")
        wanted.append(enqueue.NewJob(settings.ids(), request.prepared))
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
        filters["status"] = _status(status)
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


def _status(value: object) -> str:
    if isinstance(value, str) and value in list(JobStatus):
        return JobStatus(value).value
    raise InvalidOption("status", value, f"must be one of {', '.join(JobStatus)}")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a caller asks of a claim, as given."""

    limit: object
    queues: object
    execution_modes: object
    worker_id: object
    lease_ms: Lease


def _ask(settings: Settings, wanted: Wanted) -> claim.Ask:
    n = checks.integer("limit", wanted.limit, least=0, most=MOST_AT_ONCE)
    return claim.Ask(
        handoff_ids=[settings.handoff_ids() for _ in range(n)],
        queues=options.queue_names(wanted.queues),
        modes=options.execution_modes(wanted.execution_modes),
        worker_id=checks.text("worker_id", wanted.worker_id),
        lease_ms=_lease(settings, wanted.lease_ms),
    )


def _lease(settings: Settings, lease_ms: object) -> int | None:
    if isinstance(lease_ms, EllipsisType):
        return settings.lease_ms
    return checks.lease_ms(lease_ms)


def claim_jobs(settings: Settings, wanted: Wanted) -> Plan[list[Handoff]]:
    """Claim; once more if counters that others held were in the way (C4)."""
    return _claim(_ask(settings, wanted))


def _claim(ask: claim.Ask) -> Plan[list[Handoff]]:
    if not ask.handoff_ids:
        return []
    first: claim.Claimed = yield Call(lambda tx: claim.claim(tx, ask))
    more = yield from _claim_rest(ask, first)
    return first.handoffs + more


def _claim_rest(ask: claim.Ask, first: claim.Claimed) -> Plan[list[Handoff]]:
    """In a second transaction, wait for the counters the first one passed over."""
    used = {handoff.handoff_id for handoff in first.handoffs}
    unused = [each for each in ask.handoff_ids if each not in used]
    if not (first.busy and unused):
        return []
    rest = replace(ask, handoff_ids=unused)
    second: claim.Claimed = yield Call(lambda tx: claim.claim(tx, rest))
    return second.handoffs


def claim_job(
    settings: Settings,
    job_id: object,
    worker_id: object,
    handoff_id: object,
    lease_ms: Lease,
) -> Call[Handoff | None]:
    """Claim one job by id."""
    wanted = checks.storable("job_id", job_id)
    chosen = handoff_id is not None
    ask = claim.Ask(
        handoff_ids=[
            checks.text("handoff_id", handoff_id) if chosen else settings.handoff_ids()
        ],
        queues=None,
        modes=None,
        worker_id=checks.text("worker_id", worker_id),
        lease_ms=_lease(settings, lease_ms),
    )
    return Call(lambda tx: single.claim_job(tx, wanted, ask, chosen=chosen))


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
    ack = acks.check(Settlement(trigger, job_id, handoff_id, text, delay_ms))
    return Call(lambda tx: acks.acknowledge(tx, [ack])[0][0])


def extend(extensions: Iterable[tuple[str, str]], lease_ms: object) -> Call[list[Ack]]:
    """Check and renew leases."""
    length = checks.lease_ms(lease_ms)
    wanted = [
        acks.Extension(
            checks.storable("job_id", job_id),
            checks.storable("handoff_id", handoff_id),
            length,
        )
        for job_id, handoff_id in extensions
    ]
    return Call(lambda tx: acks.extend(tx, wanted))


def settle(
    settings: Settings, settlements: Sequence[Settlement], wanted: Wanted
) -> Plan[tuple[list[Ack], list[Handoff]]]:
    """Acknowledge a batch and claim the next one in one transaction (T5)."""
    checked = [acks.check(each) for each in settlements]
    return _settle(checked, _ask(settings, wanted))


def _settle(
    settlements: list[Settlement], ask: claim.Ask
) -> Plan[tuple[list[Ack], list[Handoff]]]:
    if not settlements:
        return [], (yield from _claim(ask))

    def work(tx: Tx) -> tuple[list[Ack], claim.Claimed]:
        answers, holding = acks.acknowledge(tx, settlements)
        return answers, claim.claim(tx, ask, holding_counters=holding)

    answers, first = yield Call(work)
    more = yield from _claim_rest(ask, first)
    return answers, first.handoffs + more


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
    return Call(lambda tx: enqueue.requeue(tx, found, new_id))


def replace_scheduled(
    settings: Settings, schedule_key: object, arguments: Sequence[object], given: Any
) -> Call[Replacement]:
    """Make a new owner of a schedule key; `arguments` are name, args and kwargs."""
    key, request = options.prepare_scheduled(schedule_key, *arguments, **given)
    new_id = settings.ids()
    return Call(lambda tx: schedules.replace_scheduled(tx, key, new_id, request))


def cancel_scheduled(schedule_key: object) -> Call[Cancellation]:
    """End a schedule key's ownership."""
    key = options.schedule_key(schedule_key)
    return Call(lambda tx: schedules.cancel_scheduled(tx, key))


def wake_scheduled(schedule_key: object) -> Call[Wake]:
    """Make a schedule key's owner due."""
    key = options.schedule_key(schedule_key)
    return Call(lambda tx: schedules.wake_scheduled(tx, key))


def scheduled_job(
    schedule_key: object, *, include_latest_terminal: bool
) -> Call[ScheduledJob]:
    """Look up a schedule key."""
    key = options.schedule_key(schedule_key)
    return Call(
        lambda tx: schedules.scheduled_job(
            tx, key, include_latest_terminal=include_latest_terminal
        ),
        Mode.READ,
    )


def set_concurrency(concurrency_key: object, max_concurrency: object) -> Call[None]:
    """Set a key's cap."""
    key = options.explicit_key(concurrency_key)
    cap = options.positive_cap(max_concurrency)
    return Call(lambda tx: queues.set_concurrency(tx, key, cap))


def set_paused(queue: object, *, paused: bool) -> Call[None]:
    """Pause or resume a queue."""
    name = checks.queue_name(queue)
    return Call(lambda tx: queues.set_paused(tx, name, paused=paused))


def queue_stats() -> Call[list[QueueStats]]:
    """Look up figures by queue."""
    return Call(queues.queue_stats, Mode.READ)


def reconcile_policies(
    settings: Settings,
    given: Mapping[str, QueuePolicy] | None,
    *,
    release_others: bool,
) -> Plan[None]:
    """Check, then bring queues and queued rows in line, a batch at a time (C7)."""
    checked = check_queues(given)
    return _reconcile_policies(
        settings, checked, checks.flag("release_others", release_others)
    )


def _reconcile_policies(
    settings: Settings,
    given: Mapping[str, QueuePolicy] | None,
    release_others: bool,  # noqa: FBT001
) -> Plan[None]:
    wanted = settings.queues if given is None else given
    if wanted is None:
        wanted = yield Call(lambda tx: tx.policies().by_queue, Mode.READ)
    policies: Mapping[str, QueuePolicy] = wanted
    yield Call(
        lambda tx: queues.make_durable(tx, policies, release_others=release_others)
    )
    if given is not None:
        settings.queues = given
    work: list[tuple[str | None, QueuePolicy]] = [*policies.items()]
    if release_others:
        work.append((None, NO_POLICY))
    for queue, policy in work:
        while (yield _adoption(queue, policy, policies)):
            pass


def _adoption(
    queue: str | None, policy: QueuePolicy, policies: Mapping[str, QueuePolicy]
) -> Call[int]:
    return Call(lambda tx: queues.adopt_batch(tx, queue, policy, policies))


def reconcile_active() -> Plan[Reconciliation]:
    """Find suspect counters, then look at each under its lock (C9)."""
    checked, suspects = yield Call(queues.repair_candidates, Mode.READ)
    repairs: list[Repair] = []
    for key in suspects:
        found: Repair | None = yield _repair(key)
        if found is not None:
            repairs.append(found)
    return Reconciliation(
        checked_count=checked,
        candidate_count=len(suspects),
        repaired_count=len(repairs),
        repairs=tuple(repairs[:REPAIRS_SHOWN]),
        repairs_truncated_count=max(0, len(repairs) - REPAIRS_SHOWN),
    )


def _repair(key: str) -> Call[Repair | None]:
    return Call(lambda tx: queues.repair(tx, key))


def prune_terminal(
    completed_ttl_ms: object,
    failed_ttl_ms: object,
    cancelled_ttl_ms: object,
    batch_size: object,
) -> Plan[int]:
    """Check, then delete old ended jobs, a batch a transaction (R1)."""
    named = {
        "completed_ttl_ms": (JobStatus.COMPLETED, completed_ttl_ms),
        "failed_ttl_ms": (JobStatus.FAILED, failed_ttl_ms),
        "cancelled_ttl_ms": (JobStatus.CANCELLED, cancelled_ttl_ms),
    }
    ttls = {
        status: checks.integer(option, ttl, least=0, most=checks.LAST_MS)
        for option, (status, ttl) in named.items()
        if ttl is not None
    }
    size = checks.integer("batch_size", batch_size, least=1, most=MOST_AT_ONCE)
    return _prune(ttls, size)


def _prune(ttls: Mapping[JobStatus, int], size: int) -> Plan[int]:
    total = 0
    for status, ttl in ttls.items():
        found = size
        while found == size:
            found, deleted = yield _pruning(status, ttl, size)
            total += deleted
    return total


def _pruning(status: JobStatus, ttl: int, size: int) -> Call[tuple[int, int]]:
    return Call(lambda tx: reads.prune_batch(tx, status, ttl, size))


def clear() -> Call[None]:
    """Delete every row of every table but the ledger."""

    def work(tx: Tx) -> None:
        for table in tx.schema.tables_for(tx.connection.dialect.name):
            if table is not tx.schema.migrations:
                tx.run(table.delete())

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
