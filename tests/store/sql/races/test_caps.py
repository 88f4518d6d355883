"""Caps hold while claims, releases and changes of one key overlap (the C rules)."""

from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest

from jobfence.statemachine.options import JobRequest
from jobfence.statemachine.policy import QueuePolicy
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import AckResult, Handoff, Settlement
from tests.store.sql.races.crew import Running, in_rounds, together
from tests.store.sql.races.place import Place

ROUNDS = 15


def keyed(n: int, key: str, cap: int) -> list[JobRequest]:
    return [
        JobRequest("job", [number], concurrency_key=key, max_concurrency=cap)
        for number in range(n)
    ]


@pytest.mark.on("postgresql", "mariadb")
@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_F25_overlapping_claims_never_exceed_a_cap_of_one(
    place: Place, end: str
) -> None:
    """Case F25: the second waits, and then finds the slot taken, or given back."""
    store = place.store()
    store.enqueue_many(keyed(2, "k", 1))
    with place.looking.connect() as connection:
        (first,) = store.within(connection).claim(1)
        second = Running(lambda: store.claim(1))
        place.until_waiting(second)
        getattr(connection, end)()
    found = second.result()
    held = [row["id"] for row in place.jobs().values() if row["status"] == "handed_off"]
    if end == "commit":
        assert found == []
        assert held == [first.job.id]
    else:
        assert [each.job.id for each in found] == held
    assert place.counters() == {"k": 1}


def test_F25_many_claims_at_once_never_exceed_a_cap_of_one(place: Place) -> None:
    """Case F25."""
    store = place.store()
    store.enqueue_many(keyed(ROUNDS, "k", 1))
    won: list[Handoff] = []

    def claim(_: int) -> None:
        won.extend(store.claim(1))

    def after(number: int) -> None:
        assert place.counters() == {"k": 1}
        assert place.count(JobStatus.HANDED_OFF) == 1
        assert len(won) == number + 1
        assert store.complete(won[-1].job.id, won[-1].handoff_id).accepted

    in_rounds(ROUNDS, claim, claim, claim, claim, after=after)


def test_F26_batches_at_once_take_as_many_as_the_cap_together(place: Place) -> None:
    """Case F26, also when several batches overlap."""
    store = place.store()
    store.enqueue_many(keyed(30, "k", 2))
    first, second, third = together(*[lambda: store.claim(10)] * 3)
    assert len(first + second + third) == 2
    assert place.counters() == {"k": 2}


def free_then_claim(store_place: Place) -> Callable[[Handoff], list[Handoff]]:
    store = store_place.store()

    def work(held: Handoff) -> list[Handoff]:
        assert store.complete(held.job.id, held.handoff_id).accepted
        return store.claim(1)

    return work


def settle(store_place: Place) -> Callable[[Handoff], list[Handoff]]:
    store = store_place.store()

    def work(held: Handoff) -> list[Handoff]:
        _acks, found = store.settle([Settlement.complete(held)], claim=1)
        return found

    return work


@pytest.mark.parametrize("way", [free_then_claim, settle])
def test_F29_slots_given_back_at_once_are_all_taken_again(
    place: Place, way: Callable[[Place], Callable[[Handoff], list[Handoff]]]
) -> None:
    """Case F29: five workers end together, and five jobs run again."""
    store, work = place.store(), way(place)
    store.enqueue_many(keyed(5 + 5 * ROUNDS, "k", 5))
    held = store.claim(5)
    for _ in range(ROUNDS):
        found = together(*[partial(work, each) for each in held])
        held = [handoff for each in found for handoff in each]
        assert len(held) == 5
        assert place.counters() == {"k": 5}
    assert place.count(JobStatus.HANDED_OFF) == 5


def test_F46_a_saturated_key_hides_no_other_work(place: Place) -> None:
    """Case F46: 1,000 jobs stand before it, and others look at the same moment."""
    store = place.store()
    store.enqueue_many([*keyed(1000, "k", 1), JobRequest("other", queue="l")])
    (taken,) = store.claim(1)
    assert taken.job.concurrency_key == "k"
    found = together(*[lambda: store.claim(1)] * 3)
    assert [each.job.name for handoffs in found for each in handoffs] == ["other"]


@pytest.mark.on("postgresql", "mariadb")
def test_a_worker_that_passes_a_saturated_key_by_hides_none_of_it_from_others(
    place: Place,
) -> None:
    """The rows that a claim passes over are not locked by it."""
    store = place.store()
    store.enqueue_many(keyed(30, "k", 1))
    (taken,) = store.claim(1)
    other = store.enqueue("other")
    with place.looking.connect() as connection, connection.begin():
        claimed = store.within(connection).claim(5)
        assert [each.job.id for each in claimed] == [other]
        # Settles the holder of the key's slot, and gets the next behind it.
        settling = Running(lambda: store.settle([Settlement.complete(taken)], claim=1))
        _acks, handoffs = settling.result()
        assert [each.job.concurrency_key for each in handoffs] == ["k"]


def test_A79_the_same_completion_twice_at_once_releases_one_slot(place: Place) -> None:
    """Case A79: one is accepted; the other is told that it was done already."""
    store, other = place.store(), place.store()
    store.enqueue_many(keyed(2 * ROUNDS, "k", 2))
    held = store.claim(2)
    for _ in range(ROUNDS):
        done, kept = held
        acks = together(
            partial(store.complete, done.job.id, done.handoff_id),
            partial(other.complete, done.job.id, done.handoff_id),
        )
        results = sorted(ack.result for ack in acks)
        assert results == [AckResult.ACCEPTED, AckResult.REPEATED]
        assert place.counters() == {"k": 1}
        held = [kept, *store.claim(2)]
    assert place.count(JobStatus.COMPLETED) == ROUNDS


def test_A80_two_reservations_at_once_on_a_cap_of_two_both_win(place: Place) -> None:
    """Case A80."""
    store, other = place.store(), place.store()
    for number in range(ROUNDS):
        ids = store.enqueue_many(keyed(2, f"k{number}", 2))
        found = together(
            partial(store.claim_job, ids[0]), partial(other.claim_job, ids[1])
        )
        assert [each.job.id for each in found if each is not None] == ids
        assert place.counters()[f"k{number}"] == 2


def test_A82_every_way_out_at_once_gives_its_slot_back(place: Place) -> None:
    """Case A82: of six, four leave at one moment; two stay."""
    store = place.store()
    store.enqueue_many(keyed(6, "k", 8))
    one, two, three, four, *_rest = held = store.claim(8)
    assert len(held) == 6
    store.cancel(four.job.id)
    acks = together(
        lambda: store.complete(one.job.id, one.handoff_id),
        lambda: store.fail(two.job.id, two.handoff_id, "no"),
        lambda: store.return_to_queue(three.job.id, three.handoff_id),
        lambda: store.reschedule(four.job.id, four.handoff_id, delay_ms=0),
    )
    assert all(ack.accepted for ack in acks)
    assert place.count(JobStatus.HANDED_OFF) == 2
    assert place.count(JobStatus.CANCELLED) == 1
    assert place.counters() == {"k": 2}


def test_a_cap_lowered_while_claims_run_is_never_exceeded_afterwards(
    place: Place,
) -> None:
    """Rule C5: what runs drains first; none is admitted above the new cap."""
    store = place.store()
    store.enqueue_many(keyed(200, "k", 5))
    held: list[Handoff] = []
    seen: Counter[int] = Counter()

    def before(number: int) -> None:
        for handoff in held[:]:
            assert store.complete(handoff.job.id, handoff.handoff_id).accepted
        held.clear()

    def lower(number: int) -> None:
        store.set_concurrency("k", 2 + number % 4)

    def claim(_: int) -> None:
        held.extend(store.claim(3))

    def after(number: int) -> None:
        # Whichever came first, a second look sees the new cap in force.
        held.extend(store.claim(10))
        active = place.counters()["k"]
        seen[active] += 1
        assert active == len(held)
        assert active <= max(2 + number % 4, 2 + (number - 1) % 4)
        assert active >= 2 + number % 4

    in_rounds(ROUNDS, lower, claim, claim, before=before, after=after)
    assert len(seen) > 1


def test_a_queues_new_cap_is_taken_over_by_claims_at_once(place: Place) -> None:
    """Rules C3 and C8: claims of stores with different policies keep one counter."""
    small = place.store(queues={"q": QueuePolicy(max_concurrent=1)})
    large = place.store(queues={"q": QueuePolicy(max_concurrent=3)})
    small.enqueue_many([JobRequest("job", [n], queue="q") for n in range(40)])
    held: list[Handoff] = []

    def claim_small(_: int) -> None:
        held.extend(small.claim(2))

    def claim_large(_: int) -> None:
        held.extend(large.claim(2))

    def after(_: int) -> None:
        assert place.counters() == {"queue:q": len(held)}
        assert 1 <= len(held) <= 3
        for handoff in held:
            assert large.return_to_queue(handoff.job.id, handoff.handoff_id).accepted
        held.clear()

    in_rounds(ROUNDS, claim_small, claim_large, after=after)
    assert place.drift() == {}
