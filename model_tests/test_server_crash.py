"""
Layer (f): a whole PostgreSQL cluster stopped in the middle, without a farewell.

A private one with fsync on. Nothing that was acknowledged is lost, and the counters are
exact when it is back.
"""

import os
import shutil
import socket
import subprocess
import tempfile
import threading

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from jobfence.statemachine.errors import JobfenceError, StoreUnavailable
from jobfence.statemachine.states import JobStatus
from jobfence.store import SqlJobStore

ROUNDS = 2
WRITERS = 4
ENOUGH = 25  # acknowledged calls of each writer before the cluster is stopped
UNPRIVILEGED = "postgres"  # PostgreSQL refuses to run as root


def programs() -> Path | None:
    """Return the folder of initdb and pg_ctl."""
    on_path = shutil.which("initdb")
    found = [Path(on_path).parent] if on_path else []
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return found[-1] if found else None


class Cluster:
    """A PostgreSQL server of our own."""

    def __init__(self, bin_folder: Path, folder: Path) -> None:
        self._bin, self._folder = bin_folder, folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = int(free.getsockname()[1])
        self.url = (
            f"postgresql+psycopg://{UNPRIVILEGED}@127.0.0.1:{self._port}/postgres"
        )
        self._run("initdb", "-D", "data", "-A", "trust", "-U", UNPRIVILEGED)

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._bin / program), *arguments]
        if os.geteuid() == 0:
            command = ["runuser", "-u", UNPRIVILEGED, "--", *command]
        subprocess.run(command, cwd=self._folder, check=True, stdout=subprocess.DEVNULL)

    def start(self) -> None:
        settings = (
            f"-p {self._port} -c listen_addresses=127.0.0.1 -c fsync=on "
            f"-c synchronous_commit=on -c unix_socket_directories={self._folder}"
        )
        self._run("pg_ctl", "-D", "data", "-l", "log", "-w", "-o", settings, "start")

    def stop(self) -> None:
        """Stop it as a power cut would: no checkpoint, no farewell."""
        self._run("pg_ctl", "-D", "data", "-m", "immediate", "-w", "stop")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    found = programs()
    if found is None:
        pytest.skip("initdb is not installed")
    if os.geteuid() == 0 and shutil.which("runuser") is None:
        pytest.skip("as root, runuser is needed")
    folder = Path(tempfile.mkdtemp(prefix="jobfence-"))
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, UNPRIVILEGED)
        made = Cluster(found, folder)
        made.start()
        yield made
        made.stop()
    finally:
        shutil.rmtree(folder)


@dataclass
class Writer:
    """Enqueues, claims and completes until the server is gone; keeps what it was told."""

    store: SqlJobStore
    number: int
    enqueued: list[str] = field(default_factory=list)
    completed: list[str] = field(default_factory=list)
    enough: threading.Event = field(default_factory=threading.Event)
    problem: JobfenceError | None = None

    def run(self) -> None:
        try:
            while True:
                job_id = self.store.enqueue(
                    "mail",
                    [self.number],
                    concurrency_key=f"k{self.number % 2}",
                    max_concurrency=3,
                )
                self.enqueued.append(job_id)
                for handoff in self.store.claim(1, worker_id=f"w{self.number}"):
                    ack = self.store.complete(handoff.job.id, handoff.handoff_id)
                    assert ack.accepted
                    self.completed.append(handoff.job.id)
                if len(self.enqueued) >= ENOUGH:
                    self.enough.set()
        except JobfenceError as problem:
            self.problem = problem
        finally:
            self.enough.set()


def test_nothing_acknowledged_is_lost_when_the_server_dies(cluster: Cluster) -> None:
    store = SqlJobStore(cluster.url)
    store.ensure_ready()
    enqueued: set[str] = set()
    completed: set[str] = set()
    for _ in range(ROUNDS):
        writers = [Writer(store, number) for number in range(WRITERS)]
        threads = [threading.Thread(target=each.run) for each in writers]
        for thread in threads:
            thread.start()
        for each in writers:
            assert each.enough.wait(60)
        cluster.stop()
        for thread in threads:
            thread.join()
        cluster.start()
        for each in writers:
            assert isinstance(each.problem, StoreUnavailable), each.problem
            enqueued |= set(each.enqueued)
            completed |= set(each.completed)

        jobs = {job.id: job for job in store.list_jobs(limit=10_000)}
        assert enqueued <= jobs.keys(), "an acknowledged job is gone"
        lost = [id_ for id_ in completed if jobs[id_].status is not JobStatus.COMPLETED]
        assert lost == [], "an acknowledged completion is gone"
        # In doubt are at most the calls that were under way.
        done = sum(job.status is JobStatus.COMPLETED for job in jobs.values())
        assert len(completed) <= done <= len(completed) + WRITERS * ROUNDS
        assert store.reconcile_active_concurrency().repaired_count == 0
        for job in store.recover_handed_off():
            assert job.attempts == 1
        assert store.reconcile_active_concurrency().repaired_count == 0
    store.close()
