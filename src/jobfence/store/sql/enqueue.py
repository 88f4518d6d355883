"""Storing jobs (the E rules)."""

import json

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jobfence.statemachine.canonical import canonical
from jobfence.statemachine.errors import (
    ConcurrencyConflict,
    IdempotencyConflict,
)
from jobfence.statemachine.options import Prepared
from jobfence.statemachine.policy import Concurrency, is_derived, resolve_concurrency
from jobfence.statemachine.states import JobStatus
from jobfence.store.sql import locks, twins, writes
from jobfence.store.sql.caps import held_count, make
from jobfence.store.sql.rows import Row
from jobfence.store.sql.statements import counters, others
from jobfence.store.sql.twins import Sought
from jobfence.store.sql.tx import Tx

# What makes two jobs twins (E4), as in `twins.Sought.identity`.
_IDENTITY = ("name", "queue", "args", "kwargs")


@dataclass(frozen=True, slots=True)
class NewJob:
    """A prepared request and the id it gets if it becomes a row."""

    job_id: str
    request: Prepared


@dataclass(slots=True)
class _Batch:
    """
    New rows that wait for the end of their batch, and what later ones ask of them.

    They are inserted together: only then are all their counters known, which are made
    in key order (C4). `stored` are the twins that there are already.
    """

    stored: Mapping[Sought, Row | None]
    rows: list[dict[str, Any]] = field(default_factory=list)
    alike: dict[tuple[str, ...], list[dict[str, Any]]] = field(default_factory=dict)
    caps: dict[str, int] = field(default_factory=dict)

    def add(self, row: dict[str, Any]) -> None:
        """Let a row wait."""
        self.rows.append(row)
        identity = tuple(row[name] for name in _IDENTITY)
        self.alike.setdefault(identity, []).append(row)
        if row["concurrency_key"] is not None:
            self.caps.setdefault(row["concurrency_key"], row["max_concurrency"])


def enqueue(tx: Tx, wanted: Sequence[NewJob]) -> list[str]:
    """Store each in turn, all or none; return ids in order (E6)."""
    requests = [each.request for each in wanted]
    _lock(tx, requests)
    tx.wake = tx.wake or bool(wanted)
    batch = _Batch(twins.stored(tx, [each for each in requests if each.deduplicates]))
    ids = []
    for each in wanted:
        found = _existing(tx, each, batch)
        if found is None:
            batch.add(new_row(tx, each))
        ids.append(found or each.job_id)
    insert_rows(tx, batch.rows)
    return ids


def _lock(tx: Tx, requests: Sequence[Prepared]) -> None:
    digests: set[str] = set()
    deduplicates = False
    for request in requests:
        dedupe, scope = request.dedupe_identity(), request.idempotency_scope()
        deduplicates = deduplicates or dedupe is not None
        digests.update(each for each in (dedupe, scope) if each is not None)
    if tx.joined:
        tx.room.check_joinable(tx.connection, dedupe=deduplicates)
    locks.identities(tx, digests)


def _existing(tx: Tx, new: NewJob, batch: _Batch) -> str | None:
    """Return the job that already answers this request, or None to insert one."""
    original = _original(tx, new)
    if original is not None:
        return original
    twin = _twin(tx, new.request, batch) if new.request.deduplicates else None
    # After the look for twins: a twin's own key is registered by then, so that one
    # which somebody else has just stored hides no conflict.
    check_cap(tx, new.request.concurrency, batch.caps)
    return twin


def _twin(tx: Tx, request: Prepared, batch: _Batch) -> str | None:
    """Return the earliest job this one would repeat (E4), stored or about to be."""
    sought = twins.sought(tx, request)
    stored, latest = batch.stored[sought], sought.scheduled_at_ms
    found = [] if stored is None else [stored]
    found += [
        row
        for row in batch.alike.get(sought.identity, [])
        if row["scheduled_at_ms"] <= latest
    ]
    places = [
        (row["scheduled_at_ms"], row["created_at_ms"], str(row["id"])) for row in found
    ]
    return min(places)[2] if places else None


def check_cap(
    tx: Tx, explicit: Concurrency, caps: dict[str, int] | None = None
) -> None:
    """
    Refuse an explicit key that is registered with another cap.

    `caps` are those of the batch so far: looked up once, or about to be registered.
    """
    key, given = explicit
    if key is None or given is None:
        return
    known = {} if caps is None else caps
    if key not in known:
        # Without a lock: a caller's open transaction must not hold a counter (C3).
        registered = _registered(tx, [key]).get(key)
        if not isinstance(registered, int):
            return
        known[key] = registered
    _check_same(key, known[key], given)


def _registered(tx: Tx, keys: Collection[str]) -> dict[str, object]:
    rows = tx.rows_in(counters.by_keys(tx.schema), counters.KEYS, keys)
    return {str(row["concurrency_key"]): row["max_concurrency"] for row in rows}


def _check_same(key: str, registered: object, given: int) -> None:
    if isinstance(registered, int) and registered != given and not is_derived(key):
        raise ConcurrencyConflict(key, registered, given)


def _original(tx: Tx, new: NewJob) -> str | None:
    """
    Return the job that owns the idempotency key, if it was the same request (E5).

    None when there is no key, or when this job now owns it. Inserted first and read
    then: a read that finds nothing would lock other keys out too on MySQL at REPEATABLE
    READ, and might miss an owner.
    """
    request = new.request
    if request.idempotency_key is None:
        return None
    _own_key(tx, new)
    row = tx.one(
        tx.latest(others.idempotent(tx.schema)), scope=request.idempotency_scope()
    )
    assert row is not None, "an idempotency row is never deleted"
    if row["job_id"] == new.job_id:
        return None
    first, now = json.loads(str(row["request"])), request.request()
    differing = sorted(name for name in now if first.get(name) != now[name])
    if differing:
        raise IdempotencyConflict(
            request.idempotency_key, str(row["job_id"]), differing
        )
    return str(row["job_id"])


def _own_key(tx: Tx, new: NewJob) -> None:
    """Make this job the owner of its idempotency key, if there is none yet."""
    request = new.request
    tx.run(
        tx.room.insert_if_missing(tx.schema.idempotency),
        scope=request.idempotency_scope(),
        name=request.name,
        queue=request.queue,
        idempotency_key=request.idempotency_key,
        job_id=new.job_id,
        request=canonical(request.request(), "request"),
        created_at_ms=tx.now,
    )


def new_row(tx: Tx, new: NewJob, **columns: object) -> dict[str, Any]:
    """Work out the whole row of a new job (M1)."""
    request = new.request
    policy = tx.policies().of(request.queue)
    concurrency = resolve_concurrency(request.queue, policy, request.concurrency)
    scheduled, priority = request.scheduled_at_ms, request.priority
    return {
        "id": new.job_id,
        "name": request.name,
        "queue": request.queue,
        "args": request.args_text,
        "kwargs": request.kwargs_text,
        "args_digest": request.args_digest,
        "status": JobStatus.QUEUED.value,
        "priority": policy.priority if priority is None else priority,
        "priority_explicit": priority is not None,
        "attempts": 0,
        "max_retries": request.max_retries,
        "handoffs": 0,
        "created_at_ms": tx.now,
        "scheduled_at_ms": tx.now if scheduled is None else scheduled,
        "concurrency_key": concurrency.key,
        "max_concurrency": concurrency.cap,
        "cancel_requested": False,
        "schedule_key": None,
        "schedule_order": None,
        "timeout_ms": request.timeout_ms,
        "execution_mode": request.execution_mode,
        "origin_id": None,
        "rev": 0,
        **columns,
    }


def insert_rows(
    tx: Tx, rows: Sequence[dict[str, Any]], *, given_caps: bool = True
) -> None:
    """
    Insert jobs and the counters that they are the first to name (C3).

    An explicit key that has got another cap since `check_cap` is refused; not so where
    the caps were not given but read, which the counter's own then goes before.
    """
    if not rows:
        return
    caps = {
        row["concurrency_key"]: row["max_concurrency"]
        for row in rows
        if row["concurrency_key"] is not None
    }
    if caps:
        _register(tx, caps, given=given_caps)
    tx.room.insert_many(tx.connection, tx.schema.jobs, rows)
    if tx.journal is not None:
        for row in rows:
            tx.journal.job("enqueue:enqueue", row)


def _register(tx: Tx, caps: dict[str, int], *, given: bool) -> None:
    """Make the counters that are missing, in key order."""
    # An existing counter is not even touched: a caller's open transaction must not hold
    # one.
    found = _registered(tx, caps)
    if given:
        for key, cap in found.items():
            _check_same(key, cap, caps[key])
    for key in sorted(set(caps) - set(found)):
        if held_count(tx, key):  # it was lost, and its jobs still hold slots (C5)
            make(tx, key, caps[key])
        else:
            writes.make_counter(tx, key, caps[key])
        if given and not is_derived(key):
            _check_made(tx, key, caps[key])


def _check_made(tx: Tx, key: str, given: int) -> None:
    """Somebody else may have made the counter at the same moment: then theirs counts."""
    row = tx.one(tx.latest(counters.by_keys(tx.schema)), in_keys=[key])
    if row is not None:
        _check_same(key, row["max_concurrency"], given)
