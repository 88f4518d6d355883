"""`JobApp`: enqueues in the transactions of an application (T1)."""

import asyncio

from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlalchemy import create_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from jobfence.dispatch import JobApp
from jobfence.statemachine.errors import (
    UnsupportedCapability,
)
from jobfence.statemachine.states import JobStatus
from jobfence.store.memory import MemoryJobStore
from jobfence.store.sql.store import SqlJobStore
from tests.dispatch.support import (
    NEVER_MS,
    World,
    as_store,
    idle,
)


@pytest.fixture
def world() -> World:
    return World()


class Shop:
    """An application with its own sessions on the database of its jobs."""

    def __init__(self, path: Path) -> None:
        self.engine = create_engine(f"sqlite:///{path}")
        self.sessions = scoped_session(sessionmaker(self.engine))
        self.store = SqlJobStore(self.engine)
        self.app = JobApp(self.store, session=self.sessions)
        self.runs: list[int] = []
        self.app.job("n")(self.run)

    def run(self, number: int) -> None:
        self.runs.append(number)

    def close(self) -> None:
        self.sessions.remove()
        self.store.close()
        self.engine.dispose()


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(tmp_path / "jobs.db")
    shop.store.ensure_ready()
    yield shop
    shop.close()


def test_A40_a_job_enqueued_in_a_transaction_runs_after_its_commit(shop: Shop) -> None:
    with shop.app.running(poll_ms=NEVER_MS) as worker:
        job_id = shop.app.enqueue("n", 1)
        assert shop.store.get(job_id) is None  # another connection does not see it
        assert shop.runs == []
        shop.sessions.commit()
        idle(worker)
        assert shop.runs == [1]
    found = shop.store.get(job_id)
    assert found is not None
    assert found.status is JobStatus.COMPLETED


def test_A41_a_job_enqueued_in_a_transaction_that_fails_never_was(shop: Shop) -> None:
    earlier = shop.app.enqueue("n", 1)
    shop.sessions.commit()
    job_id = shop.app.enqueue("n", 2)
    shop.sessions.rollback()
    with shop.app.running(poll_ms=NEVER_MS) as worker:
        idle(worker)
    assert shop.runs == [1]
    assert shop.store.get(job_id) is None
    found = shop.store.get(earlier)
    assert found is not None
    assert found.status is JobStatus.COMPLETED


def test_aenqueue_joins_the_session_of_its_caller(shop: Shop) -> None:
    # A scoped session is another one on the thread that does the work.
    job_id = asyncio.run(shop.app.aenqueue("n", 1))
    assert shop.store.get(job_id) is None
    shop.sessions.commit()
    assert shop.store.get(job_id) is not None


def test_within_joins_the_transaction_it_is_given(shop: Shop) -> None:
    with Session(shop.engine) as session:
        kept = shop.app.options(queue="q").within(session).enqueue("n", 1)
        session.commit()
        dropped = shop.app.within(session).options(queue="q").enqueue("n", 2)
        session.rollback()
    found = shop.store.get(kept)
    assert found is not None
    assert found.queue == "q"
    assert shop.store.get(dropped) is None
    assert shop.app.within(session).clock is not None
    assert shop.app.within(session).registry is shop.app.registry


def test_a_store_that_cannot_join_is_refused_by_name(world: World) -> None:
    class Bare:
        """A store of somebody else's that has no `within`."""

        def settle(self) -> None: ...

    world.app.job("n")(lambda: None)
    session = Session()
    with pytest.raises(UnsupportedCapability, match="MemoryJobStore"):
        JobApp(
            MemoryJobStore(), registry=world.app.registry, session=lambda: session
        ).enqueue("n")
    bare = JobApp(Bare(), registry=world.app.registry)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedCapability, match="Bare"):
        bare.within(session).enqueue("n")
    assert as_store(world.staged).list_jobs() == []
