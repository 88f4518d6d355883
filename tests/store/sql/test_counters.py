"""Rule C4: what needs a counter that others hold keeps nothing else back."""

import logging
import time

import pytest

from sqlalchemy import Connection, select

from jobfence.statemachine.errors import StoreUnavailable
from jobfence.statemachine.policy import QueuePolicy
from jobfence.statemachine.values import AckResult, Handoff, Settlement
from jobfence.store import SqlJobStore
from jobfence.store.dialects.base import Room
from tests.store.sql.bench import World, only
from tests.store.sql.faults import (
    LOCK_TIMEOUT,
    committing,
    current_session,
    disk_full,
    lost_after_commit,
    one_connection,
    raising,
)
from tests.store.sql.waiting import PATIENCE_S, beside, session_id, until_waiting


def hold(world: World, connection: Connection, key: str) -> None:
    table = world.tables.concurrency
    statement = select(table).where(table.c.concurrency_key == key)
    assert connection.execute(statement.with_for_update()).all()


@only("postgresql", "mariadb")
def test_C4_a_settle_hands_off_at_once_what_needs_no_busy_counter(world: World) -> None:
    with (
        one_connection(world, LOCK_TIMEOUT[world.name]) as engine,
        world.database.engine.connect() as other,
    ):
        store = world.store(engine)
        store.enqueue("mine", concurrency_key="a", max_concurrency=1)
        (mine,) = store.claim()
        ids = [
            store.enqueue("next", concurrency_key="b", max_concurrency=5),
            store.enqueue("next", concurrency_key="c", max_concurrency=5),
            store.enqueue("plain"),
        ]
        hold(world, other, "b")
        # To wait would keep these handoffs from the worker that has to renew them.
        acks, handoffs = store.settle([Settlement.complete(mine)], claim=5)
        assert [ack.result for ack in acks] == [AckResult.ACCEPTED]
        assert [each.job.id for each in handoffs] == [ids[1], ids[2]]
        assert world.statuses()[ids[0]] == "queued"
        other.rollback()
        # The next call waits for what was left, and gets it.
        assert [each.job.id for each in store.claim(5)] == [ids[0]]
    assert world.counters() == {"a": (1, 0), "b": (5, 1), "c": (5, 1)}


@only("postgresql", "mariadb")
def test_C4_a_settle_that_could_claim_nothing_else_waits_for_a_busy_counter(
    world: World,
) -> None:
    with one_connection(world) as engine, world.database.engine.connect() as other:
        store = world.store(engine)
        store.enqueue("mine", concurrency_key="a", max_concurrency=1)
        (mine,) = store.claim()
        left = store.enqueue("next", concurrency_key="b", max_concurrency=5)
        with engine.connect() as connection:
            session = session_id(world, connection)
        hold(world, other, "b")
        with beside(
            lambda: store.settle([Settlement.complete(mine)], claim=5)
        ) as settling:
            until_waiting(world, session)
            # Its counter is free before others are waited for.
            assert world.statuses()[mine.job.id] == "completed"
            other.rollback()
            acks, handoffs = settling.result(PATIENCE_S)
    assert [ack.result for ack in acks] == [AckResult.ACCEPTED]
    assert [each.job.id for each in handoffs] == [left]


@only("postgresql", "mariadb")
def test_T2_answers_to_acknowledgements_outlive_a_claim_that_fails_after_them(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    monkeypatch.setattr(Room, "tries", 2)
    with (
        one_connection(world, LOCK_TIMEOUT[world.name]) as engine,
        world.database.engine.connect() as other,
        caplog.at_level(logging.WARNING, logger="jobfence"),
    ):
        store = world.store(engine, lease_ms=None)
        store.enqueue("mine", concurrency_key="a", max_concurrency=1)
        (mine,) = store.claim()
        left = store.enqueue("next", concurrency_key="b", max_concurrency=5)
        hold(world, other, "b")
        acks, handoffs = store.settle([Settlement.complete(mine)], claim=5)
        assert [ack.result for ack in acks] == [AckResult.ACCEPTED]
        assert handoffs == []
        assert world.statuses() == {mine.job.id: "completed", left: "queued"}
        other.rollback()
        assert [each.job.id for each in store.claim(5)] == [left]
    (record,) = caplog.records
    assert "acknowledgements were stored" in record.getMessage()


@only("postgresql", "mariadb")
@pytest.mark.parametrize("at_once", [True, False], ids=["one call", "two calls"])
def test_C4_joined_claims_that_hold_counters_leave_those_that_others_hold(
    world: World,
    at_once: bool,  # noqa: FBT001  a value of the test
) -> None:
    store = world.store()
    left = {}
    for key in ("a", "b"):
        for _ in range(2):
            left[key] = store.enqueue(
                "job", queue=key, concurrency_key=key, max_concurrency=2
            )
    held = {key: store.claim(1, queues=[key])[0] for key in ("a", "b")}
    with (
        one_connection(world, LOCK_TIMEOUT[world.name]) as engine,
        engine.begin() as one,
        world.database.engine.begin() as two,
    ):
        first, second = store.within(one), store.within(two)
        assert second.complete(held["b"].job.id, held["b"].handoff_id).accepted
        ack = Settlement.complete(held["a"])
        # To wait here for the other's counter is a deadlock once it waits for this one.
        if at_once:
            (answer,), taken = first.settle([ack], claim=1, queues=["b"])
        else:
            (answer,), _ = first.settle([ack])
            taken = first.claim(1, queues=["b"])
        assert answer.accepted
        assert taken == []
        assert second.claim(1, queues=["a"]) == []
    assert {each.job.id for each in store.claim(5)} == set(left.values())
    assert world.counters() == {"a": (2, 1), "b": (2, 1)}


def test_C4_a_joined_claim_that_holds_counters_makes_one_that_nobody_holds(
    world: World,
) -> None:
    store = world.store(queues=CAPPED)
    mine, left = mine_and_one_without_a_counter(world, store)
    with world.database.engine.begin() as connection:
        acks, handoffs = store.within(connection).settle(
            [Settlement.complete(mine)], claim=5
        )
        assert [ack.result for ack in acks] == [AckResult.ACCEPTED]
        assert [each.job.id for each in handoffs] == [left]
    assert world.counters() == {"a": (1, 0), "queue:b": (5, 1)}


CAPPED = {"b": QueuePolicy(max_concurrent=5)}


@only("postgresql", "mariadb")
def test_T2_answers_outlive_a_commit_that_fails_in_the_claim_after_them(
    world: World,
) -> None:
    with committing(world) as database:
        store = world.store(database.engine, queues=CAPPED)
        mine, left = mine_and_one_without_a_counter(world, store)
        database.next(lambda _, commit: commit())
        database.next(raising(disk_full(world)))
        acks, handoffs = store.settle([Settlement.complete(mine)], claim=5)
        assert [ack.result for ack in acks] == [AckResult.ACCEPTED]
        assert handoffs == []
        assert world.statuses() == {mine.job.id: "completed", left: "queued"}
        assert [each.job.id for each in store.claim(5)] == [left]


@only("postgresql", "mariadb")
def test_F74_a_claim_in_doubt_after_acknowledgements_says_so(world: World) -> None:
    with committing(world) as database:
        store = world.store(database.engine, queues=CAPPED)
        mine, left = mine_and_one_without_a_counter(world, store)
        session = current_session(world, database.engine)
        database.next(lambda _, commit: commit())
        database.next(lost_after_commit(world, session))
        with pytest.raises(StoreUnavailable) as failure:
            store.settle([Settlement.complete(mine)], claim=5, worker_id="w")
        assert failure.value.in_doubt
        # Both can be found out: nothing is lost but the answer.
        acks, _ = store.settle([Settlement.complete(mine)])
        assert [ack.result for ack in acks] == [AckResult.REPEATED]
        held = store.handoffs_for_worker("w")
        assert [each.job.id for each in held] == [left]


def mine_and_one_without_a_counter(
    world: World, store: SqlJobStore
) -> tuple[Handoff, str]:
    """Hold a job of a key, and store another whose queue has no counter yet."""
    store.enqueue("mine", concurrency_key="a", max_concurrency=1)
    (mine,) = store.claim()
    return mine, world.store().enqueue("next", queue="b")


def test_C9_a_counter_without_any_job_is_no_repair(world: World) -> None:
    store = world.store()
    store.set_concurrency("idle", 3)
    found = store.reconcile_active_concurrency()
    assert (found.checked_count, found.repaired_count) == (0, 0)
    assert world.counters() == {"idle": (3, 0)}


def test_C9_a_lost_counter_has_the_cap_of_the_latest_of_its_active_jobs(
    world: World,
) -> None:
    store = world.store()

    def enqueued(cap: int) -> str:
        store.set_concurrency("k", cap)
        return store.enqueue("job", concurrency_key="k", max_concurrency=cap)

    def made_again() -> int:
        with world.database.engine.begin() as connection:
            connection.execute(world.tables.concurrency.delete())
        store.reconcile_active_concurrency()
        return world.counters()["k"][0]

    enqueued(2)
    enqueued(3)
    assert made_again() == 3  # of one millisecond, by their ids
    world.clock.advance(1)
    latest, ended = enqueued(4), enqueued(5)
    store.cancel(ended)
    assert made_again() == 4
    world.clock.advance(-2)
    enqueued(6)
    assert made_again() == 4  # by their time, where the clock was set back
    store.cancel(latest)
    assert made_again() == 3


def test_L2_one_worker_owns_the_database_until_its_time_is_over(world: World) -> None:
    store = world.store()
    assert store.acquire_ownership("one", ttl_ms=10)
    assert not store.acquire_ownership("two", ttl_ms=10)
    world.clock.advance(9)
    assert store.acquire_ownership("one", ttl_ms=10)
    world.clock.advance(9)
    assert not store.acquire_ownership("two", ttl_ms=10)
    store.release_ownership("two")
    assert not store.acquire_ownership("two", ttl_ms=10)
    world.clock.advance(1)
    assert store.acquire_ownership("two", ttl_ms=10)
    store.release_ownership("two")
    assert store.acquire_ownership("one", ttl_ms=10)
