"""What the tests let other processes do; each opens its own store."""

import json
import os
import signal
import time

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import PoolProxiedConnection, event

from jobfence.statemachine.clock import ManualClock
from jobfence.statemachine.options import JobRequest
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import Handoff, Settlement
from jobfence.store.dialects.turns import turn_for
from jobfence.store.sql.store import SqlJobStore
from tests.store.sql.races.crew import Running, together
from tests.store.sql.races.watch import Troubles, wait_until

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


WORKER = "doomed"
LEASE_MS = 1000
AFTERWARDS = -1


def enqueue_several(store: SqlJobStore) -> None:
    store.enqueue_many(
        [
            JobRequest("new", [1], deduplicate_while_queued=True),
            JobRequest("new", [2], idempotency_key="i"),
            JobRequest("new", [3], concurrency_key="new", max_concurrency=1),
        ]
    )


def claim_two(store: SqlJobStore) -> None:
    assert len(store.claim(2, worker_id=WORKER)) == 2


def settle_two_and_claim_two(store: SqlJobStore) -> None:
    one, two = store.handoffs_for_worker(WORKER)
    acks = [Settlement.complete(one), Settlement.fail(two, "no")]
    _answers, found = store.settle(acks, claim=2, worker_id=WORKER)
    assert len(found) == 2


def recover_two(store: SqlJobStore) -> None:
    assert len(store.recover_expired()) == 2


def replace_the_scheduled(store: SqlJobStore) -> None:
    store.replace_scheduled("s", "new", concurrency_key="new", max_concurrency=1)


def cancel_the_scheduled(store: SqlJobStore) -> None:
    store.cancel_scheduled("s")


def die_at(
    _ready: Ready,
    url: str,
    prefix: str,
    now_ms: int,
    operation: Callable[[SqlJobStore], object],
    n: int,
) -> int:
    """
    Run an operation and be killed before its n-th step; return how many steps it has.

    A step is a statement, and the moments before and after each COMMIT. `AFTERWARDS` is
    when the operation has returned.
    """
    store = SqlJobStore(
        url, table_prefix=prefix, clock=ManualClock(now_ms), lease_ms=LEASE_MS
    )
    store._ready.mark()  # noqa: SLF001  the tables are there, and not what is killed
    steps = count(1)

    def step(*_: object) -> None:
        if next(steps) == n:
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(store.engine, "before_cursor_execute", step)
    dialect = store.engine.dialect
    commit = dialect.do_commit

    def do_commit(connection: PoolProxiedConnection) -> None:
        step()
        commit(connection)
        step()

    dialect.do_commit = do_commit  # type: ignore[method-assign, assignment]
    operation(store)
    if n == AFTERWARDS:
        os.kill(os.getpid(), signal.SIGKILL)
    store.close()
    return next(steps) - 1


class Forked(NamedTuple):
    """What parent and child did with one store, and the connections they did it on."""

    parent_claims: list[str]
    child_claims: list[str]
    connection_before: str
    parent_connection: str
    child_connection: str


def use_on_both_sides_of_a_fork(_ready: Ready, url: str, prefix: str) -> Forked:
    """Use a store, fork, and go on with it in both processes at once."""
    with opened(url, prefix) as (store, _troubles):
        first = [each.job.id for each in store.claim(1)]
        before = _connection_of(store)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                claimed = [each.job.id for each in store.claim(1)]
                os.write(writing, b"\n")
                claimed += _claim_all(store)
                found = (claimed, _connection_of(store))
                os.write(writing, json.dumps(found).encode())
                store.close()
                code = 0
            finally:
                os._exit(code)
        os.close(writing)
        with os.fdopen(reading) as answers:
            assert answers.readline() == "\n"
            ours = first + _claim_all(store)
            theirs, child_connection = json.loads(answers.read())
        _pid, status = os.waitpid(child, 0)
        assert status == 0
        return Forked(ours, theirs, before, _connection_of(store), child_connection)


def _claim_all(store: SqlJobStore) -> list[str]:
    claimed = []
    while found := store.claim(1):
        claimed += [each.job.id for each in found]
    return claimed


def _connection_of(store: SqlJobStore) -> str:
    """Return what tells a connection apart, for the server or in this process."""
    own = {
        "postgresql": "SELECT pg_backend_pid()",
        "mariadb": "SELECT connection_id()",
    }.get(store.engine.dialect.name)
    with store.engine.connect() as connection:
        if own is None:
            return f"{os.getpid()}:{id(connection.connection.dbapi_connection)}"
        return str(connection.exec_driver_sql(own).scalar_one())


def die_in_turn(_ready: Ready, database: str) -> None:
    """Have the turn, say so by a file, and be killed once asked to by another."""
    asking = turn_for(database).ask()
    assert asking.over()
    Path(f"{database}-held").touch()
    wait_until(Path(f"{database}-die").exists, "leave to die")
    os.kill(os.getpid(), signal.SIGKILL)


def fork_in_turn(_ready: Ready, database: str) -> dict[str, bool]:
    """Fork while another thread has the turn; tell who can have it when."""
    turn = turn_for(database)
    asking = turn.ask()
    assert Running(asking.over).result()
    told, tell = os.pipe()
    asked, ask = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            early = turn.ask()
            os.write(tell, bytes([early.over()]))
            early.end()
            os.read(asked, 1)
            os.write(tell, bytes([turn.ask().over()]))
            os.read(asked, 1)
            code = 0
        finally:
            os._exit(code)
    seen = {"in the child while the parent has it": os.read(told, 1) == b"\1"}
    asking.end()
    os.write(ask, b".")
    seen["in the child afterwards"] = os.read(told, 1) == b"\1"
    late = turn.ask()
    seen["in the parent while the child has it"] = late.over()
    late.end()
    os.write(ask, b".")
    assert os.waitpid(child, 0)[1] == 0
    assert turn.ask().over()
    return seen


def write_with(store: SqlJobStore, seconds: float) -> list[float]:
    """Claim and complete for a while; return how long each call took."""
    took = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        began = time.monotonic()
        found = store.claim(1)
        took.append(time.monotonic() - began)
        for each in found:
            began = time.monotonic()
            assert store.complete(each.job.id, each.handoff_id).accepted
            took.append(time.monotonic() - began)
    return took


def write_for(ready: Ready, url: str, prefix: str, seconds: float) -> list[float]:
    """Write in a process of its own."""
    with opened(url, prefix) as (store, _troubles):
        store.ensure_ready()
        ready()
        return write_with(store, seconds)


def claim_for(
    ready: Ready, url: str, prefix: str, seconds: float
) -> tuple[int, Counter[str]]:
    """Claim and complete for a while what another process enqueues."""
    with opened(url, prefix) as (store, troubles):
        store.ensure_ready()
        ready()
        write_with(store, seconds)
        return store.counts()[JobStatus.COMPLETED], troubles


def enqueue_for(
    ready: Ready, url: str, prefix: str, seconds: float
) -> tuple[int, Counter[str]]:
    """Enqueue for a while; return how many jobs."""
    made = 0
    with opened(url, prefix) as (store, troubles):
        store.ensure_ready()
        ready()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            store.enqueue("job", [made])
            made += 1
    return made, troubles
