"""An operation that raises leaves no trace, however far it had come."""

from collections.abc import Callable

import pytest

from jobfence.statemachine.errors import (
    ConcurrencyConflict,
    HandoffIdInUse,
    IdempotencyConflict,
    InvalidOption,
    JobfenceError,
)
from jobfence.statemachine.machine import Holds, JobMachine, Step
from jobfence.statemachine.options import JobRequest
from jobfence.statemachine.policy import QueuePolicy
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.table import Trigger
from jobfence.statemachine.values import Settlement
from jobfence.store.memory import MemoryJobStore
from tests.store.memory.world import World, calls

Call = Callable[[MemoryJobStore], object]


def populated() -> tuple[World, MemoryJobStore]:
    """Queued q and s (owning "nightly"), held h1, ended e, and an idempotency key."""
    world = World()
    store = world.store()
    store.enqueue("held", concurrency_key="k", max_concurrency=1)  # j1
    store.claim()  # h1
    store.enqueue("ended")  # j2
    store.complete("j2", store.claim()[0].handoff_id)  # h2
    store.enqueue("queued", [1], idempotency_key="once")  # j3
    store.replace_scheduled("nightly", "scheduled")  # j4
    return world, store


REFUSED: list[tuple[str, type[JobfenceError], Call]] = [
    ("no name", InvalidOption, lambda s: s.enqueue("")),
    (
        "another cap",
        ConcurrencyConflict,
        lambda s: s.enqueue("n", concurrency_key="k", max_concurrency=2),
    ),
    (
        "another cap under a new idempotency key",
        ConcurrencyConflict,
        lambda s: s.enqueue(
            "n", concurrency_key="k", max_concurrency=2, idempotency_key="new"
        ),
    ),
    (
        "another request",
        IdempotencyConflict,
        lambda s: s.enqueue("queued", [2], idempotency_key="once"),
    ),
    (
        "a conflict late in a batch",
        ConcurrencyConflict,
        lambda s: s.enqueue_many(
            [
                JobRequest("first", idempotency_key="new"),
                JobRequest("second", concurrency_key="fresh", max_concurrency=1),
                JobRequest("third", concurrency_key="k", max_concurrency=9),
            ]
        ),
    ),
    (
        "no request",
        InvalidOption,
        lambda s: s.enqueue_many([JobRequest("n"), "m"]),  # type: ignore[list-item]
    ),
    ("a limit of True", InvalidOption, lambda s: s.claim(limit=True)),
    ("too high a limit", InvalidOption, lambda s: s.claim(10_001)),
    ("no worker", InvalidOption, lambda s: s.claim(worker_id="")),
    ("a lease of 0", InvalidOption, lambda s: s.claim(lease_ms=0)),
    ("a mode", InvalidOption, lambda s: s.claim(execution_modes=["thread"])),
    ("a queue", InvalidOption, lambda s: s.claim(queues=[""])),
    (
        "a used handoff id",
        HandoffIdInUse,
        lambda s: s.claim_job("j3", handoff_id="h2"),
    ),
    (
        "the handoff id of another job",
        HandoffIdInUse,
        lambda s: s.claim_job("j3", handoff_id="h1"),
    ),
    (
        "an ended handoff id, for its own job",
        HandoffIdInUse,
        lambda s: s.claim_job("j2", handoff_id="h2"),
    ),
    ("no handoff id", InvalidOption, lambda s: s.claim_job("j3", handoff_id="")),
    (
        "a delay below 0",
        InvalidOption,
        lambda s: s.reschedule("j1", "h1", delay_ms=-1),
    ),
    (
        "a lease past 32 bits",
        InvalidOption,
        lambda s: s.extend_lease("j1", "h1", lease_ms=2**31),
    ),
    (
        "a bad delay behind a good acknowledgement",
        InvalidOption,
        lambda s: s.settle(
            [
                Settlement(Trigger.COMPLETE, "j1", "h1"),
                Settlement(Trigger.RESCHEDULE, "j3", "h9", delay_ms=None),
            ]
        ),
    ),
    (
        "a trigger that acknowledges nothing",
        InvalidOption,
        lambda s: s.settle(
            [
                Settlement(Trigger.COMPLETE, "j1", "h1"),
                Settlement(Trigger.CANCEL, "j3", ""),
            ]
        ),
    ),
    (
        "the text of a trigger",
        InvalidOption,
        lambda s: s.settle([Settlement("complete", "j1", "h1")]),  # type: ignore[arg-type]
    ),
    (
        "no settlement",
        InvalidOption,
        lambda s: s.settle(["j1"]),  # type: ignore[list-item]
    ),
    (
        "a bad claim behind a good acknowledgement",
        InvalidOption,
        lambda s: s.settle([Settlement(Trigger.COMPLETE, "j1", "h1")], claim=-1),
    ),
    ("a limit of 0", InvalidOption, lambda s: s.recover_expired(limit=0)),
    ("an unknown origin", InvalidOption, lambda s: s.requeue("j99")),
    ("an origin that is queued", InvalidOption, lambda s: s.requeue("j3")),
    ("an origin that is held", InvalidOption, lambda s: s.requeue("j1")),
    (
        "dedupe with a schedule key",
        InvalidOption,
        lambda s: s.replace_scheduled("nightly", "n", deduplicate_while_queued=True),  # type: ignore[call-arg]
    ),
    (
        "an owner with another cap",
        ConcurrencyConflict,
        lambda s: s.replace_scheduled(
            "nightly", "n", concurrency_key="k", max_concurrency=2
        ),
    ),
    ("no schedule key", InvalidOption, lambda s: s.cancel_scheduled("")),
    ("a long schedule key", InvalidOption, lambda s: s.wake_scheduled("k" * 256)),
    ("no string as a key", InvalidOption, lambda s: s.scheduled_job(7)),  # type: ignore[arg-type]
    ("a cap of 0", InvalidOption, lambda s: s.set_concurrency("k", 0)),
    ("a derived key", InvalidOption, lambda s: s.set_concurrency("queue:q", 1)),
    (
        "no policy",
        InvalidOption,
        lambda s: s.reconcile_queue_policies({"q": 3}),  # type: ignore[dict-item]
    ),
    ("no owner", InvalidOption, lambda s: s.acquire_ownership("", ttl_ms=1)),
    ("no time to own", InvalidOption, lambda s: s.acquire_ownership("a", ttl_ms=0)),
    ("no one to let go", InvalidOption, lambda s: s.release_ownership("")),
    ("a blank queue", InvalidOption, lambda s: s.pause_queue("  ")),
    ("a long queue", InvalidOption, lambda s: s.resume_queue("q" * 256)),
    (
        "a time to live below 0",
        InvalidOption,
        lambda s: s.prune_terminal(failed_ttl_ms=-1),
    ),
    ("a batch of 0", InvalidOption, lambda s: s.prune_terminal(batch_size=0)),
    ("too big a batch", InvalidOption, lambda s: s.prune_terminal(batch_size=10_001)),
    ("too long a page", InvalidOption, lambda s: s.list_jobs(limit=10_001)),
    ("too much at once", InvalidOption, lambda s: s.recover_expired(limit=10_001)),
    ("no status", InvalidOption, lambda s: s.list_jobs(status="lost")),  # type: ignore[arg-type]
    ("a page of 0", InvalidOption, lambda s: s.list_jobs(limit=0)),
    ("a cursor that is gone", InvalidOption, lambda s: s.list_jobs(after="j99")),
    ("an empty worker", InvalidOption, lambda s: s.handoffs_for_worker("")),
]


@pytest.mark.parametrize(
    ("error", "call"),
    [pytest.param(error, call, id=name) for name, error, call in REFUSED],
)
def test_a_refused_call_changes_nothing_and_wakes_nobody(
    error: type[JobfenceError], call: Call
) -> None:
    world, store = populated()
    heard = calls(store)
    before = world.data.snapshot()

    with pytest.raises(error):
        call(store)

    assert world.data.snapshot() == before
    assert heard == []


class Broken(Exception):
    """What a user's own part raises."""


def test_an_id_factory_that_raises_in_a_batch_undoes_the_batch() -> None:
    world = World()
    left = ["j2", "j1"]

    def two_ids() -> str:
        if not left:
            raise Broken
        return left.pop()

    world.ids = two_ids
    store = world.store()

    with pytest.raises(Broken):
        store.enqueue_many(JobRequest("n") for _ in range(3))

    assert left == []
    assert world.data.snapshot().jobs == ()


def test_an_id_that_is_stored_already_is_refused_and_the_job_under_it_stays() -> None:
    world = World()
    world.ids = lambda: "same"
    store = world.store()
    store.enqueue("first")
    before = world.data.snapshot()

    with pytest.raises(InvalidOption, match="ids must make a new id each time"):
        store.enqueue("second")

    assert world.data.snapshot() == before


def test_a_handoff_id_made_twice_undoes_the_whole_claim() -> None:
    world = World()
    world.handoff_ids = lambda: "same"
    store = world.store()
    store.enqueue("first")
    store.enqueue("second")
    before = world.data.snapshot()

    with pytest.raises(HandoffIdInUse):
        store.claim(2)

    assert world.data.snapshot() == before


class AskedRetry:
    """A policy that remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def delay_ms(self, failures: int) -> int:
        self.asked.append(failures)
        return 500


def test_a_retry_policy_is_asked_once_a_retry_and_never_without_one() -> None:
    world, policy = World(), AskedRetry()
    store = world.store(retry_policy=policy)
    store.enqueue("n", max_retries=1)

    failed = store.fail("j1", store.claim()[0].handoff_id, "boom")
    world.clock.advance(500)
    store.fail("j1", store.claim()[0].handoff_id, "boom")

    assert failed.job is not None
    assert failed.job.scheduled_at_ms == 1500
    assert world.row("j1").status == "failed"
    assert policy.asked == [1]


def test_an_acknowledgement_that_cannot_be_stored_undoes_those_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    store = world.store()
    store.enqueue("first")
    store.enqueue("second")
    first, second = store.claim(2)
    before = world.data.snapshot()
    real_fire = JobMachine.fire

    def broken_at_failures(
        machine: JobMachine, trigger: Trigger, source: JobStatus, holds: Holds
    ) -> Step | None:
        if trigger is Trigger.FAIL:
            raise Broken
        return real_fire(machine, trigger, source, holds)

    monkeypatch.setattr(JobMachine, "fire", broken_at_failures)
    with pytest.raises(Broken):
        store.settle([Settlement.complete(first), Settlement.fail(second, "boom")])

    assert world.data.snapshot() == before


class RaisingClock:
    def now_ms(self) -> int:
        raise Broken


def test_a_clock_that_raises_leaves_the_lock_free_and_the_data_as_it_was() -> None:
    world = World()
    broken = MemoryJobStore(clock=RaisingClock(), data=world.data)

    with pytest.raises(Broken):
        broken.enqueue("n")

    assert world.data.snapshot().jobs == ()
    assert world.store().enqueue("n") == "j1"


def test_policies_that_are_refused_do_not_become_the_store_s_own() -> None:
    world = World()
    store = world.store(queues={"q": QueuePolicy(2)})

    with pytest.raises(InvalidOption):
        store.reconcile_queue_policies({"": QueuePolicy(9)})

    store.enqueue("n", queue="q")
    assert world.cap("queue:q") == 2
