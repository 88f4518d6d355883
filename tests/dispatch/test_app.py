"""`JobApp`: enqueues, options, transactions, and the worker it owns."""

import asyncio
import subprocess
import sys
import threading

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from sqlalchemy import create_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from jobfence.dispatch import JobApp, Registry
from jobfence.dispatch.health import Health
from jobfence.statemachine.clock import DatabaseClock, ManualClock, SystemClock
from jobfence.statemachine.errors import (
    IdempotencyConflict,
    InvalidOption,
    StoreUnavailable,
    UnknownJobName,
    UnsupportedCapability,
)
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import Job
from jobfence.store.memory import MemoryJobStore
from jobfence.store.sql.store import SqlJobStore
from tests.dispatch.support import (
    NEVER_MS,
    PATIENCE_S,
    START_MS,
    Recorder,
    World,
    as_store,
    idle,
    reached,
)


@pytest.fixture
def world() -> World:
    return World()


def only(world: World) -> Job:
    (job,) = world.store.list_jobs()
    return job


def test_a_function_is_enqueued_with_its_registered_defaults(world: World) -> None:
    @world.app.job("n", queue="media", max_retries=3, priority=5, timeout_ms=250)
    def n(a: int, *, b: int) -> None: ...

    job_id = world.app.enqueue(n, 1, b=2)
    job = only(world)
    assert (job.id, job.name, job.queue) == (job_id, "n", "media")
    assert (job.args, dict(job.kwargs)) == ((1,), {"b": 2})
    assert (job.max_retries, job.priority, job.timeout_ms) == (3, 5, 250)


def test_options_win_over_defaults_and_later_ones_over_earlier(world: World) -> None:
    world.app.job("n", queue="media", max_retries=3)(lambda: None)
    hurried = world.app.options(max_retries=0, queue="slow")
    hurried.options(queue="slower").enqueue("n")
    job = only(world)
    assert (job.queue, job.max_retries) == ("slower", 0)


def test_options_never_collide_with_the_job_s_own_keywords(world: World) -> None:
    @world.app.job("n")
    def n(job: str, self: str, queue: str, max_retries: int) -> None: ...

    world.app.enqueue(n, job="j", self="s", queue="q", max_retries=9)
    job = only(world)
    assert (job.queue, job.max_retries) == ("default", 10)
    assert job.kwargs == {"job": "j", "self": "s", "queue": "q", "max_retries": 9}


def test_D1_an_unregistered_name_is_refused_before_a_row_is_written(
    world: World,
) -> None:
    for enqueue in (world.app.enqueue, world.app.options(queue="q").enqueue):
        with pytest.raises(UnknownJobName):
            enqueue("n")
    assert world.store.list_jobs() == []
    assert world.staged.calls["enqueue"] == 0


def test_D1_an_unregistered_name_met_at_run_time_is_an_ordinary_failure(
    world: World,
) -> None:
    job_id = world.store.enqueue("gone", max_retries=0)
    with world.running() as worker:
        idle(worker)
    job = world.job(job_id)
    assert (job.status, job.attempts) == (JobStatus.FAILED, 1)
    assert "no job is registered as 'gone'" in str(job.last_error)


def test_arguments_that_do_not_fit_are_refused_before_a_row_is_written(
    world: World,
) -> None:
    @world.app.job("n")
    def n(a: int) -> None: ...

    with pytest.raises(InvalidOption, match="must fit job 'n'"):
        world.app.enqueue("n", b=1)
    assert world.store.list_jobs() == []


def test_unknown_options_are_refused(world: World) -> None:
    with pytest.raises(TypeError, match="prioriti"):
        world.app.options(prioriti=1)  # type: ignore[call-arg]


def test_enqueue_in_counts_from_the_app_s_clock_and_rounds_up(world: World) -> None:
    world.app.job("n")(lambda: None)
    world.app.enqueue_in("n", timedelta(microseconds=1500))
    assert only(world).scheduled_at_ms == START_MS + 2


@pytest.mark.parametrize("delay", [timedelta(milliseconds=-1), 5, None])
def test_a_delay_that_is_none_is_refused(world: World, delay: object) -> None:
    world.app.job("n")(lambda: None)
    with pytest.raises(InvalidOption, match="delay"):
        world.app.enqueue_in("n", delay)  # type: ignore[call-overload]
    assert world.store.list_jobs() == []


def test_a_delay_beside_a_time_is_refused(world: World) -> None:
    world.app.job("n")(lambda: None)
    with pytest.raises(InvalidOption, match="scheduled_at must not be given beside"):
        world.app.options(scheduled_at=5).enqueue_in("n", timedelta(0))
    assert world.store.list_jobs() == []


def test_the_store_s_refusals_come_through(world: World) -> None:
    world.app.job("n")(lambda value: None)
    once = world.app.options(idempotency_key="once")
    once.enqueue("n", 1)
    with pytest.raises(IdempotencyConflict):
        once.enqueue("n", 2)
    with pytest.raises(InvalidOption, match=r"args\[0\]"):
        world.app.enqueue("n", float("nan"))


def test_an_app_may_share_a_registry() -> None:
    registry = Registry()
    registry.job("n")(lambda: None)
    one, two = (JobApp(MemoryJobStore(), registry=registry) for _ in range(2))
    assert one.enqueue("n") != two.enqueue("n")
    assert one.registry is two.registry


def test_an_app_goes_by_its_store_s_clock_if_that_can_be_read() -> None:
    class OnServer:
        """Times are the database server's: there is nothing to read here."""

        clock = DatabaseClock()

        def settle(self) -> None: ...

    store = MemoryJobStore(clock=ManualClock(7))
    assert JobApp(store).clock is store.clock
    on_server = JobApp(OnServer())  # type: ignore[arg-type]
    assert isinstance(on_server.clock, SystemClock)
    assert JobApp(store, clock=ManualClock(9)).clock.now_ms() == 9


class TestStores:
    """What is opened, when, and who closes it."""

    def test_a_url_is_opened_at_the_first_use_and_anew_after_close(
        self, tmp_path: Path
    ) -> None:
        path = tmp_path / "jobs.db"
        app = JobApp(f"sqlite:///{path}")
        app.job("n")(lambda: None)
        assert not path.exists()
        first_id = app.enqueue("n")
        first = app.store
        assert isinstance(first, SqlJobStore)
        app.close()
        with app.running(poll_ms=NEVER_MS) as worker:
            idle(worker)
            assert app.store is not first
            found = app.store.get(first_id)
        assert found is not None
        assert found.status is JobStatus.COMPLETED

    def test_a_bad_url_is_refused_when_it_is_used(self) -> None:
        app = JobApp("nosuchdatabase://")
        with pytest.raises(ValueError, match="nosuchdatabase"):
            _ = app.store

    def test_A191_a_function_makes_one_store_for_each_life_of_the_app(self) -> None:
        made: list[MemoryJobStore] = []
        closed: list[MemoryJobStore] = []

        class Closing(MemoryJobStore):
            def close(self) -> None:
                closed.append(self)

        def make() -> MemoryJobStore:
            made.append(Closing())
            return made[-1]

        app = JobApp(make)
        for life in range(1, 3):
            with app.running():
                assert app.store is made[-1]
            assert (len(made), len(closed)) == (life, life)
        assert closed == made
        app.close()
        assert len(closed) == 2

    @pytest.mark.parametrize("source", [None, 5, lambda: None, str])
    def test_A191_what_is_no_store_is_refused(self, source: object) -> None:
        app = JobApp(source)  # type: ignore[arg-type]
        with pytest.raises(InvalidOption, match="store must be a job store"):
            app.start()
        with pytest.raises(InvalidOption, match="store must be a job store"):
            app.health()

    def test_a_given_store_is_its_owner_s_to_close(self, world: World) -> None:
        with world.app.running():
            pass
        world.app.close()
        assert world.staged.calls["close"] == 0

    def test_importing_the_package_does_not_import_sqlalchemy(self) -> None:
        code = "import jobfence.dispatch, sys; print('sqlalchemy' in sys.modules)"
        told = subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True
        )
        assert told.stdout == "False\n"


class TestOwnWorker:
    """`app.running`, `start`, `wake`, `wait_idle`, `health` and `close`."""

    def test_jobs_enqueued_while_it_runs_are_run(self, world: World) -> None:
        runs: list[int] = []

        @world.app.job("n")
        def n(number: int) -> None:
            runs.append(number)

        with world.app.running(concurrency=1, poll_ms=NEVER_MS):
            for number in range(3):
                world.app.enqueue(n, number)
            assert world.app.wait_idle(PATIENCE_S)
        assert runs == [0, 1, 2]

    def test_it_can_be_opened_again(self, world: World) -> None:
        world.app.job("n")(lambda: None)
        seen = Recorder()
        for _ in range(2):
            world.app.enqueue("n")
            with world.app.running(events=seen, poll_ms=NEVER_MS) as worker:
                idle(worker)
        assert world.store.counts()[JobStatus.COMPLETED] == 2

    def test_starting_again_gives_the_running_worker(self, world: World) -> None:
        worker = world.app.start(concurrency=2)
        assert world.app.start() is worker
        with pytest.raises(InvalidOption, match="must not be given again"):
            world.app.start(concurrency=3)
        world.app.close()
        assert worker.state.name == "STOPPED"

    def test_a_start_that_fails_leaves_no_worker_behind(self, world: World) -> None:
        world.staged.before["reconcile_queue_policies"] = down
        with pytest.raises(StoreUnavailable):
            world.app.start(concurrency=2)
        del world.staged.before["reconcile_queue_policies"]
        with world.app.running(concurrency=3):
            assert world.app.health().ready

    def test_an_option_that_is_refused_leaves_no_worker_behind(
        self, world: World
    ) -> None:
        with pytest.raises(InvalidOption, match="concurrency"):
            world.app.start(concurrency=0)
        assert world.app.wait_idle()

    def test_health_without_and_with_a_worker(self, world: World) -> None:
        started, release = threading.Event(), threading.Event()

        @world.app.job("n")
        def n() -> None:
            started.set()
            reached(release)

        assert world.app.health() == Health(
            ready=False, in_flight=0, oldest_due_age_ms=None
        )
        for _ in range(2):
            world.app.enqueue(n)
        world.clock.advance(30)
        assert world.app.health().oldest_due_age_ms == 30
        with world.app.running(concurrency=1, poll_ms=NEVER_MS):
            reached(started)
            assert world.app.health() == Health(
                ready=True, in_flight=1, oldest_due_age_ms=30
            )
            release.set()
            assert world.app.wait_idle(PATIENCE_S)
        assert not world.app.health().ready

    def test_health_counts_only_the_worker_s_queues(self, world: World) -> None:
        world.app.job("n", queue="other")(lambda: None)
        world.app.enqueue("n")
        world.clock.advance(30)
        with world.app.running(queues=["mine"], poll_ms=NEVER_MS):
            assert world.app.health().oldest_due_age_ms is None

    def test_health_tells_of_an_unreachable_database_and_does_not_raise(
        self, world: World
    ) -> None:
        with world.app.running(poll_ms=NEVER_MS) as worker:
            idle(worker)
            world.staged.before["queue_stats"] = down
            assert world.app.health() == Health(
                ready=False, in_flight=0, oldest_due_age_ms=None
            )

    def test_wake_makes_it_look(self, world: World) -> None:
        world.app.job("n")(lambda: None)
        done = threading.Event()
        with world.app.running(poll_ms=NEVER_MS) as worker:
            idle(worker)
            world.staged.after["settle"] = lambda *_a, **_k: done.set()
            world.app.wake()
            reached(done)

    def test_without_a_worker_there_is_nothing_to_wait_for(self, world: World) -> None:
        world.app.wake()
        assert world.app.wait_idle(0)
        world.app.close()


def down(*_args: object, **_kwargs: object) -> None:
    raise StoreUnavailable("staged: down")


class Shop:
    """An application with its own sessions on the database of its jobs."""

    def __init__(self, path: Path) -> None:
        self.engine = create_engine(f"sqlite:///{path}")
        self.sessions = scoped_session(sessionmaker(self.engine))
        self.store = SqlJobStore(self.engine)
        self.app = JobApp(self.store, session=self.sessions)
        self.runs: list[int] = []
        self.app.job("n")(self.run)

    def run(self, number: int) -> None:
        self.runs.append(number)

    def close(self) -> None:
        self.sessions.remove()
        self.store.close()
        self.engine.dispose()


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(tmp_path / "jobs.db")
    shop.store.ensure_ready()
    yield shop
    shop.close()


def test_A40_a_job_enqueued_in_a_transaction_runs_after_its_commit(shop: Shop) -> None:
    with shop.app.running(poll_ms=NEVER_MS) as worker:
        job_id = shop.app.enqueue("n", 1)
        assert shop.store.get(job_id) is None  # another connection does not see it
        assert shop.runs == []
        shop.sessions.commit()
        idle(worker)
        assert shop.runs == [1]
    found = shop.store.get(job_id)
    assert found is not None
    assert found.status is JobStatus.COMPLETED


def test_A41_a_job_enqueued_in_a_transaction_that_fails_never_was(shop: Shop) -> None:
    earlier = shop.app.enqueue("n", 1)
    shop.sessions.commit()
    job_id = shop.app.enqueue("n", 2)
    shop.sessions.rollback()
    with shop.app.running(poll_ms=NEVER_MS) as worker:
        idle(worker)
    assert shop.runs == [1]
    assert shop.store.get(job_id) is None
    found = shop.store.get(earlier)
    assert found is not None
    assert found.status is JobStatus.COMPLETED


def test_aenqueue_joins_the_session_of_its_caller(shop: Shop) -> None:
    # A scoped session is another one on the thread that does the work.
    job_id = asyncio.run(shop.app.aenqueue("n", 1))
    assert shop.store.get(job_id) is None
    shop.sessions.commit()
    assert shop.store.get(job_id) is not None


def test_within_joins_the_transaction_it_is_given(shop: Shop) -> None:
    with Session(shop.engine) as session:
        kept = shop.app.options(queue="q").within(session).enqueue("n", 1)
        session.commit()
        dropped = shop.app.within(session).options(queue="q").enqueue("n", 2)
        session.rollback()
    found = shop.store.get(kept)
    assert found is not None
    assert found.queue == "q"
    assert shop.store.get(dropped) is None
    assert shop.app.within(session).clock is not None
    assert shop.app.within(session).registry is shop.app.registry


def test_a_store_that_cannot_join_is_refused_by_name(world: World) -> None:
    class Bare:
        """A store of somebody else's that has no `within`."""

        def settle(self) -> None: ...

    world.app.job("n")(lambda: None)
    session = Session()
    with pytest.raises(UnsupportedCapability, match="MemoryJobStore"):
        JobApp(
            MemoryJobStore(), registry=world.app.registry, session=lambda: session
        ).enqueue("n")
    bare = JobApp(Bare(), registry=world.app.registry)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedCapability, match="Bare"):
        bare.within(session).enqueue("n")
    assert as_store(world.staged).list_jobs() == []
