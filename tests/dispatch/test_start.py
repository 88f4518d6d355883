"""Rule D2: the order of a start, starts at once, failed ones, and stops meanwhile."""

import threading

from concurrent.futures import Future, wait

import pytest

from jobfence.dispatch import JobApp, OwnershipHeld, Worker
from jobfence.dispatch.engine import Engine
from jobfence.dispatch.events import (
    FrameworkError,
    JobRecovered,
    WorkerStarted,
    WorkerStopped,
)
from jobfence.statemachine.clock import ManualClock
from jobfence.statemachine.errors import StoreUnavailable, UnsupportedCapability
from jobfence.statemachine.policy import QueuePolicy
from jobfence.statemachine.states import JobStatus
from jobfence.store.memory import MemoryData, MemoryJobStore
from tests.dispatch.support import (
    PATIENCE_S,
    START_MS,
    World,
    idle,
    once,
    reached,
)

PREPARING = [
    "ensure_ready",
    "reconcile_queue_policies",
    "recover_expired",
]


def down(*_args: object, **_kwargs: object) -> None:
    raise StoreUnavailable("staged: down")


def test_a_start_is_ready_then_reconciles_then_recovers_then_claims() -> None:
    world = World()
    order: list[str] = []
    for name in (*PREPARING, "settle"):
        world.staged.before[name] = lambda *_a, name=name, **_k: order.append(name)
    with world.running() as worker:
        idle(worker)
    assert order[:4] == [*PREPARING, "settle"]


def test_starting_a_running_worker_does_nothing() -> None:
    world = World()
    with world.running() as worker:
        worker.start()
    assert len(world.seen.of(WorkerStarted)) == 1
    assert world.staged.calls["ensure_ready"] == 1


def test_two_starts_at_once_share_one() -> None:
    world = World()
    begun, release = threading.Event(), threading.Event()

    def hold(**_options: object) -> None:
        begun.set()
        reached(release)

    world.staged.before["ensure_ready"] = hold
    worker = world.worker()
    starts = [threading.Thread(target=worker.start) for _ in range(3)]
    for each in starts:
        each.start()
    reached(begun)
    assert worker.state.name == "STARTING"
    release.set()
    for each in starts:
        each.join(PATIENCE_S)
    assert worker.state.name == "RUNNING"
    assert world.staged.calls["ensure_ready"] == 1
    worker.stop()


@pytest.mark.parametrize("step", PREPARING)
def test_a_start_that_fails_leaves_nothing_half_open(step: str) -> None:
    world = World()
    world.app.job("n")(lambda: None)
    job_id = world.app.enqueue("n")
    world.staged.before[step] = once(StoreUnavailable("staged"))
    worker = world.worker()
    before = threading.active_count()
    with pytest.raises(StoreUnavailable):
        worker.start()
    assert worker.state.name == "STOPPED"
    assert threading.active_count() == before
    assert world.staged.calls["settle"] == 0
    assert world.seen.events == []
    worker.start()
    idle(worker)
    worker.stop()
    assert world.status(job_id) is JobStatus.COMPLETED


def test_every_caller_of_a_start_that_fails_gets_its_error() -> None:
    world = World()
    begun, release = threading.Event(), threading.Event()
    errors: list[Exception] = []

    def hold(**_options: object) -> None:
        begun.set()
        reached(release)
        raise StoreUnavailable("staged")

    world.staged.before["ensure_ready"] = hold
    worker = world.worker()

    def start() -> None:
        try:
            worker.start()
        except StoreUnavailable as error:
            errors.append(error)

    first = threading.Thread(target=start)
    first.start()
    reached(begun)
    second = threading.Thread(target=start)
    second.start()
    release.set()
    for each in (first, second):
        each.join(PATIENCE_S)
    # The second came in time for the first's error, or began a start of its own.
    assert len(errors) == 2
    assert worker.state.name == "STOPPED"


def test_a_thread_that_cannot_be_started_leaves_nothing_half_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    worker = world.worker()
    real = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "jobfence-heartbeat":
            raise RuntimeError("can't start new thread")
        real(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        worker.start()
    assert worker.state.name == "STOPPED"
    assert "jobfence-dispatcher" not in {each.name for each in threading.enumerate()}


@pytest.mark.parametrize("step", PREPARING)
def test_a_stop_that_comes_during_a_start_wins(step: str) -> None:
    world = World()
    world.app.job("n")(lambda: None)
    job_id = world.app.enqueue("n")
    begun, release = threading.Event(), threading.Event()

    def hold(*_args: object, **_options: object) -> None:
        begun.set()
        reached(release)

    world.staged.before[step] = hold
    worker = world.worker()
    start = threading.Thread(target=worker.start)
    start.start()
    reached(begun)
    stop = threading.Thread(target=worker.stop)
    worker.request_stop()
    stop.start()
    release.set()
    for each in (start, stop):
        each.join(PATIENCE_S)
        assert not each.is_alive()
    assert worker.state.name == "STOPPED"
    assert world.status(job_id) is JobStatus.QUEUED
    assert world.seen.of(WorkerStarted) == []
    after = PREPARING[PREPARING.index(step) + 1 :]
    assert [world.staged.calls[name] for name in after] == [0] * len(after)


def test_a_stop_does_not_wait_for_what_a_later_start_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    worker = world.worker()
    begun, release = threading.Event(), threading.Event()

    def hold(**_options: object) -> None:
        begun.set()
        reached(release)

    def overtaken(starts: list[Future[None]]) -> None:
        """The stop sees the end of the start that it waits for, but not at once."""
        world.staged.before.pop("ensure_ready")
        release.set()
        wait(starts)
        worker.start()

    world.staged.before["ensure_ready"] = hold
    monkeypatch.setattr("jobfence.dispatch.worker.wait", overtaken)
    first = threading.Thread(target=worker.start)
    first.start()
    reached(begun)
    stop = threading.Thread(target=worker.stop, daemon=True)
    stop.start()
    for each in (first, stop):
        each.join(PATIENCE_S)
        assert not each.is_alive()
    assert worker.state.name == "RUNNING"
    worker.stop()
    assert len(world.seen.of(WorkerStarted)) == 1


def test_a_start_adopts_the_policies_of_its_store() -> None:
    data, clock = MemoryData(), ManualClock(START_MS)
    MemoryJobStore(data=data, clock=clock).enqueue("n", queue="q")
    store = MemoryJobStore(data=data, clock=clock, queues={"q": QueuePolicy(2)})
    world = World(store)
    world.app.job("n")(lambda: None)
    store.pause_queue("q")
    with world.running() as worker:
        idle(worker)
    (job,) = world.store.list_jobs()
    assert (job.concurrency_key, job.max_concurrency) == ("queue:q", 2)


def test_C7_queues_that_others_configure_may_be_left_alone() -> None:
    world = World()
    world.store.reconcile_queue_policies({"other": QueuePolicy(1)})
    mine = {"mine": QueuePolicy(2)}
    kept = MemoryJobStore(
        data=world.staged.real.data,  # type: ignore[attr-defined]
        clock=world.clock,
        queues=mine,
    )
    other = World(kept)
    with other.running(release_others=False):
        pass
    caps = {each.queue: each.max_concurrent for each in kept.queue_stats()}
    assert caps == {"mine": 2, "other": 1}


def free(world: World) -> bool:
    """Whether nobody owns the database, found out by owning it for no time at all."""
    if not world.store_of_ownership.acquire_ownership("test", ttl_ms=1):
        return False
    world.store_of_ownership.release_ownership("test")
    return True


def test_L2_a_single_owner_recovers_every_handoff_at_start() -> None:
    world = World()
    world.app.job("n", max_retries=0)(lambda: None)
    job_id = world.app.enqueue("n")
    world.store.claim(lease_ms=None)
    with world.running(single_owner=True):
        assert not free(world)
    assert world.status(job_id) is JobStatus.FAILED
    assert [event.job.id for event in world.seen.of(JobRecovered)] == [job_id]
    assert free(world)


def test_L2_a_worker_that_is_not_the_single_owner_recovers_no_live_handoff() -> None:
    world = World()
    world.app.job("n")(lambda: None)
    job_id = world.app.enqueue("n")
    world.store.claim(lease_ms=None)
    with world.running():
        assert free(world)
    assert world.status(job_id) is JobStatus.HANDED_OFF


def test_L2_a_second_owner_is_refused_while_the_first_lives() -> None:
    world = World()
    world.app.job("n")(lambda: None)
    with world.running(single_owner=True, queues=["mine"]):
        job_id = world.app.options(queue="other").enqueue("n")
        (handoff,) = world.store.claim(worker_id="neighbour")
        second = world.worker(single_owner=True)
        with pytest.raises(OwnershipHeld, match="another live worker owns"):
            second.start()
        assert second.state.name == "STOPPED"
        assert world.job(job_id).handoff_id == handoff.handoff_id
    second.start()
    second.stop()


def test_L2_an_owner_that_died_is_followed_when_its_row_runs_out() -> None:
    world = World()
    world.store_of_ownership.acquire_ownership("dead", ttl_ms=1000)
    worker = world.worker(single_owner=True)
    with pytest.raises(OwnershipHeld):
        worker.start()
    world.clock.advance(1000)
    worker.start()
    worker.stop()


def test_L2_a_living_owner_keeps_its_row() -> None:
    world = World()
    worker = world.worker(single_owner=True, lease_ms=3000)
    worker.start()
    world.clock.advance(2000)
    engine_of(worker)._beat()  # noqa: SLF001
    world.clock.advance(2999)
    assert not free(world)
    worker.stop()


def test_L2_an_owner_that_finds_another_in_its_place_stops() -> None:
    world = World()
    worker = world.worker(single_owner=True, lease_ms=3000)
    worker.start()
    engine = engine_of(worker)
    world.clock.advance(3000)  # as after a SIGSTOP
    assert world.store_of_ownership.acquire_ownership("other", ttl_ms=10_000)
    engine._beat()  # noqa: SLF001
    world.seen.wait(WorkerStopped)
    assert isinstance(world.seen.of(FrameworkError)[0].error, OwnershipHeld)
    world.clock.advance(9999)
    engine._beat()  # noqa: SLF001  once stopped it does not ask again
    assert world.store_of_ownership.acquire_ownership("other", ttl_ms=10_000)


def test_L2_a_row_that_cannot_be_released_is_reported_and_runs_out() -> None:
    world = World()
    worker = world.worker(single_owner=True)
    worker.start()
    world.staged.before["release_ownership"] = down
    worker.stop()
    assert worker.state.name == "STOPPED"
    assert world.seen.stages() == ["ownership"]


def test_L2_a_store_without_ownership_is_refused_by_name() -> None:
    class Bare:
        """A store of somebody else's, without the capability."""

        def settle(self) -> None: ...

    app = JobApp(Bare())  # type: ignore[arg-type]
    worker = Worker(app, single_owner=True)
    with pytest.raises(UnsupportedCapability, match="Bare does not support single_ow"):
        worker.start()
    assert worker.state.name == "STOPPED"


def engine_of(worker: Worker) -> Engine:
    engine = worker._engine  # noqa: SLF001
    assert engine is not None
    return engine
