"""The worker processes: started, told, stopped in mid-job, killed, and reaped."""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import NotRequired, Self, TypedDict

import jobfence

from jobfence.cli.demo.child import Orders
from jobfence.cli.demo.interruption import uninterrupted
from jobfence.cli.failures import CommandFailed

STOP_WAIT_S = 10.0


class Message(TypedDict):
    """A line of a worker's output: what it saw (`kind`), and of which job."""

    kind: str
    worker: str  # who tells it
    job_id: NotRequired[str]
    handoff_id: NotRequired[str]
    worker_id: NotRequired[str]  # whom a job was recovered from
    result: NotRequired[str]
    text: NotRequired[str]


class Process:
    """
    One worker process, and the thread that reads what it tells.

    No call of `Popen` may be interrupted: an exception between its lock and the `try`
    that frees it would let the next call wait for ever.
    """

    def __init__(self, orders: Orders, inbox: "queue.SimpleQueue[Message]") -> None:
        self.worker_id = orders.worker_id
        self._inbox = inbox
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  closed in `end`
        source = str(Path(jobfence.__file__).parents[1])
        path = os.pathsep.join([source, os.environ.get("PYTHONPATH", "")]).rstrip(
            os.pathsep
        )
        self._popen = subprocess.Popen(
            # -P: a file of the viewer's called queue.py must not be imported.
            [sys.executable, "-P", "-m", "jobfence.cli.demo.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,  # Ctrl-C reaches the parent, which ends the crew
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.tell(json.dumps(asdict(orders)))

    def tell(self, *words: str) -> None:
        """Send a line; one that has ended does not hear it."""
        assert self._popen.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            self._popen.stdin.write(" ".join(words) + "\n")
            self._popen.stdin.flush()

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        with uninterrupted():
            self._popen.send_signal(number)

    def ended(self) -> str | None:
        """Return the last line of what a process said that has ended; else None."""
        if not self._has_ended():
            return None
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"exit code {self._popen.returncode}"

    def ask_to_end(self) -> None:
        """Let it finish what it does; `end` waits."""
        assert self._popen.stdin is not None
        with contextlib.suppress(OSError):
            self._popen.stdin.close()

    def end(self, wait_s: float) -> None:
        """Wait for its end, and kill it after that; reap it in any case."""
        self.ask_to_end()
        deadline = time.monotonic() + wait_s
        while not self._has_ended() and time.monotonic() < deadline:
            time.sleep(0.01)
        with uninterrupted():
            self._popen.kill()  # also ends a stopped process
            self._popen.wait()
            self._reader.join(STOP_WAIT_S)
            assert self._popen.stdout is not None
            self._popen.stdout.close()
            self._errors.close()

    def _has_ended(self) -> bool:
        with uninterrupted():
            return self._popen.poll() is not None

    def _read(self) -> None:
        assert self._popen.stdout is not None
        for line in self._popen.stdout:
            if line.endswith("\n"):  # a killed process may leave half a line
                message: Message = json.loads(line)
                message["worker"] = self.worker_id
                self._inbox.put(message)


class Crew:
    """All worker processes. Left as a context manager, none of them is left over."""

    def __init__(self) -> None:
        self._inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._members: list[Process] = []
        self.messages: list[Message] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with uninterrupted():
            self._end_all(0)

    def add(self, orders: Orders) -> Process:
        """Start a process."""
        with uninterrupted():
            process = Process(orders, self._inbox)
            self._members.append(process)
        return process

    def kill(self, process: Process) -> None:
        """Kill a process without a warning, and bury it."""
        with uninterrupted():
            process.send(signal.SIGKILL)
            self._members.remove(process)
            process.end(STOP_WAIT_S)

    def stop(self) -> None:
        """Let every process finish, and take in the last it has to tell."""
        self._end_all(STOP_WAIT_S)
        self.listen(0)

    def listen(self, wait_s: float) -> None:
        """Take in what was told, waiting for something so many seconds at most."""
        with contextlib.suppress(queue.Empty):
            self.messages.append(self._inbox.get(wait_s > 0, wait_s))
            while True:
                self.messages.append(self._inbox.get_nowait())

    def wait_for(
        self, what: str, reached: Callable[[], bool], timeout_s: float
    ) -> None:
        """Wait for something; `CommandFailed` if it does not come."""
        if not self.wait_until(reached, timeout_s):
            raise CommandFailed(f"{what} did not come within {timeout_s:g} s")

    def wait_until(self, reached: Callable[[], bool], timeout_s: float) -> bool:
        """Wait for something; whether it came. `CommandFailed` if a worker ends."""
        deadline = time.monotonic() + timeout_s
        while not reached():
            self._check_all_alive()
            if time.monotonic() > deadline:
                return False
            self.listen(0.05)
        return True

    def told(self, kind: str, process: Process | None = None) -> list[Message]:
        """Return the messages of a kind, all or one worker's."""
        return [
            each
            for each in self.messages
            if each["kind"] == kind
            and (process is None or each["worker"] == process.worker_id)
        ]

    def _check_all_alive(self) -> None:
        for process in self._members:
            problem = process.ended()
            if problem is not None:
                raise CommandFailed(f"worker {process.worker_id} ended: {problem}")

    def _end_all(self, wait_s: float) -> None:
        for process in self._members:
            process.ask_to_end()
        while self._members:
            self._members[-1].end(wait_s)
            self._members.pop()
