"""`JobApp`: what it opens and closes, and the worker it owns."""

import subprocess
import sys
import threading

from pathlib import Path

import pytest

from jobfence.dispatch import JobApp, Worker, WorkerStopping
from jobfence.dispatch.health import Health
from jobfence.statemachine.errors import (
    InvalidOption,
    StoreUnavailable,
)
from jobfence.statemachine.states import JobStatus
from jobfence.store.contract import JobStore
from jobfence.store.memory import MemoryJobStore
from jobfence.store.sql.store import SqlJobStore
from tests.dispatch.support import (
    NEVER_MS,
    PATIENCE_S,
    Held,
    Recorder,
    Staged,
    World,
    as_store,
    idle,
    reached,
)


@pytest.fixture
def world() -> World:
    return World()


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

    def test_A191_a_close_during_a_start_wins_and_the_next_use_opens_anew(self) -> None:
        begun, release = threading.Event(), threading.Event()
        made: list[Staged] = []

        def hold(**_options: object) -> None:
            begun.set()
            reached(release)

        def make() -> JobStore:
            made.append(Staged(MemoryJobStore()))
            if len(made) == 1:
                made[0].before["ensure_ready"] = hold
            return as_store(made[-1])

        app = JobApp(make)
        start = threading.Thread(target=app.start)
        start.start()
        reached(begun)
        close = threading.Thread(target=app.close)
        close.start()
        worker = app._worker  # noqa: SLF001
        assert worker is not None
        worker.request_stop()  # as `close` does, which may not have come to it yet
        release.set()
        for each in (start, close):
            each.join(PATIENCE_S)
            assert not each.is_alive()
        assert worker.state.name == "STOPPED"
        with app.running() as next_worker:
            assert next_worker is not worker
            assert next_worker.state.name == "RUNNING"
        assert [each.calls["ensure_ready"] for each in made] == [1, 1]
        assert [each.calls["close"] for each in made] == [1, 1]

    def test_a_store_to_be_awaited_is_refused(self) -> None:
        class Awaited:
            async def settle(self) -> None: ...

        with pytest.raises(InvalidOption, match="must be a store that blocks"):
            JobApp(Awaited()).start()  # type: ignore[arg-type]

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

    def test_a_start_while_it_stops_is_refused_and_forgets_no_job(
        self, world: World
    ) -> None:
        held = Held(world)
        world.app.enqueue("held")
        worker = world.app.start(poll_ms=NEVER_MS)
        try:
            reached(held.started)
            worker.request_stop()
            for _ in range(2):
                with pytest.raises(WorkerStopping):
                    world.app.start()
                assert world.app.health().in_flight == 1
            world.app.close(0)
            assert worker.state.name == "STOPPED"
        finally:
            held.release.set()
        with world.app.running() as next_worker:
            assert next_worker is not worker

    def test_a_start_that_another_thread_s_close_overtook_is_not_forgotten(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        start = Worker.start

        def close_first(worker: Worker) -> None:
            world.app.close()  # between the choice of the worker and its start
            start(worker)

        monkeypatch.setattr(Worker, "start", close_first)
        worker = world.app.start()
        monkeypatch.undo()
        assert worker.state.name == "RUNNING"
        assert world.app.start() is worker
        world.app.close()
        assert worker.state.name == "STOPPED"

    def test_a_close_that_another_thread_s_start_overtook_leaves_the_store_open(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store = Staged(MemoryJobStore())
        app = JobApp(lambda: as_store(store))
        worker = app.start(poll_ms=NEVER_MS)
        stop = Worker.stop

        def start_after(stopping: Worker, grace_s: float) -> None:
            stop(stopping, grace_s)
            app.start()

        with monkeypatch.context() as staged:
            staged.setattr(Worker, "stop", start_after)
            app.close()
        assert (worker.state.name, store.calls["close"]) == ("RUNNING", 0)
        assert app.start() is worker
        app.close()
        assert (worker.state.name, store.calls["close"]) == ("STOPPED", 1)

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
