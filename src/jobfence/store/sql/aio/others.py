"""
Caps, schedule keys, and what an operator needs.

Made from the sync methods by `make generate`; change those.
"""

from collections.abc import Mapping, Sequence
from typing import Unpack

from jobfence.statemachine.canonical import JSONInput
from jobfence.statemachine.options import ScheduleOptions
from jobfence.statemachine.policy import QueuePolicy
from jobfence.statemachine.values import (
    Cancellation,
    QueueStats,
    Reconciliation,
    Replacement,
    ScheduledJob,
    Wake,
)
from jobfence.store.contract import (
    CANCELLED_TTL_MS,
    COMPLETED_TTL_MS,
    FAILED_TTL_MS,
)
from jobfence.store.sql import calls
from jobfence.store.sql.aio.base import AsyncMethods


class AsyncConcurrencyMethods(AsyncMethods):
    """Caps on jobs at once (the C rules)."""

    async def set_concurrency(self, concurrency_key: str, max_concurrency: int) -> None:
        """Set a key's cap, making its counter if it is new (C3)."""
        await self._run(calls.set_concurrency(concurrency_key, max_concurrency))

    async def reconcile_queue_policies(
        self,
        queues: Mapping[str, QueuePolicy] | None = None,
        *,
        release_others: bool = True,
    ) -> None:
        """Bring queued jobs and durable policies in line with `queues` (C7)."""
        await self._follow(
            calls.reconcile_policies(
                self._settings, queues, release_others=release_others
            )
        )

    async def reconcile_active_concurrency(self) -> Reconciliation:
        """Find and mend counters that differ from the handed-off jobs (C9)."""
        return await self._follow(calls.reconcile_active())


class AsyncScheduleMethods(AsyncMethods):
    """Stable schedule keys (the K rules)."""

    async def replace_scheduled(
        self,
        schedule_key: str,
        name: str,
        args: Sequence[JSONInput] = (),
        kwargs: Mapping[str, JSONInput] | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Replacement:
        """Enqueue a job as the key's owner, in the place of the one before it (K)."""
        return await self._run(
            calls.replace_scheduled(
                self._settings, schedule_key, (name, args, kwargs), options
            )
        )

    async def cancel_scheduled(self, schedule_key: str) -> Cancellation:
        """End the key's ownership, and its owner if that is still queued (K)."""
        return await self._run(calls.cancel_scheduled(schedule_key))

    async def wake_scheduled(self, schedule_key: str) -> Wake:
        """Make the key's queued owner due now (K)."""
        return await self._run(calls.wake_scheduled(schedule_key))

    async def scheduled_job(
        self, schedule_key: str, *, include_latest_terminal: bool = False
    ) -> ScheduledJob:
        """Look the key's owner up (K)."""
        return await self._run(
            calls.scheduled_job(
                schedule_key, include_latest_terminal=include_latest_terminal
            )
        )


class AsyncOperationsMethods(AsyncMethods):
    """Figures, pauses, retention and ownership (the R rules, L2)."""

    async def queue_stats(self) -> list[QueueStats]:
        """Return figures for every queue with jobs or a durable row, by name (R2)."""
        return await self._run(calls.queue_stats())

    async def pause_queue(self, queue: str) -> None:
        """Stop claims from a queue, durably (R4)."""
        await self._run(calls.set_paused(queue, paused=True))

    async def resume_queue(self, queue: str) -> None:
        """Let a queue be claimed from again (R4)."""
        await self._run(calls.set_paused(queue, paused=False))

    async def prune_terminal(
        self,
        *,
        completed_ttl_ms: int | None = COMPLETED_TTL_MS,
        failed_ttl_ms: int | None = FAILED_TTL_MS,
        cancelled_ttl_ms: int | None = CANCELLED_TTL_MS,
        batch_size: int = 1000,
    ) -> int:
        """Delete ended jobs at least this old; return how many (R1)."""
        return await self._follow(
            calls.prune_terminal(
                completed_ttl_ms, failed_ttl_ms, cancelled_ttl_ms, batch_size
            )
        )

    async def acquire_ownership(self, worker_id: str, *, ttl_ms: int) -> bool:
        """Take or renew the row that says one worker has the database alone (L2)."""
        return await self._run(calls.acquire_ownership(worker_id, ttl_ms))

    async def release_ownership(self, worker_id: str) -> None:
        """Let that row run out now, if it is this worker's (L2)."""
        await self._run(calls.release_ownership(worker_id))
