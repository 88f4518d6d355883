"""Rule D8: jobs in processes of their own, and how those are ended."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

from pathlib import Path

import pytest

from jobfence.dispatch import processes
from jobfence.dispatch.errors import JobProcessEnded
from jobfence.dispatch.events import JobCancelled, JobFailed, JobReturned
from jobfence.dispatch.processes import JobProcess
from jobfence.statemachine.states import JobStatus
from tests.dispatch import jobs
from tests.dispatch.support import NEVER_MS, PATIENCE_S, World, idle

pytestmark = pytest.mark.skipif(
    not hasattr(os, "killpg"), reason="the tests ask for process groups"
)


@pytest.fixture
def world() -> World:
    world = World()
    world.app._registry = jobs.app.registry  # noqa: SLF001
    return world


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "told"


def wait_for(path: Path) -> list[int]:
    """Wait for what a process writes, which no event of ours can announce."""
    until = time.monotonic() + PATIENCE_S
    while not path.exists():
        assert time.monotonic() < until
        time.sleep(0.005)
    return [int(word) for word in path.read_text(encoding="utf-8").split()]


def gone(pid: int) -> bool:
    """Whether a process ends; a zombie nobody reaps counts as ended."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        try:
            state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
        except FileNotFoundError:
            return True
        if state.rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.005)
    return False


def error_of(world: World, name: str) -> str:
    job_id = world.app.enqueue(name)
    with world.running() as worker:
        idle(worker)
    job = world.job(job_id)
    assert (job.status, job.attempts) == (JobStatus.FAILED, 1)
    assert job.last_error is not None
    return job.last_error


def test_a_process_gets_arguments_and_context_as_they_are(
    world: World, path: Path
) -> None:
    job_id = world.app.enqueue("tell", str(path), note={"é": 2**80})
    with world.running() as worker:
        idle(worker)
    assert world.status(job_id) is JobStatus.COMPLETED
    pid, rest = path.read_text(encoding="utf-8").split(" ", 1)
    assert int(pid) != os.getpid()
    assert rest == f"{job_id} tell [('é', {2**80})]"


def test_an_async_function_runs_in_a_process_as_well(world: World, path: Path) -> None:
    job_id = world.app.enqueue("atell", str(path))
    with world.running() as worker:
        idle(worker)
    assert world.status(job_id) is JobStatus.COMPLETED
    assert wait_for(path) != [os.getpid()]


def test_the_traceback_from_the_process_is_the_error(world: World) -> None:
    error = error_of(world, "fail")
    assert error.startswith("Traceback")
    assert "ValueError: from the child" in error
    assert "in fail" in error
    assert "JobProcessFailed" not in error


def test_sys_exit_fails_the_job(world: World) -> None:
    assert "SystemExit: 3" in error_of(world, "exit")


def test_a_crash_fails_the_job_and_names_the_exit_code(world: World) -> None:
    assert "ended without an answer, with exit code 7" in error_of(world, "crash")


@pytest.mark.parametrize(
    "how",
    [
        pytest.param(
            "full",
            marks=pytest.mark.skipif(
                not Path("/dev/full").exists(), reason="there is no full device"
            ),
        ),
        "broken",
        "gone",
        "closed",
        "none",
    ],
)
def test_a_job_that_returned_is_complete_whatever_comes_of_its_output(
    world: World, how: str
) -> None:
    job_id = world.app.enqueue("lose output", how)
    with world.running() as worker:
        idle(worker)
    assert (world.status(job_id), world.job(job_id).last_error) == (
        JobStatus.COMPLETED,
        None,
    )


def test_a_worker_without_standard_error_runs_processes(tmp_path: Path) -> None:
    parent = tmp_path / "parent.py"
    parent.write_text(
        textwrap.dedent(
            """
            from tests.dispatch.jobs import app
            job_id = app.enqueue("complain")
            with app.running() as worker:
                worker.wait_idle()
            job = app.store.get(job_id)
            print(job.status.value, job.last_error)
            """
        ),
        encoding="utf-8",
    )
    root = str(Path(__file__).parents[2])
    paths = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    told = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable, str(parent)],
        env={**os.environ, "PYTHONPATH": paths},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=PATIENCE_S,
    )
    assert told.stdout == "completed None\n"


def test_a_coroutine_that_nobody_would_await_fails_the_job(world: World) -> None:
    assert "returned an awaitable" in error_of(world, "coroutine")


def test_a_generator_that_nobody_would_run_fails_the_job(world: World) -> None:
    assert "returned a generator" in error_of(world, "generator")


def test_what_needs_the_store_is_refused_by_name(world: World) -> None:
    assert "does not support extend" in error_of(world, "extend")


def test_a_process_may_ask_to_come_back_later(world: World) -> None:
    job_id = world.app.enqueue("later")
    with world.running() as worker:
        idle(worker)
    job = world.job(job_id)
    assert (job.status, job.attempts) == (JobStatus.QUEUED, 0)
    assert job.scheduled_at_ms == 1500


def test_D4_a_process_that_cannot_say_when_to_come_back_has_failed(
    world: World,
) -> None:
    job_id = world.app.enqueue("later, unset")
    with world.running() as worker:
        idle(worker)
    assert world.status(job_id) is JobStatus.FAILED
    assert "call super().__init__(delay_ms)" in str(world.job(job_id).last_error)


def test_after_its_timeout_a_process_is_killed_and_its_job_fails(
    world: World, path: Path
) -> None:
    job_id = world.app.options(timeout_ms=1).enqueue("hang", str(path))
    with world.running() as worker:
        idle(worker)
    job = world.job(job_id)
    assert (job.status, job.attempts) == (JobStatus.FAILED, 1)
    assert "ran longer than timeout_ms=1" in str(job.last_error)


def test_after_the_grace_a_process_and_its_children_are_killed_and_its_job_goes_back(
    world: World, path: Path
) -> None:
    job_id = world.app.enqueue("hang", str(path))
    with world.running() as worker:
        pids = wait_for(path)
        worker.stop(0)
    assert (world.status(job_id), world.job(job_id).attempts) == (JobStatus.QUEUED, 0)
    assert len(world.seen.of(JobReturned)) == 1
    assert all(gone(pid) for pid in pids)


def test_a_process_that_is_asked_to_cancel_is_killed_and_its_job_ends(
    world: World, path: Path
) -> None:
    job_id = world.app.enqueue("hang", str(path))
    with world.running(heartbeat_ms=1) as worker:
        pids = wait_for(path)
        world.store.cancel(job_id)
        idle(worker)
    assert world.status(job_id) is JobStatus.CANCELLED
    assert len(world.seen.of(JobCancelled)) == 1
    assert all(gone(pid) for pid in pids)


def test_a_process_that_does_not_exit_after_its_answer_is_killed(
    world: World, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "EXIT_WAIT_S", 0.01)
    job_id = world.app.enqueue("linger", str(path))
    with world.running() as worker:
        idle(worker)
    assert world.status(job_id) is JobStatus.COMPLETED
    assert all(gone(pid) for pid in wait_for(path))


def test_a_process_killed_before_it_began_does_not_begin() -> None:
    child = JobProcess()
    child.kill()
    answer, returncode = child.ask(b"{}", None)
    assert (answer, returncode) == (b"", -signal.SIGKILL)
    child.kill()  # once more changes nothing


def test_a_process_that_cannot_be_started_fails_the_job(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert "No such file or directory: '/nowhere/python'" in error_of(world, "fail")
    assert world.seen.of(JobFailed)[0].terminal


def test_a_process_dies_with_its_worker(path: Path, tmp_path: Path) -> None:
    parent = tmp_path / "parent.py"
    parent.write_text(
        textwrap.dedent(
            """
            import sys
            from tests.dispatch.jobs import app
            app.enqueue("hang", sys.argv[1])
            app.start().wait_idle()
            """
        ),
        encoding="utf-8",
    )
    root = str(Path(__file__).parents[2])
    worker = subprocess.Popen(
        [sys.executable, str(parent), str(path)], env={**os.environ, "PYTHONPATH": root}
    )
    try:
        pids = wait_for(path)
        assert worker.poll() is None
        assert all(Path(f"/proc/{pid}").exists() for pid in pids)
    finally:
        worker.kill()
        worker.wait(PATIENCE_S)
    assert all(gone(pid) for pid in pids)


def test_a_script_s_own_functions_run_without_its_main_part(
    path: Path, tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import sys
            from pathlib import Path
            from jobfence.dispatch import JobApp
            from jobfence.store.memory import MemoryJobStore

            app = JobApp(MemoryJobStore())

            class Group:
                @app.job("n", execution_mode="process", max_retries=0)
                @staticmethod
                def n(path):
                    Path(path).write_text(__name__)

            if __name__ == "__main__":
                job_id = app.enqueue("n", sys.argv[1])
                with app.running() as worker:
                    worker.wait_idle()
                print(app.store.get(job_id).last_error)
            """
        ),
        encoding="utf-8",
    )
    told = subprocess.run(
        [sys.executable, str(script), str(path)],
        check=True,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert (told.stdout, told.stderr) == ("None\n", "")
    assert path.read_text(encoding="utf-8") == "__jobfence_script__"


def test_the_error_of_an_ended_process_carries_its_values() -> None:
    error = JobProcessEnded("n", -9)
    assert (error.name, error.returncode) == ("n", -9)


def test_a_stop_that_comes_while_a_process_starts_kills_it(world: World) -> None:
    # The run is stopped between its beginning and the start of its process.
    begun = threading.Event()

    def listener(event: object) -> None:
        if type(event).__name__ == "JobStarted":
            worker.request_stop(0)
            begun.set()

    world.listeners.append(listener)
    worker = world.worker(timeout_ms=NEVER_MS)
    job_id = world.app.enqueue("hang", "unused")
    worker.start()
    assert begun.wait(PATIENCE_S)
    worker.stop(0)
    assert world.status(job_id) is JobStatus.QUEUED
