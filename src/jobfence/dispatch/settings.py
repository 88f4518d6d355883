"""A worker's options, checked once (rules L1, D8, D9)."""

import contextlib
import os
import secrets
import socket

from collections.abc import Collection
from dataclasses import dataclass
from typing import TypedDict

from jobfence.statemachine import checks
from jobfence.statemachine.errors import InvalidOption
from jobfence.statemachine.options import queue_names
from jobfence.store.contract import (
    CANCELLED_TTL_MS,
    COMPLETED_TTL_MS,
    DEFAULT_LEASE_MS,
    FAILED_TTL_MS,
)

MAX_CONCURRENCY = 10_000
# The most that stores delete in one transaction.
MAX_PRUNE_BATCH = 10_000
# A lease has to hold three renewals of at least a millisecond.
LEAST_LEASE_MS = RENEWALS_PER_LEASE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long a worker keeps ended jobs, in milliseconds; None: for ever (R1)."""

    completed_ttl_ms: int | None = COMPLETED_TTL_MS
    failed_ttl_ms: int | None = FAILED_TTL_MS
    cancelled_ttl_ms: int | None = CANCELLED_TTL_MS
    batch_size: int = 1000
    every_ms: int = 60 * 60 * 1000

    def __post_init__(self) -> None:
        for option in ("completed_ttl_ms", "failed_ttl_ms", "cancelled_ttl_ms"):
            age = getattr(self, option)
            if age is not None:
                checks.integer(option, age, least=0, most=checks.LAST_MS)
        checks.integer("batch_size", self.batch_size, least=1, most=MAX_PRUNE_BATCH)
        _period("every_ms", self.every_ms)


class WorkerOptions(TypedDict, total=False):
    """
    What a worker takes, by keyword.

    - `concurrency`: jobs at once, 10.
    - `queues`: the queues to take from; None: all.
    - `worker_id`: must differ from that of every other live worker; by default host,
      process and a random part.
    - `lease_ms`: how long a handoff outlives its worker, 60 s.
    - `heartbeat_ms`: a lease is renewed this often, and never less often than three
      times in its length.
    - `poll_ms`: the longest time between two looks for work, 1 s. Other processes'
      jobs are found by it; this process's own, and those that fall due, at once.
    - `recover_every_ms`, `repair_every_ms`: the maintenance ticks (D9), 5 s and 60 s.
    - `retention`: prune ended jobs by it; None: never.
    - `timeout_ms`: for jobs without their own; None, zero or less: none. It cancels
      tasks and kills processes; on a thread it only raises `JobContext.cancelled`.
    - `single_owner`: recover every handoff at start, as the database's only worker.
    - `release_others`: at start, take cap and priority from queues that the store's
      configuration does not name (C7).
    """

    concurrency: int
    queues: Collection[str] | None
    worker_id: str | None
    lease_ms: int | None
    heartbeat_ms: int | None
    poll_ms: int
    recover_every_ms: int
    repair_every_ms: int
    retention: Retention | None
    timeout_ms: int | None
    single_owner: bool
    release_others: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """The options after their checks, every default filled in."""

    concurrency: int
    queues: tuple[str, ...] | None
    worker_id: str
    lease_ms: int
    heartbeat_ms: int
    poll_ms: int
    recover_every_ms: int
    repair_every_ms: int
    retention: Retention | None
    timeout_ms: int | None
    single_owner: bool
    release_others: bool


def worker_settings(
    *,
    concurrency: int = 10,
    queues: Collection[str] | None = None,
    worker_id: str | None = None,
    lease_ms: int | None = None,
    heartbeat_ms: int | None = None,
    poll_ms: int = 1000,
    recover_every_ms: int = 5000,
    repair_every_ms: int = 60_000,
    retention: Retention | None = None,
    timeout_ms: int | None = None,
    single_owner: bool = False,
    release_others: bool = True,
) -> WorkerSettings:
    """Check a worker's options; `InvalidOption` names the first bad one."""
    lease = _lease(lease_ms)
    if retention is not None and not isinstance(retention, Retention):
        raise InvalidOption("retention", retention, "must be a Retention or None")
    return WorkerSettings(
        concurrency=checks.integer(
            "concurrency", concurrency, least=1, most=MAX_CONCURRENCY
        ),
        queues=_queues(queues),
        worker_id=(
            unique_worker_id()
            if worker_id is None
            else checks.text("worker_id", worker_id)
        ),
        lease_ms=lease,
        heartbeat_ms=_heartbeat(heartbeat_ms, lease),
        poll_ms=_period("poll_ms", poll_ms),
        recover_every_ms=_period("recover_every_ms", recover_every_ms),
        repair_every_ms=_period("repair_every_ms", repair_every_ms),
        retention=retention,
        timeout_ms=worker_timeout_ms(timeout_ms),
        single_owner=checks.flag("single_owner", single_owner),
        release_others=checks.flag("release_others", release_others),
    )


def seconds(option: str, value: object) -> float:
    """Return a wait in seconds; `math.inf` is one without end."""
    # A bool is an int; an integer may be too large for a float; NaN is not >= 0.
    if isinstance(value, int | float) and not isinstance(value, bool):
        with contextlib.suppress(OverflowError):
            found = float(value)
            if found >= 0:
                return found
    raise InvalidOption(option, value, "must be a number of seconds, 0 or more")


def time_out_s(value: object) -> float | None:
    """Return how long to wait in seconds, or None for no limit."""
    return None if value is None else seconds("timeout_s", value)


def unique_worker_id() -> str:
    """Return an id that says where the worker is and that no other one has."""
    return f"{socket.gethostname()[:200]}-{os.getpid()}-{secrets.token_hex(4)}"


def worker_timeout_ms(value: object) -> int | None:
    """Check a worker's timeout: zero and less mean none, and long ones are capped."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidOption(
            "timeout_ms", value, "must be an integer of milliseconds, or None"
        )
    return min(value, checks.INT32_MAX) if value > 0 else None


def effective_timeout_ms(own_ms: int | None, worker_ms: int | None) -> int | None:
    """Return the timeout of a run: the job's own, where 0 means none (case A188)."""
    if own_ms is None:
        return worker_ms
    return own_ms or None


def _queues(queues: Collection[str] | None) -> tuple[str, ...] | None:
    names = queue_names(queues)
    if names == ():
        raise InvalidOption("queues", queues, "must name a queue, or be None for all")
    return names


def _lease(lease_ms: int | None) -> int:
    if lease_ms is None:
        return DEFAULT_LEASE_MS
    return checks.integer(
        "lease_ms", lease_ms, least=LEAST_LEASE_MS, most=checks.INT32_MAX
    )


def _heartbeat(heartbeat_ms: int | None, lease_ms: int) -> int:
    """Rule L1: a third of the lease at most; one that spans the lease is refused."""
    third = lease_ms // RENEWALS_PER_LEASE
    if heartbeat_ms is None:
        return third
    given = _period("heartbeat_ms", heartbeat_ms)
    if given >= lease_ms:
        raise InvalidOption(
            "heartbeat_ms", given, f"must be shorter than the lease of {lease_ms} ms"
        )
    return min(given, third)


def _period(option: str, value: object) -> int:
    return checks.integer(option, value, least=1, most=checks.INT32_MAX)
