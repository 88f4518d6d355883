"""The whole state of a store, as its public reads show it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import Job, QueueStats
from jobfence.store.contract import JobStore

if TYPE_CHECKING:
    from jobfence.conformance.bench import Backdoor

_PAGE = 1000


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything that can be read without changing anything."""

    jobs: tuple[Job, ...]
    counts: Mapping[JobStatus, int]
    queues: tuple[QueueStats, ...]
    next_available: str | None
    next_scheduled: str | None


def take(store: JobStore) -> Picture:
    """Read it all."""
    jobs = all_jobs(store)
    available, later = store.next_available(), store.next_scheduled()
    return Picture(
        jobs=jobs,
        counts=dict(store.counts()),
        queues=_queue_stats(store),
        next_available=None if available is None else available.id,
        next_scheduled=None if later is None else later.id,
    )


def all_jobs(store: JobStore, page: int = _PAGE) -> tuple[Job, ...]:
    """List every readable job, page by page (O2)."""
    found: list[Job] = []
    while True:
        more = store.list_jobs(limit=page, after=found[-1] if found else None)
        found += more
        if len(more) < page:
            return tuple(found)


def _queue_stats(store: JobStore) -> tuple[QueueStats, ...]:
    try:
        return tuple(store.queue_stats())
    except (AttributeError, NotImplementedError):
        return ()  # a store may lack it; a test of its own says so


def differences(expected: Picture, seen: Picture) -> list[str]:
    """Say in one line each what differs, job by job and column by column."""
    found = job_differences(expected.jobs, seen.jobs)
    found += [
        f"counts: {status} expected {old}, seen {new}"
        for status in {**expected.counts, **seen.counts}
        if (old := expected.counts.get(status)) != (new := seen.counts.get(status))
    ]
    found += _queue_differences(expected.queues, seen.queues)
    found += [
        f"{name}: expected {getattr(expected, name)}, seen {getattr(seen, name)}"
        for name in ("next_available", "next_scheduled")
        if getattr(expected, name) != getattr(seen, name)
    ]
    return found


def _queue_differences(
    expected: Collection[QueueStats], seen: Collection[QueueStats]
) -> list[str]:
    """Compare the figures of each queue, then their order."""
    old, new = ({each.queue: each for each in every} for every in (expected, seen))
    found = [
        f"queue_stats: queue {name}: {column} expected {was!r}, seen {now!r}"
        for name in sorted(old.keys() | new.keys())
        for column in _FIGURES
        if (was := getattr(old.get(name), column, None))
        != (now := getattr(new.get(name), column, None))
    ]
    if not found and expected != seen:
        found.append(f"queue_stats: expected {expected}, seen {seen}")
    return found


def job_differences(expected: Collection[Job], seen: Collection[Job]) -> list[str]:
    """Compare two lists of jobs by id, then their order."""
    old, new = {job.id: job for job in expected}, {job.id: job for job in seen}
    found = [f"job {each} is gone" for each in old.keys() - new.keys()]
    found += [f"job {each} is new" for each in new.keys() - old.keys()]
    for each in old.keys() & new.keys():
        found += row_differences(old[each], new[each])
    if not found and [*old] != [*new]:
        found.append(f"order: expected {[*old]}, seen {[*new]}")
    return found


def row_differences(expected: Job, seen: Job) -> list[str]:
    """Compare every column of two jobs."""
    return [
        f"job {expected.id}: {column} expected {old!r}, seen {new!r}"
        for column in COLUMNS
        if (old := getattr(expected, column)) != (new := getattr(seen, column))
    ]


COLUMNS = tuple(each.name for each in fields(Job))
_FIGURES = tuple(each.name for each in fields(QueueStats))
_HELD = ("handoff_id", "worker_id", "handed_off_at_ms")
_ENDS = {
    JobStatus.COMPLETED: "completed_at_ms",
    JobStatus.FAILED: "failed_at_ms",
    JobStatus.CANCELLED: "cancelled_at_ms",
}


def row_faults(job: Job) -> list[str]:
    """Say which of the rules for a single row it breaks."""
    is_held = job.status is JobStatus.HANDED_OFF
    found = [
        f"M16: job {job.id} is {job.status} and its {column} is {value!r}"
        for column in _HELD
        if ((value := getattr(job, column)) is not None) != is_held
    ]
    if not is_held and job.lease_expires_at_ms is not None:
        found.append(f"M16: job {job.id} is {job.status} and has a lease")
    if job.status is JobStatus.QUEUED and job.cancel_requested:
        found.append(f"M16: job {job.id} is queued and asked to be cancelled")
    if is_held and job.last_handoff_id != job.handoff_id:
        found.append(f"M19: job {job.id}: last_handoff_id is not that of its handoff")
    found += [
        f"M3-M15: job {job.id} is {job.status} and its {column} is {value!r}"
        for status, column in _ENDS.items()
        if ((value := getattr(job, column)) is not None) != (job.status is status)
    ]
    return found


def audit(store: JobStore, backdoor: "Backdoor | None") -> None:
    """Check every row by itself, the totals, and the counters (M16, R2, C5)."""
    jobs = all_jobs(store)
    found = [fault for job in jobs for fault in row_faults(job)]
    taken = [job.handoff_id for job in jobs if job.handoff_id is not None]
    if len(set(taken)) != len(taken):
        found.append(f"M16: one handoff id holds two jobs: {sorted(taken)}")
    # The raw counters first: the report below mends what it finds.
    found += _counter_faults(jobs, backdoor)
    found += [
        f"C5: the counter of {each.concurrency_key!r} was "
        f"{each.previous_active_count}, its handed-off jobs are {each.active_count}"
        for each in store.reconcile_active_concurrency().repairs
        if each.previous_active_count != each.active_count
    ]
    told = "\n  and ".join(found)
    assert not found, f"{told}, at the end of the test"


def _counter_faults(jobs: Collection[Job], backdoor: "Backdoor | None") -> list[str]:
    if backdoor is None:
        return []
    active: dict[str, int] = {}
    for job in jobs:
        if job.status is JobStatus.HANDED_OFF and job.concurrency_key is not None:
            key = job.concurrency_key
            active[key] = active.get(key, 0) + 1
    return [
        f"C5: the counter of {key!r} is {seen}, its handed-off jobs are {right}"
        for key, (_, seen) in backdoor.counters().items()
        if seen != (right := active.get(key, 0))
    ]
