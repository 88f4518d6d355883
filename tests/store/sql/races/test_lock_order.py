"""
The one lock order (C4), each forbidden order staged on a second connection.

Another transaction holds what an operation must take first. While the operation waits
for that, everything it takes later must still be free: it may not have been taken
before. SQLite has one lock for all and no order.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from sqlalchemy import Connection, Table, insert

from jobfence.statemachine.clock import ManualClock
from jobfence.statemachine.errors import RetryableError
from jobfence.statemachine.options import JobRequest
from jobfence.statemachine.policy import QueuePolicy
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import AckResult, Handoff, Settlement
from jobfence.store.sql.store import SqlJobStore
from tests.store.sql.races.crew import Running
from tests.store.sql.races.place import Place

# Counters are made past the store, to be waited for.
pytestmark = [pytest.mark.on("postgresql", "mariadb"), pytest.mark.unnoted]

NOW_MS = 1_000_000
Work = Callable[[], object]


class Scene:
    """
    Jobs on which every operation has something to wait for.

    `one` and `two`, with ids in this order, are held under the keys "b" and "a" and own
    the schedule keys "t" and "s": so job, counter and schedule key orders all differ.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self.clock = ManualClock(NOW_MS)
        self.store = place.store(clock=self.clock, lease_ms=1000)
        self.one = self._held("t", "b")
        self.two = self._held("s", "a")
        assert self.one.job.id < self.two.job.id

    def _held(self, schedule_key: str, concurrency_key: str) -> Handoff:
        made = self.store.replace_scheduled(
            schedule_key,
            "job",
            concurrency_key=concurrency_key,
            max_concurrency=10,
        )
        handoff = self.store.claim_job(made.job_id)
        assert handoff is not None
        return handoff

    def queued(self, key: str, **options: Any) -> str:
        return self.store.enqueue(
            "job", concurrency_key=key, max_concurrency=10, **options
        )

    def job_is_free(self, handoff: Handoff) -> bool:
        return self.place.is_free(self.place.tables.jobs, id=handoff.job.id)

    def counter_is_free(self, key: str) -> bool:
        return self.place.is_free(self.place.tables.concurrency, concurrency_key=key)

    def schedule_is_free(self, key: str) -> bool:
        return self.place.is_free(self.place.tables.schedule_keys, schedule_key=key)

    @contextmanager
    def waiting(self, work: Work, table: Table, **row: str) -> Iterator[None]:
        """
        Let `work` run into a row that another connection holds, and look meanwhile.

        In the end the row is let go, and the work must end without an error.
        """
        self.place.troubles.seen.clear()
        with self.place.holding(table, **row):
            running = Running(work)
            self.place.until_waiting(running)
            yield
        running.result()
        assert not self.place.troubles.seen


@pytest.fixture
def scene(place: Place) -> Scene:
    return Scene(place)


def settle_both(scene: Scene) -> Work:
    """Acknowledge in the order that is wrong for jobs, and right for nothing else."""
    acks = [Settlement.complete(scene.two), Settlement.complete(scene.one)]
    return lambda: scene.store.settle(acks)


def recover_both(scene: Scene) -> Work:
    scene.clock.advance(1000)
    return scene.store.recover_expired


def recover_all(scene: Scene) -> Work:
    return scene.store.recover_handed_off


def complete_one(scene: Scene) -> Work:
    return lambda: scene.store.complete(scene.one.job.id, scene.one.handoff_id)


def fail_one(scene: Scene) -> Work:
    return lambda: scene.store.fail(scene.one.job.id, scene.one.handoff_id, "no")


def give_one_back(scene: Scene) -> Work:
    return lambda: scene.store.return_to_queue(scene.one.job.id, scene.one.handoff_id)


def reschedule_one(scene: Scene) -> Work:
    return lambda: scene.store.reschedule(
        scene.one.job.id, scene.one.handoff_id, delay_ms=5
    )


def extend_one(scene: Scene) -> Work:
    return lambda: scene.store.extend_lease(scene.one.job.id, scene.one.handoff_id)


def cancel_one(scene: Scene) -> Work:
    return lambda: scene.store.cancel(scene.one.job.id)


def cancel_its_key(scene: Scene) -> Work:
    return lambda: scene.store.cancel_scheduled("t")


def replace_it(scene: Scene) -> Work:
    return lambda: scene.store.replace_scheduled(
        "t", "job", concurrency_key="new", max_concurrency=1
    )


def wake_it(scene: Scene) -> Work:
    return lambda: scene.store.wake_scheduled("t")


def claim_it_again(scene: Scene) -> Work:
    return lambda: scene.store.claim_job(scene.one.job.id)


RELEASING = [complete_one, fail_one, give_one_back, reschedule_one, recover_all]
ON_THE_JOB = [*RELEASING, settle_both, extend_one, cancel_one, claim_it_again]
ON_THE_KEY = [*ON_THE_JOB, recover_both, cancel_its_key, replace_it, wake_it]


@pytest.mark.parametrize("operation", RELEASING)
def test_no_counter_is_taken_before_the_job(
    scene: Scene, operation: Callable[[Scene], Work]
) -> None:
    work = operation(scene)
    with scene.waiting(work, scene.place.tables.jobs, id=scene.one.job.id):
        assert scene.counter_is_free("a")
        assert scene.counter_is_free("b")


@pytest.mark.parametrize("operation", ON_THE_KEY)
def test_no_job_is_taken_before_its_schedule_key(
    scene: Scene, operation: Callable[[Scene], Work]
) -> None:
    work = operation(scene)
    tables = scene.place.tables
    with scene.waiting(work, tables.schedule_keys, schedule_key="t"):
        assert scene.job_is_free(scene.one)
        assert scene.job_is_free(scene.two)
        assert scene.counter_is_free("a")
        assert scene.counter_is_free("b")
        assert inserts_at_once(scene.place, tables.concurrency, counter("new"))


@pytest.mark.parametrize("operation", [settle_both, recover_both, recover_all])
def test_schedule_keys_are_taken_in_their_order(
    scene: Scene, operation: Callable[[Scene], Work]
) -> None:
    work = operation(scene)
    with scene.waiting(work, scene.place.tables.schedule_keys, schedule_key="s"):
        assert scene.schedule_is_free("t")


def extend_both(scene: Scene) -> Work:
    return lambda: scene.store.extend_leases([scene.two, scene.one])


@pytest.mark.parametrize("operation", [settle_both, extend_both, recover_all])
def test_jobs_are_taken_in_the_order_of_their_ids(
    scene: Scene, operation: Callable[[Scene], Work]
) -> None:
    work = operation(scene)
    with scene.waiting(work, scene.place.tables.jobs, id=scene.one.job.id):
        assert scene.job_is_free(scene.two)


def test_reconciling_takes_jobs_in_the_order_of_their_ids(scene: Scene) -> None:
    first, second = scene.store.enqueue("job"), scene.store.enqueue("job")
    policies = {"default": QueuePolicy(priority=3)}
    reconcile = scene.store.reconcile_queue_policies
    jobs = scene.place.tables.jobs
    with scene.waiting(lambda: reconcile(policies), jobs, id=first):
        assert scene.place.is_free(jobs, id=second)
        assert scene.counter_is_free("a")
    assert {scene.place.jobs()[each]["priority"] for each in (first, second)} == {3}


@pytest.mark.parametrize("operation", [settle_both, recover_both, recover_all])
def test_counters_are_taken_in_the_order_of_their_keys(
    scene: Scene, operation: Callable[[Scene], Work]
) -> None:
    work = operation(scene)
    tables = scene.place.tables
    with scene.waiting(work, tables.concurrency, concurrency_key="a"):
        assert scene.counter_is_free("b")


def test_a_claim_takes_counters_in_the_order_of_their_keys(scene: Scene) -> None:
    first, second = scene.queued("b", priority=9), scene.queued("a")
    claimed: list[Handoff] = []
    tables = scene.place.tables
    with scene.waiting(
        lambda: claimed.extend(scene.store.claim(2)),
        tables.concurrency,
        concurrency_key="a",
    ):
        assert scene.counter_is_free("b")
    assert [each.job.id for each in claimed] == [first, second]


def test_a_claim_skips_jobs_that_others_hold(scene: Scene) -> None:
    first, second = scene.queued("a", priority=9), scene.queued("a")
    with scene.place.holding(scene.place.tables.jobs, id=first):
        (handoff,) = Running(lambda: scene.store.claim(2)).result()
        assert handoff.job.id == second
    assert [each.job.id for each in scene.store.claim(2)] == [first]


def test_a_claim_locks_only_what_it_takes(scene: Scene) -> None:
    """Jobs of other queues, and behind full keys, stay free for others."""
    store, place = scene.store, scene.place
    ids = [store.enqueue("job", [n], queue=("x", "y")[n % 2]) for n in range(6)]
    store.enqueue("job", concurrency_key="one", max_concurrency=1, priority=9)
    full = [
        store.enqueue("job", concurrency_key="one", max_concurrency=1) for _ in range(3)
    ]
    assert len(store.claim(1)) == 1
    with place.looking.connect() as connection, connection.begin():
        claimed = store.within(connection).claim(2, queues=["y"])
        taken = {each.job.id for each in claimed}
        assert taken == {ids[1], ids[3]}
        jobs = place.tables.jobs
        free = {each for each in ids + full if place.is_free(jobs, id=each)}
        assert free == set(ids + full) - taken


def test_a_settle_leaves_counters_that_others_hold_to_a_second_transaction(
    scene: Scene,
) -> None:
    """It has counters by then, and must not wait for one more."""
    scene.queued("b")
    tables = scene.place.tables
    answer: list[Any] = []

    def work() -> None:
        answer.append(scene.store.settle([Settlement.complete(scene.two)], claim=1))

    with scene.waiting(work, tables.concurrency, concurrency_key="b"):
        # The first transaction has committed: its acknowledgement can be seen.
        ended = scene.place.jobs()[scene.two.job.id]
        assert ended["status"] == JobStatus.COMPLETED
        assert scene.place.counters()["a"] == 0
        assert scene.counter_is_free("a")
    ((acks, (handoff,)),) = answer
    assert [ack.result for ack in acks] == [AckResult.ACCEPTED]
    assert handoff.job.concurrency_key == "b"
    assert scene.place.counters() == {"a": 0, "b": 2}


def test_a_settle_takes_what_it_can_have_beside_a_counter_that_others_hold(
    scene: Scene,
) -> None:
    behind, free = scene.queued("b", priority=9), scene.queued("a")
    counters = scene.place.tables.concurrency
    with scene.place.holding(counters, concurrency_key="b"):
        _, handoffs = scene.store.settle([Settlement.complete(scene.two)], claim=2)
        assert [each.job.id for each in handoffs] == [free]
        assert scene.place.jobs()[behind]["status"] == JobStatus.QUEUED
    (handoff,) = scene.store.claim(2)
    assert handoff.job.id == behind


@pytest.mark.parametrize(
    "request_",
    [
        JobRequest("job", deduplicate_while_queued=True),
        JobRequest("job", idempotency_key="i"),
    ],
    ids=["dedupe", "idempotency"],
)
def test_no_counter_is_made_before_an_identity_is_held(
    scene: Scene, request_: JobRequest
) -> None:
    place, store = scene.place, scene.store
    new = JobRequest("other", concurrency_key="new", max_concurrency=1)
    with place.looking.connect() as connection:
        with connection.begin():
            (first,) = store.within(connection).enqueue_many([request_])
            running = Running(lambda: store.enqueue_many([new, request_]))
            place.until_waiting(running)
            assert inserts_at_once(place, place.tables.concurrency, counter("new"))
        assert running.result()[1] == first


@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ"])
def test_a_joined_batch_takes_its_twins_in_the_order_of_their_ids(
    scene: Scene, isolation: Any
) -> None:
    """Rule E6: whatever the order in which they are asked for."""
    place, jobs = scene.place, scene.place.tables.jobs
    if (place.database, isolation) == ("postgresql", "REPEATABLE READ"):
        pytest.skip("dedupe is refused there")
    requests = [JobRequest("job", [n], deduplicate_while_queued=True) for n in (1, 2)]
    first, second = scene.store.enqueue_many(requests)
    answers: list[list[str]] = []

    def work() -> None:
        with place.looking.connect() as connection:
            connection.execution_options(isolation_level=isolation)
            joined = scene.store.within(connection)
            answers.append(joined.enqueue_many(requests[::-1]))
            connection.commit()

    with scene.waiting(work, jobs, id=first):
        assert place.is_free(jobs, id=second)
    assert answers == [[second, first]]


def test_a_twin_before_one_that_is_held_is_not_waited_for(scene: Scene) -> None:
    """It comes to light when the one that was waited for has just been claimed."""
    place, store = scene.place, scene.store
    late, early = [
        store.enqueue("job", [1], scheduled_at=NOW_MS - age) for age in (1, 2)
    ]

    def work() -> None:
        with place.looking.connect() as connection:
            joined = store.within(connection)
            joined.enqueue("job", [1], deduplicate_while_queued=True)

    before = place.jobs()
    with place.holding(place.tables.jobs, id=late), place.looking.connect() as claiming:
        assert store.within(claiming).claim_job(early) is not None
        running = Running(work)
        place.until_waiting(running)
        claiming.commit()
        with pytest.raises(RetryableError, match="run it again"):
            running.result(within_s=20)
    after = place.jobs()
    assert after.pop(early)["status"] == JobStatus.HANDED_OFF
    assert before.pop(early)["status"] == JobStatus.QUEUED
    assert after == before


def counter(key: str) -> dict[str, Any]:
    return {
        "concurrency_key": key,
        "max_concurrency": 1,
        "active_count": 0,
    }


def inserts_at_once(place: Place, table: Table, row: dict[str, Any]) -> bool:
    """Insert a row on another connection, and undo it; whether it had to wait."""

    def work() -> None:
        with place.looking.connect() as connection:
            connection.execute(insert(table), row)
            connection.rollback()

    Running(work).result(within_s=10)
    return True


def new_counters_of_a_batch(scene: Scene) -> Work:
    requests = [
        JobRequest(
            "job",
            [key],
            concurrency_key=key,
            max_concurrency=1,
            deduplicate_while_queued=dedupe,
        )
        for key in ("n2", "n1")
        for dedupe in (True, False)
    ]
    return lambda: scene.store.enqueue_many(requests)


def counters_made_by_a_claim(scene: Scene) -> Work:
    lose_counters(scene, "n2", "n1")
    return lambda: scene.store.claim(2)


def counters_made_by_recovery(scene: Scene) -> Work:
    for key in ("n2", "n1"):
        (handoff,) = [scene.store.claim_job(scene.queued(key))]
        assert handoff is not None
    lose_counters(scene)
    return scene.store.recover_handed_off


def lose_counters(scene: Scene, *keys: str) -> None:
    for key in keys:
        scene.queued(key)
    table = scene.place.tables.concurrency
    with scene.place.looking.begin() as connection:
        connection.execute(table.delete().where(table.c.concurrency_key.like("n%")))


@pytest.mark.parametrize(
    "operation",
    [new_counters_of_a_batch, counters_made_by_a_claim, counters_made_by_recovery],
)
def test_missing_counters_are_made_in_the_order_of_their_keys(
    scene: Scene, operation: Callable[[Scene], Work]
) -> None:
    work = operation(scene)
    place, table = scene.place, scene.place.tables.concurrency
    with place.looking.connect() as connection:
        with connection.begin():
            connection.execute(insert(table), counter("n1"))
            running = Running(work)
            place.until_waiting(running)
            assert inserts_at_once(place, table, counter("n2"))
        running.result()
    assert place.drift() == {}


def test_reconciling_takes_queues_in_the_order_of_their_names(scene: Scene) -> None:
    first, second = place_stores(scene, 2)
    capped = QueuePolicy(max_concurrent=1)
    first.reconcile_queue_policies({"a": capped, "b": capped})
    queues = scene.place.tables.queues
    with scene.waiting(
        lambda: second.reconcile_queue_policies({"b": capped}), queues, queue="a"
    ):
        assert scene.place.is_free(queues, queue="b")


def place_stores(scene: Scene, n: int) -> list[SqlJobStore]:
    return [scene.place.store() for _ in range(n)]


def test_repairing_a_counter_waits_for_nothing_but_that_counter(scene: Scene) -> None:
    table = scene.place.tables.concurrency
    with scene.place.looking.begin() as connection:
        connection.execute(table.update().values(active_count=7))
    repair = scene.store.reconcile_active_concurrency
    with ExitStack() as held:
        for handoff in (scene.one, scene.two):
            jobs = scene.place.tables.jobs
            held.enter_context(scene.place.holding(jobs, id=handoff.job.id))
        assert Running(repair).result().repaired_count == 2
    assert scene.place.counters() == {"a": 1, "b": 1}


def test_retention_waits_for_no_job(scene: Scene) -> None:
    """Only counters, after the jobs it deletes; those that others hold are left."""
    store, place = scene.store, scene.place
    for handoff in (scene.one, scene.two):
        assert store.complete(handoff.job.id, handoff.handoff_id).accepted
    scene.queued("a")
    with place.holding(place.tables.jobs, id=scene.one.job.id):
        prune = Running(lambda: store.prune_terminal(completed_ttl_ms=0))
        assert prune.result() == 1
    assert store.prune_terminal(completed_ttl_ms=0) == 1
    assert place.counters() == {"a": 0}


def test_A83_two_transactions_that_lock_counters_crosswise_both_come_through(
    scene: Scene,
) -> None:
    """
    Case A83, for whoever does not keep the order: here a stranger takes "b" first.

    The stranger has done so much that the database ends the store's transaction, which
    is then run again.
    """
    place, store = scene.place, scene.store
    acks = [Settlement.complete(each) for each in (scene.one, scene.two)]
    table = place.tables.concurrency
    with place.holding(table, concurrency_key="b") as stranger:
        work_much(place, stranger)
        running = Running(lambda: store.settle(acks))
        place.until_waiting(running)
        stranger.execute(
            table.update()
            .where(table.c.concurrency_key == "a")
            .values(max_concurrency=10)
        )
    answers, _handoffs = running.result()
    assert [ack.result for ack in answers] == [AckResult.ACCEPTED] * 2
    assert place.troubles.deadlocks == 1
    assert {key: place.counters()[key] for key in "ab"} == {"a": 0, "b": 0}


def work_much(place: Place, stranger: Connection) -> None:
    """Make a transaction one that its database would rather not end for a deadlock."""
    if place.database == "postgresql":
        stranger.exec_driver_sql("SET LOCAL deadlock_timeout = '60s'")
    for number in range(50):
        stranger.execute(insert(place.tables.concurrency), counter(f"z{number}"))
