"""
One worker process of the demo.

Its first line on standard input says what to do (not its arguments: a URL may hold a
password, and anybody can read those). Later lines are the parent's signs, and the end of
the input is the sign to stop, also when the parent was killed. It tells what it sees on
standard output, a line of JSON each.
"""

import json
import logging
import os
import sys
import threading
import time

from dataclasses import dataclass
from pathlib import Path

from jobfence.cli.demo.files import digest
from jobfence.cli.demo.place import LEASE_MS, Place
from jobfence.dispatch import JobApp, Worker, current_job
from jobfence.dispatch.events import (
    AcknowledgementStale,
    FrameworkError,
    JobRecovered,
    WorkerEvent,
)
from jobfence.statemachine.values import Handoff

JOB_NAME = "checksum"
# The parent's signs: begin to work; go on inside the job you wait in; and, with a job's
# id behind it, wait inside this job.
START, GO_ON, HOLD = "start", "go-on", "hold"
WORK_S = 0.003
GRACE_S = 5.0
# Long past the end of any demo: a worker that is never told to go on must end too.
HOLD_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """
    What a worker process is to do.

    One that `holds` waits inside its first job, and then acknowledges it straight away.
    """

    url: str
    table_prefix: str
    root: str
    worker_id: str
    concurrency: int
    holds: bool


class Child:
    """The worker, and its two pipes."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._place = Place(orders.url, orders.table_prefix)
        self._signs = {START: threading.Event(), GO_ON: threading.Event()}
        self._first = threading.Lock()
        self._to_hold: set[str] = set()
        self._ended = False
        app = JobApp(self._place.store)
        app.job(JOB_NAME)(self.checksum)
        self._worker = Worker(
            app,
            events=self.tell_event,
            concurrency=orders.concurrency,
            worker_id=orders.worker_id,
            lease_ms=LEASE_MS,
            poll_ms=100,
            recover_every_ms=250,
        )

    def run(self) -> None:
        """Work until the input ends."""
        threading.Thread(target=self._listen, daemon=True).start()
        self._signs[START].wait()
        if not self._ended:
            self._worker.run(GRACE_S)
        self._place.close()

    def checksum(self, path: str) -> None:
        """
        Run one job: a file's checksum and number of lines.

        The result and the completion are one commit. A run that lost its handoff
        leaves nothing behind.
        """
        context = current_job()
        found = digest(Path(self._orders.root, path))
        time.sleep(WORK_S)  # stands for what a real job waits for
        if self._orders.holds and self._first.acquire(blocking=False):
            self._hold(context.handoff)
            self._acknowledge_late(context.handoff)
        elif context.job.id in self._to_hold:
            self._hold(context.handoff)
        with (
            self._place.store.engine.connect() as connection,
            context.transaction(connection),
        ):
            self._place.add_result(connection, context.handoff, found)

    def _hold(self, handoff: Handoff) -> None:
        """Wait inside the job until the parent says to go on."""
        tell("holding", job_id=handoff.job.id, handoff_id=handoff.handoff_id)
        self._signs[GO_ON].wait(HOLD_S)

    def _acknowledge_late(self, handoff: Handoff) -> None:
        """
        Say that the job is done, and tell the parent the answer.

        Straight to the database: the heartbeat may learn of the loss just before, and
        the worker would not ask any more.
        """
        ack = self._place.store.complete(handoff.job.id, handoff.handoff_id)
        tell("late", handoff_id=handoff.handoff_id, result=ack.result)

    def tell_event(self, event: WorkerEvent) -> None:
        """Tell the parent what the demo counts."""
        match event:
            case JobRecovered(job=job):
                tell("recovered", job_id=job.id, worker_id=job.last_worker_id)
            case AcknowledgementStale(handoff=handoff):
                tell("stale", job_id=handoff.job.id, handoff_id=handoff.handoff_id)
            case FrameworkError(stage=stage, error=error):
                tell("error", text=f"{stage}: {' '.join(str(error).split())}")
            case _:
                pass

    def _listen(self) -> None:
        for line in sys.stdin:
            sign, *job_ids = line.split()
            if sign == HOLD:
                self._to_hold.update(job_ids)
            else:
                self._signs[sign].set()
        self._ended = True
        for sign in self._signs.values():
            sign.set()
        while True:  # a stop that comes just before a start is forgotten by it
            self._worker.request_stop(GRACE_S, process_exits=True)
            time.sleep(0.1)


def tell(kind: str, **details: str | None) -> None:
    """Write one line, at once and whole, whatever happens to this process next."""
    os.write(1, (json.dumps({"kind": kind, **details}) + "\n").encode())


def main() -> None:
    """Be one worker process."""
    logger = logging.getLogger("jobfence")
    logger.addHandler(logging.NullHandler())  # the parent tells what there is to tell
    logger.propagate = False
    Child(Orders(**json.loads(sys.stdin.readline()))).run()


if __name__ == "__main__":
    main()
