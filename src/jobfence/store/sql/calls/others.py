"""Schedule keys, caps, queues and retention."""

from collections.abc import Mapping, Sequence
from typing import Any

from jobfence.statemachine import checks, options
from jobfence.statemachine.policy import NO_POLICY, QueuePolicy, check_queues
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import (
    Cancellation,
    QueueStats,
    Reconciliation,
    Repair,
    Replacement,
    ScheduledJob,
    Wake,
)
from jobfence.store.sql import (
    queues,
    reads,
    schedules,
)
from jobfence.store.sql.calls.base import Call, Mode, Plan
from jobfence.store.sql.calls.core import MOST_AT_ONCE
from jobfence.store.sql.tx import Settings, Tx

REPAIRS_SHOWN = 10


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
    release_others: bool,  # noqa: FBT001  checked, and named by the caller
) -> Plan[None]:
    wanted = settings.queues if given is None else given
    if wanted is None:
        wanted = yield Call(lambda tx: tx.policies().by_queue, Mode.READ)
    policies: Mapping[str, QueuePolicy] = wanted

    def make_durable(tx: Tx) -> None:
        queues.make_durable(tx, policies, release_others=release_others)
        tx.given_queues = given

    yield Call(make_durable)
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
