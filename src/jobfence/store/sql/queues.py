"""Queue policies, pauses, caps and live repair (C3, C7, C9, R2, R4)."""

from collections.abc import Mapping
from typing import Any

from jobfence.statemachine.policy import (
    NO_POLICY,
    QueuePolicy,
    derived_key,
    resolve_concurrency,
)
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import QueueStats, Repair
from jobfence.store.sql import locks, writes
from jobfence.store.sql.caps import counter_for, counters_for, held_count, make
from jobfence.store.sql.statements import counters, jobs, others
from jobfence.store.sql.tx import Tx

ADOPT_BATCH = 1000
NO_SUCH_QUEUE = ""


def set_concurrency(tx: Tx, key: str, cap: int) -> None:
    """Set a key's cap, making its counter from the handed-off jobs if new (C3)."""
    counter_for(tx, key, cap)
    writes.counter(tx, counters.set_cap(tx.schema), key, "set_cap", set_cap=cap)
    tx.wake = True


def set_paused(tx: Tx, queue: str, *, paused: bool) -> None:
    """Set or take away a queue's pause, which lives in its durable row (R4)."""
    if paused:
        _make_queue(tx, queue)
    tx.run(others.set_queue(tx.schema, "paused"), at_queue=queue, set_paused=paused)
    tx.wake = tx.wake or not paused


def _make_queue(tx: Tx, queue: str) -> None:
    tx.run(
        tx.room.insert_if_missing(tx.schema.queues),
        queue=queue,
        max_concurrent=None,
        priority=0,
        paused=False,
    )


def make_durable(
    tx: Tx, queues: Mapping[str, QueuePolicy], *, release_others: bool
) -> None:
    """Write policies into the queues table, and caps into their counters (C7)."""
    released = _with_policy(tx) - set(queues) if release_others else set()
    # In one pass by name: two that name different queues would else wait for each other.
    for queue in sorted(released.union(queues)):
        policy = queues.get(queue, NO_POLICY)
        if queue in queues:
            _make_queue(tx, queue)
        tx.run(
            others.set_queue(tx.schema, "max_concurrent", "priority"),
            at_queue=queue,
            set_max_concurrent=policy.max_concurrent,
            set_priority=policy.priority,
        )
    caps = {
        derived_key(queue): policy.max_concurrent
        for queue, policy in queues.items()
        if policy.max_concurrent is not None
    }
    if caps:
        counters_for(tx, caps)
    tx.wake = True


def _with_policy(tx: Tx) -> set[str]:
    """Return the queues whose durable row says something about cap or priority."""
    return {
        str(row["queue"])
        for row in tx.rows(others.queues(tx.schema))
        if row["max_concurrent"] is not None or row["priority"] != 0
    }


def _named(queues: Mapping[str, QueuePolicy]) -> list[str]:
    # NOT IN () is true, but some drivers expand an empty list oddly: no queue is named
    # by the empty string.
    return sorted(queues) or [NO_SUCH_QUEUE]


def adopt_batch(
    tx: Tx, queue: str | None, policy: QueuePolicy, named: Mapping[str, QueuePolicy]
) -> int:
    """
    Give up to a batch of queued rows their queue's policy; return how many changed.

    `queue` None means every queue that is not named. Rows are locked in id order.
    """
    concurrency = resolve_concurrency(queue or NO_SUCH_QUEUE, policy)
    values: dict[str, Any] = {
        "set_key": concurrency.key,
        "set_cap": concurrency.cap,
        "set_priority": policy.priority,
    }
    which: dict[str, Any] = (
        {"in_queues": _named(named)} if queue is None else {"at_queue": queue}
    )
    found = tx.run(
        others.rows_to_adopt(tx.schema, others=queue is None),
        row_limit=ADOPT_BATCH,
        **which,
        **values,
    )
    ids = list(found.scalars())
    if not ids:
        return 0
    before = locks.job_rows(tx, ids)
    changed = tx.changed(others.adopt_many(tx.schema), in_ids=ids, **values)
    # Here the rows are freed; the wake-up of the new policies came before.
    tx.wake = tx.wake or changed > 0
    if tx.journal is not None:
        for row in tx.rows(tx.latest(jobs.by_ids(tx.schema)), in_ids=ids):
            if row["rev"] != before[str(row["id"])]["rev"]:
                tx.journal.job("adopt_policy:adopt_policy", row)
    return changed


def repair_candidates(tx: Tx) -> tuple[int, list[str]]:
    """Compare counters with jobs without locks; return keys seen, and the suspects."""
    held = {
        str(row["concurrency_key"]): row["held"]
        for row in tx.rows(counters.held_counts(tx.schema, one=False))
    }
    known = {
        str(row["concurrency_key"]): row["active_count"]
        for row in tx.rows(counters.counters_to_check(tx.schema))
    }
    missing = tx.run(counters.keys_without_counter(tx.schema)).scalars().all()
    suspects = {key for key in known if known[key] != held.get(key, 0)}
    return len({*held, *known, *missing}), sorted(suspects.union(missing))


def repair(tx: Tx, key: str) -> Repair | None:
    """Count one key again under its counter's lock; write only if still wrong (C9)."""
    row = locks.counter_rows(tx, [key]).get(key)
    if row is None:
        cap = tx.scalar(counters.latest_cap(tx.schema), at_key=key)
        if cap is None:
            return None
        tx.wake = True
        return Repair(key, 0, int(str(make(tx, key, cap)["active_count"])))
    previous, active = int(str(row["active_count"])), held_count(tx, key)
    if active == previous:
        return None
    writes.counter(tx, counters.set_active(tx.schema), key, "repair", set_active=active)
    tx.wake = True
    return Repair(key, previous, active)


def queue_stats(tx: Tx) -> list[QueueStats]:
    """Return figures by queue (R2)."""
    durable = {str(row["queue"]): row for row in tx.rows(others.queues(tx.schema))}
    found: dict[str, dict[JobStatus, int]] = {queue: {} for queue in durable}
    due: dict[str, int] = {}
    for row in tx.rows(jobs.queue_counts(tx.schema), at_now=tx.now):
        queue, oldest = str(row["queue"]), row["oldest_due"]
        found.setdefault(queue, {})[JobStatus(str(row["status"]))] = _count(row)
        if isinstance(oldest, int):
            due[queue] = oldest
    return [
        QueueStats(
            queue=queue,
            counts={status: found[queue].get(status, 0) for status in JobStatus},
            paused=bool(durable[queue]["paused"]) if queue in durable else False,
            max_concurrent=_cap(durable.get(queue)),
            active=found[queue].get(JobStatus.HANDED_OFF, 0),
            oldest_due_age_ms=tx.now - due[queue] if queue in due else None,
        )
        for queue in sorted(found)
    ]


def _count(row: Mapping[str, object]) -> int:
    return int(str(row["jobs"]))


def _cap(row: Mapping[str, object] | None) -> int | None:
    cap = None if row is None else row["max_concurrent"]
    return cap if isinstance(cap, int) else None
