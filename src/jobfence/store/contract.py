"""
The store contract, in parts an adapter can be certified for one by one.

What each method must do is in the rules; a docstring here says only what a signature
cannot. Every method that is given a bad option raises `InvalidOption` and writes
nothing (E1). Errors of the database come as `RetryableError`, `StoreUnavailable` or
`IncompatibleSchema`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Protocol, Union, Unpack, runtime_checkable

from jobfence.statemachine.canonical import JSONInput
from jobfence.statemachine.options import EnqueueOptions, JobRequest, ScheduleOptions
from jobfence.statemachine.policy import QueuePolicy
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import (
    Ack,
    Cancellation,
    Handoff,
    Job,
    QueueStats,
    Reconciliation,
    Replacement,
    ScheduledJob,
    Settlement,
    Wake,
)

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.orm import Session

DAY_MS = 24 * 60 * 60 * 1000
DEFAULT_LEASE_MS = 60_000
COMPLETED_TTL_MS = 7 * DAY_MS
FAILED_TTL_MS = CANCELLED_TTL_MS = 30 * DAY_MS

Lease = int | None | EllipsisType
WakeListener = Callable[[], None]


class CoreStore(Protocol):
    """Jobs, handoffs and acknowledgements: what every store has."""

    def ensure_ready(self, *, create: bool = True) -> None:
        """
        Make, upgrade or (with `create=False`) only check the tables (the S rules).

        Called by every other method when it was not called before.
        """
        ...

    def close(self) -> None:
        """Let go of connections that the store opened itself; it may be used again."""
        ...

    def clear(self) -> None:
        """Delete everything, for tests."""
        ...

    def enqueue(
        self,
        name: str,
        args: Sequence[JSONInput] = (),
        kwargs: Mapping[str, JSONInput] | None = None,
        **options: Unpack[EnqueueOptions],
    ) -> str:
        """Store one job and return its id, or its queued twin's, or the key's (E)."""
        ...

    def enqueue_many(self, requests: Iterable[JobRequest]) -> list[str]:
        """Store all or none, in one transaction; ids in order (E6)."""
        ...

    def get(self, job_id: str) -> Job | None:
        """Return a job; `UnreadableJob` when its row is damaged (M21)."""
        ...

    def list_jobs(
        self,
        *,
        status: JobStatus | None = None,
        queue: str | None = None,
        name: str | None = None,
        limit: int = 100,
        after: Job | str | None = None,
    ) -> list[Job]:
        """
        Return jobs by creation time and id, from just behind `after` (O2).

        `limit` is 1 to 10000. Unreadable rows are left out and logged (M21); they do
        not fill a page. A `Job` as `after` also serves when it was pruned meanwhile;
        an id must be of a stored job.
        """
        ...

    def next_available(
        self,
        *,
        queues: Collection[str] | None = None,
        execution_modes: Collection[str] | None = None,
    ) -> Job | None:
        """Return the job a claim would take now, without taking it (O1)."""
        ...

    def next_scheduled(self, *, queues: Collection[str] | None = None) -> Job | None:
        """Return the earliest of the queued jobs that are not due yet (O2)."""
        ...

    def handoffs_for_worker(self, worker_id: str) -> list[Handoff]:
        """Return what this worker holds, by handoff time and id."""
        ...

    def counts(self) -> Mapping[JobStatus, int]:
        """Return the number of jobs in every status, zeros included (R2)."""
        ...

    def claim(
        self,
        limit: int = 1,
        *,
        queues: Collection[str] | None = None,
        execution_modes: Collection[str] | None = None,
        worker_id: str = "local",
        lease_ms: Lease = ...,
    ) -> list[Handoff]:
        """
        Hand off up to `limit` jobs (0 to 10000), best first (M2, O1, C6).

        `lease_ms` is in milliseconds; None means no lease; left out, the store's.
        """
        ...

    def claim_job(
        self,
        job_id: str,
        *,
        worker_id: str = "local",
        handoff_id: str | None = None,
        lease_ms: Lease = ...,
    ) -> Handoff | None:
        """
        Hand off this job, or None if it cannot be now (M2, M19).

        Asked again with the id it is held under, returns the same handoff. Another id
        found in the database: `HandoffIdInUse`.
        """
        ...

    def complete(self, job_id: str, handoff_id: str) -> Ack:
        """Acknowledge that the job is done (M3, M18)."""
        ...

    def fail(self, job_id: str, handoff_id: str, error: object) -> Ack:
        """Acknowledge a failure: retried, or failed for good (M4, M5, B)."""
        ...

    def reschedule(self, job_id: str, handoff_id: str, *, delay_ms: int) -> Ack:
        """Put the job back for a later time; costs no attempt (M6)."""
        ...

    def return_to_queue(self, job_id: str, handoff_id: str) -> Ack:
        """Put the job back, due now; costs no attempt (M7)."""
        ...

    def extend_lease(
        self, job_id: str, handoff_id: str, *, lease_ms: int | None = None
    ) -> Ack:
        """Renew the lease by its own length, or by the one given (M12, L1)."""
        ...

    def extend_leases(
        self, handoffs: Iterable[Handoff], *, lease_ms: int | None = None
    ) -> list[Ack]:
        """Renew many in one transaction; answers in the order given."""
        ...

    def settle(
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
        ...

    def recover_handed_off(self) -> list[Job]:
        """Recover every handoff: only for the single owner of a database (L2)."""
        ...

    def recover_expired(self, *, limit: int = 100) -> list[Job]:
        """Recover handoffs whose lease has run out, earliest first (M8, L1)."""
        ...

    def cancel(self, job_id: str) -> Cancellation:
        """Cancel a queued job; mark a handed-off one (R3)."""
        ...

    def requeue(self, job_id: str) -> str:
        """
        Run an ended job again as a new one, whose `origin_id` names it (R5).

        `InvalidOption` when the job is unknown or has not ended.
        """
        ...

    def on_commit_wake(self, listener: WakeListener) -> None:
        """Call back after each commit that may have made work due (T3)."""
        ...


class ConcurrencyStore(Protocol):
    """Caps on jobs at once (the C rules)."""

    def set_concurrency(self, concurrency_key: str, max_concurrency: int) -> None:
        """Set a key's cap, making its counter if it is new (C3)."""
        ...

    def reconcile_queue_policies(
        self,
        queues: Mapping[str, QueuePolicy] | None = None,
        *,
        release_others: bool = True,
    ) -> None:
        """Bring queued jobs and durable policies in line with `queues` (C7)."""
        ...

    def reconcile_active_concurrency(self) -> Reconciliation:
        """Find and mend counters that differ from the handed-off jobs (C9)."""
        ...


class ScheduleStore(Protocol):
    """Stable schedule keys: at most one active job each (the K rules)."""

    def replace_scheduled(
        self,
        schedule_key: str,
        name: str,
        args: Sequence[JSONInput] = (),
        kwargs: Mapping[str, JSONInput] | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Replacement:
        """Enqueue a job as the key's owner, in the place of the one before it."""
        ...

    def cancel_scheduled(self, schedule_key: str) -> Cancellation:
        """End the key's ownership, and its owner if that is still queued."""
        ...

    def wake_scheduled(self, schedule_key: str) -> Wake:
        """Make the key's queued owner due now."""
        ...

    def scheduled_job(
        self, schedule_key: str, *, include_latest_terminal: bool = False
    ) -> ScheduledJob:
        """Look the key's owner up."""
        ...


class OperationsStore(Protocol):
    """What an operator needs: figures, pauses, retention (the R rules)."""

    def queue_stats(self) -> list[QueueStats]:
        """Return figures for every queue with jobs or a policy, by name (R2)."""
        ...

    def pause_queue(self, queue: str) -> None:
        """Stop claims from a queue, durably (R4)."""
        ...

    def resume_queue(self, queue: str) -> None:
        """Let a queue be claimed from again (R4)."""
        ...

    def prune_terminal(
        self,
        *,
        completed_ttl_ms: int | None = COMPLETED_TTL_MS,
        failed_ttl_ms: int | None = FAILED_TTL_MS,
        cancelled_ttl_ms: int | None = CANCELLED_TTL_MS,
        batch_size: int = 1000,
    ) -> int:
        """
        Delete ended jobs at least this old, in milliseconds; return how many (R1).

        None keeps a status for ever. Each batch is a transaction of its own.
        """
        ...


class JobStore(CoreStore, ConcurrencyStore, ScheduleStore, OperationsStore, Protocol):
    """The whole contract."""


class TransactionalStore(JobStore, Protocol):
    """A store whose methods can join a transaction of the caller's (T1)."""

    def within(self, transaction: Union["Connection", "Session"]) -> JobStore:
        """
        Return this store, joined to the transaction of a connection or session.

        A refused call rolls back only its own savepoint; nothing is retried: the
        caller gets `RetryableError` and repeats the whole transaction.
        """
        ...


@runtime_checkable
class OwnershipStore(Protocol):
    """
    One row that says which worker owns the database alone (L2).

    A store may do without: `Capability.OWNERSHIP` of the suite.

    Times are judged by the store's clock.
    """

    def acquire_ownership(self, worker_id: str, *, ttl_ms: int) -> bool:
        """
        Own the database for `ttl_ms` milliseconds; False while another worker does.

        Called again by its owner it is renewed from now.
        """
        ...

    def release_ownership(self, worker_id: str) -> None:
        """Let go of it; without effect when it is another's."""
        ...
