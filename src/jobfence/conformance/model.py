"""The model: `MemoryJobStore` on data sets by name, with a backdoor into each."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from jobfence.conformance import driven
from jobfence.statemachine.clock import ManualClock
from jobfence.statemachine.ids import TimeOrderedIds
from jobfence.statemachine.machine import Holds, JobMachine, Step
from jobfence.statemachine.policy import QueuePolicy
from jobfence.statemachine.retry import RetryPolicy
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.table import Trigger
from jobfence.store.memory import MemoryJobStore
from jobfence.store.memory.data import JobData, MemoryData
from jobfence.store.memory.rows import JobRow
from jobfence.store.memory.transaction import Transaction


class _Machine(JobMachine):
    """Remembers the last step it took."""

    last: Step | None = None

    def fire(self, trigger: Trigger, source: JobStatus, holds: Holds) -> Step | None:
        self.last = super().fire(trigger, source, holds)
        return self.last


class _Transaction(Transaction):
    """Notes which rows of the table are driven."""

    def move(self, seen: JobRow, trigger: Trigger, **given: Any) -> JobRow | None:
        moved = super().move(seen, trigger, **given)
        step = self.machine.last if isinstance(self.machine, _Machine) else None
        row = None if moved is None or step is None else step.transition
        driven.note(trigger, seen.status, row)
        return moved


class _Store(MemoryJobStore):
    """The store in memory, with that machine and those transactions."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._machine = _Machine()

    @contextmanager
    def _transaction(self) -> Iterator[Transaction]:
        with super()._transaction() as plain:
            known = len(plain.tables.jobs)
            noting = _Transaction(
                tables=plain.tables,
                now=plain.now,
                machine=plain.machine,
                queues=plain.queues,
                retry_policy=plain.retry_policy,
                max_handoffs=plain.max_handoffs,
            )
            yield noting
            if len(plain.tables.jobs) > known:
                driven.enqueued()
            plain.wake = noting.wake


class Model:
    """Opens in-memory stores; the same namespace is the same data."""

    def __init__(self) -> None:
        self._data: dict[str, MemoryData] = {}
        # One source for all instances: jobs of one millisecond stay in order (E7).
        self._ids = TimeOrderedIds()

    def data(self, namespace: str) -> MemoryData:
        """Return a namespace's data."""
        return self._data.setdefault(namespace, MemoryData())

    def open_store(
        self,
        namespace: str,
        *,
        clock: ManualClock,
        queues: Mapping[str, QueuePolicy] | None,
        lease_ms: int | None,
        retry_policy: RetryPolicy,
        max_handoffs: int | None = None,
    ) -> MemoryJobStore:
        """Open one more store on the namespace's data."""
        return _Store(
            queues=queues,
            clock=clock,
            lease_ms=lease_ms,
            retry_policy=retry_policy,
            max_handoffs=max_handoffs,
            ids=self._ids,
            data=self.data(namespace),
        )

    def open_backdoor(self, namespace: str) -> "DataBackdoor":
        """Return the way past the store into a namespace's data."""
        return DataBackdoor(self.data(namespace))


class DataBackdoor:
    """Reads and damages what a `JobData` keeps, without any store."""

    def __init__(self, data: JobData) -> None:
        self._data = data

    def counters(self) -> Mapping[str, tuple[int, int]]:
        """Return (cap, active) for every concurrency key that has a counter."""
        with self._data.transaction() as tables:
            return {
                key: (row.max_concurrency, row.active_count)
                for key, row in tables.counters.items()
            }

    def set_active(self, concurrency_key: str, active: int) -> None:
        """Make a counter wrong."""
        cap, _ = self.counters()[concurrency_key]
        self._data.edit_counter(concurrency_key, max_concurrency=cap, active=active)

    def drop_counter(self, concurrency_key: str) -> None:
        """Lose a counter."""
        self._data.drop_counter(concurrency_key)

    def damage(self, job_id: str) -> None:
        """Make a job's arguments unreadable."""
        self._data.edit_job(job_id, args_text="{")
