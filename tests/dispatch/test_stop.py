"""Rule D6: what a stop waits for, what it ends, and what it gives back."""

import asyncio
import threading

from collections.abc import Iterator

import pytest

from jobfence.dispatch import StopIncomplete, Worker, WorkerStopping
from jobfence.dispatch.acks import LONGEST_RETRY_S
from jobfence.dispatch.events import (
    AcknowledgementStale,
    FrameworkError,
    JobCompleted,
    JobLeftRunning,
    JobReturned,
    WorkerStopped,
)
from jobfence.statemachine.errors import StoreUnavailable
from jobfence.statemachine.options import JobRequest
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import Settlement
from tests.dispatch.support import (
    NEVER_MS,
    PATIENCE_S,
    Held,
    World,
    idle,
    marked,
    reached,
)

NEVER_S = NEVER_MS / 1000


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def held(world: World) -> Iterator[Held]:
    job = Held(world)
    yield job
    job.release.set()


def in_thread(call: object) -> threading.Thread:
    assert callable(call)
    thread = threading.Thread(target=call)
    thread.start()
    return thread


def joined(thread: threading.Thread) -> None:
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def test_a_running_job_is_waited_for_and_no_other_is_claimed(
    world: World, held: Held
) -> None:
    first = world.app.enqueue("held")
    worker = world.worker(concurrency=1)
    worker.start()
    reached(held.started)
    second = world.app.enqueue("held")
    stop = in_thread(lambda: worker.stop(NEVER_S))
    held.release.set()
    joined(stop)
    assert world.status(first) is JobStatus.COMPLETED
    assert (world.status(second), world.job(second).handoffs) == (JobStatus.QUEUED, 0)
    assert len(world.seen.of(WorkerStopped)) == 1


def test_F88_what_was_claimed_but_not_begun_goes_back_at_once(world: World) -> None:
    started = threading.Barrier(3)
    release = threading.Event()

    @world.app.job("n")
    def n() -> None:
        started.wait(PATIENCE_S)
        reached(release)

    for _ in range(2):
        world.app.enqueue(n)
    worker = world.worker(concurrency=10)
    worker.start()
    started.wait(PATIENCE_S)

    def stop_after_claiming(_acks: object, **options: object) -> None:
        if options["claim"]:
            worker.request_stop(NEVER_S)

    world.staged.after["settle"] = stop_after_claiming
    waiting = world.store.enqueue_many([JobRequest("n") for _ in range(8)])
    returned = world.seen.wait(JobReturned, 8)
    for each in waiting:
        job = world.job(each)
        assert (job.status, job.attempts, job.handoffs) == (JobStatus.QUEUED, 0, 1)
    assert {event.handoff.job.id for event in returned} == set(waiting)
    assert world.store.counts()[JobStatus.HANDED_OFF] == 2
    release.set()
    worker.stop(NEVER_S)
    assert world.store.counts()[JobStatus.COMPLETED] == 2


def test_F89_leases_are_renewed_until_the_drain_ends(world: World, held: Held) -> None:
    job_id = world.app.enqueue("held")
    worker = world.worker(lease_ms=20_000, heartbeat_ms=1)
    worker.start()
    reached(held.started)
    stop = in_thread(lambda: worker.stop(NEVER_S))
    beaten = threading.Semaphore(0)
    world.staged.after["extend_leases"] = lambda *_a, **_k: beaten.release()
    for _ in range(4):  # 60 s of drain, in steps shorter than the lease
        world.clock.advance(15_000)
        for _ in range(2):  # the first may have begun before the clock moved
            assert beaten.acquire(timeout=PATIENCE_S)
        assert world.store.recover_expired() == []
    assert world.status(job_id) is JobStatus.HANDED_OFF
    held.release.set()
    joined(stop)
    assert world.status(job_id) is JobStatus.COMPLETED


def test_a_thread_that_goes_on_is_left_and_acknowledges_when_it_ends(
    world: World, held: Held
) -> None:
    job_id = world.app.enqueue("held")
    worker = world.worker()
    worker.start()
    reached(held.started)
    assert not marked(held)
    worker.stop(0)
    assert marked(held)
    assert len(world.seen.of(JobLeftRunning)) == 1
    assert world.status(job_id) is JobStatus.HANDED_OFF
    held.release.set()
    world.seen.wait(JobCompleted)
    assert world.status(job_id) is JobStatus.COMPLETED


def test_a_thread_that_was_left_longer_than_its_lease_changes_nothing(
    world: World, held: Held
) -> None:
    job_id = world.app.enqueue("held")
    worker = world.worker(lease_ms=1000)
    worker.start()
    reached(held.started)
    worker.stop(0)
    world.clock.advance(1000)
    assert [job.id for job in world.store.recover_expired()] == [job_id]
    held.release.set()
    world.seen.wait(AcknowledgementStale)
    assert world.status(job_id) is JobStatus.FAILED
    assert world.seen.of(JobCompleted) == []


def refuse_claims(world: World, count: int) -> None:
    """Refuse so many claims: afterwards nobody knows whether they took a job."""
    left = [StoreUnavailable("staged", in_doubt=True) for _ in range(count)]

    def refuse(_acks: object, *, claim: int = 0, **_options: object) -> None:
        if claim and left:
            raise left.pop()

    world.staged.before["settle"] = refuse


def test_a_claim_in_doubt_gives_no_job_back_whose_thread_was_left(
    world: World, held: Held
) -> None:
    job_id = world.app.enqueue("held")
    worker = world.worker()
    worker.start()
    reached(held.started)
    refuse_claims(world, 1000)
    worker.wake()
    world.seen.wait(FrameworkError)
    worker.stop(0)
    assert len(world.seen.of(JobLeftRunning)) == 1
    assert world.staged.calls["handoffs_for_worker"] > 0
    job = world.job(job_id)
    assert (job.status, job.handoffs) == (JobStatus.HANDED_OFF, 1)
    assert world.seen.of(JobReturned) == []
    held.release.set()
    world.seen.wait(JobCompleted)
    assert world.status(job_id) is JobStatus.COMPLETED


@pytest.mark.parametrize("another", [False, True])
def test_a_worker_started_again_gives_no_job_back_whose_thread_was_left(
    world: World, held: Held, *, another: bool
) -> None:
    job_id = world.app.enqueue("held")
    worker = world.worker(worker_id="w")
    worker.start()
    reached(held.started)
    worker.stop(0)
    if another:
        worker = world.worker(worker_id="w")
    refuse_claims(world, 1)
    worker.start()
    world.seen.wait(FrameworkError)
    idle(worker)
    assert world.staged.calls["handoffs_for_worker"] == 1
    job = world.job(job_id)
    assert (job.status, job.handoffs) == (JobStatus.HANDED_OFF, 1)
    assert world.seen.of(JobReturned) == []
    held.release.set()
    world.seen.wait(JobCompleted)
    assert world.status(job_id) is JobStatus.COMPLETED
    worker.stop(0)


def test_an_error_of_a_late_acknowledgement_is_reported(
    world: World, held: Held
) -> None:
    world.app.enqueue("held")
    worker = world.worker()
    worker.start()
    reached(held.started)
    worker.stop(0)

    def refuse(*_args: object, **_options: object) -> None:
        raise StoreUnavailable("staged")

    world.staged.before["settle"] = refuse
    held.release.set()
    world.seen.wait(FrameworkError)
    assert world.seen.stages() == ["late_acknowledgement"]


def test_a_process_that_exits_gives_the_jobs_of_its_threads_back(
    world: World, held: Held
) -> None:
    job_id = world.app.enqueue("held")
    worker = world.worker()
    worker.start()
    reached(held.started)
    worker.stop(0, process_exits=True)
    assert (world.status(job_id), world.job(job_id).attempts) == (JobStatus.QUEUED, 0)
    assert len(world.seen.of(JobReturned)) == 1
    held.release.set()  # what the thread still does counts for nothing
    assert world.status(job_id) is JobStatus.QUEUED


def test_a_shorter_grace_wins_over_the_first(world: World, held: Held) -> None:
    world.app.enqueue("held")
    worker = world.worker()
    worker.start()
    reached(held.started)
    patient = in_thread(lambda: worker.stop(NEVER_S))
    worker.stop(0)
    joined(patient)
    assert len(world.seen.of(JobLeftRunning)) == 1
    assert len(world.seen.of(WorkerStopped)) == 1


def test_an_acknowledgement_that_cannot_be_stored_fails_the_stop_which_can_be_repeated(
    world: World, held: Held
) -> None:
    job_id = world.app.enqueue("held")
    worker = world.worker()
    worker.start()
    reached(held.started)

    def refuse(acks: list[Settlement], **_options: object) -> None:
        if acks:  # a claim's error might come before the job has ended
            raise StoreUnavailable("staged: down")

    world.staged.before["settle"] = refuse
    held.release.set()
    world.seen.wait(FrameworkError)
    for _ in range(2):
        with pytest.raises(StopIncomplete, match=r"could not store 1 ack") as e:
            worker.stop(0)
        assert [handoff.job.id for handoff in e.value.handoffs] == [job_id]
        assert worker.state.name == "STOPPING"
    with pytest.raises(WorkerStopping):
        worker.start()
    del world.staged.before["settle"]
    worker.stop(LONGEST_RETRY_S * 4)
    assert world.status(job_id) is JobStatus.COMPLETED
    assert world.job(job_id).handoffs == 1
    assert worker.state.name == "STOPPED"


def test_a_listener_may_request_a_stop_but_not_wait_for_it(world: World) -> None:
    errors: list[Exception] = []
    box: list[Worker] = []

    def listener(event: object) -> None:
        if isinstance(event, JobCompleted):
            try:
                box[0].stop()
            except RuntimeError as error:
                errors.append(error)
            box[0].request_stop()

    world.listeners.append(listener)
    world.app.job("n")(lambda: None)
    world.app.enqueue("n")
    worker = world.worker()
    box.append(worker)
    worker.start()
    world.seen.wait(WorkerStopped)
    assert "request_stop" in str(errors[0])
    assert worker.state.name == "STOPPED"


def test_stopping_a_worker_that_was_never_started_does_nothing(world: World) -> None:
    worker = world.worker()
    worker.stop()
    worker.request_stop()
    assert worker.wait_idle()
    assert world.seen.events == []


def test_a_stopped_worker_leaves_no_thread_that_uses_the_store(world: World) -> None:
    before = set(threading.enumerate())  # not their idents, which are used again

    def mine() -> set[str]:
        return {each.name for each in set(threading.enumerate()) - before}

    with world.running():
        assert mine() == {
            "jobfence-dispatcher",
            "jobfence-heartbeat",
            "jobfence-maintenance",
        }
    assert not mine() - {"jobfence-close"}


def test_a_stopped_worker_can_be_started_again(world: World) -> None:
    runs: list[str] = []
    world.app.job("n")(lambda: runs.append("run"))
    worker = world.worker()
    for _ in range(2):
        world.app.enqueue("n")
        worker.start()
        idle(worker)
        worker.stop()
    assert runs == ["run", "run"]
    assert worker.counters["worker_started"] == 2


def test_async_forms_do_not_block_the_loop(world: World) -> None:
    runs: list[str] = []
    world.app.job("n")(lambda: runs.append("run"))
    worker = world.worker()

    async def main() -> None:
        await worker.astart()
        await world.app.aenqueue("n")
        assert await worker.await_idle(PATIENCE_S)
        await worker.astop()

    asyncio.run(main())
    assert runs == ["run"]
    assert worker.state.name == "STOPPED"
