"""A worker process for tests: it says what it does, line by line, and obeys signals."""

import os
import sys
import threading

from jobfence.dispatch import JobApp, Worker
from jobfence.dispatch.events import WorkerEvent, WorkerStarted
from jobfence.store.sql.store import SqlJobStore

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
