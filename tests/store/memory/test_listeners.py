"""Who is called back after which commit (T3; docs/semantics.md, Wake-ups)."""

import logging

from collections.abc import Callable

import pytest

from jobfence.statemachine.errors import ConcurrencyConflict
from jobfence.statemachine.options import JobRequest
from jobfence.statemachine.policy import QueuePolicy
from jobfence.store.memory import MemoryJobStore
from tests.store.memory.world import World, calls

Call = Callable[[MemoryJobStore], object]


def scene() -> tuple[World, MemoryJobStore]:
    """
    j1 held under h1 with key "k", j2 held under h2 without, j3 queued, j4 ended,
    j5 owning "later" in the future, j6 owning "due", j7 owning "held", handed off.
    """
    world = World()
    store = world.store()
    store.enqueue("keyed", concurrency_key="k", max_concurrency=1)
    store.enqueue("plain")
    store.claim(2)
    store.enqueue("queued", [1], idempotency_key="once")
    store.enqueue("ended")
    store.claim_job("j4", handoff_id="mine")
    store.complete("j4", "mine")
    store.replace_scheduled("later", "n", scheduled_at=5000)
    store.replace_scheduled("due", "n")
    store.replace_scheduled("held", "n")
    store.claim_job("j7", handoff_id="his")
    return world, store


WAKING: dict[str, Call] = {
    "enqueue": lambda s: s.enqueue("n"),
    "enqueue of a twin": lambda s: s.enqueue(
        "queued", [1], deduplicate_while_queued=True
    ),
    "enqueue under a known idempotency key": lambda s: s.enqueue(
        "queued", [1], idempotency_key="once"
    ),
    "enqueue of many": lambda s: s.enqueue_many([JobRequest("a"), JobRequest("b")]),
    "completion of a keyed job": lambda s: s.complete("j1", "h1"),
    "failure": lambda s: s.fail("j2", "h2", "boom"),
    "reschedule": lambda s: s.reschedule("j2", "h2", delay_ms=5),
    "return": lambda s: s.return_to_queue("j2", "h2"),
    "recovery": lambda s: s.recover_handed_off(),
    "cancel of a queued job": lambda s: s.cancel("j3"),
    "requeue": lambda s: s.requeue("j4"),
    "replace": lambda s: s.replace_scheduled("later", "n"),
    "cancel by key": lambda s: s.cancel_scheduled("later"),
    "wake": lambda s: s.wake_scheduled("later"),
    "wake of one that is due": lambda s: s.wake_scheduled("due"),
    "a cap": lambda s: s.set_concurrency("k", 2),
    "policies": lambda s: s.reconcile_queue_policies({"q": QueuePolicy(1)}),
    "resume": lambda s: s.resume_queue("default"),
}

SILENT: dict[str, Call] = {
    "enqueue of none": lambda s: s.enqueue_many([]),
    "completion of a job without key": lambda s: s.complete("j2", "h2"),
    "a stale acknowledgement": lambda s: s.complete("j1", "h2"),
    "a repeated acknowledgement": lambda s: s.complete("j4", "mine"),
    "a renewed lease": lambda s: s.extend_lease("j1", "h1"),
    "a claim": lambda s: s.claim(),
    "recovery of nothing": lambda s: s.recover_expired(),
    "the mark on a held job": lambda s: s.cancel("j2"),
    "cancel of an ended job": lambda s: s.cancel("j4"),
    "cancel of no job": lambda s: s.cancel("j99"),
    "cancel by an unknown key": lambda s: s.cancel_scheduled("none"),
    "wake by an unknown key": lambda s: s.wake_scheduled("none"),
    "wake of a held job": lambda s: s.wake_scheduled("held"),
    "counters that are right": lambda s: s.reconcile_active_concurrency(),
    "pause": lambda s: s.pause_queue("default"),
    "pruning": lambda s: s.prune_terminal(completed_ttl_ms=0),
    "a look": lambda s: [s.get("j1"), s.list_jobs(), s.next_available(), s.counts()],
}


@pytest.mark.parametrize("name", WAKING)
def test_a_change_of_what_is_due_calls_back_once(name: str) -> None:
    _, store = scene()
    heard = calls(store)

    WAKING[name](store)

    assert heard == ["wake"]


@pytest.mark.parametrize("name", SILENT)
def test_whatever_frees_nothing_does_not_call_back(name: str) -> None:
    _, store = scene()
    heard = calls(store)

    SILENT[name](store)

    assert heard == []


def test_a_repaired_counter_calls_back() -> None:
    world, store = scene()
    world.data.edit_counter("k", max_concurrency=1, active=17)
    heard = calls(store)

    assert store.reconcile_active_concurrency().repaired_count == 1

    assert heard == ["wake"]


def test_a_job_aborted_on_its_way_back_calls_back_only_for_its_slot() -> None:
    _, store = scene()
    store.cancel("j1")
    store.cancel("j2")
    heard = calls(store)

    store.return_to_queue("j2", "h2")
    assert heard == []
    store.return_to_queue("j1", "h1")
    assert heard == ["wake"]


def test_a_listener_sees_the_change_and_may_use_the_store() -> None:
    world = World()
    store = world.store()
    seen: list[object] = []
    store.on_commit_wake(lambda: seen.append(store.next_available()))

    job_id = store.enqueue("n")

    assert seen == [store.get(job_id)]


def test_A164_a_listener_that_raises_is_logged_and_the_next_is_still_called(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    store = world.store()

    def broken() -> None:
        message = "no room"
        raise OSError(message)

    store.on_commit_wake(broken)
    heard = calls(store)

    with caplog.at_level(logging.ERROR, logger="jobfence"):
        job_id = store.enqueue("n")

    assert heard == ["wake"]
    assert world.row(job_id).status == "queued"
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("jobfence", "ERROR")
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "no room"


def test_a_refused_enqueue_calls_nobody() -> None:
    _, store = scene()
    heard = calls(store)

    with pytest.raises(ConcurrencyConflict):
        store.enqueue("n", concurrency_key="k", max_concurrency=2)

    assert heard == []


def test_a_listener_hears_its_own_instance_only() -> None:
    world = World()
    first, second = world.store(), world.store()
    heard = calls(first)

    second.enqueue("n")

    assert heard == []
    assert first.next_available() is not None
