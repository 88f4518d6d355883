"""
Jobs, handoffs and acknowledgements.

Made from the sync methods by `make generate`; change those.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Unpack

from jobfence.statemachine import checks, settling
from jobfence.statemachine.canonical import JSONInput
from jobfence.statemachine.options import EnqueueOptions, JobRequest
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.table import Trigger
from jobfence.statemachine.values import (
    Ack,
    Cancellation,
    Handoff,
    Job,
    Settlement,
)
from jobfence.store.contract import (
    Lease,
    WakeListener,
)
from jobfence.store.sql import calls
from jobfence.store.sql.aio.base import AsyncMethods


class AsyncCoreMethods(AsyncMethods):
    """What every store has."""

    async def ensure_ready(self, *, create: bool = True) -> None:
        """Make, upgrade or only check the tables (the S rules)."""
        self._ready.create = checks.flag("create", create)
        self._ready.done = False
        await self._run(calls.nothing())

    async def clear(self) -> None:
        """Delete everything, for tests."""
        await self._run(calls.clear())

    async def enqueue(
        self,
        name: str,
        args: Sequence[JSONInput] = (),
        kwargs: Mapping[str, JSONInput] | None = None,
        **options: Unpack[EnqueueOptions],
    ) -> str:
        """Store one job and return its id (the E rules)."""
        return await self._run(
            calls.enqueue_one(self._settings, name, args, kwargs, options)
        )

    async def enqueue_many(self, requests: Iterable[JobRequest]) -> list[str]:
        """Store all or none, in one transaction; ids in order (E6)."""
        return await self._run(calls.enqueue_many(self._settings, requests))

    async def get(self, job_id: str) -> Job | None:
        """Return a job; `UnreadableJob` when its row is damaged (M21)."""
        return await self._run(calls.get(job_id))

    async def list_jobs(
        self,
        *,
        status: JobStatus | None = None,
        queue: str | None = None,
        name: str | None = None,
        limit: int = 100,
        after: Job | str | None = None,
    ) -> list[Job]:
        """Return jobs by creation, from just behind `after` (O2)."""
        return await self._run(calls.list_jobs(status, queue, name, limit, after))

    async def next_available(
        self,
        *,
        queues: Collection[str] | None = None,
        execution_modes: Collection[str] | None = None,
    ) -> Job | None:
        """Return the job a claim would take now (O1)."""
        return await self._run(calls.next_available(queues, execution_modes))

    async def next_scheduled(
        self, *, queues: Collection[str] | None = None
    ) -> Job | None:
        """Return the earliest of the queued jobs that are not due yet (O2)."""
        return await self._run(calls.next_scheduled(queues))

    async def handoffs_for_worker(self, worker_id: str) -> list[Handoff]:
        """Return what this worker holds."""
        return await self._run(calls.handoffs_for_worker(worker_id))

    async def counts(self) -> Mapping[JobStatus, int]:
        """Return the number of jobs in every status (R2)."""
        return await self._run(calls.counts())

    async def claim(
        self,
        limit: int = 1,
        *,
        queues: Collection[str] | None = None,
        execution_modes: Collection[str] | None = None,
        worker_id: str = "local",
        lease_ms: Lease = ...,
    ) -> list[Handoff]:
        """Hand off up to `limit` jobs, best first (M2, O1, C6)."""
        return await self._follow(
            calls.claim_jobs(
                self._settings,
                calls.Wanted(
                    limit=limit,
                    queues=queues,
                    execution_modes=execution_modes,
                    worker_id=worker_id,
                    lease_ms=lease_ms,
                ),
            )
        )

    async def claim_job(
        self,
        job_id: str,
        *,
        worker_id: str = "local",
        handoff_id: str | None = None,
        lease_ms: Lease = ...,
    ) -> Handoff | None:
        """Hand off this job, or None if it cannot be now (M2, M19)."""
        return await self._run(
            calls.claim_job(self._settings, job_id, worker_id, handoff_id, lease_ms)
        )

    async def complete(self, job_id: str, handoff_id: str) -> Ack:
        """Acknowledge that the job is done (M3, M18)."""
        return await self._run(calls.acknowledge(Trigger.COMPLETE, job_id, handoff_id))

    async def fail(self, job_id: str, handoff_id: str, error: object) -> Ack:
        """Acknowledge a failure: retried, or failed for good (M4, M5, B)."""
        return await self._run(
            calls.acknowledge(Trigger.FAIL, job_id, handoff_id, error=error)
        )

    async def reschedule(self, job_id: str, handoff_id: str, *, delay_ms: int) -> Ack:
        """Put the job back for a later time; costs no attempt (M6)."""
        return await self._run(
            calls.acknowledge(Trigger.RESCHEDULE, job_id, handoff_id, delay_ms=delay_ms)
        )

    async def return_to_queue(self, job_id: str, handoff_id: str) -> Ack:
        """Put the job back, due now; costs no attempt (M7)."""
        return await self._run(
            calls.acknowledge(Trigger.RETURN_TO_QUEUE, job_id, handoff_id)
        )

    async def extend_lease(
        self, job_id: str, handoff_id: str, *, lease_ms: int | None = None
    ) -> Ack:
        """Renew the lease by its own length, or by the one given (M12, L1)."""
        (answer,) = await self._run(
            calls.extend([settling.extension(job_id, handoff_id)], lease_ms)
        )
        return answer

    async def extend_leases(
        self, handoffs: Iterable[Handoff], *, lease_ms: int | None = None
    ) -> list[Ack]:
        """Renew many in one transaction; answers in the order given."""
        return await self._run(calls.extend(settling.extensions(handoffs), lease_ms))

    async def settle(
        self,
        acks: Sequence[Settlement],
        *,
        claim: int = 0,
        queues: Collection[str] | None = None,
        execution_modes: Collection[str] | None = None,
        worker_id: str = "local",
        lease_ms: Lease = ...,
    ) -> tuple[list[Ack], list[Handoff]]:
        """Acknowledge a batch and claim the next one in one transaction (T5)."""
        return await self._follow(
            calls.settle(
                self._settings,
                acks,
                calls.Wanted(
                    limit=claim,
                    option="claim",
                    queues=queues,
                    execution_modes=execution_modes,
                    worker_id=worker_id,
                    lease_ms=lease_ms,
                ),
            )
        )

    async def recover_handed_off(self) -> list[Job]:
        """Recover every handoff: only for the single owner of a database (L2)."""
        return await self._run(calls.recover_handed_off())

    async def recover_expired(self, *, limit: int = 100) -> list[Job]:
        """Recover handoffs whose lease has run out, earliest first (M8, L1)."""
        return await self._run(calls.recover_expired(limit))

    async def cancel(self, job_id: str) -> Cancellation:
        """Cancel a queued job; mark a handed-off one (R3)."""
        return await self._run(calls.cancel(job_id))

    async def requeue(self, job_id: str) -> str:
        """Run an ended job again as a new one that names its origin (R5)."""
        return await self._run(calls.requeue(self._settings, job_id))

    def on_commit_wake(self, listener: WakeListener) -> None:
        """
        Call back after each commit that may have made work due (T3).

        After a caller's commit that is while its connection goes back to the pool, or
        begins again: one that uses the store then needs another connection. With a pool
        of one it would fail when the pool's time-out is over: let it set an event.
        """
        self._ready.listeners.append(listener)
