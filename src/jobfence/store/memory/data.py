"""Everything durable, and how a test looks at it, keeps it and damages it."""

import threading

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
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

    def clear(self) -> None:
        """Forget every row."""
        for table in (self.jobs, self.counters, self.schedule_keys):
            table.clear()
        self.idempotency.clear()
        self.queues.clear()
        self.owner = None

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


class JobData(ABC):
    """
    Where a store keeps its rows. Whoever can do one thing at a time can be one.

    The rules are the store's; a subclass says with `transaction` how the rows are
    found and kept (see "Write an adapter").
    """

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Tables]:
        """
        Yield the rows as last committed, and keep what they are at the end.

        Nobody else may have a transaction meanwhile. After an exception nothing is
        kept, and the exception goes on. What is yielded is the caller's to change;
        the rows in it are frozen.
        """

    def snapshot(self) -> Snapshot:
        """Dump every row, ids and times as they are."""
        with self.transaction() as tables:
            return snapshot_of(tables)

    def edit_job(self, job_id: str, **columns: object) -> None:
        """
        Write columns of a job past every rule, as an operator's UPDATE would.

        The way to make a row that cannot be read: `edit_job(id, args_text="{")`.
        """
        with self.transaction() as tables:
            tables.jobs[job_id] = replace(
                tables.jobs[job_id], **cast("dict[str, Any]", columns)
            )

    def edit_counter(self, key: str, *, max_concurrency: int, active: int) -> None:
        """Write a counter past every rule, making it if need be."""
        with self.transaction() as tables:
            tables.counters[key] = CounterRow(key, max_concurrency, active)

    def drop_counter(self, key: str) -> None:
        """Delete a counter past every rule."""
        with self.transaction() as tables:
            del tables.counters[key]

    def edit_schedule_key(self, key: str, *, job_id: str | None) -> None:
        """Write a schedule key's owner past every rule: a dangling one, say."""
        with self.transaction() as tables:
            tables.schedule_keys[key] = replace(
                tables.schedule_keys[key], job_id=job_id
            )


class MemoryData(JobData):
    """
    What several stores may share in one process, as stores share a database.

    `copy` and `restore` cost the same however many jobs there are.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.tables = Tables()

    @contextmanager
    def transaction(self) -> Iterator[Tables]:
        """Yield a copy under the lock; at the end it takes the place of the tables."""
        with self.lock:
            tables = self.tables.copy()
            yield tables
            self.tables = tables

    def copy(self) -> "MemoryData":
        """Return a data set of its own that starts in this state."""
        twin = MemoryData()
        twin.tables = self.tables
        return twin

    def restore(self, saved: "MemoryData") -> None:
        """Go to the state that `saved` is in; stores on this data see it at once."""
        with self.lock:
            self.tables = saved.tables


def snapshot_of(tables: Tables) -> Snapshot:
    """Return every row of these tables."""
    return Snapshot(
        jobs=_sorted(tables.jobs),
        counters=_sorted(tables.counters),
        schedule_keys=_sorted(tables.schedule_keys),
        idempotency=_sorted(tables.idempotency),
        queues=_sorted(tables.queues),
        owner=tables.owner,
    )


def _sorted(table: Mapping[_Key, _Row]) -> tuple[_Row, ...]:
    return tuple(table[key] for key in sorted(table))
