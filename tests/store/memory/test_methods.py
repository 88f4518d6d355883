"""Each method once or more, with exact answers: a broad look over the contract."""

import uuid

import pytest

from jobfence.statemachine.errors import InvalidOption, UnsupportedCapability
from jobfence.statemachine.options import JobRequest
from jobfence.statemachine.policy import QueuePolicy
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import (
    Cancellation,
    CancelOutcome,
    Job,
    QueueStats,
    Reconciliation,
    Repair,
    Replacement,
    Settlement,
    Wake,
    WakeOutcome,
)
from jobfence.store.contract import JobStore, OwnershipStore
from jobfence.store.memory import MemoryJobStore
from jobfence.store.memory.rows import OwnerRow
from tests.store.memory.world import World


def test_a_store_without_settings_is_a_whole_job_store() -> None:
    store: JobStore = MemoryJobStore()
    job_id = store.enqueue("n")
    (handoff,) = store.claim()

    assert uuid.UUID(job_id).version == 7
    assert uuid.UUID(handoff.handoff_id).version == 4
    assert handoff.lease_expires_at_ms == handoff.handed_off_at_ms + 60_000
    assert store.settle([]) == ([], [])
    failed = store.fail(job_id, handoff.handoff_id, "boom").job
    assert failed is not None
    assert store.counts()[JobStatus.QUEUED] == 1
    assert failed.scheduled_at_ms >= handoff.handed_off_at_ms + 10_000


def test_within_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedCapability) as caught:
        MemoryJobStore().within(object())
    assert (caught.value.store, caught.value.capability) == ("MemoryJobStore", "within")


@pytest.mark.parametrize(
    "settings",
    [{"lease_ms": 0}, {"max_handoffs": 0}, {"max_handoffs": True}, {"queues": {"": 1}}],
)
def test_bad_settings_are_refused_at_once(settings: dict[str, object]) -> None:
    with pytest.raises(InvalidOption):
        MemoryJobStore(**settings)  # type: ignore[arg-type]


# --- Enqueue and look


def test_a_plain_enqueue_writes_the_whole_row() -> None:
    world = World()

    job_id = world.store().enqueue("thumbnail", ["a.png"], {"width": 200})

    assert world.store().get(job_id) == Job(
        id="j1",
        name="thumbnail",
        args=("a.png",),
        kwargs={"width": 200},
        queue="default",
        priority=0,
        status=JobStatus.QUEUED,
        attempts=0,
        max_retries=10,
        handoffs=0,
        created_at_ms=1000,
        scheduled_at_ms=1000,
        handed_off_at_ms=None,
        lease_expires_at_ms=None,
        handoff_id=None,
        worker_id=None,
        last_handoff_id=None,
        last_worker_id=None,
        last_handed_off_at_ms=None,
        completed_at_ms=None,
        failed_at_ms=None,
        cancelled_at_ms=None,
        last_error=None,
        concurrency_key=None,
        max_concurrency=None,
        schedule_key=None,
        schedule_order=None,
        timeout_ms=None,
        execution_mode="inline",
        cancel_requested=False,
        origin_id=None,
    )


def test_what_a_caller_does_to_a_returned_value_does_not_reach_the_store() -> None:
    store = World().store()
    given: list[list[int]] = [[1]]
    store.enqueue("n", given, {"k": [2]})
    given[0].append(9)
    job = store.get("j1")
    assert job is not None
    assert job.kwargs == {"k": [2]}
    job.args[0].append(9)  # type: ignore[union-attr]

    assert store.get("j1") == store.get("j1")
    again = store.get("j1")
    assert again is not None
    assert again.args == ([1],)


def test_enqueue_many_dedupes_inside_the_batch_and_answers_in_order() -> None:
    world = World()

    ids = world.store().enqueue_many(
        [
            JobRequest("n", [1], deduplicate_while_queued=True),
            JobRequest("m", [1], deduplicate_while_queued=True),
            JobRequest("n", [1], deduplicate_while_queued=True),
            JobRequest("n", [1]),
            JobRequest("o", idempotency_key="once"),
            JobRequest("o", idempotency_key="once"),
        ]
    )

    assert ids == ["j1", "j2", "j1", "j3", "j4", "j4"]
    assert len(world.data.snapshot().jobs) == 4


@pytest.mark.parametrize(
    "change",
    [
        {"name": "m"},
        {"args": [2]},
        {"kwargs": {"a": 2}},
        {"queue": "q"},
        {"scheduled_at": 1999},
    ],
)
def test_a_twin_has_the_same_name_arguments_and_queue_and_is_no_later(
    change: dict[str, object],
) -> None:
    store = World().store()
    same: dict[str, object] = {"name": "n", "args": [1], "kwargs": {"a": 1}}
    same |= {"scheduled_at": 2000, "deduplicate_while_queued": True}
    store.enqueue(**same)  # type: ignore[arg-type]

    assert store.enqueue(**same) == "j1"  # type: ignore[arg-type]
    assert store.enqueue(**same | {"scheduled_at": 3000}) == "j1"  # type: ignore[arg-type]
    assert store.enqueue(**same | {"max_retries": 0, "priority": 9}) == "j1"  # type: ignore[arg-type]
    assert store.enqueue(**same | change) == "j2"  # type: ignore[arg-type]


def test_a_job_with_a_schedule_key_is_nobody_s_twin() -> None:
    store = World().store()
    store.replace_scheduled("s", "n", [1])

    assert store.enqueue("n", [1], deduplicate_while_queued=True) == "j2"


def test_the_earliest_of_several_twins_is_the_one_returned() -> None:
    store = World().store()
    for scheduled_at in (900, 800, 850):
        store.enqueue("n", [1], scheduled_at=scheduled_at)

    assert store.enqueue("n", [1], deduplicate_while_queued=True) == "j2"


def test_listing_goes_by_creation_and_id_and_continues_behind_a_job() -> None:
    world = World()
    store = world.store()
    ids = iter(["c", "b", "a"])
    world.ids = lambda: next(ids)
    store = world.store()
    store.enqueue("n", queue="x")
    store.enqueue("m")
    world.clock.advance(1)
    store.enqueue("n")
    store.cancel("a")

    def listed(jobs: list[Job]) -> list[str]:
        return [job.id for job in jobs]

    assert listed(store.list_jobs()) == ["b", "c", "a"]
    assert listed(store.list_jobs(limit=2)) == ["b", "c"]
    assert listed(store.list_jobs(after="b")) == ["c", "a"]
    assert listed(store.list_jobs(after=store.list_jobs()[1])) == ["a"]
    assert listed(store.list_jobs(status=JobStatus.CANCELLED)) == ["a"]
    assert listed(store.list_jobs(queue=" x ")) == ["c"]
    assert listed(store.list_jobs(name="n", queue="default")) == ["a"]
    assert store.get("unknown") is None


# --- Claim


def test_claims_go_by_priority_time_creation_and_id() -> None:
    world = World()
    world.clock.set(500)
    ids = iter(["d", "c", "b", "a", "z"])
    world.ids = lambda: next(ids)
    store = world.store()
    store.enqueue("n", scheduled_at=400, priority=-1)
    store.enqueue("n", scheduled_at=400)
    world.clock.set(501)
    store.enqueue("n", scheduled_at=400)
    store.enqueue("n", scheduled_at=300)
    store.enqueue("n", scheduled_at=501, priority=1)

    assert [each.job.id for each in store.claim(10)] == ["z", "a", "c", "b", "d"]


def test_a_claim_takes_only_the_queues_and_modes_it_asks_for() -> None:
    store = World().store()
    store.enqueue("n", queue="a")
    store.enqueue("n", queue="b", execution_mode="process")
    store.enqueue("n", queue="b")

    assert store.claim(5, queues=[]) == []
    assert store.claim(5, execution_modes=[]) == []
    assert store.claim(0) == []
    found = store.next_available(queues=["b"], execution_modes=["inline"])
    assert found is not None
    assert found.id == "j3"
    taken = store.claim(5, queues=["b"], execution_modes=["process"])
    assert [each.job.id for each in taken] == ["j2"]
    assert [each.job.id for each in store.claim(5)] == ["j1", "j3"]


def test_a_handoff_is_the_row_as_committed() -> None:
    world = World()
    store = world.store()
    store.enqueue("n")

    (handoff,) = store.claim(worker_id="w", lease_ms=500)

    assert handoff.job == store.get("j1")
    assert (handoff.handoff_id, handoff.fence) == ("h1", 1)
    assert (handoff.handed_off_at_ms, handoff.lease_expires_at_ms) == (1000, 1500)
    row = world.row("j1")
    assert (row.worker_id, row.last_worker_id, row.last_handoff_id) == ("w", "w", "h1")
    assert (row.last_handed_off_at_ms, row.lease_ms, row.last_ack) == (1000, 500, None)
    assert store.handoffs_for_worker("w") == [handoff]
    assert store.handoffs_for_worker("local") == []


def test_a_worker_s_handoffs_go_by_their_time_and_id() -> None:
    world = World()
    ids = iter(["a", "c", "b"])
    world.ids = lambda: next(ids)
    store = world.store()
    for _ in range(3):
        store.enqueue("n")
    store.claim_job("c")
    store.claim_job("b")
    world.clock.advance(1)
    store.claim_job("a")

    held = store.handoffs_for_worker("local")

    assert [each.job.id for each in held] == ["b", "c", "a"]


def test_a_page_has_a_hundred_jobs_unless_another_length_is_asked_for() -> None:
    store = World().store()
    store.enqueue_many(JobRequest("n") for _ in range(102))

    assert len(store.list_jobs()) == 100
    assert len(store.list_jobs(limit=101)) == 101


def test_claim_job_again_under_the_same_id_returns_the_same_handoff() -> None:
    world = World()
    store = world.store()
    store.enqueue("n")
    first = store.claim_job("j1", handoff_id="mine")
    before = world.data.snapshot()
    world.clock.advance(50)

    assert store.claim_job("j1", handoff_id="mine", worker_id="other") == first
    assert store.claim_job("j1") is None

    assert world.data.snapshot() == before


def test_claim_job_takes_no_job_that_is_unknown_future_paused_or_ended() -> None:
    world = World()
    store = world.store()
    store.enqueue("n", scheduled_at=1001)
    store.enqueue("n", queue="p")
    store.pause_queue("p")
    store.cancel(store.enqueue("n"))
    before = world.data.snapshot()

    for job_id in ("j1", "j2", "j3", "j99"):
        assert store.claim_job(job_id) is None
        assert store.claim_job(job_id, handoff_id="mine") is None
    assert store.next_available() is None

    assert world.data.snapshot() == before
    world.clock.advance(1)
    store.resume_queue("p")
    assert store.claim_job("j1") is not None
    assert store.claim_job("j2") is not None


def test_a_refused_slot_keeps_the_adopted_key_and_the_claim_moves_on() -> None:
    world = World()
    plain = world.store()
    plain.enqueue("n", queue="q")
    plain.enqueue("n", queue="q")
    plain.enqueue("n", queue="other", priority=-1)
    capped = world.store(queues={"q": QueuePolicy(1, 4)})

    taken = capped.claim(3)

    assert [each.job.id for each in taken] == ["j1", "j3"]
    assert [each.handoff_id for each in taken] == ["h1", "h2"]
    waiting = world.row("j2")
    assert (waiting.status, waiting.concurrency_key) == ("queued", "queue:q")
    assert (waiting.max_concurrency, waiting.priority) == (1, 4)
    assert (world.cap("queue:q"), world.active("queue:q")) == (1, 1)


def test_a_claim_adopts_a_changed_cap_before_it_asks_for_a_slot() -> None:
    world = World()
    store = world.store(queues={"q": QueuePolicy(1)})
    for _ in range(3):
        store.enqueue("n", queue="q")
    store.claim()
    assert store.claim() == []

    raised = world.store(queues={"q": QueuePolicy(2)})
    assert [each.job.max_concurrency for each in raised.claim(5)] == [2]
    assert (world.cap("queue:q"), world.active("queue:q")) == (2, 2)

    lowered = world.store(queues={"q": QueuePolicy(1)})
    store.complete("j1", "h1")
    assert lowered.claim(5) == []
    assert world.active("queue:q") == 1


def test_a_claim_goes_by_the_registered_cap_of_an_explicit_key() -> None:
    world = World()
    store = world.store()
    for _ in range(3):
        store.enqueue("n", concurrency_key="k", max_concurrency=1)
    store.set_concurrency("k", 2)

    assert [each.job.max_concurrency for each in store.claim(5)] == [1, 1]
    assert (world.cap("k"), world.active("k")) == (2, 2)


def test_a_queue_that_lost_its_cap_gives_its_jobs_no_key() -> None:
    world = World()
    world.store(queues={"q": QueuePolicy(1, 9)}).enqueue("n", queue="q")

    (handoff,) = world.store(queues={}).claim()

    assert (handoff.job.concurrency_key, handoff.job.max_concurrency) == (None, None)
    assert handoff.job.priority == 0
    assert world.active("queue:q") == 0


def test_a_claim_makes_a_missing_counter_true_to_the_handed_off_jobs() -> None:
    world = World()
    store = world.store()
    for _ in range(3):
        store.enqueue("n", concurrency_key="k", max_concurrency=2)
    store.claim()
    world.data.drop_counter("k")

    assert [each.job.id for each in store.claim(5)] == ["j2"]
    assert (world.cap("k"), world.active("k")) == (2, 2)


# --- Acknowledgements


def held(world: World, store: MemoryJobStore, **options: int) -> str:
    job_id = store.enqueue("n", **options)  # type: ignore[arg-type]
    assert store.claim_job(job_id, handoff_id=f"{job_id}-1") is not None
    return job_id


def test_complete_is_accepted_then_repeated_and_anything_else_is_stale() -> None:
    world = World()
    store = world.store()
    held(world, store)
    world.clock.advance(5)

    first = store.complete("j1", "j1-1")

    assert first.accepted
    assert first.job == store.get("j1")
    assert (world.row("j1").completed_at_ms, world.row("j1").handoff_id) == (1005, None)
    before = world.data.snapshot()
    again = store.complete("j1", "j1-1")
    assert (again.repeated, again.job) == (True, first.job)
    for stale in (
        store.fail("j1", "j1-1", "boom"),
        store.reschedule("j1", "j1-1", delay_ms=1),
        store.return_to_queue("j1", "j1-1"),
        store.extend_lease("j1", "j1-1"),
        store.complete("j1", "other"),
        store.complete("j1", ""),
        store.complete("j99", "j1-1"),
    ):
        assert (stale.stale, stale.job) == (True, None)
    assert world.data.snapshot() == before


def test_a_failure_backs_off_and_a_second_word_of_it_is_repeated() -> None:
    world = World()
    store = world.store()
    held(world, store)

    ack = store.fail("j1", "j1-1", ValueError("no"))

    assert ack.job is not None
    assert (ack.job.status, ack.job.attempts) == ("queued", 1)
    assert (ack.job.scheduled_at_ms, ack.job.last_error) == (11_000, "ValueError: no\n")
    assert store.fail("j1", "j1-1", "another text").repeated
    assert world.row("j1").last_error == "ValueError: no\n"


def test_once_another_handoff_began_the_first_one_s_word_is_stale() -> None:
    world = World()
    store = world.store()
    held(world, store)
    store.return_to_queue("j1", "j1-1")
    assert store.return_to_queue("j1", "j1-1").repeated
    store.claim_job("j1", handoff_id="j1-2")

    assert store.return_to_queue("j1", "j1-1").stale
    assert world.row("j1").handoff_id == "j1-2"


def test_reschedule_and_return_cost_no_attempt_and_keep_the_error() -> None:
    world = World()
    store = world.store()
    held(world, store)
    store.fail("j1", "j1-1", "boom")
    world.clock.advance(10_000)
    store.claim_job("j1", handoff_id="j1-2")

    store.reschedule("j1", "j1-2", delay_ms=500)

    row = world.row("j1")
    assert (row.scheduled_at_ms, row.attempts, row.last_error) == (11_500, 1, "boom")
    world.clock.advance(500)
    store.claim_job("j1", handoff_id="j1-3")
    world.clock.advance(1)
    store.return_to_queue("j1", "j1-3")
    row = world.row("j1")
    assert (row.scheduled_at_ms, row.attempts, row.handoffs) == (11_501, 1, 3)


def test_a_time_never_passes_the_year_9999() -> None:
    world = World()
    store = world.store()
    held(world, store)

    store.reschedule("j1", "j1-1", delay_ms=253_402_300_799_999)

    assert world.row("j1").scheduled_at_ms == 253_402_300_799_999


def test_max_handoffs_ends_a_loop_of_returns_but_not_a_retry() -> None:
    world = World()
    store = world.store(max_handoffs=2)
    held(world, store)
    store.return_to_queue("j1", "j1-1")
    store.claim_job("j1", handoff_id="j1-2")
    ack = store.reschedule("j1", "j1-2", delay_ms=5)
    held(world, store)
    store.return_to_queue("j2", "j2-1")
    store.claim_job("j2", handoff_id="j2-2")
    store.fail("j2", "j2-2", "boom")

    assert ack.job is not None
    assert (ack.job.status, ack.job.attempts) == ("failed", 0)
    assert ack.job.last_error == "given up after max_handoffs=2 handoffs"
    assert store.reschedule("j1", "j1-2", delay_ms=9).repeated
    assert (world.row("j2").status, world.row("j2").attempts) == ("queued", 1)


def test_recovery_of_a_job_handed_off_too_often_counts_the_attempt() -> None:
    world = World()
    store = world.store(max_handoffs=1)
    held(world, store)

    (job,) = store.recover_handed_off()

    assert (job.status, job.attempts) == ("failed", 1)
    assert job.last_error == "given up after max_handoffs=1 handoffs"


def test_a_lease_is_renewed_by_its_own_length_or_by_the_one_given() -> None:
    world = World()
    store = world.store(lease_ms=500)
    held(world, store)
    world.clock.advance(900)

    ack = store.extend_lease("j1", "j1-1")
    assert ack.accepted
    assert world.row("j1").lease_expires_at_ms == 2400
    store.extend_lease("j1", "j1-1", lease_ms=50)
    assert world.row("j1").lease_expires_at_ms == 1950
    store.extend_lease("j1", "j1-1")
    assert world.row("j1").lease_expires_at_ms == 1950
    assert store.extend_lease("j1", "j1-1").accepted
    assert store.extend_lease("j99", "j1-1").stale


def test_a_handoff_without_lease_stays_without_unless_one_is_given() -> None:
    world = World()
    store = world.store(lease_ms=None)
    held(world, store)

    assert store.extend_lease("j1", "j1-1").accepted
    assert world.row("j1").lease_expires_at_ms is None
    assert store.extend_lease("j1", "j1-1", lease_ms=7).accepted
    assert (world.row("j1").lease_ms, world.row("j1").lease_expires_at_ms) == (7, 1007)


def test_extend_leases_answers_each_and_shows_the_cancel_mark() -> None:
    world = World()
    store = world.store()
    store.enqueue_many([JobRequest("a"), JobRequest("b")])
    handoffs = store.claim(2)
    store.cancel("j1")
    store.complete("j2", "h2")

    first, second = store.extend_leases(iter(handoffs), lease_ms=90_000)

    assert first.job is not None
    assert first.job.cancel_requested is True
    assert first.job.lease_expires_at_ms == 91_000
    assert second.stale


def test_settle_acknowledges_in_order_and_claims_what_that_freed() -> None:
    world = World()
    store = world.store()
    for name in ("a", "b"):
        store.enqueue(name, concurrency_key="k", max_concurrency=1)
    store.enqueue("c", max_retries=0)
    first, third = store.claim(5)
    acks, handoffs = store.settle(
        [
            Settlement.complete(first),
            Settlement.complete(first),
            Settlement.return_to_queue(first),
            Settlement.fail(third, "boom"),
        ],
        claim=5,
        worker_id="w",
        lease_ms=None,
    )

    assert [ack.result for ack in acks] == ["accepted", "repeated", "stale", "accepted"]
    assert [each.job.id for each in handoffs] == ["j2"]
    assert (handoffs[0].job.worker_id, handoffs[0].lease_expires_at_ms) == ("w", None)
    assert world.row("j3").status == "failed"


def test_settle_may_claim_again_what_it_put_back() -> None:
    world = World()
    store = world.store()
    store.enqueue("n")
    (handoff,) = store.claim()

    acks, handoffs = store.settle([Settlement.reschedule(handoff, 0)], claim=1)

    assert acks[0].accepted
    assert [(each.job.id, each.fence) for each in handoffs] == [("j1", 2)]


# --- Recovery, cancel, requeue


def test_only_expired_leases_are_recovered_earliest_first() -> None:
    world = World()
    store = world.store()
    for lease in (300, 200, 100, 400, None):
        store.enqueue("n", max_retries=1)
        store.claim(lease_ms=lease, worker_id="w")
    world.clock.set(1300)

    first = store.recover_expired(limit=2)

    assert [job.id for job in first] == ["j3", "j2"]
    assert first[0].last_error == "interrupted: worker w did not finish this handoff"
    assert (first[0].attempts, first[0].scheduled_at_ms) == (1, 11_300)
    assert [job.id for job in store.recover_expired()] == ["j1"]
    assert store.recover_expired() == []
    assert [job.id for job in store.recover_handed_off()] == ["j4", "j5"]
    assert store.complete("j1", "h1").stale


def test_a_job_with_no_retries_left_is_recovered_as_failed() -> None:
    world = World()
    store = world.store()
    held(world, store, max_retries=0)
    world.clock.advance(60_000)

    (job,) = store.recover_expired()

    assert (job.status, job.attempts, job.failed_at_ms) == ("failed", 1, 61_000)


def test_a_recovered_job_has_its_queue_s_policy_and_a_counter_for_it() -> None:
    world = World()
    world.store().enqueue("n", queue="q")
    world.store().claim()
    store = world.store(queues={"q": QueuePolicy(2, 3)})

    (job,) = store.recover_handed_off()

    assert (job.concurrency_key, job.max_concurrency) == ("queue:q", 2)
    assert (job.priority, job.status) == (3, "queued")
    assert (world.cap("queue:q"), world.active("queue:q")) == (2, 0)
    assert store.reconcile_active_concurrency().checked_count == 0


def test_cancel_ends_a_queued_job_marks_a_held_one_and_leaves_an_ended_one() -> None:
    world = World()
    store = world.store()
    store.enqueue("n")
    held(world, store)
    world.clock.advance(5)

    assert store.cancel("j1") == Cancellation("j1", CancelOutcome.CANCELLED)
    assert (world.row("j1").status, world.row("j1").cancelled_at_ms) == (
        "cancelled",
        1005,
    )
    for _ in range(2):
        assert store.cancel("j2") == Cancellation("j2", CancelOutcome.REQUESTED)
    assert world.row("j2").cancel_requested is True
    before = world.data.snapshot()
    assert store.cancel("j1") == Cancellation("j1", CancelOutcome.TERMINAL)
    assert store.cancel("j9") == Cancellation(None, CancelOutcome.NOT_FOUND)
    assert world.data.snapshot() == before


@pytest.mark.parametrize(
    ("way", "attempts", "last_ack"),
    [
        ("fail", 1, "fail"),
        ("reschedule", 0, "reschedule"),
        ("return", 0, "return_to_queue"),
        ("recover", 1, "recover"),
    ],
)
def test_a_job_asked_to_stop_is_cancelled_on_every_way_back(
    way: str, attempts: int, last_ack: str
) -> None:
    world = World()
    store = world.store()
    held(world, store)
    store.cancel("j1")

    match way:
        case "fail":
            store.fail("j1", "j1-1", "boom")
        case "reschedule":
            store.reschedule("j1", "j1-1", delay_ms=1)
        case "return":
            store.return_to_queue("j1", "j1-1")
        case _:
            store.recover_handed_off()

    row = world.row("j1")
    assert (row.status, row.cancelled_at_ms, row.handoff_id) == (
        "cancelled",
        1000,
        None,
    )
    assert (row.attempts, row.last_ack) == (attempts, last_ack)


def test_a_job_asked_to_stop_may_still_complete_or_exhaust() -> None:
    world = World()
    store = world.store()
    held(world, store)
    held(world, store, max_retries=0)
    store.cancel("j1")
    store.cancel("j2")

    store.complete("j1", "j1-1")
    store.fail("j2", "j2-1", "boom")

    assert (world.row("j1").status, world.row("j2").status) == ("completed", "failed")


def test_requeue_copies_what_was_explicit_and_names_its_origin() -> None:
    world = World()
    store = world.store(queues={"q": QueuePolicy(5, 3)})
    store.enqueue(
        "n",
        [1],
        {"a": 2},
        queue="q",
        priority=9,
        max_retries=4,
        concurrency_key="k",
        max_concurrency=1,
        timeout_ms=0,
        execution_mode="process",
        idempotency_key="once",
    )
    store.complete("j1", store.claim()[0].handoff_id)
    store.set_concurrency("k", 6)
    world.clock.advance(500)

    assert store.requeue("j1") == "j2"

    origin, copy = store.get("j1"), store.get("j2")
    assert origin is not None
    assert copy is not None
    assert (copy.name, copy.args, copy.kwargs) == ("n", (1,), {"a": 2})
    assert (copy.queue, copy.priority, copy.max_retries) == ("q", 9, 4)
    assert (copy.concurrency_key, copy.max_concurrency) == ("k", 6)
    assert (copy.timeout_ms, copy.execution_mode) == (0, "process")
    assert (copy.created_at_ms, copy.scheduled_at_ms) == (1500, 1500)
    assert (copy.status, copy.attempts, copy.origin_id) == ("queued", 0, "j1")
    assert origin.status is JobStatus.COMPLETED


def test_requeue_goes_by_the_policy_of_now_where_nothing_was_explicit() -> None:
    world = World()
    store = world.store(queues={"q": QueuePolicy(1, 3)})
    store.enqueue("n", queue="q")
    store.cancel("j1")

    store.reconcile_queue_policies({"q": QueuePolicy(7, 8)})
    store.requeue("j1")

    row = world.row("j2")
    assert (row.concurrency_key, row.max_concurrency) == ("queue:q", 7)
    assert (row.priority, row.priority_explicit) == (8, False)


def test_requeue_of_a_job_whose_counter_is_gone_takes_its_own_cap() -> None:
    world = World()
    store = world.store()
    store.enqueue("n", concurrency_key="k", max_concurrency=4)
    store.cancel("j1")
    world.data.drop_counter("k")

    store.requeue("j1")

    assert (world.row("j2").max_concurrency, world.cap("k")) == (4, 4)


# --- Schedule keys


def test_the_life_of_a_schedule_key() -> None:
    world = World()
    store = world.store()

    assert store.replace_scheduled("s", "n", scheduled_at=5000) == Replacement(
        "j1", None, None
    )
    assert store.replace_scheduled("s", "n", scheduled_at=6000) == Replacement(
        "j2", "j1", JobStatus.QUEUED
    )
    assert store.wake_scheduled("s") == Wake("j2", WakeOutcome.WOKEN)
    assert world.row("j2").scheduled_at_ms == 1000
    assert store.wake_scheduled("s") == Wake("j2", WakeOutcome.ALREADY_DUE)
    store.claim()
    assert store.wake_scheduled("s") == Wake("j2", WakeOutcome.HANDED_OFF)
    assert store.replace_scheduled("s", "n", scheduled_at=7000) == Replacement(
        "j3", "j2", JobStatus.HANDED_OFF
    )
    assert world.row("j2").cancel_requested is False
    store.complete("j2", "h1")
    assert world.owner("s") == "j3"
    found = store.scheduled_job("s", include_latest_terminal=True)
    assert (found.current, found.latest_terminal) == (store.get("j3"), store.get("j2"))
    assert store.scheduled_job("s").latest_terminal is None
    assert store.cancel_scheduled("s") == Cancellation("j3", CancelOutcome.CANCELLED)
    assert world.row("j3").status == "cancelled"
    assert store.cancel_scheduled("s") == Cancellation(None, CancelOutcome.NOT_FOUND)
    assert store.wake_scheduled("s") == Wake(None, WakeOutcome.NOT_FOUND)
    assert store.replace_scheduled("s", "n") == Replacement("j4", None, None)
    assert world.row("j4").schedule_order == 4


def test_cancelling_the_key_of_a_running_job_marks_it_and_ends_its_ownership() -> None:
    world = World()
    store = world.store()
    store.replace_scheduled("s", "n")
    store.claim()

    assert store.cancel_scheduled("s") == Cancellation("j1", CancelOutcome.HANDED_OFF)
    assert (world.row("j1").status, world.row("j1").cancel_requested) == (
        "handed_off",
        True,
    )
    assert world.owner("s") is None
    store.fail("j1", "h1", "boom")
    assert world.row("j1").status == "cancelled"


@pytest.mark.parametrize(
    "ending", ["complete", "exhaust", "give up", "abort", "cancel"]
)
def test_every_end_of_the_owner_ends_its_ownership(ending: str) -> None:
    world = World()
    store = world.store(max_handoffs=1)
    store.replace_scheduled("s", "n", max_retries=0)
    if ending == "cancel":
        store.cancel("j1")
    else:
        store.claim()
    if ending == "abort":
        store.cancel("j1")
    match ending:
        case "complete":
            store.complete("j1", "h1")
        case "exhaust":
            store.fail("j1", "h1", "boom")
        case "give up" | "abort":
            store.return_to_queue("j1", "h1")
        case _:
            pass  # cancelled above

    assert world.row("j1").status.terminal
    assert world.owner("s") is None
    assert world.data.tables.schedule_keys["s"].high_water == 1


def test_an_owner_that_is_gone_counts_as_none() -> None:
    world = World()
    store = world.store()
    store.replace_scheduled("s", "n")
    world.data.edit_schedule_key("s", job_id="gone")

    assert store.scheduled_job("s").current is None
    assert store.wake_scheduled("s").outcome is WakeOutcome.NOT_FOUND
    assert store.replace_scheduled("s", "n") == Replacement("j2", None, None)
    world.data.edit_schedule_key("s", job_id="gone")
    assert store.cancel_scheduled("s").outcome is CancelOutcome.NOT_FOUND
    assert world.owner("s") is None


def test_the_latest_ended_job_goes_by_order_and_rows_without_one_come_last() -> None:
    world = World()
    store = world.store()
    store.replace_scheduled("s", "n")
    world.clock.advance(10)
    store.replace_scheduled("s", "n")
    store.cancel_scheduled("s")

    def latest() -> str:
        found = store.scheduled_job("s", include_latest_terminal=True).latest_terminal
        assert found is not None
        return found.id

    assert latest() == "j2"
    world.data.edit_job("j2", schedule_order=None)
    assert latest() == "j1"
    world.data.edit_job("j1", schedule_order=None)
    assert latest() == "j2"


# --- Caps and policies


def test_set_concurrency_makes_and_changes_a_counter_and_touches_no_job() -> None:
    world = World()
    store = world.store()
    store.set_concurrency("k", 3)
    assert (world.cap("k"), world.active("k")) == (3, 0)
    store.enqueue("n", concurrency_key="k", max_concurrency=3)
    store.claim()
    world.data.drop_counter("k")

    store.set_concurrency("k", 2)

    assert (world.cap("k"), world.active("k")) == (2, 1)
    assert world.row("j1").max_concurrency == 3


def test_reconciling_policies_adopts_changes_and_releases() -> None:
    world = World()
    store = world.store()
    store.enqueue("n", queue="a")
    store.enqueue("n", queue="a", priority=1)
    store.enqueue("n", queue="a", concurrency_key="k", max_concurrency=9)
    store.enqueue("n", queue="b")
    store.claim_job("j4", handoff_id="mine")
    store.pause_queue("b")

    store.reconcile_queue_policies({"a": QueuePolicy(2, 5), "b": QueuePolicy(3)})

    def told(job_id: str) -> tuple[str | None, int | None, int]:
        row = world.row(job_id)
        return row.concurrency_key, row.max_concurrency, row.priority

    assert told("j1") == ("queue:a", 2, 5)
    assert told("j2") == ("queue:a", 2, 1)
    assert told("j3") == ("k", 9, 5)
    assert told("j4") == (None, None, 0)
    assert (world.cap("queue:a"), world.cap("queue:b")) == (2, 3)

    store.enqueue("n", queue="b")
    store.reconcile_queue_policies({"b": QueuePolicy(1, 7)}, release_others=False)
    assert told("j1") == ("queue:a", 2, 5)
    assert told("j5") == ("queue:b", 1, 7)
    assert world.cap("queue:b") == 1

    store.reconcile_queue_policies({"b": QueuePolicy(1)})
    assert told("j1") == (None, None, 0)
    assert told("j2") == (None, None, 1)
    assert told("j3") == ("k", 9, 0)
    assert [(q.queue, q.paused, q.max_concurrent) for q in store.queue_stats()] == [
        ("a", False, None),
        ("b", True, 1),
    ]


def test_reconciling_without_policies_uses_the_store_s_own_else_the_durable() -> None:
    world = World()
    world.store(queues={"q": QueuePolicy(2)}).reconcile_queue_policies()
    world.store(queues={}).enqueue("n", queue="q")
    assert world.row("j1").concurrency_key is None

    world.store().reconcile_queue_policies()
    assert world.row("j1").concurrency_key == "queue:q"
    world.store(queues={}).reconcile_queue_policies()
    assert world.row("j1").concurrency_key is None


def test_policies_given_to_a_reconciling_become_the_store_s_own() -> None:
    world = World()
    store = world.store(queues={})

    store.reconcile_queue_policies({"q": QueuePolicy(None, 8)})
    store.enqueue("n", queue="q")

    assert world.row("j1").priority == 8


def test_a_healthy_pass_checks_and_writes_nothing() -> None:
    world = World()
    store = world.store()
    store.enqueue("n", concurrency_key="idle", max_concurrency=1)
    store.enqueue("n", concurrency_key="busy", max_concurrency=1)
    store.claim_job("j2")
    before = world.data.snapshot()

    assert store.reconcile_active_concurrency() == Reconciliation(1, 0, 0, (), 0)
    assert world.data.snapshot() == before


def test_wrong_and_missing_counters_are_mended_and_the_first_ten_shown() -> None:
    world = World()
    store = world.store()
    for number in range(12):
        store.enqueue("n", concurrency_key=f"k{number:02}", max_concurrency=2)
    store.claim(12)
    for number in range(11):
        key = f"k{number:02}"
        world.data.edit_counter(key, max_concurrency=2, active=number + 2)
    world.data.drop_counter("k11")
    store.enqueue("n", concurrency_key="a", max_concurrency=3)
    world.data.drop_counter("a")
    world.data.edit_counter("unused", max_concurrency=1, active=4)

    result = store.reconcile_active_concurrency()

    assert (result.checked_count, result.candidate_count) == (14, 14)
    assert (result.repaired_count, result.repairs_truncated_count) == (14, 4)
    assert len(result.repairs) == 10
    assert result.repairs[:2] == (Repair("a", 0, 0), Repair("k00", 2, 1))
    assert (world.cap("k11"), world.active("k11")) == (2, 1)
    assert (world.cap("a"), world.active("a"), world.active("unused")) == (3, 0, 0)
    assert store.reconcile_active_concurrency().repaired_count == 0


def test_a_missing_counter_of_ended_jobs_is_not_missed() -> None:
    world = World()
    store = world.store()
    store.enqueue("n", concurrency_key="k", max_concurrency=1)
    store.cancel("j1")
    world.data.drop_counter("k")

    assert store.reconcile_active_concurrency().checked_count == 0
    assert world.data.snapshot().counters == ()


def test_a_missing_counter_gets_the_cap_of_the_latest_active_job() -> None:
    world = World()
    store = world.store()
    store.enqueue("n", concurrency_key="k", max_concurrency=1)
    store.set_concurrency("k", 2)
    store.enqueue("n", concurrency_key="k", max_concurrency=2)
    store.set_concurrency("k", 3)
    store.cancel(store.enqueue("n", concurrency_key="k", max_concurrency=3))
    world.data.drop_counter("k")

    store.reconcile_active_concurrency()

    assert world.cap("k") == 2


def test_a_release_at_zero_or_without_counter_still_accepts_the_acknowledgement() -> (
    None
):
    world = World()
    store = world.store()
    for key in ("zero", "gone"):
        store.enqueue("n", concurrency_key=key, max_concurrency=1)
    store.claim(2)
    world.data.edit_counter("zero", max_concurrency=1, active=0)
    world.data.drop_counter("gone")

    assert store.complete("j1", "h1").accepted
    assert store.complete("j2", "h2").accepted

    assert world.active("zero") == 0
    assert "gone" not in world.data.tables.counters


# --- Operations


def test_queue_stats_show_every_queue_with_a_job_or_a_durable_row() -> None:
    world = World()
    store = world.store()
    store.enqueue("n", queue="b", scheduled_at=400)
    store.enqueue("n", queue="b", scheduled_at=700)
    store.enqueue("n", queue="b", scheduled_at=2000)
    store.enqueue("n", queue="c")
    store.claim(queues=["c"])
    store.pause_queue(" a ")
    store.resume_queue("unknown")

    a, b, c = store.queue_stats()

    none = dict.fromkeys(JobStatus, 0)
    assert a == QueueStats("a", none, True, None, 0, None)  # noqa: FBT003
    assert b == QueueStats("b", none | {JobStatus.QUEUED: 3}, False, None, 0, 600)  # noqa: FBT003
    assert c == QueueStats("c", none | {JobStatus.HANDED_OFF: 1}, False, None, 1, None)  # noqa: FBT003
    assert store.counts() == none | {JobStatus.QUEUED: 3, JobStatus.HANDED_OFF: 1}


def test_the_oldest_due_age_is_of_what_is_due_and_zero_at_its_moment() -> None:
    store = World().store()
    store.enqueue("n", queue="future", scheduled_at=1001)
    store.enqueue("n", queue="now", scheduled_at=1000)

    ages = {each.queue: each.oldest_due_age_ms for each in store.queue_stats()}

    assert ages == {"future": None, "now": 0}


def test_pruning_goes_by_each_status_s_own_age_and_keeps_what_is_active() -> None:
    world = World()
    store = world.store()
    held(world, store)
    store.complete("j1", "j1-1")
    held(world, store, max_retries=0)
    store.fail("j2", "j2-1", "boom")
    store.cancel(store.enqueue("n"))
    store.enqueue("n")
    held(world, store)
    world.clock.set(2000)

    def prune(completed: int | None, failed: int | None, cancelled: int | None) -> int:
        return store.prune_terminal(
            completed_ttl_ms=completed,
            failed_ttl_ms=failed,
            cancelled_ttl_ms=cancelled,
        )

    assert prune(1001, 1001, 1001) == 0
    assert prune(None, None, None) == 0
    assert prune(1000, None, 1001) == 1
    assert prune(0, 1000, 1000) == 2
    assert [row.id for row in world.data.snapshot().jobs] == ["j4", "j5"]


def test_pruning_drops_the_counters_that_no_job_names_any_more() -> None:
    world = World()
    store = world.store()
    store.set_concurrency("never used", 1)
    for key in ("gone", "queued", "drifted"):
        store.enqueue("n", concurrency_key=key, max_concurrency=1)
    store.enqueue("n")
    for handoff in store.claim(4):
        store.complete(handoff.job.id, handoff.handoff_id)
    store.enqueue("n", concurrency_key="queued", max_concurrency=1)
    world.data.edit_counter("drifted", max_concurrency=1, active=1)

    assert store.prune_terminal(completed_ttl_ms=0, batch_size=1) == 4

    assert set(world.data.tables.counters) == {"never used", "queued", "drifted"}


def test_one_worker_at_a_time_owns_the_data_until_its_time_is_over() -> None:
    world = World()
    store, other = world.store(), world.store()
    assert isinstance(store, OwnershipStore)

    assert store.acquire_ownership("a", ttl_ms=100) is True
    assert world.data.snapshot().owner == OwnerRow("a", 1100)
    assert other.acquire_ownership("b", ttl_ms=100) is False
    other.release_ownership("b")
    world.clock.set(1099)
    assert other.acquire_ownership("b", ttl_ms=100) is False
    assert store.acquire_ownership("a", ttl_ms=100) is True
    world.clock.set(1199)
    assert other.acquire_ownership("b", ttl_ms=100) is True
    store.release_ownership("a")
    assert world.data.snapshot().owner == OwnerRow("b", 1299)
    other.release_ownership("b")
    assert world.data.snapshot().owner is None
    assert store.acquire_ownership("a", ttl_ms=1) is True


def test_next_scheduled_is_the_earliest_future_job_paused_or_not() -> None:
    world = World()
    store = world.store()
    store.enqueue("n", scheduled_at=3000, priority=9)
    store.enqueue("n", scheduled_at=2000, queue="p")
    store.enqueue("n", scheduled_at=1000)
    store.pause_queue("p")

    first, other = store.next_scheduled(), store.next_scheduled(queues=["default"])

    assert first is not None
    assert other is not None
    assert (first.id, other.id) == ("j2", "j1")
    assert store.next_scheduled(queues=["none"]) is None
