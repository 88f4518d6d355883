"""One data set under several stores; its dump, its copies, its back doors."""

from collections import deque
from collections.abc import Callable
from operator import methodcaller

import pytest

from jobfence.statemachine.clock import SystemClock
from jobfence.statemachine.policy import QueuePolicy
from jobfence.statemachine.states import JobStatus
from jobfence.store.memory import MemoryData, MemoryJobStore, Snapshot
from tests.store.memory.world import World

# --- Sharing


def test_a_second_store_on_the_data_sees_all_that_is_durable() -> None:
    world = World()
    first = world.store()
    first.enqueue("n", [1], idempotency_key="once")
    first.replace_scheduled("nightly", "n", scheduled_at=9000)
    first.pause_queue("mail")
    first.close()

    second = world.store()
    second.ensure_ready(create=False)

    assert second.get("j1") == first.get("j1")
    assert second.enqueue("n", [1], idempotency_key="once") == "j1"
    assert second.replace_scheduled("nightly", "n").previous_job_id == "j2"
    assert [each.paused for each in second.queue_stats()] == [False, True]


def test_what_one_store_claims_the_other_can_complete_and_not_claim() -> None:
    world = World()
    first, second = world.store(), world.store()
    job_id = first.enqueue("n")
    (held,) = first.claim()

    assert second.claim() == []
    assert second.complete(job_id, held.handoff_id).accepted
    assert first.complete(job_id, held.handoff_id).repeated


def test_settings_are_each_store_s_own() -> None:
    world = World()
    capped = world.store(queues={"q": QueuePolicy(1, 5)}, lease_ms=None)
    plain = world.store(lease_ms=7)

    capped.enqueue("n", queue="q")
    plain.enqueue("n", queue="q")

    assert (world.row("j1").concurrency_key, world.row("j1").priority) == ("queue:q", 5)
    assert (world.row("j2").concurrency_key, world.row("j2").priority) == (None, 0)
    assert [each.lease_expires_at_ms for each in capped.claim()] == [None]
    assert [each.lease_expires_at_ms for each in plain.claim()] == [1007]


def test_a_store_without_opinion_goes_by_the_durable_policies() -> None:
    world = World()
    world.store(queues={"q": QueuePolicy(2, 5)}).reconcile_queue_policies()

    world.store().enqueue("n", queue="q")
    world.store(queues={}).enqueue("n", queue="q")

    assert (world.row("j1").max_concurrency, world.row("j1").priority) == (2, 5)
    assert (world.row("j2").max_concurrency, world.row("j2").priority) == (None, 0)


def test_a_store_says_which_clock_it_goes_by() -> None:
    world = World()
    assert world.store().clock is world.clock
    assert isinstance(MemoryJobStore().clock, SystemClock)


def test_stores_without_common_data_share_nothing() -> None:
    first, second = MemoryJobStore(), MemoryJobStore()
    job_id = first.enqueue("n")

    assert second.get(job_id) is None
    assert first.data is not second.data


def test_clear_empties_the_data_for_every_store() -> None:
    world = World()
    store = world.store(queues={"q": QueuePolicy(1)})
    store.reconcile_queue_policies()
    store.enqueue("n", queue="q", idempotency_key="once")
    store.replace_scheduled("nightly", "n")

    world.store().clear()

    assert world.data.snapshot() == MemoryData().snapshot()
    assert store.counts()[JobStatus.QUEUED] == 0


# --- Dumps and copies


def test_a_snapshot_is_equal_and_hashed_by_value() -> None:
    one, other = World(), World()
    for world in (one, other):
        world.store().enqueue("n", [{"b": 1, "a": 2}], idempotency_key="once")
        world.store().pause_queue("q")

    assert one.data.snapshot() == other.data.snapshot()
    assert len({one.data.snapshot(), other.data.snapshot()}) == 1

    one.store().resume_queue("q")
    assert one.data.snapshot() != other.data.snapshot()


def test_a_snapshot_is_sorted_and_stays_as_it_was_taken() -> None:
    world = World()
    ids = iter(["b", "a"])
    world.ids = lambda: next(ids)
    store = world.store()
    store.enqueue("n")
    store.enqueue("n")
    taken = world.data.snapshot()

    store.claim(2)

    assert [row.id for row in taken.jobs] == ["a", "b"]
    assert {row.status for row in taken.jobs} == {JobStatus.QUEUED}


def test_a_copy_and_its_origin_go_separate_ways() -> None:
    world = World()
    world.store().enqueue("n")
    before = world.data.snapshot()
    twin = world.data.copy()

    world.store().claim()
    assert twin.snapshot() == before

    MemoryJobStore(data=twin).clear()
    assert world.row("j1").status == "handed_off"


def test_restore_puts_the_data_back_under_the_stores_that_use_it() -> None:
    world = World()
    store = world.store()
    store.enqueue("n")
    saved = world.data.copy()
    before = world.data.snapshot()
    store.claim()

    world.data.restore(saved)

    assert world.data.snapshot() == before
    assert len(store.claim()) == 1
    assert saved.snapshot() == before


# --- Exploring: what snapshot, copy and restore are for

Action = Callable[[MemoryJobStore], object]


class NoWait:
    def delay_ms(self, failures: int) -> int:
        return 0 * failures


def explore(
    data: MemoryData, store: MemoryJobStore, actions: list[Action]
) -> tuple[set[Snapshot], set[tuple[Snapshot, Snapshot]]]:
    """Take every action in every state that any order of them reaches."""
    seen: set[Snapshot] = {data.snapshot()}
    edges: set[tuple[Snapshot, Snapshot]] = set()
    todo = deque([data.copy()])
    while todo:
        state = todo.popleft()
        for action in actions:
            data.restore(state)
            action(store)
            after = data.snapshot()
            edges.add((state.snapshot(), after))
            if after not in seen:
                seen.add(after)
                todo.append(data.copy())
    return seen, edges


def job_actions(job_id: str) -> list[Action]:
    """Everything that can be done about one job, with a right and a stale id."""
    acts: list[Action] = [
        lambda s: s.claim_job(job_id, handoff_id=f"{job_id}-1") if fresh(s, 0) else 0,
        lambda s: s.claim_job(job_id, handoff_id=f"{job_id}-2") if fresh(s, 1) else 0,
        lambda s: s.cancel(job_id),
    ]

    def fresh(store: MemoryJobStore, handoffs: int) -> bool:
        with store.data.transaction() as tables:
            return tables.jobs[job_id].handoffs == handoffs

    for handoff_id in (f"{job_id}-1", f"{job_id}-2"):
        acts += [
            methodcaller("complete", job_id, handoff_id),
            methodcaller("fail", job_id, handoff_id, "boom"),
            methodcaller("return_to_queue", job_id, handoff_id),
        ]
    return acts


def test_no_order_of_operations_breaks_what_must_always_hold() -> None:
    world = World()
    store = world.store(retry_policy=NoWait(), lease_ms=None)
    store.enqueue(
        "n", max_retries=1, concurrency_key="k", max_concurrency=1, priority=1
    )
    store.replace_scheduled(
        "s", "n", max_retries=0, concurrency_key="k", max_concurrency=1
    )
    actions = [
        *job_actions("j1"),
        *job_actions("j2"),
        lambda s: s.recover_handed_off(),
        lambda s: s.cancel_scheduled("s"),
    ]

    states, edges = explore(world.data, store, actions)

    for state in states:
        check_invariants(state)
    for before, after in edges:
        check_step(before, after)
    met = {row.status for state in states for row in state.jobs}
    assert met == set(JobStatus)
    assert len(states) > 500


def check_invariants(state: Snapshot) -> None:
    held = [row for row in state.jobs if row.status is JobStatus.HANDED_OFF]
    (counter,) = state.counters
    (owner,) = state.schedule_keys
    active = {row.id for row in state.jobs if not row.status.terminal}
    assert counter.active_count == len(held) <= counter.max_concurrency
    assert owner.job_id in {None, "j2"}
    assert owner.job_id is None or owner.job_id in active
    for row in state.jobs:
        assert (row.handoff_id is not None) == (row in held)
        assert row.attempts <= row.max_retries + 1
        assert (row.ended_at_ms is not None) == row.status.terminal
        assert not (row.status is JobStatus.QUEUED and row.cancel_requested)


def check_step(before: Snapshot, after: Snapshot) -> None:
    for was, row in zip(before.jobs, after.jobs, strict=True):
        assert row.id == was.id
        assert not was.status.terminal or row == was
        assert row.attempts - was.attempts in {0, 1}
        assert row.handoffs - was.handoffs in {0, 1}


# --- Back doors


def test_edits_go_past_the_rules_and_leave_earlier_copies_alone() -> None:
    world = World()
    store = world.store()
    store.enqueue("n", concurrency_key="k", max_concurrency=1)
    store.replace_scheduled("s", "n")
    saved = world.data.copy()
    before = saved.snapshot()

    world.data.edit_job("j1", args_text="{", attempts=99)
    world.data.edit_counter("k", max_concurrency=3, active=17)
    world.data.edit_schedule_key("s", job_id="gone")

    assert (world.row("j1").args_text, world.row("j1").attempts) == ("{", 99)
    assert (world.cap("k"), world.active("k"), world.owner("s")) == (3, 17, "gone")
    world.data.drop_counter("k")
    assert world.data.snapshot().counters == ()
    assert saved.snapshot() == before


def test_there_is_no_back_door_to_what_is_not_there() -> None:
    data = MemoryData()
    with pytest.raises(KeyError):
        data.edit_job("j1", attempts=1)
    with pytest.raises(KeyError):
        data.drop_counter("k")
    with pytest.raises(KeyError):
        data.edit_schedule_key("s", job_id=None)
