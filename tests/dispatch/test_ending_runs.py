"""Runs that are ended: by a stop, by a request to cancel, by a lost handoff."""

import asyncio
import threading

from collections.abc import Iterator

import pytest

from jobfence.dispatch import current_job
from jobfence.dispatch.context import JobContext
from jobfence.dispatch.events import (
    AcknowledgementStale,
    JobCancelled,
    JobFailed,
    JobReturned,
)
from jobfence.statemachine.errors import StoreUnavailable
from jobfence.statemachine.states import JobStatus
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


def test_after_the_grace_a_task_is_cancelled_and_its_job_goes_back(
    world: World,
) -> None:
    started = threading.Event()
    ended: list[str] = []

    @world.app.job("n")
    async def n() -> None:
        started.set()
        try:
            await asyncio.sleep(NEVER_S)
        finally:
            ended.append("ended")

    job_id = world.app.enqueue(n)
    worker = world.worker()
    worker.start()
    reached(started)
    worker.stop(0)
    job = world.job(job_id)
    assert (job.status, job.attempts) == (JobStatus.QUEUED, 0)
    assert ended == ["ended"]
    assert len(world.seen.of(JobReturned)) == 1


def test_a_task_that_answers_its_cancellation_by_an_error_goes_back_as_well(
    world: World,
) -> None:
    started = threading.Event()

    @world.app.job("n", max_retries=0)
    async def n() -> None:
        started.set()
        try:
            await asyncio.sleep(NEVER_S)
        except asyncio.CancelledError:
            raise RuntimeError("the connection was closed") from None

    job_id = world.app.enqueue(n)
    worker = world.worker()
    worker.start()
    reached(started)
    worker.stop(0)
    assert (world.status(job_id), world.job(job_id).attempts) == (JobStatus.QUEUED, 0)


def test_a_task_that_ends_by_itself_after_its_cancellation_is_complete(
    world: World,
) -> None:
    started = threading.Event()

    @world.app.job("n")
    async def n() -> None:
        started.set()
        try:
            await asyncio.sleep(NEVER_S)
        except asyncio.CancelledError:
            return

    job_id = world.app.enqueue(n)
    worker = world.worker()
    worker.start()
    reached(started)
    worker.stop(0)
    assert world.status(job_id) is JobStatus.COMPLETED


def test_a_claim_in_doubt_at_the_end_is_given_back(world: World) -> None:
    world.app.job("n")(lambda: None)
    job_id = world.app.enqueue("n")
    worker = world.worker()

    def lose(_acks: object, **options: object) -> None:
        if options.get("claim"):
            worker.request_stop(NEVER_S)
            raise StoreUnavailable("staged", in_doubt=True)

    world.staged.after["settle"] = lose
    worker.start()
    worker.stop(NEVER_S)
    assert (world.status(job_id), world.job(job_id).handoffs) == (JobStatus.QUEUED, 1)


def test_an_error_while_giving_back_a_claim_in_doubt_does_not_stop_the_stop(
    world: World,
) -> None:
    world.app.job("n")(lambda: None)
    job_id = world.app.enqueue("n")
    worker = world.worker()

    def lose(_acks: object, **options: object) -> None:
        if options.get("claim"):
            worker.request_stop(NEVER_S)
            raise StoreUnavailable("staged", in_doubt=True)

    def refuse(*_args: object) -> None:
        raise StoreUnavailable("staged: down")

    world.staged.after["settle"] = lose
    world.staged.before["handoffs_for_worker"] = refuse
    worker.start()
    worker.stop(NEVER_S)
    assert world.status(job_id) is JobStatus.HANDED_OFF  # until its lease is over
    assert world.seen.stages() == ["claim", "claim"]


def test_R3_a_task_that_is_asked_to_cancel_is_cancelled_and_its_job_ends(
    world: World,
) -> None:
    started = threading.Event()

    @world.app.job("n")
    async def n() -> None:
        started.set()
        await asyncio.sleep(NEVER_S)

    job_id = world.app.enqueue(n)
    with world.running(heartbeat_ms=1) as worker:
        reached(started)
        world.store.cancel(job_id)
        idle(worker)
    job = world.job(job_id)
    assert (job.status, job.attempts) == (JobStatus.CANCELLED, 0)
    assert len(world.seen.of(JobCancelled)) == 1


def test_R3_a_thread_sees_that_it_is_asked_to_cancel_and_may_complete(
    world: World, held: Held
) -> None:
    job_id = world.app.enqueue("held")
    with world.running(heartbeat_ms=1) as worker:
        reached(held.started)
        assert not marked(held)
        world.store.cancel(job_id)
        beaten = threading.Semaphore(0)
        world.staged.after["extend_leases"] = lambda *_a, **_k: beaten.release()
        for _ in range(3):  # the third began after the second's answers were read
            assert beaten.acquire(timeout=PATIENCE_S)
        assert marked(held)
        held.release.set()
        idle(worker)
    assert world.status(job_id) is JobStatus.COMPLETED


def test_L1_a_task_whose_handoff_was_lost_is_cancelled(world: World) -> None:
    started = threading.Event()
    contexts: list[JobContext] = []

    @world.app.job("n", max_retries=0)
    async def n() -> None:
        contexts.append(current_job())
        started.set()
        await asyncio.sleep(NEVER_S)

    job_id = world.app.enqueue(n)
    with world.running(lease_ms=1000, heartbeat_ms=1) as worker:
        reached(started)
        world.staged.before["extend_leases"] = lambda *_a, **_k: recover(world)
        idle(worker)
    assert contexts[0].lost
    assert world.status(job_id) is JobStatus.FAILED
    assert len(world.seen.of(AcknowledgementStale)) == 1
    assert world.seen.of(JobFailed) == []


def recover(world: World) -> None:
    world.clock.advance(1000)
    world.store.recover_expired()
