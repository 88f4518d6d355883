"""Workers in processes of their own, which are killed without warning."""

import multiprocessing
import os
import random
import signal

from multiprocessing.connection import Connection

from tests.store.sql.journal.load import Worker, soak_store

REPORT_EVERY = 5  # things done
PATIENCE_S = 120

# Forked from a server without threads, which has the libraries loaded already.
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload([__name__])


def _work(ours: Connection, url: str, prefix: str, seed: int) -> None:
    """Work for ever; say now and then how many transitions were made."""
    worker = Worker(soak_store(url, prefix), random.Random(seed))
    while True:
        for _ in range(REPORT_EVERY):
            worker.work()
        ours.send(worker.seen["transitions"])


def work_and_be_killed(url: str, prefix: str, seed: int, *, after: int) -> int:
    """
    Let a process work, and kill it in the middle of whatever it does then.

    `after` is how many reports are waited for. Returns the transitions it reported.
    """
    ours, theirs = _context.Pipe(duplex=False)
    process = _context.Process(
        target=_work, args=(theirs, url, prefix, seed), daemon=True
    )
    process.start()
    theirs.close()
    try:
        made = 0
        for _ in range(after):
            assert ours.poll(PATIENCE_S), f"no report in {PATIENCE_S} s"
            made = ours.recv()
        return made
    finally:
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        process.close()
        ours.close()
