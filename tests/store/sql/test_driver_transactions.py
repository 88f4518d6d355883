"""Rules T1 and T2 on SQLite engines whose driver, or an event, begins and commits."""

import asyncio
import sqlite3
import sys

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from sqlalchemy import Connection, Engine, create_engine, event, select
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import create_async_engine

from jobfence.statemachine.errors import (
    IncompatibleSchema,
    InvalidOption,
    RetryableError,
)
from jobfence.store import AsyncSqlJobStore, SqlJobStore
from tests.store.sql.bench import World, only

IN_EVENT, IN_DRIVER = "begins in an event", "autocommit=False"
needs_attribute = pytest.mark.skipif(
    sys.version_info < (3, 12), reason="sqlite3 has no attribute autocommit yet"
)
both_kinds = pytest.mark.parametrize(
    "kind", [IN_EVENT, pytest.param(IN_DRIVER, marks=needs_attribute)]
)


def begin_in_event(engine: Engine) -> None:
    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN")


@contextmanager
def deferred(world: World, kind: str, *, timeout: float = 5) -> Iterator[Engine]:
    """Lend an engine of one connection that is in a deferred transaction by itself."""
    options: dict[str, object] = {"timeout": timeout}
    if kind == IN_DRIVER:
        options["autocommit"] = False
    engine = create_engine(
        world.database.url, connect_args=options, pool_size=1, max_overflow=0
    )
    if kind == IN_EVENT:
        begin_in_event(engine)
    try:
        yield engine
    finally:
        engine.dispose()


@contextmanager
def committing_nothing(world: World) -> Iterator[Engine]:
    engine = create_engine(world.database.url, connect_args={"autocommit": True})
    try:
        yield engine
    finally:
        engine.dispose()


@contextmanager
def writer(world: World, *, timeout: float = 0) -> Iterator[sqlite3.Connection]:
    path = make_url(world.database.url).database
    assert path is not None
    other = sqlite3.connect(path, timeout=timeout, isolation_level=None)
    try:
        yield other
    finally:
        other.close()


def write_lock_is_held(world: World) -> bool:
    with writer(world) as other:
        try:
            other.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
    return False


ways: list[Callable[[SqlJobStore], object]] = [
    lambda store: store.enqueue("job"),
    lambda store: store.counts(),
    lambda store: store.ensure_ready(),
]


@only("sqlite")
@needs_attribute
@pytest.mark.parametrize("way", ways, ids=["write", "read", "ready"])
def test_F22_an_engine_whose_commits_do_nothing_is_refused(
    world: World, way: Callable[[SqlJobStore], object]
) -> None:
    heard: list[str] = []
    with committing_nothing(world) as engine:
        store = world.store(engine)
        store.on_commit_wake(lambda: heard.append("wake"))
        with pytest.raises(
            InvalidOption, match=r"engine must leave .* not 'autocommit=True'"
        ):
            way(store)
        assert not write_lock_is_held(world)
    assert heard == []
    assert world.statuses() == {}


@only("sqlite")
@needs_attribute
@pytest.mark.parametrize("begins", [False, True])
def test_T1_a_connection_whose_commits_do_nothing_is_refused(
    world: World,
    begins: bool,  # noqa: FBT001  a value of the test
) -> None:
    with committing_nothing(world) as engine:
        if begins:
            begin_in_event(engine)
        with engine.connect() as connection:
            joined = world.store().within(connection)
            for way in ways:
                with pytest.raises(InvalidOption, match="AUTOCOMMIT"):
                    way(joined)
            assert not write_lock_is_held(world)
    assert world.statuses() == {}


@only("sqlite")
@needs_attribute
@pytest.mark.parametrize("own_thread", [False, True])
def test_F22_an_async_engine_whose_commits_do_nothing_is_refused(
    world: World,
    own_thread: bool,  # noqa: FBT001  a value of the test
) -> None:
    async def refused() -> None:
        url = make_url(world.database.url).set(drivername="sqlite+aiosqlite")
        options = {"autocommit": True, "check_same_thread": own_thread}
        engine = create_async_engine(url, connect_args=options)
        store = AsyncSqlJobStore(engine, table_prefix=world.prefix)
        try:
            with pytest.raises(InvalidOption, match="autocommit=True"):
                await store.enqueue("job")
            with pytest.raises(InvalidOption, match="autocommit=True"):
                await store.counts()
            async with engine.connect() as connection:
                with pytest.raises(InvalidOption, match="AUTOCOMMIT"):
                    await store.within(connection).enqueue("job")
        finally:
            await engine.dispose()

    asyncio.run(refused())
    assert not write_lock_is_held(world)
    assert world.statuses() == {}


@only("sqlite")
@both_kinds
def test_T1_an_engine_that_begins_deferred_serves_its_own_and_joined_calls(
    bare: World, kind: str
) -> None:
    with deferred(bare, kind) as engine:
        store = bare.store(engine)
        own = store.enqueue("own")
        with engine.connect() as connection:
            store.within(connection).enqueue("undone")
            connection.rollback()
            kept = store.within(connection).enqueue("kept")
            connection.commit()
        (held, _) = store.claim(2)
        assert store.complete(own, held.handoff_id).accepted
    assert bare.statuses() == {own: "completed", kept: "handed_off"}


@only("sqlite")
@needs_attribute
def test_T1_an_async_engine_with_autocommit_false_serves_its_own_and_joined_calls(
    world: World,
) -> None:
    async def life() -> set[str]:
        url = make_url(world.database.url).set(drivername="sqlite+aiosqlite")
        engine = create_async_engine(url, connect_args={"autocommit": False})
        store = AsyncSqlJobStore(engine, table_prefix=world.prefix)
        try:
            own = await store.enqueue("own")
            async with engine.connect() as connection:
                await store.within(connection).enqueue("undone")
                await connection.rollback()
                kept = await store.within(connection).enqueue("kept")
                await connection.commit()
            return {own, kept}
        finally:
            await engine.dispose()

    written = asyncio.run(life())
    assert set(world.statuses()) == written


@only("sqlite")
@both_kinds
def test_T2_a_busy_database_is_tried_again_and_then_said_to_be_busy(
    world: World, kind: str
) -> None:
    with deferred(world, kind, timeout=0) as engine, writer(world) as other:
        store = world.store(engine)
        store.ensure_ready()
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(RetryableError, match=r"5 times.*locked"):
            store.enqueue("refused")
        other.execute("ROLLBACK")
        mine = store.enqueue("mine")
    assert list(world.statuses()) == [mine]


@only("sqlite")
@both_kinds
def test_F65_joining_a_deferred_transaction_takes_the_write_lock_before_it_reads(
    world: World, kind: str
) -> None:
    with deferred(world, kind) as engine:
        store = world.store(engine)
        store.ensure_ready()
        with engine.connect() as connection:
            store.within(connection).counts()
            assert write_lock_is_held(world)
            connection.rollback()
            assert not write_lock_is_held(world)
            job_id = store.within(connection).enqueue("job")
            connection.commit()
    assert list(world.statuses()) == [job_id]


@only("sqlite")
@both_kinds
def test_T1_a_call_that_only_reads_goes_on_in_a_transaction_that_is_behind(
    world: World, kind: str
) -> None:
    with deferred(world, kind, timeout=0) as engine:
        store = world.store(engine)
        store.ensure_ready()
        with engine.connect() as connection:
            connection.execute(select(world.tables.jobs.c.id)).all()
            world.store().enqueue("other")
            assert set(store.within(connection).counts().values()) == {0}
            with pytest.raises(RetryableError, match="run it again"):
                store.within(connection).enqueue("job")
            connection.rollback()
            assert sum(store.within(connection).counts().values()) == 1


@only("sqlite")
@both_kinds
def test_T1_a_deferred_transaction_without_the_tables_gets_them(
    bare: World, kind: str
) -> None:
    with deferred(bare, kind) as engine:
        store = bare.store(engine)
        with engine.begin() as connection:
            job_id = store.within(connection).enqueue("job")
        assert list(bare.statuses()) == [job_id]
        bare.tables.metadata.drop_all(engine)
        with (
            engine.begin() as connection,
            pytest.raises(IncompatibleSchema, match="missing"),
        ):
            store.within(connection).enqueue("job")


@only("sqlite")
@both_kinds
def test_T1_a_deferred_transaction_that_may_only_read_can_be_joined(
    world: World, kind: str
) -> None:
    job_id = world.store().enqueue("job")
    with deferred(world, kind) as engine, engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA query_only = 1")
        joined = world.store().within(connection)
        assert [job.id for job in joined.list_jobs()] == [job_id]
