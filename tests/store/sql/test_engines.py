"""Engines: the settings of those the store makes, and what it leaves alone on others."""

import json
import subprocess
import sys
import time

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sqlalchemy import NullPool, create_engine
from sqlalchemy.engine import make_url

from jobfence.statemachine.values import Handoff
from jobfence.store import SqlJobStore
from jobfence.store.dialects import engines
from jobfence.store.dialects.engines import make_engine
from jobfence.store.dialects.rooms import room_for
from tests.store.sql.bench import Database, World, only


def ask(database: Database, question: str) -> Any:
    with database.engine.connect() as connection:
        return connection.exec_driver_sql(question).scalar_one()


@only("sqlite")
@pytest.mark.parametrize(
    ("pragma", "value"),
    [
        ("journal_mode", "wal"),
        ("synchronous", 2),  # FULL
        ("foreign_keys", 1),
        ("busy_timeout", 30_000),
    ],
)
def test_sqlite_is_durable_and_waits(
    database: Database, pragma: str, value: object
) -> None:
    assert ask(database, f"PRAGMA {pragma}") == value


class Asked(Exception):
    """What a driver would have been given."""


@pytest.mark.parametrize(
    ("url", "seconds"),
    [
        ("sqlite:///jobs.db", {"timeout": 30}),
        ("sqlite:///jobs.db?timeout=5", {"timeout": 5.0}),
        ("postgresql://h/d", {"connect_timeout": 10}),
        ("postgresql://h/d?connect_timeout=3", {"connect_timeout": "3"}),
        ("mysql://h/d", {"connect_timeout": 10}),
        ("mariadb://h/d?connect_timeout=3", {"connect_timeout": 3}),
    ],
)
def test_how_long_to_wait_is_for_the_url_to_say(
    monkeypatch: pytest.MonkeyPatch, url: str, seconds: dict[str, object]
) -> None:
    def connect(*_args: object, **options: object) -> None:
        raise Asked(options)

    engine = make_engine(url)
    monkeypatch.setattr(engine.dialect, "connect", connect)
    with pytest.raises(Asked) as asked:
        engine.connect()
    (options,) = asked.value.args
    assert {name: options[name] for name in seconds} == seconds


@only("mariadb")
def test_mariadb_is_strict_and_reads_what_is_committed(database: Database) -> None:
    assert "STRICT_TRANS_TABLES" in ask(database, "SELECT @@sql_mode")
    assert ask(database, "SELECT @@tx_isolation") == "READ-COMMITTED"
    assert ask(database, "SELECT @@character_set_client") == "utf8mb4"


@only("mariadb")
def test_mariadb_is_strict_where_the_server_is_not(world: World) -> None:
    url = make_url(world.database.url)
    engine = make_engine(url.update_query_dict({"init_command": "SET sql_mode = ''"}))
    job_id = world.store(engine).enqueue("job")
    with engine.connect() as connection:
        mode = connection.exec_driver_sql("SELECT @@sql_mode").scalar_one()
    engine.dispose()
    assert mode == "STRICT_TRANS_TABLES"
    assert list(world.statuses()) == [job_id]


@only("postgresql")
def test_postgresql_reads_what_is_committed(database: Database) -> None:
    setting = "SELECT current_setting('transaction_isolation')"
    assert ask(database, setting) == "read committed"


@only("postgresql", "mariadb")
@pytest.mark.parametrize("level", [None, "AUTOCOMMIT", "REPEATABLE READ"])
def test_a_level_is_set_for_each_transaction_only_where_it_is_another_one(
    world: World, monkeypatch: pytest.MonkeyPatch, level: str | None
) -> None:
    engine = make_engine(world.database.url)
    given = engine if level is None else engine.execution_options(isolation_level=level)
    store, set_to = world.store(given), []
    store.enqueue("job")
    plain = engine.dialect.set_isolation_level

    def noting(connection: Any, wanted: Any) -> None:
        set_to.append(wanted)
        plain(connection, wanted)

    monkeypatch.setattr(engine.dialect, "set_isolation_level", noting)
    assert store.claim() is not None
    engine.dispose()
    assert set_to[:1] == ([] if level is None else ["READ COMMITTED"])


@only("postgresql")
def test_F76_nothing_is_prepared_in_a_servers_session(world: World) -> None:
    # A transaction pooler hands the session to somebody else.
    store = world.store()
    for n in range(8):
        store.enqueue("job", [n])
        store.settle([], claim=1)
    with world.database.engine.connect() as connection:
        driver: Any = connection.connection.driver_connection
        assert driver.prepare_threshold is None
        assert "options" not in driver.info.get_parameters()
        question = "SELECT count(*) FROM pg_prepared_statements"
        assert connection.exec_driver_sql(question).scalar_one() == 0


@pytest.mark.parametrize(
    ("url", "driver"),
    [
        ("postgresql://u@h/d", "postgresql+psycopg"),
        ("mysql://u@h/d", "mysql+pymysql"),
        ("mariadb://u@h/d", "mariadb+pymysql"),
        ("sqlite:///jobs.db", "sqlite"),
        ("mariadb+pymysql://u@h/d", "mariadb+pymysql"),
    ],
)
def test_a_plain_url_takes_the_driver_of_its_extra(url: str, driver: str) -> None:
    engine = make_engine(url)
    assert engine.url.drivername == driver
    engine.dispose()


def test_a_store_closes_the_engine_it_made_and_can_be_used_again(world: World) -> None:
    store = SqlJobStore(world.database.url, table_prefix=world.prefix)
    job_id = store.enqueue("job")
    pool = store.engine.pool
    store.close()
    assert store.engine.pool is not pool
    assert store.get(job_id) is not None
    store.close()


def test_a_store_leaves_an_engine_of_the_callers_open(world: World) -> None:
    engine = create_engine(world.database.url)
    store = world.store(engine)
    store.enqueue("job")
    pool = engine.pool
    store.close()
    assert engine.pool is pool
    assert store.engine is engine
    engine.dispose()


@only("postgresql", "mariadb")
@pytest.mark.parametrize("level", ["REPEATABLE READ", "AUTOCOMMIT"])
def test_an_engine_of_the_callers_keeps_its_isolation_level(
    world: World, level: str
) -> None:
    engine = create_engine(
        world.database.url, isolation_level=level, pool_size=1, max_overflow=0
    )

    def as_it_is() -> tuple[str, bool]:
        with engine.connect() as connection:
            room = room_for(connection.dialect)
            return connection.get_isolation_level(), room.autocommit(connection)

    before = as_it_is()
    assert before[1] is (level == "AUTOCOMMIT")
    store = world.store(engine)
    job_id = store.enqueue("job", deduplicate_while_queued=True)
    # MySQL keeps a level beside autocommit, which is without effect there.
    assert as_it_is()[1] == before[1]
    assert level == "AUTOCOMMIT" or as_it_is() == before
    (handoff,) = store.claim()
    assert store.complete(job_id, handoff.handoff_id).accepted
    assert world.statuses() == {job_id: "completed"}
    engine.dispose()


def in_memory(url: str) -> None:
    store = SqlJobStore(url)
    ids = [store.enqueue("job", [n]) for n in range(40)]

    def drain(worker: str) -> list[Handoff]:
        mine: list[Handoff] = []
        while found := store.claim(2, worker_id=worker):
            for each in found:
                assert store.complete(each.job.id, each.handoff_id).accepted
            mine += found
        return mine

    with ThreadPoolExecutor(4) as pool:
        drained = list(pool.map(drain, ["a", "b", "c", "d"]))
    assert sorted(each.job.id for mine in drained for each in mine) == sorted(ids)
    store.close()


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:"])
def test_a_database_in_memory_serves_several_threads(url: str) -> None:
    in_memory(url)


class Driver:
    """A driver's connection whose first statements meet a busy database."""

    def __init__(self, *errors: Exception) -> None:
        self.errors, self.executed, self.closed = list(errors), list[str](), 0

    def cursor(self) -> "Driver":
        return self

    def execute(self, statement: str) -> None:
        self.executed.append(statement)
        if self.errors:
            raise self.errors.pop(0)

    def close(self) -> None:
        self.closed += 1


BUSY = OSError("database is locked")


def test_F67_switching_a_new_file_to_wal_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    driver = Driver(BUSY, BUSY)
    engines._set_up_sqlite(driver, None)  # noqa: SLF001
    assert driver.executed.count("PRAGMA journal_mode=WAL") == 3
    assert driver.executed[-2:] == ["PRAGMA synchronous=FULL", "PRAGMA foreign_keys=ON"]
    assert (len(pauses), driver.closed) == (2, 1)


@pytest.mark.parametrize(
    "errors", [[BUSY] * 1000, [OSError("disk I/O error")]], ids=["for ever", "another"]
)
def test_F67_but_not_for_ever_nor_for_another_reason(
    monkeypatch: pytest.MonkeyPatch, errors: list[Exception]
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    driver = Driver(*errors)
    with pytest.raises(OSError, match=str(errors[0])):
        engines._set_up_sqlite(driver, None)  # noqa: SLF001
    assert sum(pauses) <= 10
    assert driver.closed == 1


def test_F68_F77_a_fork_opens_connections_of_its_own(world: World) -> None:
    program = Path(__file__).with_name("forking.py")
    ran = subprocess.run(
        [sys.executable, "-W", "error", program, world.database.url, world.prefix],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.stderr == ""
    seen = json.loads(ran.stdout)
    assert seen["child"]["claimed"] == [seen["first"]]
    assert not seen["child"]["same connection"]
    assert seen["child ended with"] == 0
    # The parent's connection was not closed under it.
    before, after = seen["sessions of the parent"]
    assert before == after
    assert world.name == "sqlite" or seen["child"]["session"] != before
    assert seen["claimed by the parent"] == seen["second"]
    if world.name == "sqlite":
        assert ask(world.database, "PRAGMA integrity_check") == "ok"
    workers = {row["id"]: row["worker_id"] for row in world.rows(world.tables.jobs)}
    assert workers == {seen["first"]: "child", seen["second"]: "parent"}


def test_T4_the_store_needs_no_session_between_two_transactions(world: World) -> None:
    # As behind a pooler: each transaction on a session of its own.
    store = world.store(create_engine(world.database.url, poolclass=NullPool))
    twin = store.enqueue("job", deduplicate_while_queued=True)
    assert store.enqueue("job", deduplicate_while_queued=True) == twin
    owner = store.replace_scheduled("nightly", "report").job_id
    handoffs = store.claim(2)
    assert {each.job.id for each in handoffs} == {twin, owner}
    for each in handoffs:
        assert store.complete(each.job.id, each.handoff_id).accepted
    assert set(world.statuses().values()) == {"completed"}
