"""Everything durable, and how a test looks at it, keeps it and damages it."""

import threading

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

from jobfence.statemachine.policy import NO_POLICY
from jobfence.store.memory.rows import (
    CounterRow,
    IdempotencyRow,
    JobRow,
    OwnerRow,
    QueueRow,
    ScheduleRow,
)

_Key = TypeVar("_Key", str, tuple[str, str, str])
_Row = TypeVar("_Row")


@dataclass(slots=True)
class Tables:
    """
    One committed state, or the working copy of one operation.

    A committed one is never changed: an operation copies it, writes to the copy, and
    puts the copy in its place, or drops it when it fails.
    """

    jobs: dict[str, JobRow] = field(default_factory=dict)
    counters: dict[str, CounterRow] = field(default_factory=dict)
    schedule_keys: dict[str, ScheduleRow] = field(default_factory=dict)
    idempotency: dict[tuple[str, str, str], IdempotencyRow] = field(
        default_factory=dict
    )
    queues: dict[str, QueueRow] = field(default_factory=dict)
    owner: OwnerRow | None = None

    def copy(self) -> "Tables":
        """Copy the dictionaries; the rows in them are frozen and shared."""
        return Tables(
            self.jobs.copy(),
            self.counters.copy(),
            self.schedule_keys.copy(),
            self.idempotency.copy(),
            self.queues.copy(),
            self.owner,
        )

    def queue(self, name: str) -> QueueRow:
        """Return a queue's durable row, or what its absence means."""
        return self.queues.get(name) or QueueRow(name, NO_POLICY, paused=False)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A whole durable state as sorted rows: equal and hashed by value."""

    jobs: tuple[JobRow, ...]
    counters: tuple[CounterRow, ...]
    schedule_keys: tuple[ScheduleRow, ...]
    idempotency: tuple[IdempotencyRow, ...]
    queues: tuple[QueueRow, ...]
    owner: OwnerRow | None


class MemoryData:
    """
    What several `MemoryJobStore`s may share, as stores share a database.

    `copy` and `restore` cost the same however many jobs there are.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.tables = Tables()

    def snapshot(self) -> Snapshot:
        """Dump every row, ids and times as they are."""
        tables = self.tables
        return Snapshot(
            jobs=_sorted(tables.jobs),
            counters=_sorted(tables.counters),
            schedule_keys=_sorted(tables.schedule_keys),
            idempotency=_sorted(tables.idempotency),
            queues=_sorted(tables.queues),
            owner=tables.owner,
        )

    def copy(self) -> "MemoryData":
        """Return a data set of its own that starts in this state."""
        twin = MemoryData()
        twin.tables = self.tables
        return twin

    def restore(self, saved: "MemoryData") -> None:
        """Go to the state that `saved` is in; stores on this data see it at once."""
        with self.lock:
            self.tables = saved.tables

    def edit_job(self, job_id: str, **columns: object) -> None:
        """
        Write columns of a job past every rule, as an operator's UPDATE would.

        The way to make a row that cannot be read: `edit_job(id, args_text="{")`.
        """
        with self.lock:
            tables = self.tables.copy()
            tables.jobs[job_id] = replace(
                tables.jobs[job_id], **cast("dict[str, Any]", columns)
            )
            self.tables = tables

    def edit_counter(self, key: str, *, max_concurrency: int, active: int) -> None:
        """Write a counter past every rule, making it if need be."""
        with self.lock:
            tables = self.tables.copy()
            tables.counters[key] = CounterRow(key, max_concurrency, active)
            self.tables = tables

    def drop_counter(self, key: str) -> None:
        """Delete a counter past every rule."""
        with self.lock:
            tables = self.tables.copy()
            del tables.counters[key]
            self.tables = tables

    def edit_schedule_key(self, key: str, *, job_id: str | None) -> None:
        """Write a schedule key's owner past every rule: a dangling one, say."""
        with self.lock:
            tables = self.tables.copy()
            tables.schedule_keys[key] = replace(
                tables.schedule_keys[key], job_id=job_id
            )
            self.tables = tables


def _sorted(table: Mapping[_Key, _Row]) -> tuple[_Row, ...]:
    return tuple(table[key] for key in sorted(table))
