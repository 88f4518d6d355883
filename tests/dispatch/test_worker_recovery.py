"""The acceptance cases of jobs that were left behind, by their ids."""

import threading

from typing import Any

from jobfence.dispatch import current_job
from jobfence.dispatch.events import (
    JobRecovered,
    JobStarted,
    WorkerEvent,
)
from jobfence.statemachine.clock import ManualClock
from jobfence.statemachine.policy import QueuePolicy
from jobfence.statemachine.states import JobStatus
from jobfence.store.memory import MemoryData, MemoryJobStore
from tests.dispatch.support import (
    PATIENCE_S,
    START_MS,
    World,
    idle,
    reached,
)


def left_behind(world: World, *, count: int = 1, **options: Any) -> list[str]:
    """Enqueue jobs and claim them as a worker that then dies, with a lease of 1 s."""
    ids = [world.app.options(**options).enqueue("n") for _ in range(count)]
    assert len(world.store.claim(count, worker_id="dead", lease_ms=1000)) == count
    return ids


def test_A43_a_job_that_was_left_behind_is_recovered_at_start_and_run_once() -> None:
    world = World()
    runs: list[str] = []
    world.app.job("n", max_retries=1)(lambda: runs.append("run"))
    (job_id,) = left_behind(world)
    world.clock.advance(1000)
    with world.running() as worker:
        idle(worker)
        job = world.job(job_id)
        assert (job.status, job.attempts) == (JobStatus.QUEUED, 1)
        assert [event.job.id for event in world.seen.of(JobRecovered)] == [job_id]
        world.clock.advance(10_000)
        idle(worker)
    assert world.status(job_id) is JobStatus.COMPLETED
    assert runs == ["run"]


def test_a_live_worker_s_job_is_not_recovered_at_start() -> None:
    world = World()
    world.app.job("n")(lambda: None)
    (job_id,) = left_behind(world)
    world.clock.advance(999)
    with world.running() as worker:
        idle(worker)
    assert world.status(job_id) is JobStatus.HANDED_OFF
    assert world.seen.of(JobRecovered) == []


def test_A44_what_is_recovered_gets_the_queue_s_new_cap() -> None:
    data, clock = MemoryData(), ManualClock(START_MS)
    before = World(MemoryJobStore(clock=clock, data=data))
    before.app.job("n")(lambda: None)
    first, second = left_behind(before, count=2, queue="recovered-serial")
    clock.advance(1000)

    policies = {"recovered-serial": QueuePolicy(1)}
    world = World(MemoryJobStore(clock=clock, data=data, queues=policies))
    started: list[str] = []
    release, two_started = threading.Event(), threading.Barrier(3)

    @world.app.job("n")
    def n() -> None:
        started.append(current_job().job.id)
        if not release.is_set():
            two_started.wait(PATIENCE_S)
        reached(release)

    third = world.app.options(queue="free", scheduled_at=clock.now_ms() + 10_000)
    third_id = third.enqueue(n)
    with world.running() as worker:
        idle(worker)
        clock.advance(10_000)
        worker.wake()
        two_started.wait(PATIENCE_S)
        assert set(started) == {first, third_id}
        assert world.job(first).concurrency_key == "queue:recovered-serial"
        assert world.status(second) is JobStatus.QUEUED
        release.set()
        idle(worker)
    assert world.store.counts()[JobStatus.COMPLETED] == 3
    assert started.count(second) == 1


def test_A164_recovery_goes_on_while_the_dispatcher_is_blocked() -> None:
    world = World()
    world.app.job("n")(lambda: None)
    first, second = left_behind(world, count=2)
    blocked, release = threading.Event(), threading.Event()

    def block(*_args: object, **_options: object) -> None:
        blocked.set()
        reached(release)

    def refuse_first(event: WorkerEvent) -> None:
        if isinstance(event, JobRecovered) and event.job.id == first:
            raise RuntimeError("staged: a listener that raises")

    world.staged.before["settle"] = block
    world.listeners.insert(0, refuse_first)
    worker = world.worker(recover_every_ms=1)
    worker.start()
    try:
        reached(blocked)
        world.clock.advance(1000)
        recovered = world.seen.wait(JobRecovered, 2)
        assert [event.job.id for event in recovered] == [first, second]
        assert world.seen.of(JobStarted) == []
    finally:
        release.set()
        worker.stop(0)
