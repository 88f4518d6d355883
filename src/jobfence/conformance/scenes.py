"""The matrix's scenes: small histories that lead to each state, and the calls in them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from jobfence.conformance.bench import held
from jobfence.statemachine.table import Trigger
from jobfence.statemachine.values import Ack, Handoff
from jobfence.store.contract import JobStore

DELAY_MS = 5_000
NEW_LEASE_MS = 90_000


class Which(StrEnum):
    """Whose handoff id an acknowledgement carries."""

    RIGHT = "right"  # the job's latest
    STALE = "stale"  # the one before it
    FOREIGN = "foreign"  # another job's, which is held
    UNKNOWN = "unknown"
    EMPTY = "empty"


class Case(StrEnum):
    """A small history that leads to a state."""

    QUEUED = "queued"
    HELD = "handed_off"
    HELD_LAST_RETRY = "handed_off, no retry left"
    HELD_CANCELLED = "handed_off, asked to be cancelled"
    HELD_SPENT = "handed_off, handoffs spent"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled while queued"
    ABORTED = "cancelled while handed off"


@dataclass(frozen=True, slots=True)
class Scene:
    """A job in some state, the ids its handoffs had, and another job that is held."""

    job_id: str
    ids: Mapping[Which, str]


def arrange(store: JobStore, case: Case) -> Scene:
    """Bring a job into a state, by acknowledged steps only."""
    other = held(store, store.enqueue("other", concurrency_key="k", max_concurrency=9))
    retries = 0 if case in (Case.HELD_LAST_RETRY, Case.FAILED) else 3
    job_id = store.enqueue(
        "job", [1], max_retries=retries, concurrency_key="k", max_concurrency=9
    )
    first = held(store, job_id)
    assert store.return_to_queue(job_id, first.handoff_id).accepted
    last = first
    if case not in (Case.QUEUED, Case.CANCELLED):
        last = held(store, job_id)
    _finish(store, case, last)
    stale = first if last is not first else other  # a queued job has only one
    return Scene(
        job_id,
        {
            Which.RIGHT: last.handoff_id,
            Which.STALE: stale.handoff_id,
            Which.FOREIGN: other.handoff_id,
            Which.UNKNOWN: "no-such-handoff",
            Which.EMPTY: "",
        },
    )


def _finish(store: JobStore, case: Case, last: Handoff) -> None:
    job_id, handoff_id = last.job.id, last.handoff_id
    if case is Case.COMPLETED:
        assert store.complete(job_id, handoff_id).accepted
    elif case is Case.FAILED:
        assert store.fail(job_id, handoff_id, "no").accepted
    elif case is Case.CANCELLED:
        assert store.cancel(job_id).outcome == "cancelled"
    elif case in (Case.HELD_CANCELLED, Case.ABORTED):
        assert store.cancel(job_id).outcome == "requested"
    if case is Case.ABORTED:
        assert store.reschedule(job_id, handoff_id, delay_ms=1).accepted


def acknowledge(store: JobStore, trigger: Trigger, job_id: str, handoff_id: str) -> Ack:
    """Send one acknowledgement."""
    calls: dict[Trigger, Callable[[], Ack]] = {
        Trigger.COMPLETE: lambda: store.complete(job_id, handoff_id),
        Trigger.FAIL: lambda: store.fail(job_id, handoff_id, "boom"),
        Trigger.RESCHEDULE: lambda: store.reschedule(
            job_id, handoff_id, delay_ms=DELAY_MS
        ),
        Trigger.RETURN_TO_QUEUE: lambda: store.return_to_queue(job_id, handoff_id),
        Trigger.EXTEND_LEASE: lambda: store.extend_lease(
            job_id, handoff_id, lease_ms=NEW_LEASE_MS
        ),
    }
    return calls[trigger]()
