"""A store whose time and ids are known beforehand, and how to look into it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count

from jobfence.statemachine.clock import ManualClock
from jobfence.statemachine.policy import QueuePolicy
from jobfence.statemachine.retry import RetryPolicy
from jobfence.store.memory import MemoryData, MemoryJobStore
from jobfence.store.memory.rows import JobRow

START_MS = 1000


def numbered(prefix: str) -> Callable[[], str]:
    """Make j1, j2, j3 ..."""
    numbers = count(1)
    return lambda: f"{prefix}{next(numbers)}"


@dataclass
class World:
    """One data set, one clock, and any number of stores on them."""

    data: MemoryData = field(default_factory=MemoryData)
    clock: ManualClock = field(default_factory=lambda: ManualClock(START_MS))
    ids: Callable[[], str] = field(default_factory=lambda: numbered("j"))
    handoff_ids: Callable[[], str] = field(default_factory=lambda: numbered("h"))

    def store(
        self,
        *,
        queues: Mapping[str, QueuePolicy] | None = None,
        lease_ms: int | None = 60_000,
        retry_policy: RetryPolicy | None = None,
        max_handoffs: int | None = None,
    ) -> MemoryJobStore:
        return MemoryJobStore(
            queues=queues,
            clock=self.clock,
            lease_ms=lease_ms,
            retry_policy=retry_policy,
            max_handoffs=max_handoffs,
            ids=self.ids,
            handoff_ids=self.handoff_ids,
            data=self.data,
        )

    def row(self, job_id: str) -> JobRow:
        return self.data.tables.jobs[job_id]

    def active(self, key: str) -> int:
        return self.data.tables.counters[key].active_count

    def cap(self, key: str) -> int:
        return self.data.tables.counters[key].max_concurrency

    def owner(self, schedule_key: str) -> str | None:
        return self.data.tables.schedule_keys[schedule_key].job_id


def calls(store: MemoryJobStore) -> list[str]:
    """Return a list that grows with each wake-up."""
    heard: list[str] = []
    store.on_commit_wake(lambda: heard.append("wake"))
    return heard
