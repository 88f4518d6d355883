"""Rule T1: what the database asks to be repeated is for the caller to repeat."""

import pytest

from sqlalchemy import Connection, insert, update
from sqlalchemy.exc import InvalidRequestError, PendingRollbackError

from jobfence.statemachine.errors import RetryableError
from jobfence.statemachine.options import JobRequest
from jobfence.statemachine.values import Settlement
from tests.store.sql.bench import World, only
from tests.store.sql.waiting import PATIENCE_S, beside, kill, session_id, until_waiting


def touch(world: World, connection: Connection, job_id: str) -> None:
    """Lock a job past the store."""
    jobs = world.tables.jobs
    statement = update(jobs).where(jobs.c.id == job_id).values(rev=jobs.c.rev + 1)
    connection.execute(statement)


def counter(key: str) -> dict[str, object]:
    return {"concurrency_key": key, "max_concurrency": 1, "active_count": 0}


@only("postgresql", "mariadb")
def test_A25_a_matching_identity_waits_and_an_unrelated_one_does_not(
    world: World,
) -> None:
    store = world.store()
    store.ensure_ready()
    with (
        world.database.engine.connect() as first,
        world.database.engine.connect() as second,
        world.database.engine.connect() as third,
    ):
        held = store.within(first).enqueue("a", deduplicate_while_queued=True)
        world.impatient(third)
        unrelated = store.within(third).enqueue("b", deduplicate_while_queued=True)
        third.commit()
        session = session_id(world, second)
        joined = store.within(second)
        with beside(
            lambda: joined.enqueue("a", deduplicate_while_queued=True)
        ) as matching:
            until_waiting(world, session)
            assert not matching.done()
            first.commit()
            assert matching.result(PATIENCE_S) == held
        second.commit()
    assert set(world.statuses()) == {held, unrelated}


@only("mariadb")
def test_F53_a_deadlock_in_the_callers_transaction_is_not_retried_in_place(
    world: World,
) -> None:
    store = world.store()
    one, two = store.enqueue("one"), store.enqueue("two")
    table = world.tables.concurrency
    with (
        world.database.stock.connect() as mine,
        world.database.engine.connect() as other,
    ):
        # InnoDB rolls back the transaction that has changed less: mine.
        other.execute(insert(table), [counter(f"weight {n}") for n in range(50)])
        transaction = mine.begin()
        mine.execute(insert(table).values(counter("mine")))
        joined = store.within(mine)
        joined.cancel(one)
        touch(world, other, two)
        session = session_id(world, mine)
        with beside(lambda: joined.cancel(two)) as cancelling:
            until_waiting(world, session)
            touch(world, other, one)
            with pytest.raises(RetryableError, match="run it again"):
                cancelling.result(PATIENCE_S)
        # The server has undone the whole, savepoints and all. Nothing of it can be
        # committed by a caller who does not look.
        assert not transaction.is_active
        with pytest.raises(InvalidRequestError):
            transaction.commit()
        other.rollback()
        assert world.statuses() == {one: "queued", two: "queued"}
        assert world.counters() == {}
        # Repeated whole, it is done.
        with mine.begin():
            mine.execute(insert(table).values(counter("mine")))
            joined.cancel(one)
            joined.cancel(two)
    assert world.statuses() == {one: "cancelled", two: "cancelled"}
    assert world.counters() == {"mine": (1, 0)}


@only("postgresql")
def test_T1_a_deadlock_on_postgresql_undoes_the_call_alone(world: World) -> None:
    store = world.store()
    one, two = store.enqueue("one"), store.enqueue("two")
    with (
        world.database.stock.connect() as mine,
        world.database.engine.connect() as other,
    ):
        # The one whose time is over first looks for a deadlock, and is its victim.
        other.exec_driver_sql("SET LOCAL deadlock_timeout = '60s'")
        mine.exec_driver_sql("SET LOCAL deadlock_timeout = '10ms'")
        touch(world, other, two)
        joined = store.within(mine)
        joined.cancel(one)
        session = session_id(world, other)
        with beside(lambda: touch(world, other, one)) as touching:
            until_waiting(world, session)
            with pytest.raises(RetryableError, match="deadlock"):
                joined.cancel(two)
            mine.rollback()
            touching.result(PATIENCE_S)
        other.rollback()
    assert world.statuses() == {one: "queued", two: "queued"}


@only("postgresql")
def test_T1_a_serialization_failure_is_for_the_caller_to_repeat(world: World) -> None:
    store = world.store()
    job_id = store.enqueue("thumbnail")
    (handoff,) = store.claim()
    with world.database.stock.connect() as connection:
        connection.execution_options(isolation_level="REPEATABLE READ")
        joined = store.within(connection)
        assert joined.get(job_id) is not None
        assert store.extend_lease(job_id, handoff.handoff_id).accepted
        with pytest.raises(RetryableError, match="run it again"):
            joined.complete(job_id, handoff.handoff_id)
        connection.rollback()
        assert world.statuses() == {job_id: "handed_off"}
        assert joined.complete(job_id, handoff.handoff_id).accepted
        connection.commit()
    assert world.statuses() == {job_id: "completed"}


@only("postgresql", "mariadb")
def test_T1_a_lock_that_is_not_had_in_time_is_for_the_caller_to_repeat(
    world: World,
) -> None:
    store = world.store()
    job_id = store.enqueue("thumbnail")
    with (
        world.database.stock.connect() as mine,
        world.database.engine.connect() as other,
    ):
        touch(world, other, job_id)
        world.impatient(mine)
        joined = store.within(mine)
        kept = joined.enqueue("kept")
        with pytest.raises(RetryableError):
            joined.cancel(job_id)
        other.rollback()
        # Here only the call was undone; a caller who goes on all the same loses nothing.
        mine.commit()
    assert world.statuses() == {job_id: "queued", kept: "queued"}


@only("postgresql", "mariadb")
def test_T1_a_lost_connection_ends_the_callers_transaction(
    world: World,
) -> None:
    store = world.store()
    with world.database.stock.connect() as connection:
        transaction = connection.begin()
        joined = store.within(connection)
        joined.enqueue("first")
        kill(world, session_id(world, connection))
        with pytest.raises(RetryableError):
            joined.enqueue("second")
        with pytest.raises(PendingRollbackError):
            connection.commit()
        transaction.close()
        again = joined.enqueue("again")
        connection.commit()
    assert world.statuses() == {again: "queued"}


def test_F34_a_hundred_retries_are_claimed_beside_a_new_job_of_the_same_identity(
    world: World,
) -> None:
    """Case F34: nothing is unique about a retry, so none can stop the others."""
    store = world.store()
    # Each is due before the one enqueued before it, so none repeats another.
    ids = store.enqueue_many(
        JobRequest(
            "same",
            [1],
            scheduled_at=world.clock.now_ms() + delay,
            deduplicate_while_queued=True,
        )
        for delay in range(100, 0, -1)
    )
    world.clock.advance(100)
    handoffs = store.claim(200)
    acks, _ = store.settle(
        [Settlement.reschedule(each, delay_ms=500) for each in handoffs]
    )
    assert all(ack.accepted for ack in acks)
    new = store.enqueue("same", [1], deduplicate_while_queued=True)
    assert store.enqueue("same", [1], deduplicate_while_queued=True) == new
    world.clock.advance(500)
    claimed = [handoff.job.id for handoff in store.claim(200)]
    assert sorted(claimed) == sorted([*ids, new])
