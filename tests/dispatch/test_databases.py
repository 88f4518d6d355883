"""A worker on each database, undisturbed and with calls that fail at random."""

import random
import secrets
import threading

from collections import Counter
from collections.abc import Iterator, Mapping

import pytest

from sqlalchemy import text
from sqlalchemy.orm import Session

from jobfence.dispatch import JobApp, Reschedule, acks, current_job
from jobfence.dispatch.events import (
    AcknowledgementStale,
    JobCompleted,
    JobFailed,
)
from jobfence.statemachine.errors import StoreUnavailable
from jobfence.statemachine.options import JobRequest
from jobfence.statemachine.retry import ExponentialRetry
from jobfence.statemachine.states import JobStatus
from jobfence.store.memory import MemoryJobStore
from jobfence.store.sql.store import SqlJobStore
from tests.dispatch.support import Recorder, Staged, as_store, idle

SOON = ExponentialRetry(base_ms=1, max_ms=1)


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def store(
    request: pytest.FixtureRequest, database_urls: Mapping[str, str]
) -> Iterator[SqlJobStore]:
    if request.param not in database_urls:
        pytest.skip(f"{request.param} does not answer")
    prefix = f"jfd{secrets.token_hex(4)}_"
    store = SqlJobStore(
        database_urls[request.param], table_prefix=prefix, retry_policy=SOON
    )
    store.ensure_ready()
    yield store
    store.tables.metadata.drop_all(store.engine)
    with store.engine.begin() as connection:
        connection.execute(text(f"DROP TABLE IF EXISTS {prefix}paid"))
    store.close()


class Shop:
    """An app with one job for each way to end, and a table of its own beside."""

    def __init__(self, store: SqlJobStore) -> None:
        self.store = store
        self.app = JobApp(store)
        self.paid_table = f"{store.tables.prefix}paid"
        with store.engine.begin() as connection:
            connection.execute(text(f"CREATE TABLE {self.paid_table} (who INTEGER)"))
        self.app.job("return")(self.returns)
        self.app.job("areturn")(self.areturns)
        self.app.job("retry", max_retries=1)(self.retry)
        self.app.job("fail", max_retries=0)(self.fail)
        self.app.job("later")(self.later)
        self.app.job("pay", max_retries=0)(self.pay)

    def returns(self, number: int) -> None: ...

    async def areturns(self, number: int) -> None: ...

    def retry(self, number: int) -> None:
        if current_job().job.attempts == 0:
            raise ValueError(number)

    def fail(self, number: int) -> None:
        raise ValueError(number)

    def later(self, number: int) -> None:
        if current_job().handoff.fence == 1:
            raise Reschedule(1)

    def pay(self, number: int, *, lose: bool = False) -> None:
        if lose:
            self.store.recover_handed_off()  # as if the worker were taken for dead
        insert = text(f"INSERT INTO {self.paid_table} VALUES (:who)")  # noqa: S608
        with Session(self.store.engine) as s, current_job().transaction(s) as session:
            session.execute(insert, {"who": number})

    def paid(self) -> list[int]:
        select = text(f"SELECT who FROM {self.paid_table} ORDER BY who")  # noqa: S608
        with self.store.engine.connect() as connection:
            return list(connection.scalars(select))


def test_every_way_to_end_on_each_database(store: SqlJobStore) -> None:
    shop, seen = Shop(store), Recorder()
    for number in range(5):
        for name in shop.app.registry.names:
            shop.app.enqueue(name, number)
    with shop.app.running(concurrency=4, events=seen, poll_ms=50) as worker:
        while store.counts()[JobStatus.QUEUED]:  # a retry is a millisecond away
            idle(worker)
    counts = {status: n for status, n in store.counts().items() if n}
    assert counts == {JobStatus.COMPLETED: 25, JobStatus.FAILED: 5}
    assert len(seen.of(JobCompleted)) == 25
    assert len(seen.of(JobFailed)) == 5 + 5
    assert seen.stages() == []
    assert shop.paid() == list(range(5))


def test_R6_a_lost_handoff_commits_nothing_on_each_database(store: SqlJobStore) -> None:
    shop, seen = Shop(store), Recorder()
    job_id = shop.app.enqueue("pay", 1, lose=True)
    with shop.app.running(events=seen) as worker:
        idle(worker)
    job = store.get(job_id)
    assert job is not None
    assert (job.status, job.attempts) == (JobStatus.FAILED, 1)
    assert "interrupted" in str(job.last_error)
    assert len(seen.of(AcknowledgementStale)) == 1
    assert seen.of(JobFailed) == []
    assert shop.paid() == []


class Faults:
    """Calls that fail at random: before they are made, or after, their answer lost."""

    def __init__(self, seed: int, chance: float) -> None:
        self._random = random.Random(seed)
        self._chance = chance
        self._lock = threading.Lock()
        self.on = True
        self.count = 0

    def __call__(self, *_args: object, **_options: object) -> None:
        with self._lock:
            if not self.on or self._random.random() >= self._chance:
                return
            self.count += 1
        raise StoreUnavailable("staged", in_doubt=True)


@pytest.mark.parametrize("seed", range(5))
def test_whatever_calls_fail_each_job_ends_once_and_runs_once(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acks, "FIRST_RETRY_S", 0.001)
    monkeypatch.setattr(acks, "LONGEST_RETRY_S", 0.01)
    staged, faults = Staged(MemoryJobStore()), Faults(seed, 0.2)
    for method in ("settle", "next_scheduled", "handoffs_for_worker", "extend_leases"):
        staged.before[method] = staged.after[method] = faults
    app, seen = JobApp(as_store(staged)), Recorder()
    runs: Counter[int] = Counter()
    lock = threading.Lock()

    @app.job("n")
    def n(number: int) -> None:
        with lock:
            runs[number] += 1

    app.store.enqueue_many([JobRequest("n", [number]) for number in range(100)])
    with app.running(concurrency=4, heartbeat_ms=1, events=seen) as worker:
        idle(worker)
        faults.on = False
    assert faults.count > 5
    assert runs == Counter(range(100))
    assert app.store.counts()[JobStatus.COMPLETED] == 100
    completed = [event.handoff.job.id for event in seen.of(JobCompleted)]
    assert len(completed) == len(set(completed)) == 100
    assert seen.of(AcknowledgementStale) == []
