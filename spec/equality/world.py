"""
The store's data as a state of JobQueue.tla, and what of that is outside the store.

Time has no numbers in the spec. Here the clock stands still, and every time in a row is
either up (now) or yet to come (later): `settled` writes one of the two.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Final

from runner.values import Value

from equality.graph import State, written
from equality.slices import QUEUE, Slice
from jobfence.statemachine.policy import derived_key
from jobfence.statemachine.states import JobStatus
from jobfence.store.memory.data import Snapshot, Tables, snapshot_of
from jobfence.store.memory.rows import JobRow, unreadable

NOW: Final = 1_000_000
LATER: Final = 2_000_000


@dataclass(frozen=True, slots=True)
class World:
    """
    A committed state of the store, and what the spec knows beside it.

    `policy` is the cap that the running stores give the queue (0: none); `writers`, by
    job, the handoff that last wrote; `pruned`, by job, the order it had.
    """

    tables: Tables
    policy: int
    writers: Mapping[int, int] = field(default_factory=dict)
    pruned: Mapping[int, int] = field(default_factory=dict)

    def key(self) -> tuple[Snapshot, int, tuple[int, ...], tuple[int, ...]]:
        """Return what two equal worlds have in common: every row, not only its state."""
        return (
            snapshot_of(self.tables),
            self.policy,
            tuple(sum(sorted(self.writers.items()), ())),
            tuple(sum(sorted(self.pruned.items()), ())),
        )

    def job(self, job: int) -> JobRow | None:
        """Return a job's row."""
        return self.tables.jobs.get(str(job))


def settled(tables: Tables, before: Tables, *, time: bool) -> Tables:
    """
    Put every time to now or later; without `time` everything is due at once.

    Rows that stand as they were `before` are settled already.
    """
    found = tables.copy()
    for name, row in tables.jobs.items():
        if before.jobs.get(name) is not row:
            found.jobs[name] = _settled(row, time=time)
    return before if found == before else found


def _settled(row: JobRow, *, time: bool) -> JobRow:
    waits = time and row.status is JobStatus.QUEUED and row.scheduled_at_ms > NOW
    lease = row.lease_expires_at_ms
    return replace(
        row,
        scheduled_at_ms=LATER if waits else NOW,
        lease_expires_at_ms=None if lease is None else LATER if lease > NOW else NOW,
        created_at_ms=NOW,
    )


def abstract(world: World, bounds: Slice) -> State:
    """Return the state of JobQueue.tla that this world is in."""
    explicit = sorted({*bounds.key_of.values()})
    counters = {QUEUE: derived_key(QUEUE), **{key: key for key in explicit}}
    return written(
        {
            "job": tuple(_job(world, job) for job in bounds.ids),
            "counter": {name: _counter(world, key) for name, key in counters.items()},
            "skey": {
                key: _schedule_key(world, key)
                for key in sorted({*bounds.schedule_key_of.values()})
            },
            "queue": {
                QUEUE: {
                    "policy": world.policy,
                    "paused": world.tables.queue(QUEUE).paused,
                }
            },
            "first": {
                key: _first(world, key)
                for key in sorted({*bounds.idempotency_key_of.values()})
            },
        }
    )


def _job(world: World, job: int) -> str:
    row = world.job(job)
    if row is not None:
        return _present(row, world.writers.get(job, 0))
    order = world.pruned.get(job)
    return _no_row("absent" if order is None else "pruned", order or 0)


@cache
def _no_row(status: str, order: int) -> str:
    return written(
        {
            "status": status,
            "attempts": 0,
            "handoffs": 0,
            "handoff": 0,
            "writer": 0,
            "ended": "none",
            "due": False,
            "lease": "none",
            "cancel": False,
            "unreadable": False,
            "ckey": "-",
            "order": order,
        }
    )


@cache
def _present(row: JobRow, writer: int) -> str:
    lease = row.lease_expires_at_ms
    return written(
        {
            "status": row.status.value,
            "attempts": row.attempts,
            "handoffs": row.handoffs,
            "handoff": handoff_number(row.handoff_id),
            "writer": writer,
            "ended": row.last_ack or "none",
            "due": row.status is JobStatus.QUEUED and row.scheduled_at_ms <= NOW,
            "lease": "none" if lease is None else "over" if lease <= NOW else "runs",
            "cancel": row.cancel_requested,
            "unreadable": unreadable(row) is not None,
            "ckey": _key_name(row.concurrency_key),
            "order": row.schedule_order or 0,
        }
    )


def handoff_number(handoff_id: str | None) -> int:
    """Return n of the id that a job's n-th handoff is given here."""
    return 0 if handoff_id is None else int(handoff_id.rpartition("-")[2])


def handoff_id(job: int, number: int) -> str:
    """Return the id of a job's n-th handoff; that of the 0th is given to nobody."""
    return f"{job}-{number}"


def _key_name(key: str | None) -> str:
    if key is None:
        return "-"
    return QUEUE if key == derived_key(QUEUE) else key


def _counter(world: World, key: str) -> Mapping[Value, Value]:
    row = world.tables.counters.get(key)
    if row is None:
        return {"cap": 0, "active": 0}
    return {"cap": row.max_concurrency, "active": row.active_count}


def _schedule_key(world: World, key: str) -> Mapping[Value, Value]:
    row = world.tables.schedule_keys.get(key)
    if row is None:
        return {"owner": 0, "high": 0}
    return {"owner": int(row.job_id or 0), "high": row.high_water}


def _first(world: World, key: str) -> int:
    owners = (
        int(row.job_id)
        for row in world.tables.idempotency.values()
        if row.idempotency_key == key
    )
    return next(owners, 0)
