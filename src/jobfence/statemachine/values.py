"""The values that stores return and take. All are frozen."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from jobfence.statemachine.canonical import JSON
from jobfence.statemachine.errortext import error_text
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.table import Trigger


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """
    One stored job, as some transaction saw it. Times are epoch milliseconds, UTC.

    `attempts` counts failures, `handoffs` counts claims; both only grow.
    """

    id: str
    name: str
    args: tuple[JSON, ...]
    kwargs: Mapping[str, JSON]
    queue: str
    priority: int
    status: JobStatus
    attempts: int
    max_retries: int
    handoffs: int
    created_at_ms: int
    scheduled_at_ms: int
    handed_off_at_ms: int | None
    lease_expires_at_ms: int | None
    handoff_id: str | None
    worker_id: str | None
    last_handoff_id: str | None
    last_worker_id: str | None
    last_handed_off_at_ms: int | None
    completed_at_ms: int | None
    failed_at_ms: int | None
    cancelled_at_ms: int | None
    last_error: str | None
    concurrency_key: str | None
    max_concurrency: int | None
    schedule_key: str | None
    schedule_order: int | None
    timeout_ms: int | None
    execution_mode: str
    cancel_requested: bool
    origin_id: str | None

    def __hash__(self) -> int:
        """Hash by id: `kwargs` has no hash of its own."""
        return hash(self.id)


@dataclass(frozen=True, slots=True)
class Handoff:
    """
    What a worker holds: the row as the claim committed it, and the claim's id.

    Every acknowledgement gives `job.id` and `handoff_id` back.
    """

    job: Job
    handoff_id: str
    handed_off_at_ms: int
    lease_expires_at_ms: int | None

    @property
    def fence(self) -> int:
        """A number that grows with every claim of this job, for systems outside."""
        return self.job.handoffs


class AckResult(StrEnum):
    """The three answers to an acknowledgement (M18)."""

    ACCEPTED = "accepted"
    REPEATED = "repeated"
    STALE = "stale"


@dataclass(frozen=True, slots=True)
class Ack:
    """
    The answer to an acknowledgement; true unless it was stale (M18).

    `job` is the job as this very transition left it (accepted), as it stands
    (repeated), or None (stale; also when the row cannot be read, M21).
    """

    result: AckResult
    job: Job | None = None

    @property
    def accepted(self) -> bool:
        """Whether this call made the change."""
        return self.result is AckResult.ACCEPTED

    @property
    def repeated(self) -> bool:
        """Whether this handoff had made this very change before."""
        return self.result is AckResult.REPEATED

    @property
    def stale(self) -> bool:
        """Nothing was written: the handoff no longer holds the job."""
        return self.result is AckResult.STALE

    def __bool__(self) -> bool:
        return not self.stale


STALE = Ack(AckResult.STALE)


@dataclass(frozen=True, slots=True)
class Settlement:
    """One acknowledgement in a batch for `settle`; made by the four named methods."""

    trigger: Trigger
    job_id: str
    handoff_id: str
    error: str | None = None
    delay_ms: int | None = None

    @classmethod
    def complete(cls, handoff: Handoff) -> "Settlement":
        """Say that the job is done (M3)."""
        return cls(Trigger.COMPLETE, handoff.job.id, handoff.handoff_id)

    @classmethod
    def fail(cls, handoff: Handoff, error: object) -> "Settlement":
        """Say that the run failed (M4, M5)."""
        return cls(
            Trigger.FAIL, handoff.job.id, handoff.handoff_id, error=error_text(error)
        )

    @classmethod
    def reschedule(cls, handoff: Handoff, delay_ms: int) -> "Settlement":
        """Ask for another run after a wait in milliseconds (M6)."""
        return cls(
            Trigger.RESCHEDULE, handoff.job.id, handoff.handoff_id, delay_ms=delay_ms
        )

    @classmethod
    def return_to_queue(cls, handoff: Handoff) -> "Settlement":
        """Give the job back as it was (M7)."""
        return cls(Trigger.RETURN_TO_QUEUE, handoff.job.id, handoff.handoff_id)


@dataclass(frozen=True, slots=True)
class QueueStats:
    """One queue at a glance; `oldest_due_age_ms` is None when nothing is due."""

    queue: str
    counts: Mapping[JobStatus, int]
    paused: bool
    max_concurrent: int | None
    active: int
    oldest_due_age_ms: int | None


@dataclass(frozen=True, slots=True)
class Replacement:
    """The answer to `replace_scheduled`: the new owner, and the one before it."""

    job_id: str
    previous_job_id: str | None
    previous_status: JobStatus | None


class CancelOutcome(StrEnum):
    """
    What a cancellation found.

    By schedule key: cancelled, handed_off, not_found. By id: cancelled, requested,
    terminal, not_found.
    """

    CANCELLED = "cancelled"
    HANDED_OFF = "handed_off"
    REQUESTED = "requested"
    TERMINAL = "terminal"
    NOT_FOUND = "not_found"


@dataclass(frozen=True, slots=True)
class Cancellation:
    """The answer to a cancellation; `job_id` is None only for not_found."""

    job_id: str | None
    outcome: CancelOutcome


class WakeOutcome(StrEnum):
    """What `wake_scheduled` found."""

    WOKEN = "woken"
    ALREADY_DUE = "already_due"
    HANDED_OFF = "handed_off"
    NOT_FOUND = "not_found"


@dataclass(frozen=True, slots=True)
class Wake:
    """The answer to `wake_scheduled`; `job_id` is None only for not_found."""

    job_id: str | None
    outcome: WakeOutcome


@dataclass(frozen=True, slots=True)
class ScheduledJob:
    """A schedule key's active owner and, on request, its latest ended one."""

    current: Job | None
    latest_terminal: Job | None


@dataclass(frozen=True, slots=True)
class Repair:
    """One counter that was wrong, and what it is now."""

    concurrency_key: str
    previous_active_count: int
    active_count: int


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """What `reconcile_active_concurrency` saw and mended (C9)."""

    checked_count: int
    candidate_count: int
    repaired_count: int
    repairs: tuple[Repair, ...]
    repairs_truncated_count: int
