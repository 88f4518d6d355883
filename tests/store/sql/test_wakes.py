"""Rule T3: wake-ups after the outermost COMMIT, on connections the store joined."""

import gc
import logging
import weakref

from collections.abc import Callable

import pytest

from sqlalchemy import Connection, insert
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from jobfence.statemachine.errors import JobfenceError
from jobfence.statemachine.policy import QueuePolicy
from jobfence.store import SqlJobStore
from tests.store.sql.bench import World


def looking(world: World, store: SqlJobStore) -> list[int]:
    """Return a list that gets, at each wake-up, how many jobs all others can see."""
    seen: list[int] = []
    store.on_commit_wake(lambda: seen.append(len(world.statuses())))
    return seen


def test_T3_a_wake_up_comes_after_others_can_see_the_job(world: World) -> None:
    store = world.store()
    seen = looking(world, store)
    with world.database.stock.begin() as connection:
        store.within(connection).enqueue("thumbnail")
        assert seen == []
    assert seen == [1]


def test_T3_a_session_wakes_as_soon_as_it_has_committed(world: World) -> None:
    store = world.store()
    seen = looking(world, store)
    with Session(world.database.stock) as session:
        store.within(session).enqueue("thumbnail")
        session.flush()
        assert seen == []
        session.commit()
        assert seen == [1]


def test_T3_a_connection_that_stays_open_wakes_when_it_is_next_used(
    world: World,
) -> None:
    store = world.store()
    seen = looking(world, store)
    with world.database.stock.connect() as connection:
        store.within(connection).enqueue("one")
        connection.commit()
        with connection.begin():
            assert seen == [1]
            store.within(connection).enqueue("two")
        assert seen == [1]
    assert seen == [1, 2]


def test_T3_a_rollback_drops_the_wake_up_for_good(world: World) -> None:
    store = world.store()
    seen = looking(world, store)
    with world.database.stock.connect() as connection:
        store.within(connection).enqueue("lost")
        connection.rollback()
        connection.execute(insert(world.tables.concurrency).values(_counter()))
        connection.commit()
    with world.database.stock.connect() as connection:
        store.within(connection).enqueue("lost with its connection")
    with world.database.stock.begin():
        pass
    assert seen == []
    assert world.statuses() == {}


def _counter() -> dict[str, object]:
    return {"concurrency_key": "other", "max_concurrency": 1, "active_count": 0}


def test_T3_a_commit_that_fails_wakes_nobody(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = world.store()
    seen = looking(world, store)
    dialect = world.database.stock.dialect

    def fail(_: object) -> None:
        raise dialect.loaded_dbapi.OperationalError("no")

    with monkeypatch.context() as patch, world.database.stock.connect() as connection:
        transaction = connection.begin()
        store.within(connection).enqueue("thumbnail")
        patch.setattr(dialect, "do_commit", fail)
        with pytest.raises(DBAPIError):
            transaction.commit()
        transaction.close()
    assert seen == []
    assert world.statuses() == {}


def test_T3_one_transaction_wakes_once(world: World) -> None:
    store = world.store()
    seen = looking(world, store)
    with world.database.stock.begin() as connection:
        joined = store.within(connection)
        for n in range(3):
            joined.enqueue("thumbnail", [n])
    assert seen == [3]


def test_T3_a_call_that_changes_nothing_wakes_nobody(world: World) -> None:
    store = world.store()
    seen = looking(world, store)
    with world.database.stock.begin() as connection:
        joined = store.within(connection)
        joined.counts()
        joined.cancel_scheduled("nobody")
        assert joined.complete("nobody", "no").stale
    assert seen == []


def by_itself(world: World, store: SqlJobStore) -> str:
    return store.enqueue("thumbnail")


def joined(world: World, store: SqlJobStore) -> str:
    with world.database.stock.begin() as connection:
        return store.within(connection).enqueue("thumbnail")


@pytest.mark.parametrize("enqueue", [by_itself, joined])
def test_T3_a_listener_that_raises_is_logged_and_the_change_stands(
    world: World,
    caplog: pytest.LogCaptureFixture,
    enqueue: Callable[[World, SqlJobStore], str],
) -> None:
    store = world.store()

    def broken() -> None:
        raise ZeroDivisionError("in a listener")

    store.on_commit_wake(broken)
    seen = looking(world, store)
    with caplog.at_level(logging.ERROR, logger="jobfence"):
        job_id = enqueue(world, store)
    assert seen == [1]
    assert world.statuses() == {job_id: "queued"}
    (record,) = caplog.records
    assert record.exc_info is not None
    assert record.exc_info[0] is ZeroDivisionError


def test_T3_a_listener_may_use_the_store(world: World) -> None:
    store = world.store()
    claimed: list[str] = []
    store.on_commit_wake(lambda: claimed.extend(each.job.id for each in store.claim(5)))
    own = by_itself(world, store)
    other = joined(world, store)
    assert claimed == [own, other]


def test_T3_a_cap_that_is_taken_away_wakes_once_the_jobs_are_free(world: World) -> None:
    store = world.store(queues={"q": QueuePolicy(max_concurrent=1)})
    store.reconcile_queue_policies()
    ids = [store.enqueue("thumbnail", queue="q") for _ in range(2)]
    assert [each.job.id for each in store.claim(5)] == ids[:1]
    seen: list[str | None] = []

    def look() -> None:
        job = store.next_available()
        seen.append(None if job is None else job.id)

    store.on_commit_wake(look)
    store.reconcile_queue_policies({})
    assert seen[-1] == ids[1]


def test_T3_an_own_transaction_wakes_after_others_can_see_it(world: World) -> None:
    store = world.store()
    seen = looking(world, store)
    store.enqueue("thumbnail")
    assert seen == [1]
    with pytest.raises(JobfenceError):
        store.enqueue("thumbnail", queue="")
    assert seen == [1]


def test_T3_a_connection_that_was_joined_is_not_kept_alive(world: World) -> None:
    def join() -> weakref.ref[Connection]:
        with world.database.stock.begin() as connection:
            world.store().within(connection).enqueue("thumbnail")
            return weakref.ref(connection)

    found = join()
    gc.collect()
    assert found() is None
