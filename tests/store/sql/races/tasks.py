"""What the tests let other processes do; each opens its own store."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import Handoff, Settlement
from jobfence.store.sql.store import SqlJobStore
from tests.store.sql.races.crew import together
from tests.store.sql.races.watch import Troubles

Ready = Callable[[], object]


@contextmanager
def opened(url: str, prefix: str) -> Iterator[tuple[SqlJobStore, Counter[str]]]:
    """Give a store, and what troubles it meets."""
    store = SqlJobStore(url, table_prefix=prefix)
    troubles = Troubles()
    troubles.watch(store.engine)
    try:
        yield store, troubles.seen
    finally:
        store.close()


def enqueue_once(
    ready: Ready, url: str, prefix: str, keys: Sequence[str]
) -> tuple[list[str], Counter[str]]:
    """Enqueue one job for each idempotency key, once everybody is ready."""
    with opened(url, prefix) as (store, troubles):
        store.ensure_ready()
        ready()
        ids = [store.enqueue("job", idempotency_key=key) for key in keys]
    return ids, troubles


Log = list[tuple[str, str, str]]


def work_off(
    ready: Ready, url: str, prefix: str, threads: int
) -> tuple[Log, Counter[str]]:
    """
    Work in some threads until nothing is queued; return what each handoff came to.

    Every other thread settles in batches; the rest claims and completes one by one.
    """
    with opened(url, prefix) as (store, troubles):
        store.ensure_ready()
        ways = (_one_by_one, _in_batches)
        ready()
        logs = together(*[partial(ways[n % 2], store) for n in range(threads)])
    return [entry for log in logs for entry in log], troubles


def _goes_back(handoff: Handoff) -> bool:
    """Whether this run ends by giving the job back: each tenth job's first run."""
    (number,) = handoff.job.args
    return isinstance(number, int) and number % 10 == 0 and handoff.job.handoffs == 1


def _one_by_one(store: SqlJobStore) -> Log:
    log: Log = []
    while (found := store.claim(1)) or store.counts()[JobStatus.QUEUED]:
        for each in found:
            if _goes_back(each):
                way, ack = "returned", store.return_to_queue
            else:
                way, ack = "completed", store.complete
            assert ack(each.job.id, each.handoff_id).accepted
            log.append((each.job.id, each.handoff_id, way))
    return log


def _in_batches(store: SqlJobStore) -> Log:
    log: Log = []
    held: list[Handoff] = []
    while held or store.counts()[JobStatus.QUEUED]:
        ended = [
            Settlement.return_to_queue(each)
            if _goes_back(each)
            else Settlement.complete(each)
            for each in held
        ]
        log += [
            (each.job.id, each.handoff_id, "returned")
            if _goes_back(each)
            else (each.job.id, each.handoff_id, "completed")
            for each in held
        ]
        acks, held = store.settle(ended, claim=10)
        assert all(ack.accepted for ack in acks)
    return log


def make_tables(ready: Ready, url: str, prefix: str) -> tuple[str, Counter[str]]:
    """Open a store on a database without tables, at once with others; use it."""
    with opened(url, prefix) as (store, troubles):
        ready()
        store.ensure_ready()
        job_id = store.enqueue("job")
    return job_id, troubles
