"""Faults of order and of reads (the O rules, R2)."""

from collections.abc import Mapping
from typing import Any

from jobfence.conformance.faults.base import Faulty, fault
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import Handoff, Job


class Reordered(Faulty):
    """Claims in an order of its own."""

    def key(self, row: Any) -> Any:
        """Return what the order goes by."""
        raise NotImplementedError

    def claim(self, limit: int = 1, **options: Any) -> list[Handoff]:
        rows = sorted(self.data.tables.jobs.values(), key=self.key)
        old = {row.id: row.priority for row in rows}
        for place, row in enumerate(rows):
            self.edit(row.id, priority=-place, priority_explicit=True)
        try:
            return super().claim(limit, **options)
        finally:
            for row in rows:
                self.edit(row.id, priority=old[row.id])


@fault("O1", "examples", "priority does not count")
class PriorityIgnored(Reordered):
    def key(self, row: Any) -> Any:
        return row.scheduled_at_ms, row.created_at_ms, row.id


@fault("O1", "examples", "the lower number goes first")
class LowPriorityFirst(Reordered):
    def key(self, row: Any) -> Any:
        return row.priority, row.scheduled_at_ms, row.created_at_ms, row.id


@fault("O1", "examples", "last in, first out")
class LastInFirstOut(Reordered):
    def key(self, row: Any) -> Any:
        return -row.priority, row.scheduled_at_ms, -int(row.id.replace("-", ""), 16)


@fault("O1", "examples", "a job is claimed a second before its time")
class ClaimedTooEarly(Faulty):
    def claim(self, limit: int = 1, **options: Any) -> list[Handoff]:
        for row in list(self.data.tables.jobs.values()):
            early = self.now < row.scheduled_at_ms <= self.now + 1_000
            if row.status is JobStatus.QUEUED and early:
                self.edit(row.id, scheduled_at_ms=self.now)
        return super().claim(limit, **options)


@fault("O2", "examples", "a listing repeats the job it goes on from")
class CursorIncluded(Faulty):
    def list_jobs(self, *, after: Job | str | None = None, **options: Any) -> list[Job]:
        found = super().list_jobs(after=after, **options)
        last = self.get(after.id if isinstance(after, Job) else after or "")
        return found if last is None else [last, *found]


@fault("R2", "examples", "counts leaves out what is zero")
class ZeroLeftOut(Faulty):
    def counts(self) -> Mapping[JobStatus, int]:
        return {status: n for status, n in super().counts().items() if n}


@fault("T1", "examples", "an instance remembers what it has read")
class ReadsRemembered(Faulty):
    def get(self, job_id: str) -> Job | None:
        seen: dict[str, Job | None] = self.__dict__.setdefault("seen", {})
        if job_id not in seen:
            seen[job_id] = super().get(job_id)
        return seen[job_id]
