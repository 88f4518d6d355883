"""What somebody who wanted to break the SQL store tried, and must not achieve again."""

import asyncio

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from sqlalchemy import (
    Connection,
    QueuePool,
    SingletonThreadPool,
    StaticPool,
    create_engine,
    select,
)
from sqlalchemy.ext.asyncio import create_async_engine

from jobfence.statemachine.errors import (
    InvalidOption,
    StoreUnavailable,
)
from jobfence.statemachine.policy import QueuePolicy
from jobfence.statemachine.values import Settlement
from jobfence.store import AsyncSqlJobStore, SqlJobStore
from tests.store.sql.bench import World, only
from tests.store.sql.test_async import opened
from tests.store.sql.waiting import beside, session_id, until_waiting


class Stopping:
    """A clock that has run out, as `iter(...).__next__` does."""

    def now_ms(self) -> int:
        raise StopIteration


@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.claim(3),
        lambda store: store.settle([], claim=1),
        lambda store: store.prune_terminal(),
    ],
    ids=["claim", "settle", "prune"],
)
def test_a_stop_iteration_from_within_a_call_is_no_success(
    world: World, call: Callable[[SqlJobStore], object]
) -> None:
    job_id = world.store().enqueue("thumbnail")
    with pytest.raises(StopIteration):
        call(world.store(clock=Stopping()))
    assert world.statuses() == {job_id: "queued"}


def test_an_async_store_in_memory_keeps_transactions_of_tasks_apart() -> None:
    async def many(url: str) -> None:
        store = AsyncSqlJobStore(url)
        try:
            ids = await asyncio.gather(*(store.enqueue("job", [n]) for n in range(20)))
            assert sorted(ids) == sorted(job.id for job in await store.list_jobs())
        finally:
            await store.close()

    named = "sqlite:///file:attacked?mode=memory&cache=shared&uri=true"
    for url in ("sqlite://", "sqlite+aiosqlite:///:memory:", named):
        asyncio.run(many(url))


def test_a_store_in_a_named_memory_is_one_for_all_threads() -> None:
    store = SqlJobStore("sqlite:///file:attacks?mode=memory&cache=shared&uri=true")
    store.ensure_ready()
    with beside(lambda: store.enqueue("job")) as enqueueing:
        job_id = enqueueing.result()
    assert [job.id for job in store.list_jobs()] == [job_id]
    store.close()


def test_T3_a_call_cancelled_while_it_commits_wakes_if_it_did_commit(
    world: World,
) -> None:
    async def cancelled() -> None:
        async with opened(world) as store:
            await store.ensure_ready()
            woken: list[int] = []
            store.on_commit_wake(lambda: woken.append(1))
            enqueueing = asyncio.ensure_future(store.enqueue("job"))
            dialect: Any = store.engine.sync_engine.dialect
            commit = dialect.do_commit

            def commit_cancelled(connection: Any) -> None:
                enqueueing.cancel()
                commit(connection)

            dialect.do_commit = commit_cancelled
            with pytest.raises(asyncio.CancelledError):
                await enqueueing
            assert woken == [1]

    asyncio.run(cancelled())
    assert list(world.statuses().values()) == ["queued"]


def test_T5_an_async_batch_tells_a_stale_acknowledgement_from_its_neighbours(
    world: World,
) -> None:
    async def settled() -> None:
        async with opened(world) as store:
            for n in range(3):
                await store.enqueue("job", [n], concurrency_key="k", max_concurrency=3)
            first, second, third = await store.claim(3)
            await store.return_to_queue(second.job.id, second.handoff_id)
            await store.claim_job(second.job.id)
            acks, _ = await store.settle(
                [Settlement.complete(each) for each in (first, second, third)], claim=0
            )
            assert [ack.stale for ack in acks] == [False, True, False]

    asyncio.run(settled())
    assert world.counters() == {"k": (3, 1)}
    assert sorted(world.statuses().values()) == ["completed", "completed", "handed_off"]


@pytest.mark.parametrize("pool", [StaticPool, SingletonThreadPool])
def test_T1_an_engine_whose_connections_are_one_is_refused(
    pool: type[StaticPool | SingletonThreadPool],
) -> None:
    # The store's own transaction would undo or commit the caller's.
    engine = create_engine("sqlite://", poolclass=pool)
    with pytest.raises(InvalidOption, match="QueuePool") as refusal:
        SqlJobStore(engine)
    assert refusal.value.option == "engine"
    engine.dispose()


def test_T1_an_async_engine_in_memory_whose_connections_are_one_is_refused() -> None:
    with pytest.raises(InvalidOption, match="AsyncAdaptedQueuePool"):
        AsyncSqlJobStore(create_async_engine("sqlite+aiosqlite://"))


@pytest.mark.parametrize("isolated", [False, True])
def test_T1_the_pool_that_is_named_instead_is_taken(*, isolated: bool) -> None:
    engine = create_engine(
        "sqlite://", poolclass=QueuePool, pool_size=1, max_overflow=0, pool_timeout=0.1
    )
    store = SqlJobStore(engine)
    store.ensure_ready()
    with engine.begin() as connection:
        if isolated:
            with pytest.raises(StoreUnavailable, match="no connection"):
                store.enqueue("beside")
        store.within(connection).enqueue("joined")
    assert [job.name for job in store.list_jobs()] == ["joined"]
    engine.dispose()


@only("sqlite", "postgresql")
def test_S3_tables_made_in_a_savepoint_that_is_undone_are_made_again(
    bare: World,
) -> None:
    store = bare.store()
    with bare.database.stock.begin() as connection:
        savepoint = connection.begin_nested()
        store.within(connection).enqueue("undone")
        savepoint.rollback()
    job_id = store.enqueue("kept")
    assert bare.statuses() == {job_id: "queued"}


@pytest.mark.parametrize("depth", [1, 2])
def test_T3_a_savepoint_that_is_undone_takes_its_own_wake_up_and_no_other(
    world: World, depth: int
) -> None:
    store = world.store()
    store.ensure_ready()
    woken: list[str] = []
    other = world.store()
    other.ensure_ready()
    store.on_commit_wake(lambda: woken.append("kept"))
    other.on_commit_wake(lambda: woken.append("undone"))
    with world.database.stock.begin() as connection:
        store.within(connection).enqueue("kept")
        outer = connection.begin_nested()
        inner = [connection.begin_nested() for _ in range(depth - 1)]
        other.within(connection).enqueue("undone")
        for each in inner:
            each.commit()
        outer.rollback()
        assert woken == []
    assert woken == ["kept"]
    assert len(world.statuses()) == 1


@contextmanager
def rolled_back(world: World) -> Iterator[Connection]:
    with world.undone() as connection:
        yield connection


@contextmanager
def savepoint_rolled_back(world: World) -> Iterator[Connection]:
    with world.database.stock.begin() as connection:
        savepoint = connection.begin_nested()
        yield connection
        savepoint.rollback()


@pytest.mark.parametrize("undone", [rolled_back, savepoint_rolled_back])
def test_C7_policies_reconciled_in_what_is_rolled_back_are_not_gone_by(
    world: World, undone: Callable[[World], AbstractContextManager[Connection]]
) -> None:
    capped = {"mail": QueuePolicy(max_concurrent=1)}
    store = world.store(queues=capped)
    store.reconcile_queue_policies()
    for n in range(3):
        store.enqueue("job", [n], queue="mail")
    with undone(world) as connection:
        joined = store.within(connection)
        joined.reconcile_queue_policies({"mail": QueuePolicy(max_concurrent=3)})
        # The transaction itself goes by what it has just set.
        assert len(joined.claim(3)) == 3
    assert len(store.claim(3)) == 1
    assert world.counters() == {"queue:mail": (1, 1)}


def test_C7_policies_reconciled_in_the_callers_transaction_hold_once_it_commits(
    world: World,
) -> None:
    store = world.store(queues={"mail": QueuePolicy(max_concurrent=1)})
    store.reconcile_queue_policies()
    for n in range(3):
        store.enqueue("job", [n], queue="mail")
    with world.database.stock.begin() as connection:
        joined = store.within(connection)
        joined.reconcile_queue_policies({"mail": QueuePolicy(max_concurrent=2)})
    assert len(store.claim(3)) == 2


def priority(value: int) -> dict[str, QueuePolicy]:
    return {"mail": QueuePolicy(priority=value)}


def priority_now(joined: Any) -> int:
    """Return the priority that a new job gets; it tells by which policies it goes."""
    job = joined.get(joined.enqueue("job", queue="mail"))
    assert job is not None
    return int(job.priority)


def test_C7_the_transaction_goes_by_what_it_had_set_before_a_savepoint_that_is_undone(
    world: World,
) -> None:
    store = world.store(queues=priority(1))
    store.reconcile_queue_policies()
    with world.database.stock.begin() as connection:
        joined = store.within(connection)
        joined.reconcile_queue_policies(priority(2))
        outer = connection.begin_nested()
        joined.reconcile_queue_policies(priority(3))
        kept = connection.begin_nested()
        joined.reconcile_queue_policies(priority(4))
        kept.commit()
        undone = connection.begin_nested()
        joined.reconcile_queue_policies(priority(5))
        assert priority_now(joined) == 5
        undone.rollback()
        assert priority_now(joined) == 4
        outer.rollback()
        assert priority_now(joined) == 2
    assert priority_now(store) == 2


def test_C7_a_joined_store_goes_by_nothing_that_its_connection_rolled_back(
    world: World,
) -> None:
    store = world.store(queues=priority(1))
    store.reconcile_queue_policies()
    with world.database.stock.connect() as connection:
        joined = store.within(connection)
        joined.reconcile_queue_policies(priority(2))
        connection.rollback()
        assert priority_now(joined) == 1
        joined.reconcile_queue_policies(priority(3))
        connection.commit()
        assert priority_now(joined) == 3
        connection.rollback()
        assert priority_now(joined) == 3
    assert priority_now(store) == 3


def counter_deleted_meanwhile(world: World, call: Callable[[SqlJobStore], Any]) -> Any:
    """Run a call that waits for a counter which retention deletes (R1)."""
    with world.database.stock.connect() as mine, world.database.stock.connect() as its:
        session = session_id(world, its)
        counters = world.tables.concurrency
        mine.execute(counters.delete().where(counters.c.concurrency_key == "k"))
        with beside(lambda: call(world.store().within(its))) as waiting:
            until_waiting(world, session)
            mine.commit()
        found = waiting.result()
        its.commit()
    return found


@only("postgresql", "mariadb")
def test_C3_a_cap_is_set_although_its_counter_is_deleted_meanwhile(
    world: World,
) -> None:
    store = world.store()
    store.set_concurrency("k", 2)
    counter_deleted_meanwhile(world, lambda joined: joined.set_concurrency("k", 7))
    assert world.counters() == {"k": (7, 0)}


@only("postgresql", "mariadb")
def test_M2_a_job_is_claimed_by_its_id_although_its_counter_is_deleted_meanwhile(
    world: World,
) -> None:
    store = world.store()
    job_id = store.enqueue("job", concurrency_key="k", max_concurrency=2)
    held = counter_deleted_meanwhile(world, lambda joined: joined.claim_job(job_id))
    assert held is not None
    assert world.counters() == {"k": (2, 1)}


@only("mariadb", "postgresql")
@pytest.mark.parametrize("prepared", [False, True])
def test_T3_a_two_phase_commit_wakes_and_its_rollback_does_not(
    world: World, *, prepared: bool
) -> None:
    if prepared and world.name == "postgresql":
        pytest.skip("the server of the tests has prepared transactions turned off")
    store = world.store()
    seen: list[int] = []
    store.on_commit_wake(lambda: seen.append(len(world.statuses())))
    with world.database.stock.connect() as connection:
        for commit in (False, True):
            transaction = connection.begin_twophase()
            store.within(connection).enqueue("job")
            if prepared:
                transaction.prepare()
            (transaction.commit if commit else transaction.rollback)()
            assert seen == []
    assert seen == [1]


TIMEOUTS = {
    "postgresql": "SET statement_timeout = 100",
    "mariadb": "SET SESSION max_statement_time = 0.1",
}


@only("postgresql", "mariadb")
def test_T2_a_statement_that_takes_too_long_is_an_error_of_the_stores(
    world: World,
) -> None:
    store = world.store()
    job_id = store.enqueue("job")
    before = world.everything()
    jobs = world.tables.jobs
    with world.database.stock.connect() as mine, world.database.stock.connect() as its:
        mine.execute(select(jobs.c.id).where(jobs.c.id == job_id).with_for_update())
        its.exec_driver_sql(TIMEOUTS[world.name])
        with pytest.raises(StoreUnavailable, match=r"timeout|max_statement_time"):
            store.within(its).cancel(job_id)
        its.invalidate()
    assert world.everything() == before


@only("postgresql", "mariadb")
def test_T1_a_read_only_transaction_is_an_error_of_the_stores(world: World) -> None:
    store = world.store()
    store.ensure_ready()
    with world.database.stock.connect() as connection:
        connection.rollback()
        connection.exec_driver_sql("START TRANSACTION READ ONLY")
        with pytest.raises(StoreUnavailable, match=r"(?i)read.only"):
            store.within(connection).enqueue("job")
        connection.rollback()
    assert world.statuses() == {}


class SteppingBack:
    """A clock that is set back after a job was found due and before it is claimed."""

    def __init__(self, *times: int) -> None:
        self._times = list(times)

    def now_ms(self) -> int:
        return self._times.pop(0) if len(self._times) > 1 else self._times[0]


@pytest.mark.parametrize(
    "claim",
    [lambda store: store.claim_job("j1"), lambda store: (store.claim(1) or [None])[0]],
    ids=["claim_job", "claim"],
)
def test_C5_a_clock_that_is_set_back_in_a_claim_leaves_job_and_counter_as_they_were(
    world: World, claim: Callable[[SqlJobStore], object]
) -> None:
    store = world.store()
    store.enqueue("job", scheduled_at=1500, concurrency_key="k", max_concurrency=1)
    back = world.store(clock=SteppingBack(2000, 1400))
    assert claim(back) is None
    assert world.statuses() == {"j1": "queued"}
    assert world.counters() == {"k": (1, 0)}


@only("postgresql", "mariadb")
def test_E4_a_twin_found_in_the_callers_transaction_does_not_run_before_it_commits(
    world: World,
) -> None:
    # It would run without the effects it was enqueued for, and nothing would follow.
    store = world.store()
    twin = store.enqueue("digest", deduplicate_while_queued=True)
    store.enqueue("digest", queue="other")
    with world.database.engine.begin() as connection:
        joined = store.within(connection)
        assert joined.enqueue("digest", deduplicate_while_queued=True) == twin
        assert [each.job.queue for each in store.claim(2)] == ["other"]
    assert [each.job.id for each in store.claim(2)] == [twin]


@only("postgresql", "mariadb")
def test_E4_a_twin_that_is_being_claimed_is_waited_for_and_is_no_twin(
    world: World,
) -> None:
    store = world.store()
    twin = store.enqueue("digest", deduplicate_while_queued=True)
    engine = world.database.engine
    with engine.connect() as mine, engine.connect() as its:
        session = session_id(world, its)
        assert len(store.within(mine).claim(1)) == 1
        joined = store.within(its)
        with beside(
            lambda: joined.enqueue("digest", deduplicate_while_queued=True)
        ) as waiting:
            until_waiting(world, session)
            mine.commit()
        new = waiting.result()
        its.commit()
    assert world.statuses() == {twin: "handed_off", new: "queued"}
