"""Rule T1: the store in a transaction of the caller's, on engines as anybody makes them."""

import sqlite3

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from sqlalchemy import (
    Column,
    Connection,
    Integer,
    MetaData,
    Table,
    create_engine,
    event,
    insert,
    select,
)
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from jobfence.statemachine.errors import (
    ConcurrencyConflict,
    HandoffIdInUse,
    IdempotencyConflict,
    IncompatibleSchema,
    InvalidOption,
    RetryableError,
)
from jobfence.statemachine.options import JobRequest
from jobfence.statemachine.policy import QueuePolicy
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import Settlement
from jobfence.store import SqlJobStore
from tests.store.sql.bench import World, only


@pytest.fixture
def effects(world: World) -> Iterator[Table]:
    """Give a table of the application's own."""
    table = Table(f"{world.prefix}effects", MetaData(), Column("n", Integer))
    table.create(world.database.engine, checkfirst=True)
    world.execute(table.delete())
    yield table
    table.drop(world.database.engine)


def numbers(world: World, effects: Table) -> list[int]:
    with world.database.engine.connect() as connection:
        return list(connection.execute(select(effects.c.n)).scalars())


Joining = Callable[
    [World], AbstractContextManager[tuple[Connection | Session, Connection]]
]


@contextmanager
def by_connection(world: World) -> Iterator[tuple[Connection, Connection]]:
    with world.database.stock.begin() as connection:
        yield connection, connection


@contextmanager
def by_session(world: World) -> Iterator[tuple[Session, Connection]]:
    with Session(world.database.stock) as session, session.begin():
        yield session, session.connection()


JOINING = pytest.mark.parametrize(
    "join", [by_connection, by_session], ids=["connection", "session"]
)


@JOINING
def test_T1_what_the_caller_commits_is_stored(
    world: World, effects: Table, join: Joining
) -> None:
    with join(world) as (caller, connection):
        connection.execute(insert(effects).values(n=1))
        job_id = world.store().within(caller).enqueue("thumbnail", [1])
        assert world.statuses() == {}
    assert world.statuses() == {job_id: "queued"}
    assert numbers(world, effects) == [1]


@JOINING
def test_A41_what_the_caller_rolls_back_was_never_there(
    world: World, effects: Table, join: Joining
) -> None:
    kept = world.store().enqueue("earlier")

    def fails() -> None:
        with join(world) as (caller, connection):
            connection.execute(insert(effects).values(n=1))
            joined = world.store().within(caller)
            lost = joined.enqueue("thumbnail", idempotency_key="k")
            joined.replace_scheduled(
                "nightly", "report", concurrency_key="c", max_concurrency=1
            )
            assert joined.get(lost) is not None
            raise ZeroDivisionError

    before = world.everything()
    with pytest.raises(ZeroDivisionError):
        fails()
    assert world.everything() == before
    assert list(world.statuses()) == [kept]
    assert numbers(world, effects) == []


def test_T1_a_connection_that_has_not_begun_is_begun_and_commits_as_you_go(
    world: World,
) -> None:
    with world.database.stock.connect() as connection:
        kept = world.store().within(connection).enqueue("one")
        assert connection.in_transaction()
        assert world.statuses() == {}
        connection.commit()
        world.store().within(connection).enqueue("two")
        connection.rollback()
    assert list(world.statuses()) == [kept]


def test_T1_the_joined_store_sees_what_is_not_committed_and_others_do_not(
    world: World,
) -> None:
    store = world.store()
    with world.database.stock.begin() as connection:
        joined = store.within(connection)
        job_id = joined.enqueue("thumbnail")
        assert joined.get(job_id) is not None
        assert joined.counts()[JobStatus.QUEUED] == 1
        assert [job.id for job in joined.list_jobs()] == [job_id]
        available = joined.next_available()
        assert available is not None
        assert available.id == job_id
        assert store.get(job_id) is None
        assert store.counts()[JobStatus.QUEUED] == 0


def bad_option(joined: SqlJobStore) -> None:
    joined.enqueue("thumbnail", priority=2**40)


def cap_conflict(joined: SqlJobStore) -> None:
    joined.enqueue_many(
        [
            JobRequest("refused"),
            JobRequest("refused", concurrency_key="capped", max_concurrency=9),
        ]
    )


def key_conflict(joined: SqlJobStore) -> None:
    joined.enqueue_many(
        [
            JobRequest("refused", idempotency_key="new"),
            JobRequest("first", [2], idempotency_key="taken"),
        ]
    )


def used_handoff(joined: SqlJobStore) -> None:
    joined.claim_job("j3", handoff_id="h1")


def wrong_cursor(joined: SqlJobStore) -> None:
    joined.list_jobs(after="nobody")


def not_ended(joined: SqlJobStore) -> None:
    joined.requeue("j1")


REFUSALS: list[tuple[Callable[[SqlJobStore], None], type[Exception]]] = [
    (bad_option, InvalidOption),
    (cap_conflict, ConcurrencyConflict),
    (key_conflict, IdempotencyConflict),
    (used_handoff, HandoffIdInUse),
    (wrong_cursor, InvalidOption),
    (not_ended, InvalidOption),
]


@pytest.mark.parametrize(
    ("refused", "error"), REFUSALS, ids=[each[0].__name__ for each in REFUSALS]
)
def test_T1_a_refusal_undoes_its_own_call_and_the_transaction_goes_on(
    world: World,
    effects: Table,
    refused: Callable[[SqlJobStore], None],
    error: type[Exception],
) -> None:
    store = world.store()
    store.enqueue("first", [1], idempotency_key="taken")
    store.claim_job(
        store.enqueue("second", concurrency_key="capped", max_concurrency=1)
    )
    store.enqueue("third")
    before = world.everything()
    with world.database.stock.begin() as connection:
        joined = store.within(connection)
        connection.execute(insert(effects).values(n=1))
        with pytest.raises(error):
            refused(joined)
        connection.execute(insert(effects).values(n=2))
        after = joined.enqueue("after")
    assert numbers(world, effects) == [1, 2]
    assert world.statuses().pop(after) == "queued"
    jobs = f"{world.prefix}jobs"
    now = world.everything()
    now[jobs] = [row for row in now[jobs] if row["id"] != after]
    assert now == before


def test_F35_a_twin_is_found_in_the_callers_transaction_which_stays_usable(
    world: World, effects: Table
) -> None:
    store = world.store()
    twin = store.enqueue("digest", [1], deduplicate_while_queued=True)
    with world.database.stock.begin() as connection:
        joined = store.within(connection)
        connection.execute(insert(effects).values(n=1))
        assert joined.enqueue("digest", [1], deduplicate_while_queued=True) == twin
        other = joined.enqueue("digest", [2], deduplicate_while_queued=True)
        connection.execute(insert(effects).values(n=2))
    assert numbers(world, effects) == [1, 2]
    assert set(world.statuses()) == {twin, other}


def test_E4_two_calls_in_one_transaction_do_not_block_themselves(world: World) -> None:
    store = world.store()
    with world.database.stock.begin() as connection:
        world.impatient(connection)
        joined = store.within(connection)
        first = joined.enqueue("digest", [1], deduplicate_while_queued=True)
        assert joined.enqueue("digest", [1], deduplicate_while_queued=True) == first
        keyed = joined.enqueue("mail", idempotency_key="k")
        assert joined.enqueue("mail", idempotency_key="k") == keyed
        joined.replace_scheduled("nightly", "report")
        again = joined.replace_scheduled("nightly", "report")
        assert again.previous_status is JobStatus.QUEUED
    assert world.statuses()[first] == world.statuses()[keyed] == "queued"
    assert len(world.statuses()) == 4


def test_R6_effects_and_completion_are_one_commit(world: World, effects: Table) -> None:
    store = world.store()
    job_id = store.enqueue("charge", concurrency_key="c", max_concurrency=1)
    (handoff,) = store.claim()
    with world.undone() as connection:
        connection.execute(insert(effects).values(n=1))
        assert store.within(connection).complete(job_id, handoff.handoff_id).accepted
    assert world.statuses() == {job_id: "handed_off"}
    assert (numbers(world, effects), world.counters()) == ([], {"c": (1, 1)})
    with world.database.stock.begin() as connection:
        connection.execute(insert(effects).values(n=2))
        assert store.within(connection).complete(job_id, handoff.handoff_id).accepted
    assert world.statuses() == {job_id: "completed"}
    assert (numbers(world, effects), world.counters()) == ([2], {"c": (1, 0)})


def test_R6_a_lost_handoff_is_seen_before_the_effects_are_committed(
    world: World, effects: Table
) -> None:
    store = world.store()
    job_id = store.enqueue("charge")
    (first,) = store.claim()
    store.return_to_queue(job_id, first.handoff_id)
    store.claim()
    before = world.everything()
    with world.undone() as connection:
        connection.execute(insert(effects).values(n=1))
        assert store.within(connection).complete(job_id, first.handoff_id).stale
    assert (numbers(world, effects), world.everything()) == ([], before)


def test_R6_every_acknowledgement_joins_the_transaction(world: World) -> None:
    store = world.store()
    ids = store.enqueue_many([JobRequest("job", [n]) for n in range(6)])
    by_id = {each.job.id: each for each in store.claim(6)}
    held = [by_id[job_id] for job_id in ids]

    def acknowledge(joined: SqlJobStore) -> None:
        assert joined.fail(ids[0], held[0].handoff_id, "no").accepted
        assert joined.reschedule(ids[1], held[1].handoff_id, delay_ms=9).accepted
        assert joined.return_to_queue(ids[2], held[2].handoff_id).accepted
        assert joined.extend_lease(ids[3], held[3].handoff_id, lease_ms=5).accepted
        acks, more = joined.settle([Settlement.complete(held[4])], claim=5)
        assert acks[0].accepted
        assert [each.job.id for each in more] == [ids[2]]
        joined.cancel(ids[5])

    before = world.everything()
    with world.undone() as connection:
        acknowledge(store.within(connection))
    assert world.everything() == before
    with world.joined() as joined:
        acknowledge(joined)
    assert list(world.statuses().values()) == [
        "queued",
        "queued",
        "handed_off",
        "handed_off",
        "completed",
        "handed_off",
    ]
    assert world.row(ids[3])["lease_expires_at_ms"] == world.clock.now_ms() + 5
    assert world.row(ids[5])["cancel_requested"] is True


def test_T1_calls_of_several_transactions_run_in_the_callers_one(world: World) -> None:
    store = world.store(queues={"capped": QueuePolicy(max_concurrent=1, priority=4)})
    for n in range(3):
        store.enqueue("job", [n], queue="capped")
        store.enqueue("old", [n])
    for handoff in store.claim(6, queues=["default"]):
        store.complete(handoff.job.id, handoff.handoff_id)
    world.clock.advance(10)
    before = world.everything()

    def maintain(joined: SqlJobStore) -> None:
        joined.reconcile_queue_policies()
        assert len(joined.claim(3, queues=["capped"])) == 1
        assert joined.prune_terminal(completed_ttl_ms=1, batch_size=2) == 3
        assert joined.reconcile_active_concurrency().repaired_count == 0

    with world.undone() as connection:
        maintain(store.within(connection))
    assert world.everything() == before
    with world.database.stock.begin() as connection:
        maintain(store.within(connection))
    assert sorted(world.statuses().values()) == ["handed_off", "queued", "queued"]
    assert world.counters() == {"queue:capped": (1, 1)}


def test_T1_a_savepoint_of_the_callers_undoes_the_job_in_it(world: World) -> None:
    with world.database.stock.begin() as connection:
        joined = world.store().within(connection)
        kept = joined.enqueue("kept")
        savepoint = connection.begin_nested()
        joined.enqueue("undone")
        savepoint.rollback()
        also = joined.enqueue("kept too")
    assert set(world.statuses()) == {kept, also}


def autocommitting(world: World, how: str) -> Iterator[Connection]:
    if how == "engine":
        engine = create_engine(world.database.url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            yield connection
        engine.dispose()
    else:
        with world.database.stock.connect() as connection:
            yield connection.execution_options(isolation_level="AUTOCOMMIT")


@pytest.mark.parametrize("how", ["engine", "connection"])
def test_T1_a_connection_in_autocommit_is_refused(world: World, how: str) -> None:
    for connection in autocommitting(world, how):
        joined = world.store().within(connection)
        with pytest.raises(InvalidOption, match="AUTOCOMMIT"):
            joined.enqueue("thumbnail")
        with pytest.raises(InvalidOption, match="AUTOCOMMIT"):
            joined.counts()
    assert world.statuses() == {}


def test_T1_what_is_no_transaction_is_refused(world: World) -> None:
    store = world.store()
    for other in ("connection", None, world.database.stock, AsyncSession()):
        with pytest.raises(InvalidOption, match="Connection or Session"):
            store.within(other)  # type: ignore[arg-type]


def test_T1_a_connection_of_another_kind_of_database_is_refused(
    world: World, database_urls: Mapping[str, str]
) -> None:
    others = [url for name, url in database_urls.items() if name != world.name]
    for url in others:
        engine = create_engine(url)
        with (
            engine.connect() as connection,
            pytest.raises(InvalidOption, match="this store's database"),
        ):
            world.store().within(connection)
        engine.dispose()


@only("sqlite")
def test_T1_a_connection_of_a_database_without_the_tables_is_refused(
    world: World, tmp_path: Path
) -> None:
    store = world.store()
    store.ensure_ready()
    engine = create_engine(f"sqlite:///{tmp_path}/other.db")
    with (
        engine.begin() as connection,
        pytest.raises(IncompatibleSchema, match="missing"),
    ):
        store.within(connection).enqueue("thumbnail")
    engine.dispose()


@only("mariadb")
def test_T1_an_engine_by_the_databases_other_name_is_the_same_database(
    world: World,
) -> None:
    engine = create_engine(make_url(world.database.url).set(drivername="mysql+pymysql"))
    with engine.begin() as connection:
        job_id = world.store().within(connection).enqueue("thumbnail")
    engine.dispose()
    assert list(world.statuses()) == [job_id]


def write_lock_is_held(world: World) -> bool:
    """Say whether another connection cannot begin to write now."""
    path = make_url(world.database.url).database
    assert path is not None
    other = sqlite3.connect(path, timeout=0)
    try:
        other.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError:
        return True
    finally:
        other.close()
    return False


@only("sqlite")
def test_T1_on_sqlite_joining_takes_the_write_lock_at_once(world: World) -> None:
    store = world.store()
    store.ensure_ready()
    with world.database.stock.connect() as connection:
        connection.exec_driver_sql("SELECT 1")
        assert not write_lock_is_held(world)
        store.within(connection).counts()
        assert write_lock_is_held(world)
        connection.rollback()
    assert not write_lock_is_held(world)


@only("sqlite")
def test_T1_on_sqlite_an_engine_that_begins_in_an_event_can_be_joined(
    world: World,
) -> None:
    engine = create_engine(world.database.url)

    @event.listens_for(engine, "connect")
    def leave_it_to_events(driver: sqlite3.Connection, _: object) -> None:
        driver.isolation_level = None

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN")

    store = world.store(engine)
    own = store.enqueue("own")
    with engine.connect() as connection:
        store.within(connection).enqueue("undone")
        connection.rollback()
        kept = store.within(connection).enqueue("kept")
        connection.commit()
    assert set(world.statuses()) == {own, kept}
    engine.dispose()


@only("sqlite")
def test_T2_on_sqlite_such_an_engines_own_writes_begin_immediate(world: World) -> None:
    engine = create_engine(world.database.url)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN")

    store = world.store(engine)
    store.ensure_ready()
    held: list[bool] = []

    @event.listens_for(engine, "before_cursor_execute")
    def look(_: object, __: object, statement: str, *___: object) -> None:
        # Another writer between the first read and the first write of a deferred
        # transaction makes it fail at once, whatever the busy timeout.
        if statement.startswith(("SELECT", "INSERT")):
            held.append(write_lock_is_held(world))

    store.enqueue("thumbnail", concurrency_key="k", max_concurrency=1)
    assert len(held) >= 3
    assert all(held)
    engine.dispose()


@only("sqlite")
def test_T1_on_sqlite_a_stale_deferred_transaction_is_for_the_caller_to_repeat(
    world: World,
) -> None:
    store = world.store()
    with world.database.stock.connect() as connection:
        connection.exec_driver_sql("BEGIN")
        connection.execute(select(world.tables.jobs.c.id)).all()
        other = store.enqueue("other")
        with pytest.raises(RetryableError, match="run it again"):
            store.within(connection).enqueue("thumbnail")
        connection.rollback()
        mine = store.within(connection).enqueue("thumbnail")
        connection.commit()
    assert set(world.statuses()) == {other, mine}


@only("postgresql")
@pytest.mark.parametrize("isolation", ["REPEATABLE READ", "SERIALIZABLE"])
def test_E4_on_postgresql_dedupe_in_an_old_snapshot_is_refused_by_name(
    world: World, isolation: str
) -> None:
    # No read there, with or without a lock, sees a twin committed since.
    store = world.store()
    with world.database.stock.connect() as connection:
        connection.execution_options(isolation_level=isolation)
        joined = store.within(connection)
        with pytest.raises(InvalidOption) as refusal:
            joined.enqueue("digest", deduplicate_while_queued=True)
        assert refusal.value.option == "deduplicate_while_queued"
        assert isolation.lower() in str(refusal.value)
        kept = joined.enqueue("plain")
        connection.commit()
    assert list(world.statuses()) == [kept]
