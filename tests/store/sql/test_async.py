"""The async face: the same work on an event loop, whole even when its caller goes away."""

import asyncio
import inspect

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from sqlalchemy import event, select
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from jobfence.statemachine.errors import IdempotencyConflict, InvalidOption
from jobfence.statemachine.options import JobRequest
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import Settlement
from jobfence.store import AsyncSqlJobStore, SqlJobStore
from jobfence.store.dialects.engines import make_async_engine
from tests.store.sql.bench import World

DRIVERS = {
    "sqlite": "sqlite+aiosqlite",
    "postgresql": "postgresql+psycopg",
    "mariadb": "mariadb+aiomysql",
}


@asynccontextmanager
async def opened(world: World, **options: Any) -> AsyncIterator[AsyncSqlJobStore]:
    """Open an async store on the world's tables, and close it."""
    plain = make_url(world.database.url)
    engine = make_async_engine(plain.set(drivername=plain.get_backend_name()))
    store = AsyncSqlJobStore(
        engine,
        clock=world.clock,
        table_prefix=world.prefix,
        ids=world.ids,
        handoff_ids=world.handoff_ids,
        **options,
    )
    try:
        yield store
    finally:
        await engine.dispose()


def test_the_async_store_has_every_method_of_the_sync_one_with_the_same_arguments() -> (
    None
):
    for name, method in inspect.getmembers(SqlJobStore, inspect.isfunction):
        if name.startswith("_") or name == "within":
            continue
        twin = getattr(AsyncSqlJobStore, name)
        assert inspect.signature(twin) == inspect.signature(method), name
        if name != "on_commit_wake":
            assert inspect.iscoroutinefunction(twin), name


def test_a_job_runs_its_whole_life_on_an_event_loop(world: World) -> None:
    async def life() -> None:
        async with opened(world) as store:
            first = await store.enqueue("work", [1], {"k": "é"})
            rest = await store.enqueue_many([JobRequest("work", [n]) for n in (2, 3)])
            (held,) = await store.claim()
            assert (held.job.id, held.job.args) == (first, (1,))
            assert (await store.complete(first, "another")).stale
            acks, more = await store.settle([Settlement.complete(held)], claim=5)
            assert [ack.accepted for ack in acks] == [True]
            assert [each.job.id for each in more] == rest
            assert (await store.complete(first, held.handoff_id)).repeated
            world.clock.advance(60_000)
            assert len(await store.recover_expired()) == 2
            counts = await store.counts()
            assert counts[JobStatus.QUEUED] == 2
            assert counts[JobStatus.COMPLETED] == 1

    asyncio.run(life())


def test_the_async_and_the_sync_store_share_their_tables(world: World) -> None:
    async def both() -> None:
        async with opened(world) as store:
            job_id = await store.enqueue("work")
            assert sync.get(job_id) == await store.get(job_id)
            assert await store.claim_job(job_id, handoff_id="mine") is not None
            assert sync.complete(job_id, "mine").accepted

    sync = world.store()
    asyncio.run(both())


def test_twenty_tasks_with_one_identity_store_one_job(world: World) -> None:
    async def race() -> None:
        async with opened(world) as store:
            await store.ensure_ready()
            ids = await asyncio.gather(
                *(
                    store.enqueue("work", [1], deduplicate_while_queued=True)
                    for _ in range(20)
                )
            )
            assert len(set(ids)) == 1
            assert len(await store.list_jobs()) == 1

    asyncio.run(race())


def test_a_rolled_back_connection_takes_the_job_with_it_and_no_one_is_woken(
    world: World,
) -> None:
    async def joined() -> None:
        async with opened(world) as store:
            await store.ensure_ready()
            woken: list[bool] = []
            store.on_commit_wake(lambda: woken.append(True))
            async with store.engine.connect() as connection:
                lost = await store.within(connection).enqueue("work")
                await connection.rollback()
            assert await store.get(lost) is None
            assert not woken
            async with store.engine.begin() as connection:
                kept = await store.within(connection).enqueue("work")
                assert not woken
            assert await store.get(kept) is not None
            assert woken == [True]

    asyncio.run(joined())


def test_effects_and_completion_commit_together_in_an_async_session(
    world: World,
) -> None:
    async def together() -> None:
        async with opened(world) as store:
            job_id = await store.enqueue("work")
            (held,) = await store.claim()
            async with AsyncSession(store.engine) as session:
                ack = await store.within(session).complete(job_id, held.handoff_id)
                assert ack.accepted
                await session.rollback()
            standing = await store.get(job_id)
            assert standing is not None
            assert standing.status is JobStatus.HANDED_OFF
            async with AsyncSession(store.engine) as session, session.begin():
                again = await store.within(session).complete(job_id, held.handoff_id)
                assert again.accepted
            done = await store.get(job_id)
            assert done is not None
            assert done.status is JobStatus.COMPLETED

    asyncio.run(together())


def test_a_refused_call_undoes_itself_alone_on_a_stock_engine(world: World) -> None:
    async def refused() -> None:
        plain = make_url(world.database.url)
        stock = create_async_engine(
            plain.set(drivername=DRIVERS[plain.get_backend_name()])
        )
        store = AsyncSqlJobStore(
            stock, clock=world.clock, table_prefix=world.prefix, ids=world.ids
        )
        try:
            await store.ensure_ready()
            async with stock.begin() as connection:
                joined = store.within(connection)
                kept = await joined.enqueue("work", idempotency_key="k")
                with pytest.raises(IdempotencyConflict):
                    await joined.enqueue("work", [2], idempotency_key="k")
            assert [job.id for job in await store.list_jobs()] == [kept]
        finally:
            await stock.dispose()

    asyncio.run(refused())


def test_within_refuses_what_is_no_async_transaction(world: World) -> None:
    async def wrong() -> None:
        async with opened(world) as store:
            with pytest.raises(InvalidOption, match="AsyncConnection or AsyncSession"):
                store.within(world.database.engine)  # type: ignore[arg-type]  # the point

    asyncio.run(wrong())


def calls_of(store: AsyncSqlJobStore) -> dict[str, Callable[[], Awaitable[object]]]:
    return {
        "enqueue": lambda: store.enqueue("late", [1], deduplicate_while_queued=True),
        "claim": lambda: store.claim(3),
        "replace_scheduled": lambda: store.replace_scheduled("key", "late"),
        "complete": lambda: store.complete("j1", "h1"),
    }


@pytest.mark.parametrize("name", ["enqueue", "claim", "replace_scheduled", "complete"])
def test_a_call_cancelled_at_any_statement_leaves_nothing_open(
    world: World, name: str
) -> None:
    """Cancel in the middle of the first, second, third ... statement of the call."""

    async def cancelled_at(nth: int) -> bool:
        async with opened(world, lease_ms=None) as store:
            await store.ensure_ready()
            await store.clear()
            await store.enqueue("work")
            before = await picture(store)
            task = asyncio.ensure_future(run(calls_of(store)[name]))
            seen = 0

            @event.listens_for(store.engine.sync_engine, "before_cursor_execute")
            def cancel_in_time(*_: object) -> None:
                nonlocal seen
                seen += 1
                if seen == nth:
                    task.cancel()

            try:
                await task
            except asyncio.CancelledError:
                was_cancelled = True
            else:
                was_cancelled = False
            event.remove(
                store.engine.sync_engine, "before_cursor_execute", cancel_in_time
            )
            pool: Any = store.engine.pool
            assert pool.checkedout() == 0
            if was_cancelled:
                assert await picture(store) == before
            # A writer elsewhere does not wait for anything left behind.
            await asyncio.wait_for(store.enqueue("after"), 10)
            return was_cancelled

    async def run(call: Callable[[], Awaitable[object]]) -> object:
        return await call()

    async def picture(store: AsyncSqlJobStore) -> list[Any]:
        async with store.engine.connect() as connection:
            rows = await connection.execute(select(store.tables.jobs))
            return sorted(tuple(row) for row in rows)

    nth = 1
    while asyncio.run(cancelled_at(nth)):
        nth += 1
    assert nth > 2, "the call has several statements, and each was met"
