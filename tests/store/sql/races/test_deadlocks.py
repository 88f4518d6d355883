"""
Operations whose needs cross, at once and again and again (C4, T2).

No deadlock may reach a caller. The databases' own figures say how many the store got
over by trying again: on PostgreSQL none at all, for there its lock order is complete.
"""

import random
import time

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from jobfence.statemachine.clock import ManualClock
from jobfence.statemachine.options import JobRequest
from jobfence.statemachine.policy import QueuePolicy
from jobfence.statemachine.retry import ExponentialRetry
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import CancelOutcome, Handoff, Settlement
from tests.store.sql.races.conftest import Note
from tests.store.sql.races.crew import in_rounds
from tests.store.sql.races.place import Place

START_MS = 1_000_000


@pytest.fixture(autouse=True)
def _nothing_amiss(place: Place, note: Note, rounds: int) -> Iterator[None]:
    """After each test here: counters are right, and PostgreSQL met no deadlock."""
    began = time.perf_counter()
    yield
    seconds = round(time.perf_counter() - began, 1)
    note(rounds=rounds, seconds=seconds, **dict(place.troubles.seen))
    assert place.drift() == {}
    if place.database == "postgresql":
        assert place.troubles.deadlocks == 0
    assert place.troubles.busy == 0


def requests(keys: list[str], n: int) -> list[JobRequest]:
    """Return `n` jobs whose concurrency keys take turns; each key's queue is its own."""
    return [
        JobRequest(
            "job",
            [number],
            queue=keys[number % len(keys)],
            concurrency_key=keys[number % len(keys)],
            max_concurrency=1000,
        )
        for number in range(n)
    ]


def test_settle_against_settle_with_crossed_keys(place: Place, rounds: int) -> None:
    """Each gives a slot of one key back and claims one of the other's, both at once."""
    store = place.store()
    store.enqueue_many(requests(["a", "b"], 2 * rounds + 4))
    done: list[str] = []

    def crossing(first: str, second: str) -> Callable[[int], None]:
        held: list[Handoff] = store.claim(1, queues=[first])
        wanted = [second, first]

        def work(number: int) -> None:
            acks, held[:] = store.settle(
                [Settlement.complete(each) for each in held],
                claim=1,
                queues=[wanted[number % 2]],
            )
            assert [ack.accepted for ack in acks] == [True]
            assert len(held) == 1
            done.extend(ack.job.id for ack in acks if ack.job is not None)

        return work

    in_rounds(rounds, crossing("a", "b"), crossing("b", "a"))
    assert len(done) == len(set(done)) == 2 * rounds
    assert place.count(JobStatus.COMPLETED) == 2 * rounds
    assert place.counters() == {"a": 1, "b": 1}


def test_settle_of_batches_that_name_the_same_keys_in_opposite_orders(
    place: Place, rounds: int
) -> None:
    store = place.store(retry_policy=ExponentialRetry(base_ms=0, max_ms=0))
    store.enqueue_many(requests(["a", "b", "c"], 24))
    handoffs: list[str] = []

    def worker(number: int) -> Callable[[int], None]:
        held: list[Handoff] = store.claim(3)
        chosen = random.Random(number)
        ways = (Settlement.return_to_queue, lambda each: Settlement.fail(each, "no"))

        def work(_: int) -> None:
            chosen.shuffle(held)
            acks, held[:] = store.settle(
                [chosen.choice(ways)(each) for each in held], claim=3
            )
            assert all(ack.accepted for ack in acks)
            handoffs.extend(each.handoff_id for each in held)

        return work

    in_rounds(rounds, *(worker(number) for number in range(4)))
    assert len(handoffs) == len(set(handoffs))
    assert sum(place.counters().values()) == place.count(JobStatus.HANDED_OFF)


def test_replace_against_cancel_by_id_and_by_key_against_the_owners_end(
    place: Place, rounds: int
) -> None:
    store = place.store()
    owners: list[str] = []
    seen: Counter[str] = Counter()

    def before(number: int) -> None:
        made = store.replace_scheduled(
            "s", "job", [number], concurrency_key=f"k{number % 3}", max_concurrency=9
        )
        owners.append(made.job_id)

    def replace(number: int) -> None:
        made = store.replace_scheduled(
            "s", "next", concurrency_key=f"k{(number + 1) % 3}", max_concurrency=9
        )
        seen[f"replaced {made.previous_status}"] += 1

    def cancel_by_id(_: int) -> None:
        seen[f"by id {store.cancel(owners[-1]).outcome}"] += 1

    def cancel_by_key(_: int) -> None:
        seen[f"by key {store.cancel_scheduled('s').outcome}"] += 1

    def run(_: int) -> None:
        handoff = store.claim_job(owners[-1])
        if handoff is not None:
            assert store.complete(handoff.job.id, handoff.handoff_id).accepted
            seen["completed"] += 1

    def after(_: int) -> None:
        (key,) = place.rows(place.tables.schedule_keys)
        owner = None if key["job_id"] is None else store.get(key["job_id"])
        assert owner is None or owner.status is JobStatus.QUEUED

    in_rounds(
        rounds,
        replace,
        cancel_by_id,
        cancel_by_key,
        run,
        before=before,
        after=after,
    )
    ended = place.count(JobStatus.COMPLETED) + place.count(JobStatus.CANCELLED)
    assert seen["completed"] == place.count(JobStatus.COMPLETED)
    assert ended + place.count(JobStatus.QUEUED) == 2 * rounds
    orders = {row["schedule_order"] for row in place.jobs().values()}
    assert orders == set(range(1, 2 * rounds + 1))


def test_replace_in_opposite_orders_inside_settles_of_the_owners(
    place: Place, rounds: int
) -> None:
    """
    Owners of two schedule keys end in one transaction, in either order.

    A round has as many transactions as five others.
    """
    store = place.store()
    held: dict[str, list[Handoff]] = {"up": [], "down": []}

    def before(_: int) -> None:
        ids = [
            store.replace_scheduled(key, "job").job_id
            for key in ("s1", "s2", "s3", "s4")
        ]
        found = [store.claim_job(each) for each in ids]
        handoffs = [each for each in found if each is not None]
        assert len(handoffs) == 4
        held["up"], held["down"] = handoffs[0::2], handoffs[1::2][::-1]

    def end(which: str) -> Callable[[int], None]:
        def work(_: int) -> None:
            acks, _more = store.settle(
                [Settlement.complete(each) for each in held[which]]
            )
            assert [ack.accepted for ack in acks] == [True, True]

        return work

    def replace(_: int) -> None:
        for key in ("s4", "s3", "s2", "s1"):
            store.replace_scheduled(key, "other", scheduled_at=2**40)

    in_rounds(rounds // 5, end("up"), end("down"), replace, before=before)
    owned = [row["job_id"] for row in place.rows(place.tables.schedule_keys)]
    jobs = place.jobs()
    assert all(jobs[owner]["status"] == JobStatus.QUEUED for owner in owned)


def test_reconciling_policies_against_claims(place: Place, rounds: int) -> None:
    policies = [
        {"x": QueuePolicy(max_concurrent=4, priority=1), "y": QueuePolicy()},
        {"y": QueuePolicy(max_concurrent=3), "x": QueuePolicy(priority=2)},
        {"x": QueuePolicy(max_concurrent=2), "y": QueuePolicy(max_concurrent=5)},
        {"y": QueuePolicy(priority=-1)},
    ]
    opener = place.store()
    opener.enqueue_many([JobRequest("job", [n], queue="xy"[n % 2]) for n in range(20)])

    def reconciler(shift: int) -> Callable[[int], None]:
        own = place.store()

        def work(number: int) -> None:
            own.reconcile_queue_policies(policies[(number + shift) % len(policies)])

        return work

    def worker() -> Callable[[int], None]:
        own = place.store()
        held: list[Handoff] = []

        def work(_: int) -> None:
            acks, held[:] = own.settle(
                [Settlement.return_to_queue(each) for each in held], claim=3
            )
            assert all(ack.accepted for ack in acks)

        return work

    in_rounds(rounds, reconciler(0), reconciler(1), worker(), worker())


def test_batches_in_opposite_orders(place: Place, rounds: int) -> None:
    """Two batches share identities, idempotency keys and new concurrency keys."""
    store = place.store()
    got: dict[str, list[str]] = {}

    def batch(number: int) -> list[JobRequest]:
        made = []
        for n in range(4):
            once = JobRequest("once", [n], idempotency_key=f"{number}.{n}")
            keyed = [
                JobRequest(
                    name,
                    [number, n],
                    concurrency_key=f"k{number}.{n}",
                    max_concurrency=2,
                    deduplicate_while_queued=name == "twin",
                )
                for name in ("twin", "plain")
            ]
            made += [keyed[0], once, keyed[1]]
        return made

    def forth(number: int) -> None:
        got["forth"] = store.enqueue_many(batch(number))

    def back(number: int) -> None:
        got["back"] = store.enqueue_many(batch(number)[::-1])

    def after(_: int) -> None:
        forth_ids, back_ids = got["forth"], got["back"][::-1]
        same = [a == b for a, b in zip(forth_ids, back_ids, strict=True)]
        assert same == [True, True, False] * 4

    in_rounds(rounds, forth, back, after=after)
    assert place.count(JobStatus.QUEUED) == rounds * (4 + 4 + 8)


def test_F55_completing_a_and_b_against_enqueueing_b_and_a(
    place: Place, rounds: int
) -> None:
    """Case F55."""
    store = place.store()
    keys = ["a", "b"]
    pair = requests(keys, 2)
    held: list[Handoff] = []

    def before(_: int) -> None:
        store.enqueue_many(pair)
        held[:] = store.claim(2)
        assert len(held) == 2

    def complete(_: int) -> None:
        acks, _more = store.settle([Settlement.complete(each) for each in held])
        assert [ack.accepted for ack in acks] == [True, True]

    def enqueue(_: int) -> None:
        store.enqueue_many(pair[::-1])

    in_rounds(rounds, complete, enqueue, before=before)
    assert place.count(JobStatus.COMPLETED) == 2 * rounds
    assert place.counters() == {"a": 0, "b": 0}


def test_F52_pruning_against_enqueues_claims_completions_and_cancels(
    place: Place, rounds: int
) -> None:
    """Case F52: no 1213 reaches a caller, and what was enqueued is executed."""
    store = place.store()
    enqueued: list[str] = []
    ended: list[str] = []
    pruned: list[int] = []

    def produce(number: int) -> None:
        batch = [
            JobRequest(
                "job", [n], concurrency_key=f"k{(number + n) % 7}", max_concurrency=2
            )
            for n in range(3)
        ]
        enqueued.extend(store.enqueue_many(batch))

    def consume(_: int) -> None:
        for handoff in store.claim(2):
            assert store.complete(handoff.job.id, handoff.handoff_id).accepted
            ended.append(handoff.job.id)

    def cancel(number: int) -> None:
        job_id = enqueued[-1] if enqueued and number % 4 == 0 else "none"
        if store.cancel(job_id).outcome is CancelOutcome.CANCELLED:
            ended.append(job_id)

    def prune(_: int) -> None:
        pruned.append(
            store.prune_terminal(completed_ttl_ms=0, cancelled_ttl_ms=0, batch_size=5)
        )

    in_rounds(rounds, produce, consume, consume, cancel, prune, prune)
    for _ in range(rounds):
        consume(0)
    assert sorted(ended) == sorted(enqueued)
    prune(0)
    assert sum(pruned) == len(enqueued)
    assert place.jobs() == {}


def test_F1_F7_F11_recovery_against_acknowledgements(place: Place, rounds: int) -> None:
    """Cases F1, F7, F11: each handoff ends once, whoever comes first."""
    clock = ManualClock(START_MS)
    store = place.store(
        clock=clock, retry_policy=ExponentialRetry(base_ms=0, max_ms=0), lease_ms=1000
    )
    other = place.store(
        clock=clock, retry_policy=ExponentialRetry(base_ms=0, max_ms=0), lease_ms=1000
    )
    held: list[Handoff] = []
    completed: list[str] = []
    recovered: list[str] = []
    doubly: list[int] = []

    def before(_: int) -> None:
        store.enqueue_many(requests(["a", "b"], 4 - store.counts()[JobStatus.QUEUED]))
        held[:] = store.claim(4)
        assert len(held) == 4
        clock.advance(1000)
        doubly.append(len(recovered))

    def complete(_: int) -> None:
        pair = held[1:3][::-1]
        acks, _more = store.settle([Settlement.complete(each) for each in pair])
        completed.extend(
            each.handoff_id
            for each, ack in zip(pair, acks, strict=True)
            if ack.accepted
        )

    def recover(own: object) -> Callable[[int], None]:
        assert own in (store, other)

        def work(_: int) -> None:
            jobs = (store if own is store else other).recover_expired(limit=10)
            recovered.extend(str(job.last_handoff_id) for job in jobs)

        return work

    def after(number: int) -> None:
        ended = completed[:] + recovered[:]
        assert len(ended) == len(set(ended)) == 4 * (number + 1)

    in_rounds(
        rounds, complete, recover(store), recover(other), before=before, after=after
    )
    assert place.count(JobStatus.COMPLETED) == len(completed)
    attempts = sum(row["attempts"] for row in place.jobs().values())
    assert attempts == len(recovered)


def test_claiming_one_job_by_id_against_claiming_any_against_cancelling_it(
    place: Place, rounds: int
) -> None:
    store = place.store()
    ids: list[str] = []
    outcomes: Counter[str] = Counter()
    handed_off: list[str] = []

    def before(_: int) -> None:
        ids.append(store.enqueue("job", concurrency_key="k", max_concurrency=1))

    def keep(handoff: Handoff | None) -> None:
        if handoff is not None:
            handed_off.append(handoff.job.id)
            assert store.return_to_queue(handoff.job.id, handoff.handoff_id).accepted

    def by_id(_: int) -> None:
        keep(store.claim_job(ids[-1]))

    def any_job(_: int) -> None:
        for handoff in store.claim(1):
            keep(handoff)

    def cancel(_: int) -> None:
        outcomes[store.cancel(ids[-1]).outcome] += 1

    def after(_: int) -> None:
        while rest := store.claim(1):
            (handoff,) = rest
            assert store.complete(handoff.job.id, handoff.handoff_id).accepted

    in_rounds(rounds, by_id, any_job, cancel, before=before, after=after)
    assert set(outcomes) <= {CancelOutcome.CANCELLED, CancelOutcome.REQUESTED}
    assert sum(outcomes.values()) == rounds
    assert outcomes[CancelOutcome.CANCELLED] <= place.count(JobStatus.CANCELLED)
    ended = place.count(JobStatus.CANCELLED) + place.count(JobStatus.COMPLETED)
    assert ended == rounds
