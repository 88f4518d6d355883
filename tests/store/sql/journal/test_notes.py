"""Every write of a job, a counter or a schedule key is noted in its own transaction."""

import asyncio
import json

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from sqlalchemy import Connection, delete, insert, text, update

from jobfence import JobRequest, QueuePolicy, Settlement, SqlJobStore
from jobfence.conformance.sql.waits import waiting_on_mysql
from jobfence.statemachine.errors import ConcurrencyConflict
from tests.store.sql.bench import World
from tests.store.sql.journal.audit import (
    assert_possible,
    entries_of,
    noted,
    refused,
    verdict_of,
)
from tests.store.sql.test_async import opened

CAPPED = {"q": QueuePolicy(max_concurrent=2)}


@pytest.fixture
def store(world: World) -> SqlJobStore:
    store = world.store(journal=True, queues=CAPPED)
    store.ensure_ready()
    return store


def test_it_is_off_by_default(world: World) -> None:
    store = world.store()
    (handoff,) = _claimed(store)
    store.complete(handoff.job.id, handoff.handoff_id)

    assert world.rows(world.tables.journal) == []


def _claimed(store: SqlJobStore, n: int = 1) -> list:  # type: ignore[type-arg]
    for number in range(n):
        store.enqueue("work", [number])
    return store.claim(n)


def test_a_job_is_noted_with_what_the_database_holds(
    store: SqlJobStore, world: World
) -> None:
    world.clock.advance(5)
    job_id = store.enqueue(
        "work", [1], {"secret": "s"}, concurrency_key="k", max_concurrency=1
    )
    (handoff,) = store.claim()
    store.fail(job_id, handoff.handoff_id, "trouble")

    created, claimed, failed = (
        each for each in entries_of(store) if each.entity == "job"
    )
    row = world.row(job_id)
    left_out = {"args", "kwargs", "last_error", "rev"}
    assert json.loads(failed.post or "") == {
        name: value for name, value in row.items() if name not in left_out
    }
    assert (failed.rev, failed.at_ms) == (row["rev"], world.clock.now_ms())
    assert [each.action for each in (created, claimed, failed)] == [
        "enqueue:enqueue",
        "claim:claim",
        "fail:retry",
    ]
    assert [each.handoff_id for each in (created, claimed, failed)] == [
        None,
        None,
        handoff.handoff_id,
    ]
    assert noted(store, "counter", "k") == [
        (0, "create"),
        (1, "reserve"),
        (2, "release"),
    ]
    assert_possible(store)


Use = Callable[[SqlJobStore], object]


def _settle(store: SqlJobStore) -> None:
    held = _claimed(store, 4)
    acks = [Settlement.complete(each) for each in held[:2]]
    acks += [Settlement.fail(held[2], "e"), Settlement.reschedule(held[3], 0)]
    store.settle([*acks, acks[0]], claim=4)


def _batches(store: SqlJobStore) -> None:
    requests = [JobRequest("b", [n], queue="q") for n in range(30)]
    store.enqueue_many(requests)
    store.claim(5)


def _leases(store: SqlJobStore) -> None:
    held = _claimed(store, 3)
    store.extend_leases(held, lease_ms=7)
    store.cancel(held[0].job.id)
    store.recover_handed_off()


def _cancels(store: SqlJobStore) -> None:
    job_id = store.enqueue("c")
    store.cancel(job_id)
    store.requeue(job_id)


def _schedules(store: SqlJobStore) -> None:
    for _ in range(2):
        store.replace_scheduled("s", "w", scheduled_at=10**12)
    store.wake_scheduled("s")
    store.claim()
    store.replace_scheduled("s", "w")
    store.claim()
    store.cancel_scheduled("s")
    store.cancel_scheduled("s")


def _set_concurrency(store: SqlJobStore) -> None:
    store.set_concurrency("k", 1)
    store.enqueue("w", concurrency_key="k", max_concurrency=1)
    store.claim()
    store.set_concurrency("k", 3)


def _adopts(store: SqlJobStore) -> None:
    store.enqueue_many([JobRequest("w", [n], queue="r") for n in range(5)])
    store.enqueue("w", queue="r", priority=7)
    store.reconcile_queue_policies({"r": QueuePolicy(max_concurrent=1, priority=3)})
    store.claim(3)
    store.reconcile_queue_policies({})


def _prunes(store: SqlJobStore) -> None:
    for handoff in _claimed(store, 3):
        store.complete(handoff.job.id, handoff.handoff_id)
    store.enqueue("w", concurrency_key="k", max_concurrency=1)
    (handoff,) = store.claim()
    store.complete(handoff.job.id, handoff.handoff_id)
    store.prune_terminal(completed_ttl_ms=0, batch_size=2)


@pytest.mark.parametrize(
    "use",
    [
        _settle,
        _batches,
        _leases,
        _cancels,
        _schedules,
        _set_concurrency,
        _adopts,
        _prunes,
    ],
)
def test_every_write_is_noted(store: SqlJobStore, use: Use) -> None:
    use(store)

    verdict = assert_possible(store)
    assert verdict.counts["transitions"] > 0


@pytest.mark.parametrize(
    "use", [_settle, _batches, _leases, _cancels, _schedules, _adopts]
)
def test_T1_also_in_a_transaction_of_the_callers(world: World, use: Use) -> None:
    world.store(journal=True).ensure_ready()
    with world.joined(journal=True, queues=CAPPED) as joined:
        use(joined)

    assert_possible(world.store(journal=True))


def test_T1_what_is_rolled_back_is_not_noted(store: SqlJobStore, world: World) -> None:
    with world.database.stock.connect() as connection:
        store.within(connection).enqueue("w")
        connection.rollback()
    store.enqueue("w", concurrency_key="k", max_concurrency=1)
    with world.joined(journal=True) as joined:
        with pytest.raises(ConcurrencyConflict):
            joined.enqueue("w", concurrency_key="k", max_concurrency=2)
        joined.enqueue("w")

    assert assert_possible(store).counts["jobs"] == 2


def test_R1_a_counter_that_is_made_again_goes_on_with_its_revisions(
    store: SqlJobStore,
) -> None:
    for _ in range(2):
        job_id = store.enqueue("w", concurrency_key="k", max_concurrency=1)
        (handoff,) = store.claim()
        store.complete(job_id, handoff.handoff_id)
        store.prune_terminal(completed_ttl_ms=0)

    actions = ["create", "reserve", "release", "delete"]
    assert noted(store, "counter", "k") == list(enumerate(actions * 2))
    assert_possible(store)


def test_C9_counters_that_are_missing_or_wrong_are_noted_as_they_are_mended(
    store: SqlJobStore, world: World
) -> None:
    store.enqueue("w", concurrency_key="k", max_concurrency=1)
    store.claim()
    world.execute(update(world.tables.concurrency).values(active_count=0))
    store.reconcile_active_concurrency()

    assert noted(store, "counter", "k")[-1] == (2, "repair")
    assert (refused(store).rule, refused(store).action) == ("C9", "repair")


def test_K3_owners_that_are_rebuilt_go_on_with_their_revisions(
    bare: World,
) -> None:
    store = bare.store(journal=True)
    store.replace_scheduled("s", "w")
    store.replace_scheduled("s", "w")
    bare.tables.schedule_keys.drop(bare.database.engine)
    store.ensure_ready()
    store.replace_scheduled("s", "w")

    assert noted(store, "schedule_key", "s") == [
        (1, "own"),
        (3, "disown+own"),
        (4, "rebuild"),
        (6, "disown+own"),
    ]
    assert_possible(store)


def test_K3_the_first_note_of_an_owner_may_be_its_rebuilding(bare: World) -> None:
    plain = bare.store()
    plain.replace_scheduled("s", "w")
    bare.tables.schedule_keys.drop(bare.database.engine)
    store = bare.store(journal=True)
    store.ensure_ready()

    assert noted(store, "schedule_key", "s") == [(0, "rebuild")]
    assert assert_possible(store).earlier == 1


def test_clearing_begins_a_new_journal(store: SqlJobStore) -> None:
    _batches(store)
    store.clear()
    assert entries_of(store) == []
    _batches(store)

    assert assert_possible(store).earlier == 0


def test_a_journal_that_begins_late_says_so(world: World) -> None:
    plain = world.store(queues=CAPPED)
    _batches(plain)
    store = world.store(journal=True, queues=CAPPED)
    _settle(store)
    _adopts(store)

    verdict = assert_possible(store)

    # 30 jobs and the counter of their queue.
    assert verdict.earlier == 31
    assert verdict.counts["jobs"] > 30


def test_a_store_that_notes_nothing_is_found_out(
    store: SqlJobStore, world: World
) -> None:
    (handoff,) = _claimed(store)
    plain = world.store()
    plain.extend_lease(handoff.job.id, handoff.handoff_id)
    found = refused(store)
    assert (found.rule, found.entity_id) == ("journal", handoff.job.id)
    assert found.action is None

    store.complete(handoff.job.id, handoff.handoff_id)

    found = refused(store)
    assert (found.rule, found.rev) == ("journal", 3)
    assert found.action == "complete:complete"


def test_a_note_that_clashes_never_stops_the_work(
    store: SqlJobStore, world: World
) -> None:
    job_id = store.enqueue("w", concurrency_key="k", max_concurrency=1)
    taken = {"entity": "counter", "entity_id": "k", "rev": 1}
    rest = {"tx": "t", "writes": 1, "action": "reserve", "at_ms": 1, "post": None}
    world.execute(insert(world.tables.journal).values(**taken, **rest))

    (handoff,) = store.claim()

    assert store.complete(job_id, handoff.handoff_id).accepted
    assert refused(store).rule == "journal"


def test_M21_a_damaged_row_does_not_stop_what_ends_its_job(world: World) -> None:
    if world.name != "sqlite":
        pytest.skip("only SQLite stores a value of any type in any column")
    store = world.store(journal=True)
    job_id = store.enqueue("w")
    world.execute(update(world.tables.jobs).values(max_retries=b"\xff"))

    assert store.claim() == []

    assert world.row(job_id)["status"] == "failed"
    assert noted(store, "job", job_id)[-1] == (1, "reject:reject")
    assert json.loads(entries_of(store)[-1].post or "")["max_retries"] == "b'\\xff'"
    assert refused(store).rule == "M11"  # the edit itself was not noted


def test_two_who_make_a_counter_at_once_note_one_creation(
    store: SqlJobStore, world: World
) -> None:
    """MariaDB cannot tell an INSERT from one that found a row."""
    other = world.store(journal=True)
    with ThreadPoolExecutor(1) as pool:
        with world.database.stock.begin() as connection:
            joined = store.within(connection)
            joined.enqueue("w", concurrency_key="k", max_concurrency=1)
            waiting = pool.submit(other.set_concurrency, "k", 2)
            wait_until_blocked(world, waiting)
        waiting.result()

    assert noted(store, "counter", "k") == [(0, "create"), (1, "set_cap")]
    assert_possible(store)


def wait_until_blocked(world: World, waiting: Future[None]) -> None:
    """Wait until another connection waits for a lock; on SQLite for its turn."""
    if world.name == "sqlite":
        return  # it waits for the writer's end in any case
    with world.database.engine.connect() as connection:
        while not waiting.done():
            if somebody_waits(world, connection):
                return
            connection.rollback()


def somebody_waits(world: World, connection: Connection) -> bool:
    """Whether a statement on this world's tables waits; others use the server too."""
    if world.name == "mariadb":
        return any(world.prefix in each for each in waiting_on_mysql(connection))
    statement = text(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
        "AND position(:prefix IN query) > 0"
    )
    found = connection.execute(statement, {"prefix": world.prefix})
    return bool(found.scalar_one())


def test_nothing_is_noted_for_what_is_only_read(store: SqlJobStore) -> None:
    _batches(store)
    before = len(entries_of(store))
    store.counts()
    store.queue_stats()
    store.next_available()
    store.get("none")
    store.complete("none", "none")

    assert len(entries_of(store)) == before


@pytest.mark.parametrize("end", ["complete", "return_to_queue", "reschedule", "fail"])
def test_a_running_owner_may_be_replaced_and_leave_within_one_millisecond(
    store: SqlJobStore, end: str
) -> None:
    """The replacement reads the owner and does not write it: no revision says when."""
    for _ in range(20):
        outcome = store.replace_scheduled("k", "w", max_retries=3)
        handoff = store.claim_job(outcome.job_id)
        assert handoff is not None
        store.replace_scheduled("k", "w")
        more = {"fail": ["boom"], "reschedule": []}.get(end, [])
        kwargs = {"delay_ms": 0} if end == "reschedule" else {}
        getattr(store, end)(outcome.job_id, handoff.handoff_id, *more, **kwargs)
        again = store.claim_job(outcome.job_id)
        if again is not None:
            assert store.complete(outcome.job_id, again.handoff_id).accepted
        store.cancel_scheduled("k")
    assert_possible(store)


def test_a_journal_whose_rows_are_deleted_begins_again(
    store: SqlJobStore, world: World
) -> None:
    """The way to shorten it: stop the workers, delete its rows, start them again."""
    _batches(store)
    world.execute(delete(world.tables.journal))
    again = world.store(journal=True, queues=CAPPED)
    _settle(again)

    assert verdict_of(again).ok
    assert verdict_of(again).earlier == 31


def test_the_async_store_notes_the_same(world: World) -> None:
    async def use() -> None:
        async with opened(world, journal=True, queues=CAPPED) as store:
            await store.enqueue_many(
                [JobRequest("w", [n], queue="q") for n in range(3)]
            )
            held = await store.claim(2)
            acks = [Settlement.complete(held[0]), Settlement.fail(held[1], "e")]
            await store.settle(acks, claim=1)
            await store.replace_scheduled("s", "w")
            async with store.engine.connect() as connection:
                await store.within(connection).enqueue("undone")
                await connection.rollback()

    asyncio.run(use())

    verdict = assert_possible(world.store(journal=True))
    assert verdict.counts["transitions"] == 9
