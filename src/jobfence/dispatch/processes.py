"""Jobs in processes of their own, which can be killed (rule D8)."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading

from dataclasses import asdict, fields

from jobfence.dispatch.calls import begin, finish
from jobfence.dispatch.context import Reschedule
from jobfence.dispatch.errors import JobProcessEnded, JobProcessFailed, JobTimedOut
from jobfence.dispatch.events import EventHub
from jobfence.dispatch.locate import reference
from jobfence.dispatch.registry import RegisteredJob
from jobfence.dispatch.runs import Run
from jobfence.statemachine.values import Job

# The parent's path comes first: the child may find the library only there.
BOOT = (
    "import json, sys; request = json.loads(sys.stdin.buffer.readline()); "
    "sys.path[:] = request['path']; "
    "from jobfence.dispatch.child import main; main(request)"
)
# After its answer a child may still write its files; then it is killed.
EXIT_WAIT_S = 5.0


def run_in_process(run: Run, job: RegisteredJob, hub: EventHub) -> None:
    """Run a job in a child, and wait for it on this thread."""
    child = JobProcess()
    run.stopper = child.kill
    if not begin(run, hub):
        return
    error: Exception | None = None
    try:
        _raise_from(job.name, child, _request(run, job), run.timeout_ms)
    except Exception as raised:  # noqa: BLE001  whatever went wrong fails the job
        error = raised
    finish(run, error, hub)
    error = None  # with its traceback it would keep this frame alive


class JobProcess:
    """One child. Its standard input is its lifeline: with us, the child ends too."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._killed = False
        self.timed_out = False

    def kill(self) -> None:
        """End the child and what it started; also if it is only about to start."""
        with self._lock:
            self._killed = True
            if self._process is not None:
                _kill(self._process)

    def ask(self, request: bytes, timeout_ms: int | None) -> tuple[bytes, int]:
        """Start the child, and return its answer and its exit code."""
        with self._lock:
            self._process = process = subprocess.Popen(  # noqa: S603  ours alone
                [sys.executable, "-c", BOOT],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                # A session of its own: the child's children are killed with it, and
                # Ctrl-C at the terminal reaches the worker alone, which drains.
                start_new_session=True,
            )
            if self._killed:
                _kill(process)
        alarm = None
        if timeout_ms is not None:
            alarm = threading.Timer(timeout_ms / 1000, self._time_out)
            alarm.daemon = True
            alarm.start()
        try:
            return self._converse(process, request)
        finally:
            if alarm is not None:
                alarm.cancel()

    def _converse(
        self, process: subprocess.Popen[bytes], request: bytes
    ) -> tuple[bytes, int]:
        assert process.stdin is not None
        assert process.stdout is not None
        with process.stdout, contextlib.suppress(BrokenPipeError), process.stdin:
            answer = b""
            with contextlib.suppress(BrokenPipeError):  # killed at once
                process.stdin.write(request + b"\n")
                process.stdin.flush()
                answer = process.stdout.readline()
            try:
                process.wait(EXIT_WAIT_S)
            except subprocess.TimeoutExpired:
                _kill(process)
                process.wait()
        return answer, process.returncode

    def _time_out(self) -> None:
        self.timed_out = True
        self.kill()


def _raise_from(
    name: str, child: JobProcess, request: bytes, timeout_ms: int | None
) -> None:
    """Run the child; return if the job returned, else raise how it ended."""
    answer, returncode = child.ask(request, timeout_ms)
    if not answer.endswith(b"\n"):
        if child.timed_out and timeout_ms is not None:
            raise JobTimedOut(name, timeout_ms)
        raise JobProcessEnded(name, returncode)
    end = json.loads(answer)
    if end["error"] is not None:
        raise JobProcessFailed(end["error"])
    if end["delay_ms"] is not None:
        raise Reschedule(end["delay_ms"])


def _request(run: Run, job: RegisteredJob) -> bytes:
    """Say all a child needs as one line of JSON (arguments are JSON already)."""
    return json.dumps(
        {
            "path": sys.path,
            "function": asdict(reference(job.function)),
            "job": _fields(run.handoff.job),
            "timeout_ms": run.timeout_ms,
        }
    ).encode()


def _fields(job: Job) -> dict[str, object]:
    shown: dict[str, object] = {
        field.name: getattr(job, field.name) for field in fields(job)
    }
    return shown | {"kwargs": dict(job.kwargs)}


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
