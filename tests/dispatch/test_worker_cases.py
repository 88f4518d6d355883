"""The acceptance cases of the dispatcher, each by its id."""

import threading

import pytest

from jobfence.dispatch import JobApp, Reschedule, current_job
from jobfence.dispatch.events import (
    JobFailed,
    JobRescheduled,
)
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import WakeOutcome
from jobfence.store.memory import MemoryJobStore
from tests.dispatch.support import (
    NEVER_MS,
    PATIENCE_S,
    START_MS,
    World,
    as_store,
    idle,
    reached,
)


def test_A34_a_scheduled_job_runs_in_its_very_millisecond() -> None:
    world = World()
    runs: list[str] = []
    world.app.job("n")(lambda: runs.append("run"))
    job_id = world.app.options(scheduled_at=START_MS + 1000).enqueue("n")
    with world.running() as worker:
        idle(worker)
        world.clock.advance(999)
        idle(worker)
        assert runs == []
        assert world.status(job_id) is JobStatus.QUEUED
        world.clock.advance(1)
        idle(worker)
    assert runs == ["run"]
    assert world.status(job_id) is JobStatus.COMPLETED


def test_A35_a_failure_is_retried_after_its_back_off() -> None:
    world = World()
    runs: list[str] = []

    @world.app.job("n", max_retries=1)
    def n() -> None:
        runs.append("run")
        if len(runs) == 1:
            raise ValueError("the first time")

    job_id = world.app.enqueue(n)
    with world.running() as worker:
        idle(worker)
        job = world.job(job_id)
        assert (job.status, job.attempts) == (JobStatus.QUEUED, 1)
        assert job.scheduled_at_ms == START_MS + 10_000
        assert "ValueError: the first time" in str(job.last_error)
        world.clock.advance(10_000)
        idle(worker)
    assert world.status(job_id) is JobStatus.COMPLETED
    (failed,) = world.seen.of(JobFailed)
    assert (failed.attempts, failed.will_retry, failed.terminal) == (1, True, False)
    assert len(runs) == 2


def test_A37_a_job_that_comes_back_later_spends_no_attempt() -> None:
    world = World()
    runs: list[str] = []

    @world.app.job("n", max_retries=0)
    def n() -> None:
        runs.append("run")
        if len(runs) == 1:
            raise Reschedule(500)

    job_id = world.app.enqueue(n)
    with world.running() as worker:
        idle(worker)
        job = world.job(job_id)
        assert (job.attempts, job.scheduled_at_ms) == (0, START_MS + 500)
        world.clock.advance(500)
        idle(worker)
    assert world.status(job_id) is JobStatus.COMPLETED
    assert len(runs) == 2
    assert [event.delay_ms for event in world.seen.of(JobRescheduled)] == [500]


def test_A38_a_taken_key_hides_no_other_job() -> None:
    world = World()
    started = {name: threading.Event() for name in ("first", "second", "third")}
    release = {name: threading.Event() for name in started}

    @world.app.job("n")
    def n(name: str) -> None:
        started[name].set()
        reached(release[name])

    for name, key in (
        ("first", "account:1"),
        ("second", "account:1"),
        ("third", "account:2"),
    ):
        world.app.options(concurrency_key=key, max_concurrency=1).enqueue(n, name)
    with world.running(concurrency=3) as worker:
        reached(started["first"])
        reached(started["third"])
        assert not started["second"].is_set()
        release["first"].set()
        reached(started["second"])
        release["second"].set()
        release["third"].set()
        idle(worker)
    assert world.store.counts()[JobStatus.COMPLETED] == 3


def test_A115_a_delay_out_of_bounds_is_an_ordinary_failure() -> None:
    world = World()

    @world.app.job("n", max_retries=0)
    def n() -> None:
        raise Reschedule(-1)

    job_id = world.app.enqueue(n)
    with world.running() as worker:
        idle(worker)
    job = world.job(job_id)
    assert (job.status, job.attempts) == (JobStatus.FAILED, 1)
    assert "delay_ms must be an integer from 0" in str(job.last_error)


def test_A58_an_owner_woken_while_the_only_slot_is_busy_runs_when_it_is_free() -> None:
    world = World()
    started, release = threading.Event(), threading.Event()

    @world.app.job("busy")
    def busy() -> None:
        started.set()
        reached(release)

    world.app.job("n")(lambda: None)
    world.app.enqueue(busy)
    later = START_MS + 60_000
    owner = world.store.replace_scheduled("key", "n", scheduled_at=later).job_id
    with world.running(concurrency=1) as worker:
        reached(started)
        outcomes = [world.store.wake_scheduled("key").outcome for _ in range(2)]
        assert outcomes == [WakeOutcome.WOKEN, WakeOutcome.ALREADY_DUE]
        found = world.store.scheduled_job("key", include_latest_terminal=True)
        assert found.current is not None
        assert (found.current.id, found.current.attempts) == (owner, 0)
        assert found.latest_terminal is None
        release.set()
        idle(worker)
    assert world.status(owner) is JobStatus.COMPLETED
    assert world.job(owner).handoffs == 1


def test_A149_a_retry_that_is_due_later_arms_the_timer_at_start() -> None:
    world = World()
    world.app.job("n")(lambda: None)
    job_id = world.app.enqueue("n")
    (handoff,) = world.store.claim()
    world.store.fail(job_id, handoff.handoff_id, "once")
    with world.running() as worker:
        idle(worker)
        armed_for = worker.next_scheduled
    assert armed_for is not None
    assert (armed_for.id, armed_for.scheduled_at_ms) == (job_id, START_MS + 10_000)


def test_A151_of_two_overlapping_stops_the_second_ends_after_the_first() -> None:
    world = World()
    started, release = threading.Event(), threading.Event()

    @world.app.job("n")
    def n() -> None:
        started.set()
        reached(release)

    job_id = world.app.enqueue(n)
    worker = world.worker()
    worker.start()
    reached(started)
    states: list[object] = []

    def stop() -> None:
        worker.stop(NEVER_MS)
        states.append(worker.state.name)

    stops = [threading.Thread(target=stop) for _ in range(2)]
    for each in stops:
        each.start()
    assert states == []
    release.set()
    for each in stops:
        each.join(PATIENCE_S)
    assert states == ["STOPPED", "STOPPED"]
    assert world.status(job_id) is JobStatus.COMPLETED


def test_A152_a_replacement_that_is_due_earlier_runs_in_its_time() -> None:
    # The system's clock and no poll: only the timer can bring the job up.
    store = MemoryJobStore()
    world = World(store)
    world.app = JobApp(as_store(world.staged))
    ran = threading.Event()
    world.app.job("late")(lambda: None)
    world.app.job("early")(ran.set)
    now = world.app.clock.now_ms()
    first = store.replace_scheduled("key", "late", scheduled_at=now + 5000)
    with world.running() as worker:
        idle(worker)
        store.replace_scheduled("key", "early", scheduled_at=now + 100)
        assert ran.wait(2)
        idle(worker)
    assert world.status(first.job_id) is JobStatus.CANCELLED


def test_A154_cancelling_the_earliest_job_arms_the_timer_for_the_next() -> None:
    world = World()
    runs: list[int] = []

    @world.app.job("n")
    def n(number: int) -> None:
        runs.append(number)

    first = world.app.options(scheduled_at=START_MS + 100).enqueue(n, 1)
    second = world.app.options(scheduled_at=START_MS + 200).enqueue(n, 2)
    with world.running() as worker:
        idle(worker)
        assert worker.next_scheduled is not None
        assert worker.next_scheduled.id == first
        world.store.cancel(first)
        idle(worker)
        assert worker.next_scheduled.id == second
        world.clock.advance(200)
        idle(worker)
    assert runs == [2]
    assert world.status(first) is JobStatus.CANCELLED


def test_A155_after_a_restart_the_latest_owner_of_a_schedule_key_runs() -> None:
    world = World()
    runs: list[int] = []

    @world.app.job("n")
    def n(number: int) -> None:
        runs.append(number)

    with world.running() as worker:
        world.store.replace_scheduled("key", "n", [1], scheduled_at=START_MS + 100)
        idle(worker)
    world.store.replace_scheduled("key", "n", [2], scheduled_at=START_MS + 100)
    world.clock.advance(100)
    with world.running() as worker:
        idle(worker)
    assert runs == [2]


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_jobs_get_their_arguments_and_their_context(kind: str) -> None:
    world = World()
    seen: list[tuple[object, ...]] = []

    def note(a: int, *, b: str) -> None:
        seen.append((a, b, current_job().job.id, current_job().handoff.fence))

    async def anote(a: int, *, b: str) -> None:
        note(a, b=b)

    world.app.job("n")(note if kind == "def" else anote)
    job_id = world.app.enqueue("n", 1, b="two")
    with world.running() as worker:
        idle(worker)
    assert seen == [(1, "two", job_id, 1)]
