"""The demo's play: a worker is killed in a job, another one overtaken in its own."""

import signal
import time

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from jobfence.cli.demo.child import GO_ON, HOLD, JOB_NAME, START, Orders
from jobfence.cli.demo.crew import Crew, Message, Process
from jobfence.cli.demo.files import File
from jobfence.cli.demo.place import LEASE_MS, Place
from jobfence.cli.failures import CommandFailed
from jobfence.statemachine.hiding import without_secrets
from jobfence.statemachine.options import JobRequest
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import AckResult

START_S = 30.0
FINISH_S = 120.0
TAKEN_S = LEASE_MS / 1000 + 5.0
TRIES = 5
HOLDERS = ("the one that is killed", "the one that is stopped")
CONCURRENCY = 4
Say = Callable[[str], None]
Advance = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Played:
    """What was seen while the jobs ran."""

    jobs: dict[str, File]
    recovered_after_kill: int
    stale_refused: int
    late_accepted: bool


class Stage:
    """One performance."""

    def __init__(
        self, place: Place, root: Path, crew: Crew, *, url: str, say: Say
    ) -> None:
        self._place, self._root, self._crew = place, root, crew
        self._url, self._say = url, say
        self._hired = 0
        self._jobs: dict[str, File] = {}

    def play(self, files: tuple[File, ...], workers: int, advance: Advance) -> Played:
        """Run all jobs, with both accidents on the way."""
        # The first two are those of the accidents: they come first again when they are
        # recovered, and not behind all others.
        ids = self._place.store.enqueue_many(
            JobRequest(JOB_NAME, (file.path,), priority=int(number < len(HOLDERS)))
            for number, file in enumerate(files)
        )
        self._jobs = dict(zip(ids, files, strict=True))
        holders = [self._hire(holds=True) for _ in HOLDERS]
        others = [self._hire() for _ in range(workers - len(HOLDERS))]
        for process in holders:
            process.tell(START)
        # With a single file only one of them gets a job, and the other one after it.
        self._crew.wait_for(
            "the first job", lambda: bool(self._crew.told("holding")), START_S
        )
        first = self._crew.told("holding")[0]["worker"]
        victim, sleeper = sorted(holders, key=lambda each: each.worker_id != first)
        self._kill(victim)
        others.append(self._hire())  # what a supervisor would do
        self._overtake(sleeper, others)
        self._finish(advance)
        return Played(
            jobs=self._jobs,
            recovered_after_kill=self._recovered_from(victim),
            stale_refused=len(self._refused()),
            late_accepted=any(
                each["result"] != AckResult.STALE for each in self._crew.told("late")
            ),
        )

    def _hire(self, *, holds: bool = False) -> Process:
        self._hired += 1
        return self._crew.add(
            Orders(
                url=self._url,
                table_prefix=self._place.store.tables.prefix,
                root=str(self._root),
                worker_id=f"demo-{self._hired}",
                # One that is stopped in its only job holds no lock of the database.
                concurrency=1 if holds else CONCURRENCY,
                holds=holds,
            )
        )

    def _held_by(self, process: Process) -> Message:
        """Wait until a worker tells that it is inside its first job."""
        self._crew.wait_for(
            f"the first job of {process.worker_id}",
            lambda: bool(self._crew.told("holding", process)),
            START_S,
        )
        return self._crew.told("holding", process)[0]

    def _kill(self, process: Process) -> None:
        held = self._held_by(process)
        self._crew.kill(process)
        self._say(f"killed {process.worker_id} in the middle of {self._path(held)}")

    def _overtake(self, sleeper: Process, others: list[Process]) -> None:
        """
        Stop a worker until another one is inside its job, and let it acknowledge then.

        Only the claim's id can tell the two apart: the job is handed off, and both
        believe that it is theirs.
        """
        held = self._held_by(sleeper)
        for process in others:  # not before: they might leave the sleeper no job
            process.tell(HOLD, held["job_id"])
            process.tell(START)
        self._say(f"stopped {sleeper.worker_id} in the middle of {self._path(held)}")
        taker = self._wait_for_taker(sleeper, held, others)
        self._say(f"{taker.worker_id} took that job over; {sleeper.worker_id} goes on")
        sleeper.tell(GO_ON)
        self._crew.wait_for(
            f"the late acknowledgement of {sleeper.worker_id}",
            lambda: bool(self._crew.told("late", sleeper)),
            START_S,
        )
        answer = self._crew.told("late", sleeper)[0]["result"]
        self._say(f"{sleeper.worker_id} says it is done; answer: {answer}")
        taker.tell(GO_ON)

    def _wait_for_taker(
        self, sleeper: Process, held: Message, others: list[Process]
    ) -> Process:
        """
        Keep a worker stopped until another one has its job.

        If it was stopped in the middle of a heartbeat's transaction, its locks keep the
        others from the job: it is let go on for a moment, and stopped again.
        """
        for _ in range(TRIES):
            sleeper.send(signal.SIGSTOP)
            self._crew.wait_until(lambda: bool(self._takers(held, others)), TAKEN_S)
            sleeper.send(signal.SIGCONT)
            for taker in self._takers(held, others):
                return taker
            time.sleep(0.1)
        raise CommandFailed(f"{sleeper.worker_id} was stopped, but kept its job")

    def _takers(self, held: Message, others: list[Process]) -> list[Process]:
        return [
            process
            for process in others
            for each in self._crew.told("holding", process)
            if each["job_id"] == held["job_id"]
        ]

    def _finish(self, advance: Advance) -> None:
        def done() -> bool:
            counts = self._place.store.counts()
            advance(counts[JobStatus.COMPLETED])
            ended = sum(counts[status] for status in JobStatus if status.terminal)
            return ended >= len(self._jobs)

        self._crew.wait_for("the end of all jobs", done, FINISH_S)
        self._crew.stop()
        for text in sorted({each["text"] for each in self._crew.told("error")}):
            words = without_secrets(text, [self._url])
            self._say(f"a worker met an error, and went on: {words}")

    def _recovered_from(self, process: Process) -> int:
        return sum(
            each["worker_id"] == process.worker_id
            for each in self._crew.told("recovered")
        )

    def _refused(self) -> set[str]:
        """Return the handoffs whose acknowledgement was refused."""
        late = [
            each
            for each in self._crew.told("late")
            if each["result"] == AckResult.STALE
        ]
        return {each["handoff_id"] for each in [*late, *self._crew.told("stale")]}

    def _path(self, message: Message) -> str:
        return self._jobs[message["job_id"]].path
