"""Faults of how far a listing or a claim comes (O2, M11, M21)."""

from typing import Any

from jobfence.conformance.faults.base import Faulty, fault
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import Handoff, Job
from jobfence.store.memory.claims import Wish, candidates, hand_off
from jobfence.store.memory.rows import unreadable
from jobfence.store.memory.transaction import Transaction


@fault("O2", "examples", "a listing goes on only behind a job that is still stored")
class CursorMustBeStored(Faulty):
    def list_jobs(self, *, after: Job | str | None = None, **options: Any) -> list[Job]:
        last = after.id if isinstance(after, Job) else after
        if last is not None and self.row(last) is None:
            return []
        return super().list_jobs(after=after, **options)


@fault("M21", "examples", "unreadable rows fill a page that they are left out of")
class UnreadableFillsThePage(Faulty):
    def list_jobs(self, *, limit: int = 100, **options: Any) -> list[Job]:
        found = super().list_jobs(limit=limit, **options)
        left_out = sum(
            unreadable(row) is not None and row.id < job.id
            for row in self.data.tables.jobs.values()
            for job in found[-1:]
        )
        return found[: max(limit - left_out, 0)]


@fault("M11", "examples", "a row that a claim rejects counts as one that it took")
class RejectedCounts(Faulty):
    def _claim(self, transaction: Transaction, wish: Wish) -> list[Handoff]:
        taken: list[Handoff] = []
        left = wish.limit
        for row in candidates(transaction, wish.queues, wish.execution_modes):
            if left:
                handoff = hand_off(transaction, row, wish.holder, self._handoff_ids)
                taken += [] if handoff is None else [handoff]
                left -= transaction.tables.jobs[row.id].status is not JobStatus.QUEUED
        return taken
