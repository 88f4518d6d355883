"""
Rule T1 where a transaction reads the past: REPEATABLE READ, the default of MariaDB.

A plain read there sees the time of the transaction's first read, while locking reads
and writes see what is committed. Whatever the store decides by must be of the second
kind (docs/decisions).
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sqlalchemy import select, update

from jobfence.statemachine.errors import (
    ConcurrencyConflict,
    IdempotencyConflict,
    RetryableError,
)
from jobfence.statemachine.options import JobRequest
from jobfence.statemachine.policy import QueuePolicy
from jobfence.statemachine.values import (
    AckResult,
    CancelOutcome,
    Settlement,
    WakeOutcome,
)
from jobfence.store import SqlJobStore
from tests.store.sql.bench import World, only

pytestmark = only("mariadb")


@contextmanager
def past(
    world: World, store: SqlJobStore, isolation: str = "REPEATABLE READ"
) -> Iterator[SqlJobStore]:
    """Join a transaction that has read something already; it is committed at the end."""
    store.ensure_ready()
    with world.database.stock.connect() as connection:
        connection.execution_options(isolation_level=isolation)
        with connection.begin():
            assert connection.execute(select(world.tables.migrations)).all()
            world.impatient(connection)
            yield store.within(connection)


def active(world: World, key: str) -> int:
    return world.counters()[key][1]


LEVELS = pytest.mark.parametrize(
    "isolation",
    ["REPEATABLE READ", "SERIALIZABLE", "READ COMMITTED", "READ UNCOMMITTED"],
)


def test_a_stock_engine_is_at_repeatable_read(world: World) -> None:
    with world.database.stock.connect() as connection:
        assert connection.get_isolation_level() == "REPEATABLE READ"


@LEVELS
def test_E4_a_twin_that_others_have_committed_since_is_found(
    world: World, isolation: str
) -> None:
    store = world.store()
    with past(world, store, isolation) as joined:
        twin = store.enqueue("digest", [1], deduplicate_while_queued=True)
        assert joined.enqueue("digest", [1], deduplicate_while_queued=True) == twin
        other = joined.enqueue("digest", [2], deduplicate_while_queued=True)
    assert set(world.statuses()) == {twin, other}


@LEVELS
def test_E4_a_twin_that_was_claimed_since_is_no_twin(
    world: World, isolation: str
) -> None:
    store = world.store()
    old = store.enqueue("digest", [1], deduplicate_while_queued=True)
    with past(world, store, isolation) as joined:
        assert len(store.claim()) == 1
        new = joined.enqueue("digest", [1], deduplicate_while_queued=True)
    assert world.statuses() == {old: "handed_off", new: "queued"}


def test_E5_an_idempotency_key_that_was_taken_since_is_known(world: World) -> None:
    store = world.store()
    with past(world, store) as joined:
        first = store.enqueue("mail", [1], idempotency_key="k")
        assert joined.enqueue("mail", [1], idempotency_key="k") == first
        with pytest.raises(IdempotencyConflict):
            joined.enqueue("mail", [2], idempotency_key="k")
        other = joined.enqueue("mail", [2], idempotency_key="other")
    assert set(world.statuses()) == {first, other}


def test_E5_the_key_of_another_open_transaction_does_not_lock_out_ours(
    world: World,
) -> None:
    # A locking read that finds nothing would lock a whole gap of keys.
    store = world.store()
    with past(world, store) as one, past(world, store) as two:
        ids = [one.enqueue("mail", idempotency_key=f"one {n}") for n in range(5)]
        ids += [two.enqueue("mail", idempotency_key=f"two {n}") for n in range(5)]
    assert set(world.statuses()) == set(ids)


def test_C3_a_cap_that_was_registered_since_is_compared(world: World) -> None:
    store = world.store()
    with past(world, store) as joined:
        job_id = store.enqueue("one", concurrency_key="k", max_concurrency=2)
        with pytest.raises(ConcurrencyConflict):
            joined.enqueue("two", concurrency_key="k", max_concurrency=3)
        with pytest.raises(ConcurrencyConflict):
            joined.replace_scheduled("s", "two", concurrency_key="k", max_concurrency=3)
        other = joined.enqueue("two", concurrency_key="k", max_concurrency=2)
    assert set(world.statuses()) == {job_id, other}
    assert world.counters() == {"k": (2, 0)}


def test_R4_a_queue_that_was_paused_since_is_not_claimed_from(world: World) -> None:
    store = world.store()
    job_id = store.enqueue("thumbnail", queue="media")
    with past(world, store) as joined:
        store.pause_queue("media")
        later = store.enqueue("thumbnail", queue="media")
        assert joined.claim(2) == []
        assert joined.claim_job(later) is None
    assert set(world.statuses().values()) == {"queued"}
    assert set(world.statuses()) == {job_id, later}


def test_O1_a_claim_takes_what_is_queued_now(world: World) -> None:
    store = world.store()
    taken = store.enqueue("one")
    with past(world, store) as joined:
        store.claim()
        fresh = store.enqueue("two")
        handoffs = joined.claim(5)
        assert [each.job.id for each in handoffs] == [fresh]
        assert handoffs[0].job == joined.get(fresh)
        assert joined.claim_job(taken) is None
    assert set(world.statuses().values()) == {"handed_off"}


def test_C5_counters_are_exact_whatever_the_snapshot_says(world: World) -> None:
    store = world.store()
    kept = store.enqueue("one", concurrency_key="k", max_concurrency=2)
    with past(world, store) as joined:
        # Held since: a count of handed-off jobs in the snapshot would say none.
        store.claim_job(kept)
        more = [
            store.enqueue("one", concurrency_key="k", max_concurrency=2)
            for _ in range(2)
        ]
        assert [each.job.id for each in joined.claim(5)] == more[:1]
        assert joined.claim(5) == []
    assert world.counters() == {"k": (2, 2)}


def test_C5_a_counter_that_was_made_since_is_counted_as_it_is(world: World) -> None:
    store = world.store()
    with past(world, store) as joined:
        first, second, third = (
            store.enqueue("one", concurrency_key="k", max_concurrency=2)
            for _ in range(3)
        )
        assert store.claim_job(first) is not None
        assert joined.claim_job(second) is not None
        assert joined.claim_job(third) is None
    assert world.counters() == {"k": (2, 2)}


def test_C9_a_repair_counts_the_jobs_that_are_held_now(world: World) -> None:
    store = world.store()
    job_id = store.enqueue("one", concurrency_key="k", max_concurrency=9)
    counters = world.tables.concurrency
    world.execute(update(counters).values(active_count=5))
    with past(world, store) as joined:
        store.claim_job(job_id)
        assert active(world, "k") == 6
        (repair,) = joined.reconcile_active_concurrency().repairs
        assert (repair.previous_active_count, repair.active_count) == (6, 1)
    assert active(world, "k") == 1


def test_C8_a_claim_goes_by_the_policy_that_is_durable_now(world: World) -> None:
    store = world.store(queues=None)
    store.reconcile_queue_policies({"media": QueuePolicy(max_concurrent=1)})
    ids = [store.enqueue("one", queue="media") for _ in range(3)]
    fresh = world.store(queues=None)
    with past(world, fresh) as joined:
        store.reconcile_queue_policies({"media": QueuePolicy(max_concurrent=2)})
        assert [each.job.id for each in joined.claim(3)] == ids[:2]
    assert world.counters() == {"queue:media": (2, 2)}


def test_M18_an_acknowledgement_is_judged_by_the_handoff_that_stands_now(
    world: World,
) -> None:
    store = world.store()
    store.enqueue("one", concurrency_key="k", max_concurrency=1)
    (first,) = store.claim()
    with past(world, store) as joined:
        store.return_to_queue(first.job.id, first.handoff_id)
        (second,) = store.claim()
        assert joined.complete(first.job.id, first.handoff_id).stale
        ack = joined.complete(second.job.id, second.handoff_id)
        assert ack.accepted
        assert ack.job is not None
        assert ack.job.handoffs == 2
    assert world.statuses() == {first.job.id: "completed"}
    assert active(world, "k") == 0


def test_T5_in_a_batch_each_acknowledgement_is_judged_by_itself(world: World) -> None:
    store = world.store()
    store.enqueue_many([JobRequest("one"), JobRequest("two"), JobRequest("three")])
    first = store.claim(3)
    with past(world, store) as joined:
        lost = first[1]
        store.return_to_queue(lost.job.id, lost.handoff_id)
        assert len(store.claim()) == 1
        acks, _ = joined.settle([Settlement.complete(each) for each in first])
        assert [ack.result for ack in acks] == [
            AckResult.ACCEPTED,
            AckResult.STALE,
            AckResult.ACCEPTED,
        ]
    assert list(world.statuses().values()) == ["completed", "handed_off", "completed"]


def test_M8_a_lease_that_was_renewed_since_is_not_over(world: World) -> None:
    store = world.store(lease_ms=10)
    store.enqueue("one")
    store.enqueue("two")
    renewed, expired = store.claim(2)
    world.clock.advance(20)
    with past(world, store) as joined:
        assert store.extend_lease(renewed.job.id, renewed.handoff_id).accepted
        assert [job.id for job in joined.recover_expired()] == [expired.job.id]
    assert world.statuses() == {
        renewed.job.id: "handed_off",
        expired.job.id: "queued",
    }


def test_K1_a_schedule_key_is_read_after_it_is_locked(world: World) -> None:
    store = world.store()
    old = store.replace_scheduled("nightly", "report", scheduled_at=9000)
    with past(world, store) as joined:
        new = store.replace_scheduled("nightly", "report", [2], scheduled_at=9000)
        woken = joined.wake_scheduled("nightly")
        assert (woken.job_id, woken.outcome) == (new.job_id, WakeOutcome.WOKEN)
        cancelled = joined.cancel_scheduled("nightly")
        assert cancelled.job_id == new.job_id
        assert cancelled.outcome is CancelOutcome.CANCELLED
        third = joined.replace_scheduled("nightly", "report", [3])
        assert third.previous_job_id is None
    assert list(world.statuses().values()) == ["cancelled", "cancelled", "queued"]
    orders = {row["id"]: row["schedule_order"] for row in world.rows(world.tables.jobs)}
    assert [orders[each] for each in (old.job_id, new.job_id, third.job_id)] == [
        1,
        2,
        3,
    ]


def test_R5_a_job_that_ended_since_can_be_requeued(world: World) -> None:
    store = world.store()
    job_id = store.enqueue("one", [1])
    (handoff,) = store.claim()
    with past(world, store) as joined:
        store.complete(job_id, handoff.handoff_id)
        again = joined.requeue(job_id)
    assert world.row(again)["origin_id"] == job_id


def test_R3_a_cancel_sees_what_became_of_the_job(world: World) -> None:
    store = world.store()
    job_id = store.enqueue("one")
    with past(world, store) as joined:
        store.claim()
        assert joined.cancel(job_id).outcome is CancelOutcome.REQUESTED
    assert world.row(job_id)["cancel_requested"] is True


def test_M19_a_handoff_id_that_was_used_since_is_for_the_caller_to_repeat(
    world: World,
) -> None:
    store = world.store()
    one, two = store.enqueue("one"), store.enqueue("two")
    with past(world, store) as joined:
        store.claim_job(one, handoff_id="mine")
        with pytest.raises(RetryableError):
            joined.claim_job(two, handoff_id="mine")
    assert world.statuses() == {one: "handed_off", two: "queued"}


def test_F71_a_read_of_the_stores_own_sees_what_others_have_committed(
    world: World,
) -> None:
    # Also on an engine whose default is REPEATABLE READ.
    store = world.store(world.database.stock)
    job_id = store.enqueue("one")
    (handoff,) = store.claim()
    assert store.get(job_id) is not None
    world.store().complete(job_id, handoff.handoff_id)
    job = store.get(job_id)
    assert job is not None
    assert job.completed_at_ms == world.clock.now_ms()
