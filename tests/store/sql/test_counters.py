"""Rule C4: counters that others hold are passed over first, then waited for."""

from sqlalchemy import Connection, select

from jobfence.statemachine.values import AckResult, Settlement
from tests.store.sql.bench import World, only
from tests.store.sql.faults import one_connection
from tests.store.sql.waiting import PATIENCE_S, beside, session_id, until_waiting


def hold(world: World, connection: Connection, key: str) -> None:
    table = world.tables.concurrency
    statement = select(table).where(table.c.concurrency_key == key)
    assert connection.execute(statement.with_for_update()).all()


@only("postgresql", "mariadb")
def test_C4_a_settle_leaves_jobs_of_a_busy_counter_to_a_second_transaction(
    world: World,
) -> None:
    with one_connection(world) as engine, world.database.engine.connect() as other:
        store = world.store(engine)
        store.enqueue("mine", concurrency_key="a", max_concurrency=1)
        (mine,) = store.claim()
        ids = [
            store.enqueue("next", concurrency_key="b", max_concurrency=5),
            store.enqueue("next", concurrency_key="c", max_concurrency=5),
            store.enqueue("plain"),
        ]
        with engine.connect() as connection:
            session = session_id(world, connection)
        hold(world, other, "b")
        with beside(
            lambda: store.settle([Settlement.complete(mine)], claim=5)
        ) as settling:
            # It holds the counter of what it acknowledged: of the others it takes only
            # those that are free, and commits, before it waits for the rest.
            until_waiting(world, session)
            seen = world.statuses()
            assert seen[mine.job.id] == "completed"
            assert seen[ids[0]] == "queued"
            assert seen[ids[1]] == seen[ids[2]] == "handed_off"
            other.rollback()
            acks, handoffs = settling.result(PATIENCE_S)
    assert [ack.result for ack in acks] == [AckResult.ACCEPTED]
    assert [each.job.id for each in handoffs] == [ids[1], ids[2], ids[0]]
    assert world.counters() == {"a": (1, 0), "b": (5, 1), "c": (5, 1)}


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
