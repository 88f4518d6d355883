"""Faults that only an async store can have."""

import asyncio

from collections.abc import Sequence
from typing import Any

from jobfence.conformance.faults.base import AsyncFaulty, fault
from jobfence.statemachine.options import JobRequest
from jobfence.statemachine.values import Ack, Handoff


@fault("M3", "matrix", "async: an answer is given, and the write is never awaited")
class CompleteNotAwaited(AsyncFaulty):
    async def complete(self, job_id: str, handoff_id: str) -> Ack:
        before = self.inner.data.tables
        answer = self.inner.complete(job_id, handoff_id)
        self.inner.data.tables = before
        return answer


@fault(
    "M2", "examples", "async: another task runs between a claim's look and its write"
)
class ClaimAcrossAnAwait(AsyncFaulty):
    async def claim(self, limit: int = 1, **options: Any) -> list[Handoff]:
        looked_at = self.inner.data.tables
        await asyncio.sleep(0)
        self.inner.data.tables = looked_at
        return self.inner.claim(limit, **options)


@fault("E6", "examples", "async: a cancelled batch leaves a part of itself")
class CancelledHalfway(AsyncFaulty):
    async def enqueue_many(self, requests: Sequence[JobRequest]) -> list[str]:
        before, wanted = self.inner.data.tables, list(requests)
        self.inner.enqueue_many(wanted)  # whatever is refused, is refused here
        self.inner.data.tables = before
        ids: list[str] = []
        for each in wanted:
            ids += self.inner.enqueue_many([each])
            await asyncio.sleep(0)
        return ids
