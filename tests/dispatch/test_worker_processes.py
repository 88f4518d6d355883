"""Workers as processes: signals, deaths, freezes, and many of them on one database."""

import os
import signal
import subprocess
import sys
import threading

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sqlalchemy import create_engine

from jobfence.dispatch import JobApp, StopIncomplete, Worker
from jobfence.dispatch.events import WorkerStarted
from jobfence.statemachine.errors import StoreUnavailable
from jobfence.statemachine.options import JobRequest
from jobfence.statemachine.states import JobStatus
from jobfence.store.sql.store import SqlJobStore
from tests.dispatch.support import NEVER_MS, PATIENCE_S, World, idle, reached

ROOT = Path(__file__).parents[2]
LONG_MS = 60_000


class Program:
    """One worker process, its lines as they come."""

    def __init__(self, url: str, *, lease_ms: int, grace_s: float) -> None:
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.dispatch.program",
                url,
                str(lease_ms),
                str(grace_s),
            ],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self.lines: list[str] = []
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._changed:
                self.lines.append(line.strip())
                self._changed.notify_all()

    def wait(self, line: str) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: line in self.lines, PATIENCE_S), (
                f"{line!r} did not come: {self.lines}"
            )

    def let_go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def ended(self) -> int:
        code = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return code

    def close(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


class Programs:
    """Worker processes on one database, all ended in the end."""

    def __init__(self, path: Path) -> None:
        self.url = f"sqlite:///{path}"
        self.store = SqlJobStore(self.url)
        self.store.ensure_ready()
        self.all: list[Program] = []

    def start(self, *, lease_ms: int = LONG_MS, grace_s: float = PATIENCE_S) -> Program:
        program = Program(self.url, lease_ms=lease_ms, grace_s=grace_s)
        self.all.append(program)
        program.wait("ready")
        return program

    def freeze(self, program: Program) -> None:
        """Stop it between two transactions: inside of one it locks everybody out."""
        with ThreadPoolExecutor(1) as pool:
            while True:
                program.signal(signal.SIGSTOP)
                written = pool.submit(self.store.set_concurrency, "any", 1)
                try:
                    return written.result(1)
                except TimeoutError:
                    program.signal(signal.SIGCONT)
                    written.result(PATIENCE_S)

    def status(self, job_id: str) -> tuple[JobStatus, int, int]:
        job = self.store.get(job_id)
        assert job is not None
        return job.status, job.attempts, job.handoffs

    def close(self) -> None:
        for program in self.all:
            program.close()
        self.store.close()


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    programs = Programs(tmp_path / "jobs.db")
    yield programs
    programs.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_D6_the_first_signal_waits_for_running_jobs(
    programs: Programs, number: int
) -> None:
    program = programs.start()
    job_id = programs.store.enqueue("held")
    program.wait("held")
    program.signal(number)
    program.let_go()
    assert program.ended() == 0
    assert program.lines[-1] == "end STOPPED"
    assert programs.status(job_id) == (JobStatus.COMPLETED, 0, 1)


def test_D6_the_second_signal_gives_the_jobs_of_threads_back_and_ends(
    programs: Programs,
) -> None:
    program = programs.start()
    job_id = programs.store.enqueue("held")
    program.wait("held")
    program.signal(signal.SIGTERM)
    program.signal(signal.SIGINT)
    assert program.ended() == 0
    assert programs.status(job_id) == (JobStatus.QUEUED, 0, 1)


def test_D6_after_the_grace_the_jobs_of_threads_go_back(programs: Programs) -> None:
    program = programs.start(grace_s=0.05)
    job_id = programs.store.enqueue("held")
    program.wait("held")
    program.signal(signal.SIGTERM)
    assert program.ended() == 0
    assert programs.status(job_id) == (JobStatus.QUEUED, 0, 1)


def test_D6_signals_that_the_application_handles_itself_stop_nothing(
    programs: Programs,
) -> None:
    program = programs.start()
    job_id = programs.store.enqueue("held")
    program.wait("held")
    for number in (signal.SIGUSR1, signal.SIGHUP):
        program.signal(number)
        program.wait(f"noted {int(number)}")
    other = programs.store.enqueue("quick", [1])
    program.wait("ran 1")
    program.let_go()
    for each in (job_id, other):
        until_status(programs, each, JobStatus.COMPLETED)
        assert programs.status(each) == (JobStatus.COMPLETED, 0, 1)
    program.signal(signal.SIGTERM)
    assert program.ended() == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_D6_a_signal_to_a_process_that_a_job_forked_ends_that_alone(
    programs: Programs, number: int
) -> None:
    program = programs.start()
    held = programs.store.enqueue("held")
    program.wait("held")
    # The application's own handler stays in the child, and is called there.
    job_id = programs.store.enqueue("end a child", [[number, signal.SIGTERM]])
    program.wait("child")
    program.let_go()
    program.wait(f"child ended {-signal.SIGTERM}")
    other = programs.store.enqueue("quick", [1])
    program.wait("ran 1")
    for each in (held, job_id, other):
        until_status(programs, each, JobStatus.COMPLETED)
        assert programs.status(each) == (JobStatus.COMPLETED, 0, 1)
    program.signal(signal.SIGTERM)
    assert program.ended() == 0


def test_a_killed_worker_s_job_is_recovered_by_another(programs: Programs) -> None:
    first = programs.start(lease_ms=300)
    job_id = programs.store.enqueue("held", max_retries=0)
    first.wait("held")
    first.signal(signal.SIGKILL)
    first.ended()
    programs.start()
    until_status(programs, job_id, JobStatus.FAILED)
    assert programs.status(job_id) == (JobStatus.FAILED, 1, 1)


def until_status(programs: Programs, job_id: str, status: JobStatus) -> None:
    wait = threading.Event()
    for _ in range(int(PATIENCE_S / 0.01)):  # another process moves it: only polls see
        if programs.status(job_id)[0] is status:
            return
        wait.wait(0.01)
    raise AssertionError(programs.status(job_id))


def test_a_frozen_worker_s_late_acknowledgement_changes_nothing(
    programs: Programs,
) -> None:
    frozen = programs.start(lease_ms=300)
    job_id = programs.store.enqueue("held", max_retries=0)
    frozen.wait("held")
    programs.freeze(frozen)
    programs.start()
    until_status(programs, job_id, JobStatus.FAILED)
    before = programs.store.get(job_id)
    frozen.signal(signal.SIGCONT)
    frozen.let_go()
    frozen.signal(signal.SIGTERM)
    assert frozen.ended() == 0
    assert programs.store.get(job_id) == before


def test_several_workers_on_one_file_run_each_job_once(programs: Programs) -> None:
    count = 300
    workers = [programs.start() for _ in range(3)]
    programs.store.enqueue_many([JobRequest("quick", [n]) for n in range(count)])
    wait = threading.Event()
    for _ in range(int(PATIENCE_S / 0.01)):
        if programs.store.counts()[JobStatus.COMPLETED] == count:
            break
        wait.wait(0.01)
    for worker in workers:
        worker.signal(signal.SIGTERM)
        assert worker.ended() == 0
    ran = Counter(line for each in workers for line in each.lines if "ran" in line)
    assert ran == Counter(f"ran {n}" for n in range(count))
    assert programs.store.counts()[JobStatus.COMPLETED] == count
    assert {job.handoffs for job in programs.store.list_jobs(limit=count)} == {1}


def test_F86_a_pool_of_one_connection_is_enough(tmp_path: Path) -> None:
    engine = create_engine(
        f"sqlite:///{tmp_path / 'jobs.db'}", pool_size=1, max_overflow=0, pool_timeout=5
    )
    store = SqlJobStore(engine)
    world = World(store)
    started, release = threading.Event(), threading.Event()

    @world.app.job("n")
    def n() -> None:
        started.set()
        reached(release)

    job_id = world.app.enqueue(n)
    with world.running(heartbeat_ms=1, recover_every_ms=1) as worker:
        reached(started)
        other = world.app.enqueue(n)  # while a job runs, nobody holds the connection
        release.set()
        idle(worker)
    assert world.status(job_id) is world.status(other) is JobStatus.COMPLETED
    assert world.seen.stages() == []
    store.close()
    engine.dispose()


class TestRunHere:
    """`run` in the process of the test."""

    def test_in_another_thread_it_blocks_until_it_is_stopped(self) -> None:
        world = World()
        worker = world.worker()
        thread = threading.Thread(target=worker.run)
        thread.start()
        world.seen.wait(WorkerStarted)
        worker.stop()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()

    def test_the_old_handlers_are_put_back(self) -> None:
        world = World()
        before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
        world.staged.after["settle"] = lambda *_a, **_k: os.kill(
            os.getpid(), signal.SIGTERM
        )
        world.worker().run()
        after = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
        assert after == before

    def test_a_signal_during_the_start_stops_it(self) -> None:
        world = World()
        world.staged.before["reconcile_queue_policies"] = lambda *_a, **_k: os.kill(
            os.getpid(), signal.SIGTERM
        )
        worker = world.worker()
        worker.run()
        assert worker.state.name == "STOPPED"
        assert world.staged.calls["settle"] == 0

    def test_an_error_of_the_start_comes_through(self) -> None:
        world = World()

        def refuse(*_args: object, **_options: object) -> None:
            raise StoreUnavailable("staged: down")

        world.staged.before["ensure_ready"] = refuse
        worker = world.worker()
        with pytest.raises(StoreUnavailable):
            worker.run()
        assert worker._on_stopped == []  # noqa: SLF001

    def test_a_stop_that_cannot_store_everything_is_raised(self) -> None:
        world = World()
        world.app.job("n")(lambda: None)
        world.app.enqueue("n")

        told: list[int] = []

        def refuse(acks: list[object], **_options: object) -> None:
            if not acks:
                return
            if not told:  # later there is no handler any more
                told.append(signal.SIGTERM)
                os.kill(os.getpid(), signal.SIGTERM)
            raise StoreUnavailable("staged: down")

        world.staged.before["settle"] = refuse
        worker = world.worker()
        with pytest.raises(StopIncomplete):
            worker.run(0)
        del world.staged.before["settle"]
        worker.stop(PATIENCE_S)
        assert world.store.counts()[JobStatus.COMPLETED] == 1

    def test_the_third_signal_does_not_wait_for_a_database_that_hangs(self) -> None:
        world = World()
        world.app.job("n")(lambda: None)
        world.app.enqueue("n")
        release, pause = threading.Event(), threading.Event()

        def hang(acks: list[object], **_options: object) -> None:
            if not acks:
                return
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGINT)
            while worker.state.name != "STOPPING":  # two of one number may become one
                pause.wait(0.001)
            os.kill(os.getpid(), signal.SIGTERM)
            reached(release)

        world.staged.before["settle"] = hang
        worker = world.worker()
        with pytest.raises(KeyboardInterrupt):
            worker.run(NEVER_MS)
        release.set()
        worker.stop(PATIENCE_S)


def test_a_worker_takes_an_app_on_a_url(tmp_path: Path) -> None:
    app = JobApp(f"sqlite:///{tmp_path / 'jobs.db'}")
    done = threading.Event()
    app.job("n")(done.set)
    app.enqueue("n")
    worker = Worker(app)
    worker.start()
    reached(done)
    worker.stop()
    app.close()
