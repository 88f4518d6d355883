"""A worker process for tests: it says what it does, line by line, and obeys signals."""

import os
import select
import signal
import sys
import threading
import warnings

from jobfence.dispatch import JobApp, Worker
from jobfence.dispatch.events import WorkerEvent, WorkerStarted
from jobfence.store.sql.store import SqlJobStore
from tests.dispatch.support import PATIENCE_S

go = threading.Event()


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def obey() -> None:
    """Let held jobs go when told to."""
    for _line in sys.stdin:
        go.set()


def told(event: WorkerEvent) -> None:
    if isinstance(event, WorkerStarted):
        say("ready")


def end_a_child(numbers: list[int]) -> None:
    """Fork a child, send it signals one by one, and say how it ended."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
        child = os.fork()
    if child == 0:
        say("child")
        select.select([reader], [], [], PATIENCE_S)  # nothing comes but signals
        os._exit(0)
    go.wait()
    for number in numbers:
        os.kill(child, number)
    _, status = os.waitpid(child, 0)
    say("child ended", os.waitstatus_to_exitcode(status))
    os.close(writer)
    os.close(reader)


def main(url: str, lease_ms: int, grace_s: float) -> None:
    store = SqlJobStore(url)
    app = JobApp(store)

    @app.job("held")
    def held() -> None:
        say("held")
        go.wait()

    @app.job("quick")
    def quick(number: int) -> None:
        say("ran", number)

    app.job("end a child")(end_a_child)
    for number in (signal.SIGUSR1, signal.SIGHUP):  # the application's own
        signal.signal(number, lambda number, _frame: say("noted", number))
    threading.Thread(target=obey, daemon=True).start()
    worker = Worker(
        app,
        concurrency=4,
        lease_ms=lease_ms,
        recover_every_ms=20,
        poll_ms=20,
        events=told,
    )
    try:
        worker.run(grace_s)
    finally:
        say("end", worker.state.name)
        store.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
