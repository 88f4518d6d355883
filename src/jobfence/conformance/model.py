"""The model: `MemoryJobStore` on data sets by name, with a backdoor into each."""

from collections.abc import Mapping

from jobfence.statemachine.clock import ManualClock
from jobfence.statemachine.ids import TimeOrderedIds
from jobfence.statemachine.policy import QueuePolicy
from jobfence.statemachine.retry import RetryPolicy
from jobfence.store.memory import MemoryJobStore
from jobfence.store.memory.data import MemoryData


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
        return MemoryJobStore(
            queues=queues,
            clock=clock,
            lease_ms=lease_ms,
            retry_policy=retry_policy,
            max_handoffs=max_handoffs,
            ids=self._ids,
            data=self.data(namespace),
        )

    def open_backdoor(self, namespace: str) -> "MemoryBackdoor":
        """Return the way past the store into a namespace's data."""
        return MemoryBackdoor(self.data(namespace))


class MemoryBackdoor:
    """Reads and damages a data set without any store."""

    def __init__(self, data: MemoryData) -> None:
        self._data = data

    def counters(self) -> Mapping[str, tuple[int, int]]:
        """Return (cap, active) for every concurrency key that has a counter."""
        return {
            key: (row.max_concurrency, row.active_count)
            for key, row in self._data.tables.counters.items()
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
