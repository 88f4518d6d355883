"""Acceptance cases that ask about the store alone; each test names its case."""

import threading

from datetime import UTC, datetime, timedelta, timezone

import pytest

from jobfence.statemachine.errors import (
    ConcurrencyConflict,
    IdempotencyConflict,
    InvalidOption,
)
from jobfence.statemachine.policy import QueuePolicy
from jobfence.statemachine.retry import ExponentialRetry
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import Job
from jobfence.store.contract import DAY_MS
from jobfence.store.memory import MemoryJobStore
from tests.store.memory.world import START_MS, World

SERIAL = {"serial": QueuePolicy(1)}


def id_of(job: Job | None) -> str | None:
    return None if job is None else job.id


def test_A1_A2_A71_a_queue_is_default_or_trimmed() -> None:
    world = World()
    world.store().enqueue("n")
    world.store().enqueue("n", queue=" uploads ")
    assert [row.queue for row in world.data.snapshot().jobs] == ["default", "uploads"]


def test_A4_A65_an_explicit_pair_replaces_the_queue_s_cap() -> None:
    world = World()
    store = world.store(queues={"builds": QueuePolicy(5)})
    store.enqueue("n", queue="builds", concurrency_key="account:1", max_concurrency=1)
    row = world.row("j1")
    assert (row.concurrency_key, row.max_concurrency) == ("account:1", 1)


def test_A11_A13_A59_bad_options_are_named() -> None:
    store = World().store()
    with pytest.raises(InvalidOption, match="reserved prefix"):
        store.enqueue("n", concurrency_key="queue:reserved", max_concurrency=1)
    with pytest.raises(InvalidOption, match="scheduled_at"):
        store.enqueue("n", scheduled_at=-1)
    with pytest.raises(InvalidOption, match="must be paired"):
        store.enqueue("n", concurrency_key="k")


def test_A17_a_chosen_handoff_id_is_returned_and_stored() -> None:
    world = World()
    store = world.store()
    store.enqueue("n")
    handoff = store.claim_job("j1", handoff_id="caller-selected-local-handoff")
    assert handoff is not None
    assert handoff.handoff_id == "caller-selected-local-handoff"
    assert world.row("j1").handoff_id == "caller-selected-local-handoff"


def test_A19_F37_F38_only_a_queued_job_is_a_twin() -> None:
    store = World().store()
    dedupe = {"deduplicate_while_queued": True}
    assert store.enqueue("n", [1], **dedupe) == "j1"  # type: ignore[arg-type]
    assert store.enqueue("n", [1], **dedupe) == "j1"  # type: ignore[arg-type]
    store.claim_job("j1", handoff_id="mine")
    assert store.enqueue("n", [1], **dedupe) == "j2"  # type: ignore[arg-type]
    store.cancel("j2")
    assert store.enqueue("n", [1], **dedupe) == "j3"  # type: ignore[arg-type]
    store.cancel("j3")
    store.recover_handed_off()
    assert store.enqueue("n", [1], **dedupe) == "j4"  # type: ignore[arg-type]


def test_A20_A62_a_saturated_key_hides_its_own_jobs_only() -> None:
    store = World().store(queues=SERIAL)
    store.enqueue("n", queue="serial")
    store.enqueue("n", queue="serial")
    (first,) = store.claim()
    assert store.next_available() is None
    store.enqueue("n", concurrency_key="other", max_concurrency=1)

    assert id_of(store.next_available()) == "j3"
    assert store.claim_job("j2") is None
    store.complete("j1", first.handoff_id)
    assert id_of(store.next_available()) == "j2"


def test_A22_concurrent_dedupe_enqueues_give_one_row() -> None:
    world = World()
    store = world.store(queues={"uploads": QueuePolicy(1)})
    start = threading.Barrier(8)
    ids: list[str] = []

    def enqueue() -> None:
        start.wait()
        ids.append(
            store.enqueue("n", [2], queue="uploads", deduplicate_while_queued=True)
        )

    run_all([enqueue] * 8)

    assert ids == ["j1"] * 8
    (counter,) = world.data.snapshot().counters
    assert counter.concurrency_key == "queue:uploads"


def run_all(targets: list) -> None:  # type: ignore[type-arg]
    threads = [threading.Thread(target=target) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_A50_A52_A55_A118_A119_a_replaced_owner_is_cancelled_and_keeps_its_key() -> (
    None
):
    world = World()
    store = world.store()
    key = "event:42:reminder:24h"
    first = store.replace_scheduled(key, "n", [42, 1], scheduled_at=61_000)
    second = store.replace_scheduled(key, "n", [42, 2], scheduled_at=121_000)
    assert (first.previous_job_id, first.previous_status) == (None, None)
    assert (second.previous_job_id, second.previous_status) == ("j1", "queued")
    assert (world.row("j1").status, world.row("j1").schedule_key) == ("cancelled", key)
    assert world.owner(key) == "j2"
    found = world.store().scheduled_job(key, include_latest_terminal=True)
    assert (id_of(found.current), id_of(found.latest_terminal)) == ("j2", "j1")

    assert store.cancel_scheduled(key).outcome == "cancelled"
    assert store.cancel_scheduled(key).outcome == "not_found"
    assert world.row("j2").schedule_key == key


def test_A53_A122_F40_a_replaced_running_owner_ends_without_touching_its_heir() -> None:
    world = World()
    store = world.store()
    store.replace_scheduled("s", "n")
    store.claim()
    heir = store.replace_scheduled("s", "n", scheduled_at=61_000)
    assert heir.previous_status == "handed_off"

    assert store.complete("j1", "h1").accepted
    found = store.scheduled_job("s", include_latest_terminal=True)
    assert (id_of(found.current), id_of(found.latest_terminal)) == ("j2", "j1")
    store.wake_scheduled("s")
    store.complete("j2", store.claim()[0].handoff_id)
    assert world.owner("s") is None
    assert store.cancel_scheduled("s").outcome == "not_found"
    assert world.row("j2").schedule_key == "s"


def test_A56_the_later_owner_has_the_higher_order_whatever_its_id() -> None:
    world = World()
    ids = iter(["z", "a"])
    world.ids = lambda: next(ids)
    store = world.store()
    store.replace_scheduled("s", "n")
    store.replace_scheduled("s", "n")
    store.cancel_scheduled("s")
    found = store.scheduled_job("s", include_latest_terminal=True).latest_terminal
    assert id_of(found) == "a"
    assert (world.row("z").schedule_order, world.row("a").schedule_order) == (1, 2)


def test_A58_A131_a_retry_is_woken_once_and_keeps_its_attempt() -> None:
    world = World()
    store = world.store()
    store.replace_scheduled("s", "n")
    world.clock.set(2000)
    store.fail("j1", store.claim()[0].handoff_id, "boom")
    assert world.row("j1").scheduled_at_ms == 12_000
    assert store.wake_scheduled("s").outcome == "woken"
    row = world.row("j1")
    assert (row.scheduled_at_ms, row.attempts, row.last_error) == (2000, 1, "boom")
    assert store.wake_scheduled("s").outcome == "already_due"
    (handoff,) = store.claim()
    assert store.wake_scheduled("s").outcome == "handed_off"
    store.complete("j1", handoff.handoff_id)
    assert store.wake_scheduled("s").outcome == "not_found"
    assert len(world.data.snapshot().jobs) == 1


def test_A61_F31_another_cap_is_a_conflict_even_when_a_twin_exists() -> None:
    store = World().store()
    store.enqueue("n", concurrency_key="account:1", max_concurrency=2)
    with pytest.raises(ConcurrencyConflict) as caught:
        store.enqueue(
            "n",
            concurrency_key="account:1",
            max_concurrency=3,
            deduplicate_while_queued=True,
        )
    assert (caught.value.registered, caught.value.given) == (2, 3)


def test_A64_F26_a_cap_of_two_holds_in_a_batch_and_frees_by_completion() -> None:
    world = World()
    store = world.store(queues={"builds": QueuePolicy(2)})
    for _ in range(10):
        store.enqueue("n", queue="builds")
    assert world.row("j1").concurrency_key == "queue:builds"
    handoffs = store.claim(10)
    assert [each.job.id for each in handoffs] == ["j1", "j10"]  # by id: as text
    assert store.claim_job("j3") is None
    store.complete("j1", handoffs[0].handoff_id)
    assert store.claim_job("j3") is not None


def test_A67_A76_a_changed_queue_cap_is_no_conflict_and_may_go_away() -> None:
    world = World()
    world.store(queues=SERIAL).enqueue("n", queue="serial")
    world.store(queues={"serial": QueuePolicy(3)}).enqueue("n", queue="serial")
    assert world.row("j2").max_concurrency == 3
    assert world.cap("queue:serial") == 1
    world.store(queues={}).reconcile_queue_policies()
    assert world.row("j1").concurrency_key is None
    assert world.row("j2").concurrency_key is None


def test_A68_A70_F47_priority_decides_before_age() -> None:
    store = World().store()
    store.enqueue("sweep", priority=-5)
    store.enqueue("default")
    store.enqueue("urgent", priority=10)
    assert id_of(store.next_available()) == "j3"
    assert [each.job.id for each in store.claim(3)] == ["j3", "j2", "j1"]


def test_A73_a_cap_reaches_queued_jobs_by_reconciling_only() -> None:
    world = World()
    world.store().enqueue("n", queue="builds")
    store = world.store(queues={"builds": QueuePolicy(2)})
    store.ensure_ready()
    assert world.row("j1").concurrency_key is None
    store.reconcile_queue_policies()
    row = world.row("j1")
    assert (row.concurrency_key, row.max_concurrency) == ("queue:builds", 2)


def test_A74_A166_a_drifted_counter_stays_until_it_is_reconciled() -> None:
    world = World()
    store = world.store(queues=SERIAL)
    store.enqueue("n", queue="serial")
    store.claim()
    for wrong in (17, 23):
        world.data.edit_counter("queue:serial", max_concurrency=1, active=wrong)
        store.ensure_ready()
        assert world.active("queue:serial") == wrong
        store.reconcile_active_concurrency()
        assert world.active("queue:serial") == 1


def test_A79_F11_an_ending_told_by_two_releases_one_slot() -> None:
    world = World()
    store = world.store(queues=SERIAL)
    store.enqueue("n", queue="serial")
    (held,) = store.claim()
    start = threading.Barrier(2)
    results: list[str] = []

    def complete() -> None:
        start.wait()
        results.append(store.complete("j1", held.handoff_id).result)

    run_all([complete, complete])

    assert sorted(results) == ["accepted", "repeated"]
    assert world.active("queue:serial") == 0


def test_A82_the_counter_is_the_handed_off_jobs_after_every_kind_of_end() -> None:
    world = World()
    store = world.store(queues={"q": QueuePolicy(8)})
    for _ in range(6):
        store.enqueue("n", queue="q")
    handoffs = store.claim(6)
    assert world.active("queue:q") == 6
    ids = [(each.job.id, each.handoff_id) for each in handoffs]
    store.complete(*ids[0])
    store.fail(*ids[1], "boom")
    store.return_to_queue(*ids[2])
    store.cancel(ids[3][0])
    store.return_to_queue(*ids[3])
    assert store.counts()[JobStatus.HANDED_OFF] == 2
    assert world.active("queue:q") == 2


def test_A85_A86_dedupe_is_by_name_and_arguments_and_passes_a_backed_off_retry() -> (
    None
):
    world = World()
    store = world.store()

    def dedupe(name: str) -> str:
        return store.enqueue(
            name,
            [1],
            concurrency_key="shared",
            max_concurrency=5,
            deduplicate_while_queued=True,
        )

    dedupe("planner")
    store.fail("j1", store.claim()[0].handoff_id, "boom")
    assert dedupe("planner") == "j2"
    assert dedupe("planner") == "j2"
    assert dedupe("other") == "j3"
    assert len(world.data.snapshot().jobs) == 3


def test_A88_A112_F4_F5_an_older_handoff_s_word_is_stale() -> None:
    world = World()
    store = world.store()
    store.enqueue("n")
    store.claim_job("j1", worker_id="w", handoff_id="one")
    store.return_to_queue("j1", "one")
    store.claim_job("j1", worker_id="w", handoff_id="two")
    before = world.data.snapshot()
    assert store.complete("j1", "one").stale
    assert store.fail("j1", "one", "boom").stale
    assert store.reschedule("j1", "one", delay_ms=1).stale
    assert store.reschedule("unknown", "one", delay_ms=1).stale
    assert world.data.snapshot() == before
    assert store.complete("j1", "two").accepted


def test_A89_A91_F10_retries_run_out_and_a_late_failure_changes_nothing() -> None:
    world = World()
    store = world.store()
    store.enqueue("n", max_retries=1)
    store.claim_job("j1", handoff_id="one")
    store.fail("j1", "one", "boom")
    row = world.row("j1")
    assert (row.status, row.attempts, row.scheduled_at_ms) == ("queued", 1, 11_000)
    world.clock.advance(10_000)
    store.claim_job("j1", handoff_id="two")
    store.fail("j1", "two", "boom")
    assert (world.row("j1").status, world.row("j1").attempts) == ("failed", 2)
    before = world.data.snapshot()
    assert store.fail("j1", "one", "late").stale
    assert world.data.snapshot() == before


def test_A94_A95_ended_jobs_are_pruned_by_their_age() -> None:
    world = World()
    store = world.store()
    store.enqueue("n")
    store.enqueue("n", max_retries=0)
    first, second = store.claim(2)
    store.complete("j1", first.handoff_id)
    store.fail("j2", second.handoff_id, "boom")
    world.clock.advance(10 * DAY_MS)
    store.enqueue("n")
    store.enqueue("n")
    store.complete("j3", store.claim()[0].handoff_id)
    assert store.prune_terminal() == 1
    world.clock.advance(20 * DAY_MS)
    assert store.prune_terminal(completed_ttl_ms=None) == 1
    assert [row.id for row in world.data.snapshot().jobs] == ["j3", "j4"]


def test_A97_A98_next_scheduled_is_the_sooner_of_the_future_jobs() -> None:
    store = World().store()
    store.enqueue("n")
    assert store.next_scheduled() is None
    store.cancel("j1")
    store.enqueue("n", scheduled_at=61_000)
    store.enqueue("n", scheduled_at=31_000)
    assert store.next_available() is None
    assert id_of(store.next_scheduled()) == "j3"


def test_A121_cancelling_a_running_owner_leaves_it_handed_off() -> None:
    world = World()
    store = world.store()
    store.replace_scheduled("s", "n")
    store.claim()
    assert store.cancel_scheduled("s").outcome == "handed_off"
    assert world.row("j1").status == "handed_off"


def test_A124_two_stores_replacing_one_key_leave_one_queued() -> None:
    world = World()
    stores = [world.store(), world.store()]
    start = threading.Barrier(2)

    def replace(store: MemoryJobStore) -> None:
        start.wait()
        store.replace_scheduled("s", "n")

    run_all([lambda: replace(stores[0]), lambda: replace(stores[1])])

    statuses = {row.id: row.status for row in world.data.snapshot().jobs}
    assert statuses == {"j1": "cancelled", "j2": "queued"}
    assert stores[1].cancel_scheduled("s").job_id == "j2"


def test_A125_a_schedule_key_has_1_to_255_characters() -> None:
    store = World().store()
    with pytest.raises(InvalidOption, match="non-empty"):
        store.replace_scheduled("", "n")
    with pytest.raises(InvalidOption, match="at most 255"):
        store.replace_scheduled("k" * 256, "n")


def test_A130_the_high_water_of_a_key_outlives_its_jobs() -> None:
    world = World()
    store = world.store()
    store.replace_scheduled("s", "n")
    store.complete("j1", store.claim()[0].handoff_id)
    world.clock.advance(7 * DAY_MS)
    assert store.prune_terminal() == 1
    store.replace_scheduled("s", "n")
    assert world.row("j2").schedule_order == 2


def test_A134_an_idempotency_key_gives_its_first_job_for_ever() -> None:
    world = World()
    store = world.store()

    def again() -> str:
        return store.enqueue("n", [1], idempotency_key="once")

    assert again() == "j1"
    (held,) = store.claim()
    assert again() == "j1"
    store.complete("j1", held.handoff_id)
    assert again() == "j1"
    store.prune_terminal(completed_ttl_ms=0)
    assert again() == "j1"
    assert world.data.snapshot().jobs == ()
    assert store.enqueue("n", [1], idempotency_key="once", queue="other") == "j2"
    assert store.enqueue("m", [1], idempotency_key="once") == "j3"
    with pytest.raises(IdempotencyConflict) as caught:
        store.enqueue("n", [1], idempotency_key="once", max_retries=10)
    assert caught.value.differing == ("max_retries",)
    assert caught.value.job_id == "j1"


def test_F2_F28_a_late_word_after_recovery_releases_nothing() -> None:
    world = World()
    store = world.store(queues=SERIAL)
    store.enqueue("n", queue="serial")
    store.enqueue("n", queue="serial")
    store.claim_job("j1", handoff_id="one")
    world.clock.advance(60_000)
    store.recover_expired()
    store.claim_job("j2", handoff_id="two")
    assert store.complete("j1", "one").stale
    assert store.claim(5) == []
    assert world.active("queue:serial") == 1
    assert world.row("j1").status == "queued"


def test_F13_F14_F16_a_dead_holder_s_job_is_held_then_recovered_then_claimable() -> (
    None
):
    world = World()
    store = world.store()
    store.enqueue("n")
    store.claim()
    row = world.row("j1")
    assert (row.status, row.lease_expires_at_ms) == ("handed_off", 61_000)
    world.clock.set(60_999)
    assert store.recover_expired() == []
    world.clock.set(61_000)
    (job,) = store.recover_expired()
    assert (job.status, job.scheduled_at_ms) == ("queued", 71_000)
    world.clock.set(71_000)
    store.return_to_queue("j1", store.claim()[0].handoff_id)
    assert id_of(store.next_available()) == "j1"


def test_F25_F64_threads_claim_each_job_once_and_never_pass_the_cap() -> None:
    world = World()
    store = world.store(queues={"q": QueuePolicy(3)})
    for _ in range(120):
        store.enqueue("n", queue="q")
    start = threading.Barrier(4)
    taken: list[str] = []
    highest: list[int] = []

    def work() -> None:
        start.wait()
        while store.counts()[JobStatus.QUEUED]:
            for handoff in store.claim(2):
                highest.append(world.active("queue:q"))
                taken.append(handoff.job.id)
                store.complete(handoff.job.id, handoff.handoff_id)

    run_all([work] * 4)

    assert sorted(taken) == sorted(f"j{number}" for number in range(1, 121))
    assert max(highest) <= 3
    assert store.counts()[JobStatus.COMPLETED] == 120
    assert world.active("queue:q") == 0


def test_F46_a_long_backlog_behind_a_full_key_hides_nothing() -> None:
    world = World()
    store = world.store()
    for _ in range(200):
        store.enqueue("n", concurrency_key="k", max_concurrency=1)
    store.claim()
    store.enqueue("n", concurrency_key="l", max_concurrency=1)
    assert [each.job.id for each in store.claim(5)] == ["j201"]


def test_F43_a_retry_never_waits_longer_than_its_policy_s_most() -> None:
    world = World()
    policy = ExponentialRetry(base_ms=1000, factor=5.0, max_ms=90_000)
    store = world.store(retry_policy=policy)
    store.enqueue("n", max_retries=20_000)
    world.data.edit_job("j1", attempts=9_999)
    store.fail("j1", store.claim()[0].handoff_id, "boom")
    assert world.row("j1").scheduled_at_ms == START_MS + 90_000


def test_F58_F61_any_error_text_is_recorded() -> None:
    world = World()
    store = world.store()
    store.enqueue_many([])
    for error in ("\ud800\0", "😀" * 70_000):
        job_id = store.enqueue("n", max_retries=0)
        assert store.fail(job_id, store.claim()[0].handoff_id, error).accepted
    assert world.row("j1").last_error == "\ufffd\ufffd"
    stored = world.row("j2").last_error
    assert stored is not None
    assert 60_000 < len(stored.encode()) <= 65_536


def test_F59_F83_what_json_or_a_calendar_cannot_say_is_refused() -> None:
    world = World()
    store = world.store()
    for number in (float("nan"), float("inf"), float("-inf")):
        with pytest.raises(ValueError, match="x"):
            store.enqueue("n", [{"x": number}])
    with pytest.raises(ValueError, match="time zone"):
        store.enqueue("n", scheduled_at=datetime(2026, 1, 1, 9, 0))  # noqa: DTZ001
    assert world.data.snapshot().jobs == ()


def test_F62_keys_are_compared_byte_by_byte() -> None:
    store = World().store()
    ids = [store.enqueue("n", idempotency_key=key) for key in ("K", "k", "k ")]
    owners = [store.replace_scheduled(key, "n").previous_job_id for key in ("K", "k ")]
    assert (ids, owners) == (["j1", "j2", "j3"], [None, None])


def test_F70_a_time_with_an_offset_is_that_moment() -> None:
    world = World()
    store = world.store()
    nine = datetime(2026, 1, 1, 9, 0, tzinfo=timezone(timedelta(hours=8)))
    store.enqueue("n", scheduled_at=nine)
    due = int(datetime(2026, 1, 1, 1, 0, tzinfo=UTC).timestamp() * 1000)
    world.clock.set(due - 1)
    assert store.claim() == []
    world.clock.set(due)
    assert len(store.claim()) == 1


def test_F74_a_completion_told_again_is_known_as_done_by_this_handoff() -> None:
    store = World().store()
    store.enqueue("n")
    (held,) = store.claim()
    store.complete("j1", held.handoff_id)
    assert store.complete("j1", held.handoff_id).repeated


def test_F80_a_waiting_job_holds_no_lease() -> None:
    world = World()
    store = world.store(lease_ms=3_600_000)
    store.enqueue("n", scheduled_at=7_200_000)
    world.clock.set(7_199_999)
    assert store.recover_expired() == []
    assert store.claim() == []
    world.clock.set(7_200_000)
    assert [each.fence for each in store.claim(5)] == [1]


def test_F88_unstarted_jobs_go_back_as_they_were() -> None:
    world = World()
    store = world.store()
    for _ in range(10):
        store.enqueue("n")
    for handoff in store.claim(10)[2:]:
        store.return_to_queue(handoff.job.id, handoff.handoff_id)
    assert store.counts()[JobStatus.QUEUED] == 8
    assert {row.attempts for row in world.data.snapshot().jobs} == {0}
