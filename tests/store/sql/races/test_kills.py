"""A process is killed in the middle of an operation, before each of its steps."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from jobfence.statemachine.clock import ManualClock
from jobfence.statemachine.options import JobRequest
from jobfence.statemachine.states import JobStatus
from jobfence.store.sql.store import SqlJobStore
from tests.store.sql.races import tasks
from tests.store.sql.races.conftest import Note
from tests.store.sql.races.crew import in_one_that_dies, together
from tests.store.sql.races.place import Place

# Other processes write, with stores of their own.
pytestmark = pytest.mark.unnoted

START_MS = 1_000_000
Operation = Callable[[SqlJobStore], object]
Picture = dict[str, list[Mapping[str, Any]]]

OPERATIONS = [
    tasks.settle_two_and_claim_two,
    *(
        pytest.param(operation, marks=pytest.mark.deep)
        for operation in (
            tasks.claim_two,
            tasks.recover_two,
            tasks.enqueue_several,
            tasks.replace_the_scheduled,
            tasks.cancel_the_scheduled,
        )
    ),
]


def picture(place: Place) -> Picture:
    tables = place.tables
    return {
        table.name: sorted(place.rows(table), key=lambda row: str(sorted(row.items())))
        for table in (
            tables.jobs,
            tables.concurrency,
            tables.schedule_keys,
            tables.idempotency,
        )
    }


def set_up(place: Place, clock: ManualClock) -> SqlJobStore:
    """Two jobs are held by the process to come, two can be claimed, one is scheduled."""
    store = place.store(clock=clock, lease_ms=tasks.LEASE_MS)
    store.enqueue_many(
        [
            JobRequest("job", [n], concurrency_key="ab"[n % 2], max_concurrency=5)
            for n in range(4)
        ]
    )
    assert len(store.claim(2, worker_id=tasks.WORKER)) == 2
    store.replace_scheduled("s", "later", scheduled_at=START_MS * 2)
    return store


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_process_killed_before_any_step_leaves_all_or_nothing(
    place: Place, note: Note, operation: Operation
) -> None:
    clock = ManualClock(START_MS)
    store = set_up(place, clock)
    clock.advance(tasks.LEASE_MS)
    before = picture(place)
    kills = 0
    done = False
    while not done:
        kills += 1
        assert killed(place, clock.now_ms(), operation, kills)
        done = picture(place) != before
        assert place.drift() == {}
    note(kills=kills)
    # It was done by the COMMIT, and the killed process saw no answer.
    assert kills > 4
    finish(store, clock)
    assert set(place.counters().values()) == {0}


def killed(place: Place, now_ms: int, operation: Operation, step: int) -> bool:
    """Let a process run an operation and be killed before a step; whether it was."""
    arguments = (place.url, place.prefix, now_ms, operation, step)
    return in_one_that_dies(tasks.die_at, *arguments) is None


def finish(store: SqlJobStore, clock: ManualClock) -> None:
    """Whatever the killed process held is recovered, and everything ends."""
    clock.advance(tasks.LEASE_MS)
    while store.recover_expired():
        pass
    clock.advance(2 * START_MS)
    while found := store.claim(10):
        for each in found:
            assert store.complete(each.job.id, each.handoff_id).accepted
    left = store.counts()
    assert left[JobStatus.QUEUED] == left[JobStatus.HANDED_OFF] == 0


def test_F13_F14_what_a_killed_process_held_is_recovered_once(place: Place) -> None:
    """Cases F13, F14, F17: the row stays, and two recoveries at once take it once."""
    clock = ManualClock(START_MS)
    store, other = (
        place.store(clock=clock, lease_ms=tasks.LEASE_MS),
        place.store(clock=clock, lease_ms=tasks.LEASE_MS),
    )
    ids = store.enqueue_many(
        [JobRequest("job", concurrency_key="k", max_concurrency=9) for _ in range(2)]
    )
    assert killed(place, START_MS, tasks.claim_two, tasks.AFTERWARDS)
    for job_id in ids:
        row = place.jobs()[job_id]
        assert row["status"] == JobStatus.HANDED_OFF
        assert row["worker_id"] == tasks.WORKER
        assert row["lease_expires_at_ms"] == START_MS + tasks.LEASE_MS
    clock.advance(tasks.LEASE_MS - 1)
    assert store.recover_expired() == []
    clock.advance(1)
    found = together(store.recover_expired, other.recover_expired)
    recovered = [job.id for jobs in found for job in jobs]
    assert sorted(recovered) == sorted(ids)
    assert place.counters() == {"k": 0}
    for job_id in ids:
        job = store.get(job_id)
        assert job is not None
        assert (job.status, job.attempts) == (JobStatus.QUEUED, 1)
