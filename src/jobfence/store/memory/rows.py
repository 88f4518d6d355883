"""
What the model keeps: frozen rows, one class for each table of the SQL store.

Frozen, so that a state is copied by copying dictionaries of references, and so that
nothing can change a job but putting another row in its place.
"""

from dataclasses import dataclass, fields
from operator import attrgetter

from jobfence.statemachine.canonical import JSON, JSONInput, parse
from jobfence.statemachine.errors import UnreadableJob
from jobfence.statemachine.policy import NO_POLICY, QueuePolicy
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import Handoff, Job


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """
    One job: the columns of `Job`, its arguments as text, and three of the store's own.

    `priority_explicit` says that the priority was given and is the job's for ever;
    `lease_ms` is the length that `extend_lease` renews; `last_ack` is the trigger that
    ended the latest handoff (M18).
    """

    id: str
    name: str
    args_text: str
    kwargs_text: str
    queue: str
    priority: int
    priority_explicit: bool
    status: JobStatus
    attempts: int = 0
    max_retries: int
    handoffs: int = 0
    created_at_ms: int
    scheduled_at_ms: int
    handed_off_at_ms: int | None = None
    lease_ms: int | None = None
    lease_expires_at_ms: int | None = None
    handoff_id: str | None = None
    worker_id: str | None = None
    last_handoff_id: str | None = None
    last_worker_id: str | None = None
    last_handed_off_at_ms: int | None = None
    last_ack: str | None = None
    completed_at_ms: int | None = None
    failed_at_ms: int | None = None
    cancelled_at_ms: int | None = None
    last_error: str | None = None
    concurrency_key: str | None
    max_concurrency: int | None
    schedule_key: str | None
    schedule_order: int | None
    timeout_ms: int | None
    execution_mode: str
    cancel_requested: bool = False
    origin_id: str | None

    @property
    def ended_at_ms(self) -> int | None:
        """When it became terminal; None while it is active."""
        ends = {
            JobStatus.COMPLETED: self.completed_at_ms,
            JobStatus.FAILED: self.failed_at_ms,
            JobStatus.CANCELLED: self.cancelled_at_ms,
        }
        return ends.get(self.status)


@dataclass(frozen=True, slots=True)
class CounterRow:
    """A concurrency key: its cap, and how many of its jobs are handed off (C1)."""

    concurrency_key: str
    max_concurrency: int
    active_count: int


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    """A schedule key: its owner, and the highest order it ever gave (K3)."""

    schedule_key: str
    job_id: str | None
    high_water: int


@dataclass(frozen=True, slots=True)
class IdempotencyRow:
    """The job that a (name, queue, key) belongs to for ever, and its request (E5)."""

    name: str
    queue: str
    idempotency_key: str
    job_id: str
    request: tuple[tuple[str, JSONInput], ...]


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A queue's durable policy and whether claims from it are stopped (C0, R4)."""

    queue: str
    policy: QueuePolicy = NO_POLICY
    paused: bool = False


@dataclass(frozen=True, slots=True)
class OwnerRow:
    """The worker that has the data alone, and until when (L2)."""

    worker_id: str
    expires_at_ms: int


_AS_STORED = tuple(
    each.name for each in fields(Job) if each.name not in {"args", "kwargs"}
)
_as_stored = attrgetter(*_AS_STORED)


def read_job(row: JobRow) -> Job:
    """Return the public value of a row; `UnreadableJob` if its text is damaged."""
    args = _parsed(row, "args", row.args_text)
    kwargs = _parsed(row, "kwargs", row.kwargs_text)
    if not isinstance(args, list):
        raise UnreadableJob(row.id, "args", "is not a JSON array")
    if not isinstance(kwargs, dict):
        raise UnreadableJob(row.id, "kwargs", "is not a JSON object")
    stored = dict(zip(_AS_STORED, _as_stored(row), strict=True))
    return Job(args=tuple(args), kwargs=kwargs, **stored)


def read_handoff(row: JobRow) -> Handoff:
    """Return what the holder of a handed-off row holds."""
    assert row.handoff_id is not None
    assert row.handed_off_at_ms is not None
    return Handoff(
        read_job(row), row.handoff_id, row.handed_off_at_ms, row.lease_expires_at_ms
    )


def unreadable(row: JobRow) -> UnreadableJob | None:
    """Say what is wrong with a row that cannot be read; None if it can (M21)."""
    try:
        read_job(row)
    except UnreadableJob as problem:
        return problem
    return None


def _parsed(row: JobRow, column: str, text: str) -> JSON:
    try:
        return parse(text)
    except (TypeError, ValueError, RecursionError) as problem:
        raise UnreadableJob(row.id, column, f"is not JSON ({problem})") from problem


def best_first(row: JobRow) -> tuple[int, int, int, str]:
    """Order of claims (O1)."""
    return (-row.priority, *soonest_first(row))


def soonest_first(row: JobRow) -> tuple[int, int, str]:
    """Order of what is due next (O2), and of twins (E4)."""
    return (row.scheduled_at_ms, row.created_at_ms, row.id)


def oldest_first(row: JobRow) -> tuple[int, str]:
    """Order of listings (O2)."""
    return (row.created_at_ms, row.id)
