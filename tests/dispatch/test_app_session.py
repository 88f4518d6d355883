"""Enqueues of jobs in an app whose enqueues join a scoped session (T1)."""

import secrets

from collections.abc import Iterator, Mapping

import pytest

from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from jobfence.dispatch import JobApp, Reschedule, current_job
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import Job
from jobfence.store.sql.store import SqlJobStore
from tests.dispatch.support import Recorder, idle

LOOK = text("SELECT 1")


class Shop:
    """An application with its own sessions on the database of its jobs."""

    def __init__(self, url: str) -> None:
        self.engine = create_engine(url)
        self.sessions = scoped_session(sessionmaker(self.engine))
        self.store = SqlJobStore(
            self.engine, table_prefix=f"jfs{secrets.token_hex(4)}_"
        )
        self.store.ensure_ready()
        self.app = JobApp(self.store, session=self.sessions)
        self.app.job("child")(lambda: None)
        self.seen = Recorder()
        self.left_open: list[Session] = []

    def run(self) -> None:
        # One thread: what a job leaves open, the next one finds.
        with self.app.running(concurrency=1, events=self.seen) as worker:
            idle(worker)

    def put(self, *names: str) -> list[str]:
        """Enqueue from outside of a job."""
        return [self.store.enqueue(name, max_retries=0) for name in names]

    def children(self) -> list[JobStatus]:
        return [job.status for job in self.store.list_jobs(name="child")]

    def job(self, job_id: str) -> Job:
        found = self.store.get(job_id)
        assert found is not None
        return found

    def close(self) -> None:
        for session in self.left_open:
            session.close()
        self.sessions.remove()
        self.store.tables.metadata.drop_all(self.engine)
        self.engine.dispose()


@pytest.fixture(params=["sqlite", "postgresql"])
def shop(
    request: pytest.FixtureRequest, database_urls: Mapping[str, str]
) -> Iterator[Shop]:
    if request.param not in database_urls:
        pytest.skip(f"{request.param} does not answer")
    shop = Shop(database_urls[request.param])
    yield shop
    shop.close()


DONE = [JobStatus.COMPLETED]


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_job_s_enqueue_is_stored_though_nobody_commits_the_session(
    shop: Shop, kind: str
) -> None:
    def parent() -> None:
        shop.app.enqueue("child")

    async def aparent() -> None:
        await shop.app.aenqueue("child")

    shop.app.job("parent")(parent if kind == "def" else aparent)
    shop.put("parent")
    shop.run()
    assert shop.children() == DONE


def test_a_job_s_enqueue_joins_the_transaction_that_the_job_began(shop: Shop) -> None:
    seen: list[int] = []

    def count() -> None:
        seen.append(len(shop.children()))

    @shop.app.job("parent")
    def parent() -> None:
        shop.sessions().execute(LOOK)
        shop.app.enqueue("child")
        count()  # on another connection
        shop.sessions.rollback()
        shop.sessions().execute(LOOK)
        shop.app.enqueue("child")
        shop.sessions.commit()
        count()

    shop.put("parent")
    shop.run()
    assert seen == [0, 1]
    assert shop.children() == DONE


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_job_that_leaves_that_transaction_open_has_failed(
    shop: Shop, kind: str, *, later: bool
) -> None:
    def parent() -> None:
        shop.sessions().execute(LOOK)
        shop.app.enqueue("child")
        if later:
            raise Reschedule(0)

    async def aparent() -> None:
        parent()

    shop.app.job("parent")(parent if kind == "def" else aparent)
    (job_id,) = shop.put("parent")
    shop.run()
    assert shop.children() == []
    assert shop.job(job_id).status is JobStatus.FAILED
    assert "commit the session in the job" in str(shop.job(job_id).last_error)


def test_what_an_earlier_job_left_open_is_not_joined(shop: Shop) -> None:
    @shop.app.job("careless")
    def careless() -> None:
        shop.sessions().execute(LOOK)
        shop.left_open.append(shop.sessions())

    @shop.app.job("parent")
    def parent() -> None:
        shop.app.enqueue("child")

    shop.put("careless", "parent")
    shop.run()
    assert shop.children() == DONE


def test_an_enqueue_within_a_transaction_block_of_the_session_is_committed_by_it(
    shop: Shop,
) -> None:
    @shop.app.job("parent")
    def parent() -> None:
        with current_job().transaction(shop.sessions()):
            shop.app.enqueue("child")
            assert shop.children() == []

    (job_id,) = shop.put("parent")
    shop.run()
    assert shop.job(job_id).status is JobStatus.COMPLETED
    assert shop.children() == DONE
    assert shop.seen.stages() == []
