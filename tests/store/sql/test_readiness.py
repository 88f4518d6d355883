"""The S rules: making the tables, looking at them, and refusing those of others."""

import re
import secrets
import threading

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    MetaData,
    Table,
    create_engine,
    delete,
    event,
    insert,
    select,
)
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import DropIndex

from jobfence.statemachine.errors import IncompatibleSchema, StoreUnavailable
from jobfence.statemachine.states import JobStatus
from jobfence.store import SqlJobStore
from jobfence.store.dialects.engines import make_engine
from jobfence.store.sql.readiness import ddl
from jobfence.store.sql.schema import VERSION
from tests.store.sql.bench import Database, World, only
from tests.store.sql.faults import current_session
from tests.store.sql.waiting import kill

PATIENCE_S = 30


def tables_there(world: World) -> set[str]:
    names = world.database.inspect().get_table_names()
    return {name for name in names if name.startswith(world.prefix)}


def tables_declared(world: World) -> set[str]:
    found = world.tables.tables_for(world.database.dialect)
    return {table.name for table in found}


def indexes_there(world: World) -> dict[str, list[str | None]]:
    """Return the columns of every index of the jobs table, by name."""
    found = world.database.inspect().get_indexes(f"{world.prefix}jobs")
    return {str(index["name"]): index["column_names"] for index in found}


def ledger(world: World) -> list[int]:
    return [row["version"] for row in world.rows(world.tables.migrations)]


def test_A26_three_readiness_calls_at_once_make_everything_once(bare: World) -> None:
    barrier = threading.Barrier(3)
    stores = [
        SqlJobStore(bare.database.url, table_prefix=bare.prefix) for _ in range(3)
    ]

    def make(store: SqlJobStore) -> None:
        barrier.wait(PATIENCE_S)
        store.ensure_ready()

    try:
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(make, stores))
    finally:
        for store in stores:
            store.close()

    assert tables_there(bare) == tables_declared(bare)
    found = indexes_there(bare)
    # The database's own index of a unique constraint is there as well.
    unique = f"{bare.prefix}jobs_last_handoff_id_key"
    assert set(found) - {unique} == bare.index_names()
    # Where there are no partial indexes the status stands in for the WHERE.
    leading = ["status"] if bare.name == "mariadb" else []
    assert found[f"{bare.prefix}jobs_dedupe"] == [*leading, "args_digest"]
    assert ledger(bare) == list(range(1, VERSION + 1))
    columns = bare.database.inspect().get_columns(f"{bare.prefix}jobs")
    (digest,) = (each for each in columns if each["name"] == "args_digest")
    assert getattr(digest["type"], "length", None) == 64
    second = bare.store()
    second.ensure_ready(create=False)
    assert second.get(second.enqueue("thumbnail")) is not None


def test_A28_dropped_indexes_are_rebuilt_and_jobs_stay(world: World) -> None:
    store = world.store()
    job_id = store.enqueue("thumbnail")
    (due, *_) = (name for name in world.index_names() if name.endswith("_due"))
    indexes = world.tables.indexes_for(world.tables.jobs, world.database.dialect)
    for index in indexes:
        world.execute_ddl(DropIndex(index))
    assert due not in indexes_there(world)
    with pytest.raises(IncompatibleSchema, match=due):
        world.store().ensure_ready(create=False)
    assert due not in indexes_there(world)

    fresh = world.store()
    fresh.ensure_ready()
    assert set(indexes_there(world)) >= world.index_names()
    assert [job.id for job in fresh.list_jobs()] == [job_id]


def test_A137_a_lost_idempotency_table_is_made_again(world: World) -> None:
    job_id = world.store().enqueue("thumbnail", idempotency_key="k")
    world.tables.idempotency.drop(world.database.engine)
    fresh = world.store()
    again = fresh.enqueue("thumbnail", idempotency_key="k")
    assert again != job_id
    assert fresh.enqueue("thumbnail", idempotency_key="k") == again
    assert set(world.statuses()) == {job_id, again}


def test_K3_a_lost_owner_table_is_rebuilt_with_the_highest_orders(
    world: World,
) -> None:
    store = world.store()
    kept = ("queued", "held", "ended", "cancelled", "marked", "detached")
    for key in kept:
        store.replace_scheduled(key, "report", [key])
    store.replace_scheduled("queued", "report", [2])
    handoffs = {each.job.schedule_key: each for each in store.claim(10)}
    store.replace_scheduled("detached", "report", [2], scheduled_at=9000)
    for key in ("queued", "cancelled"):
        each = handoffs[key]
        assert store.return_to_queue(each.job.id, each.handoff_id).accepted
    assert store.complete(handoffs["ended"].job.id, handoffs["ended"].handoff_id)
    store.cancel_scheduled("cancelled")
    store.cancel_scheduled("marked")
    owners = world.rows(world.tables.schedule_keys)
    before = {row["schedule_key"]: (row["job_id"], row["last_order"]) for row in owners}
    assert before["queued"][1] == before["detached"][1] == 2

    world.tables.schedule_keys.drop(world.database.engine)
    fresh = world.store()
    fresh.ensure_ready()
    owners = world.rows(world.tables.schedule_keys)
    after = {row["schedule_key"]: (row["job_id"], row["last_order"]) for row in owners}
    assert after == before
    assert fresh.replace_scheduled("ended", "report").previous_job_id is None
    last = world.rows(world.tables.jobs)[-1]
    assert (last["schedule_key"], last["schedule_order"]) == ("ended", 2)


def owners_of(world: World) -> dict[str, tuple[str | None, int]]:
    """Return (job, last order) by schedule key."""
    return {
        row["schedule_key"]: (row["job_id"], row["last_order"])
        for row in world.rows(world.tables.schedule_keys)
    }


@only("postgresql", "mariadb")
def test_K3_owners_are_rebuilt_though_the_connection_is_lost_before_they_are_written(
    world: World,
) -> None:
    store = world.store()
    for key in ("a", "b", "b"):
        store.replace_scheduled(key, "report")
    before = owners_of(world)
    world.tables.schedule_keys.drop(world.database.engine)
    engine = make_engine(world.database.url)
    session = current_session(world, engine)
    undo = failing_once(
        engine,
        f"INSERT INTO {world.prefix}schedule_keys",
        lambda _: kill(world, session()),
    )
    try:
        world.store(engine).ensure_ready()
    finally:
        undo()
        engine.dispose()
    assert owners_of(world) == before
    assert ledger(world) == list(range(1, VERSION + 1))


@only("mariadb")
def test_K3_owners_are_rebuilt_beside_those_that_are_written_before_the_next_start(
    world: World,
) -> None:
    store = world.store()
    for key in ("a", "b", "b"):
        store.replace_scheduled(key, "report")
    before = owners_of(world)
    world.tables.schedule_keys.drop(world.database.engine)
    engine = make_engine(world.database.url)

    def end(_: str) -> None:
        raise KeyboardInterrupt

    undo = failing_once(engine, f"INSERT INTO {world.prefix}schedule_keys", end)
    try:
        with pytest.raises(KeyboardInterrupt):
            world.store(engine).ensure_ready()
    finally:
        undo()
        engine.dispose()
    # A process that was ready before goes on with the empty table.
    new = store.replace_scheduled("c", "report")
    with pytest.raises(IncompatibleSchema, match="the ledger"):
        world.store().ensure_ready(create=False)
    current = world.store().scheduled_job("b").current
    assert current is not None
    assert current.id == before["b"][0]
    assert owners_of(world) == before | {"c": (new.job_id, 1)}


def test_S2_a_lost_ledger_is_written_again(world: World) -> None:
    job_id = world.store().enqueue("thumbnail")
    world.tables.migrations.drop(world.database.engine)
    world.store().ensure_ready()
    assert ledger(world) == list(range(1, VERSION + 1))
    world.execute(delete(world.tables.migrations))
    world.store().ensure_ready()
    assert ledger(world) == list(range(1, VERSION + 1))
    assert list(world.statuses()) == [job_id]


def test_S2_a_newer_version_is_refused_and_nothing_changes(world: World) -> None:
    newer = {"version": VERSION + 1, "at_ms": 0}
    world.execute(insert(world.tables.migrations).values(newer))
    before = world.everything()
    try:
        for create in (True, False):
            with pytest.raises(IncompatibleSchema) as refusal:
                world.store().ensure_ready(create=create)
            assert f"version {VERSION + 1}" in str(refusal.value)
            assert "upgrade" in str(refusal.value)
        with pytest.raises(IncompatibleSchema):
            world.store().enqueue("thumbnail")
        assert world.everything() == before
    finally:
        table = world.tables.migrations
        world.execute(delete(table).where(table.c.version > VERSION))


def test_S2_a_table_without_its_columns_is_named_and_nothing_is_dropped(
    bare: World,
) -> None:
    store = bare.store()
    job_id = store.enqueue("thumbnail")
    for name in ("origin_id", "last_error"):
        bare.sql(f"ALTER TABLE {{p}}jobs DROP COLUMN {name}")
    for create in (True, False):
        with pytest.raises(IncompatibleSchema) as refusal:
            bare.store().ensure_ready(create=create)
        assert refusal.value.table == f"{bare.prefix}jobs"
        assert refusal.value.columns == ("last_error", "origin_id")
        assert f"{bare.prefix}jobs has no column last_error, origin_id" in str(
            refusal.value
        )
    with bare.database.engine.connect() as connection:
        found = connection.execute(select(bare.tables.jobs.c.id)).scalars().all()
    assert found == [job_id]
    assert tables_there(bare) == tables_declared(bare)
    # A store that was ready before says it too, from the statement that fails.
    with pytest.raises(IncompatibleSchema, match="column"):
        store.enqueue("thumbnail")


def test_S2_somebody_elses_table_of_that_name_is_refused(bare: World) -> None:
    bare.sql("CREATE TABLE {p}jobs (number INTEGER)")
    with pytest.raises(IncompatibleSchema) as refusal:
        bare.store().ensure_ready()
    assert "another table_prefix" in str(refusal.value)
    assert "args_digest" in refusal.value.columns
    assert tables_there(bare) == {f"{bare.prefix}jobs"}


def test_S4_with_create_false_nothing_is_made(bare: World) -> None:
    store = bare.store()
    with pytest.raises(IncompatibleSchema) as refusal:
        store.ensure_ready(create=False)
    assert all(name in str(refusal.value) for name in tables_declared(bare))
    assert tables_there(bare) == set()
    # Asked once to check only, the store keeps to it.
    with pytest.raises(IncompatibleSchema):
        store.enqueue("thumbnail")
    assert tables_there(bare) == set()


def test_S4_the_printed_statements_make_what_a_check_accepts(bare: World) -> None:
    dialect = bare.database.engine.dialect
    with bare.database.engine.begin() as connection:
        for statement in ddl(bare.tables, dialect):
            connection.exec_driver_sql(statement.replace("%", "%%"))
    store = bare.store()
    store.ensure_ready(create=False)
    assert store.claim_job(store.enqueue("thumbnail")) is not None


def test_S1_the_longest_prefix_in_mixed_case_fits_every_name(
    database: Database,
) -> None:
    world = World(database, f"Jobs_Of_{secrets.token_hex(11)}")
    assert len(world.prefix) == 30
    try:
        store = world.store()
        job_id = store.enqueue("thumbnail", deduplicate_while_queued=True)
        world.store().ensure_ready(create=False)
        assert set(indexes_there(world)) >= world.index_names()
        assert store.claim_job(job_id) is not None
    finally:
        world.tables.metadata.drop_all(database.engine)


def test_readiness_writes_nothing_the_second_time(world: World) -> None:
    world.store().enqueue("thumbnail")
    before = world.everything()
    store = world.store()
    store.ensure_ready()
    store.ensure_ready()
    assert world.everything() == before


def test_F86_a_pool_of_size_one_is_enough(bare: World) -> None:
    engine = create_engine(
        bare.database.url, pool_size=1, max_overflow=0, pool_timeout=0.5
    )
    try:
        store = bare.store(engine)
        store.ensure_ready()
        job_id = store.enqueue("thumbnail", deduplicate_while_queued=True)
        assert store.claim_job(job_id) is not None
    finally:
        engine.dispose()


def failing_once(
    engine: Engine, pattern: str, act: Callable[[str], None]
) -> Callable[[], None]:
    """Do something just before the first statement that matches; return the undo."""
    done: list[str] = []

    def before(
        connection: Connection, cursor: object, statement: str, *_: object
    ) -> None:
        if not done and re.match(pattern, statement.strip()):
            done.append(statement)
            act(statement)

    event.listen(engine, "before_cursor_execute", before)
    return lambda: event.remove(engine, "before_cursor_execute", before)


@only("mariadb")
@pytest.mark.parametrize("pattern", ["CREATE TABLE", "CREATE INDEX", "ALTER TABLE"])
def test_S1_what_another_process_has_just_made_is_looked_at_again(
    bare: World, pattern: str
) -> None:
    if pattern == "ALTER TABLE":
        bare.store().ensure_ready()
        bare.sql("ALTER TABLE {p}schedule_keys DROP COLUMN last_order")
        bare.execute(delete(bare.tables.migrations))

    def other(statement: str) -> None:
        with bare.database.engine.begin() as connection:
            connection.exec_driver_sql(statement)

    engine = make_engine(bare.database.url)
    undo = failing_once(engine, pattern, other)
    try:
        bare.store(engine).ensure_ready()
    finally:
        undo()
        engine.dispose()
    assert tables_there(bare) == tables_declared(bare)
    assert set(indexes_there(bare)) >= bare.index_names()
    assert ledger(bare) == list(range(1, VERSION + 1))


def test_A29_tables_made_in_a_transaction_that_is_undone_are_made_again(
    bare: World,
) -> None:
    store = bare.store()
    if bare.name == "mariadb":
        with (
            pytest.raises(IncompatibleSchema, match="inside your transaction"),
            bare.database.stock.begin() as connection,
        ):
            store.within(connection).ensure_ready()
        assert tables_there(bare) == set()
        store.ensure_ready()
    else:
        with bare.undone() as connection:
            joined = store.within(connection)
            joined.ensure_ready()
            joined.enqueue("lost")
        assert tables_there(bare) == set()
    job_id = store.enqueue("kept")
    assert list(bare.statuses()) == [job_id]
    assert tables_there(bare) == tables_declared(bare)


@only("sqlite", "postgresql")
def test_S3_tables_made_in_a_transaction_are_remembered_once_it_is_committed(
    bare: World,
) -> None:
    store = bare.store()
    with bare.database.stock.begin() as connection:
        job_id = store.within(connection).enqueue("thumbnail")
    assert list(bare.statuses()) == [job_id]
    bare.tables.metadata.drop_all(bare.database.engine)
    with pytest.raises(IncompatibleSchema, match=r"call ensure_ready\(\)"):
        store.get(job_id)
    store.ensure_ready()
    assert store.get(job_id) is None


@only("sqlite", "postgresql")
def test_S3_tables_are_not_remembered_when_the_commit_fails(
    bare: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = bare.store()
    dialect = bare.database.stock.dialect

    def fail(_: object) -> None:
        raise dialect.loaded_dbapi.OperationalError("no space for the commit")

    heard: list[str] = []
    store.on_commit_wake(lambda: heard.append("wake"))
    with monkeypatch.context() as patch, bare.database.stock.connect() as connection:
        transaction = connection.begin()
        store.within(connection).enqueue("thumbnail")
        patch.setattr(dialect, "do_commit", fail)
        with pytest.raises(DBAPIError):
            transaction.commit()
        transaction.close()
    assert heard == []
    assert tables_there(bare) == set()
    job_id = store.enqueue("thumbnail")
    assert bare.statuses() == {job_id: JobStatus.QUEUED}


@only("postgresql", "mariadb")
def test_a_first_call_in_an_open_transaction_does_not_block_another(
    world: World,
) -> None:
    with (
        world.database.stock.begin() as first,
        world.database.stock.begin() as second,
    ):
        for connection in (first, second):
            world.impatient(connection)
        one = world.store().within(first).enqueue("one")
        two = world.store().within(second).enqueue("two")
    assert set(world.statuses()) == {one, two}


def place(world: World) -> tuple[Engine, str]:
    """Make a database schema beside the usual one, and an engine that sees it."""
    name = f"{world.prefix}place"
    engine = make_engine(world.database.url)
    if world.name == "sqlite":

        @event.listens_for(engine, "connect")
        def attach(driver: object, _: object) -> None:
            driver.execute(f"ATTACH DATABASE ':memory:' AS {name}")  # type: ignore[attr-defined]

    else:
        with engine.begin() as connection:
            connection.exec_driver_sql(f"CREATE SCHEMA {name}")
    return engine, name


def test_S4_schema_places_the_tables(bare: World) -> None:
    engine, name = place(bare)
    try:
        store = SqlJobStore(engine, table_prefix=bare.prefix, schema=name)
        job_id = store.enqueue("thumbnail", deduplicate_while_queued=True)
        assert store.enqueue("thumbnail", deduplicate_while_queued=True) == job_id
        assert store.claim_job(job_id) is not None
        second = SqlJobStore(engine, table_prefix=bare.prefix, schema=name)
        second.ensure_ready(create=False)
        assert tables_there(bare) == set()
        table = Table(f"{bare.prefix}jobs", MetaData(), Column("id"), schema=name)
        with engine.connect() as connection:
            assert connection.execute(select(table.c.id)).scalars().all() == [job_id]
    finally:
        if bare.name != "sqlite":
            cascade = " CASCADE" if bare.name == "postgresql" else ""
            with engine.begin() as connection:
                connection.exec_driver_sql(f"DROP SCHEMA {name}{cascade}")
        engine.dispose()


def test_S4_a_schema_that_is_not_there_is_named(bare: World) -> None:
    store = SqlJobStore(
        bare.database.engine, table_prefix=bare.prefix, schema="jf_nowhere"
    )
    with pytest.raises(IncompatibleSchema, match="no schema 'jf_nowhere'"):
        store.ensure_ready()
    assert tables_there(bare) == set()


def test_S2_a_lost_table_is_said_by_the_statement_that_misses_it(bare: World) -> None:
    store = bare.store()
    store.ensure_ready()
    bare.tables.metadata.drop_all(bare.database.engine)
    with pytest.raises(IncompatibleSchema, match=r"call ensure_ready\(\)"):
        store.counts()
    with pytest.raises(IncompatibleSchema):
        store.enqueue("thumbnail")
    assert not isinstance(IncompatibleSchema("x"), StoreUnavailable)
