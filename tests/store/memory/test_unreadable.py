"""Rows that cannot be read stop nobody (M11, M21)."""

import logging

import pytest

from jobfence.statemachine.errors import UnreadableJob
from jobfence.statemachine.states import JobStatus
from jobfence.store.memory import MemoryJobStore
from tests.store.memory.world import World, calls

DAMAGE = [
    ({"args_text": "{"}, "args", "is not JSON ("),
    ({"args_text": '{"a":1}'}, "args", "is not a JSON array"),
    ({"args_text": "[NaN]"}, "args", "is not JSON (NaN is not JSON)"),
    ({"args_text": None}, "args", "is not JSON ("),
    ({"args_text": "[" * 100_000}, "args", "is not JSON ("),
    ({"kwargs_text": ""}, "kwargs", "is not JSON ("),
    ({"kwargs_text": "[]"}, "kwargs", "is not a JSON object"),
]


def poisoned(**options: str) -> tuple[World, MemoryJobStore]:
    """j1 is damaged; j2 behind it is sound."""
    world = World()
    store = world.store()
    store.enqueue("bad", **options)  # type: ignore[arg-type]
    store.enqueue("good")
    world.data.edit_job("j1", args_text="{")
    return world, store


@pytest.mark.parametrize(("columns", "column", "problem"), DAMAGE)
def test_get_says_which_column_cannot_be_read(
    columns: dict[str, object], column: str, problem: str
) -> None:
    world = World()
    store = world.store()
    store.enqueue("n")
    world.data.edit_job("j1", **columns)

    with pytest.raises(UnreadableJob) as caught:
        store.get("j1")

    assert (caught.value.job_id, caught.value.column) == ("j1", column)
    assert caught.value.problem.startswith(problem)


def test_a_claim_fails_the_unreadable_job_and_takes_the_next() -> None:
    world, store = poisoned()

    handoffs = store.claim(1)

    assert [each.job.id for each in handoffs] == ["j2"]
    bad = world.row("j1")
    assert (bad.status, bad.failed_at_ms, bad.attempts, bad.handoffs) == (
        JobStatus.FAILED,
        1000,
        0,
        0,
    )
    assert bad.last_error is not None
    assert bad.last_error.startswith("unreadable: column args is not JSON (")


def test_claim_job_fails_the_unreadable_job_and_returns_none() -> None:
    world, store = poisoned()

    assert store.claim_job("j1", handoff_id="mine") is None

    assert world.row("j1").status is JobStatus.FAILED
    assert world.row("j1").last_handoff_id is None


def test_an_unreadable_job_behind_a_full_key_waits_for_its_turn() -> None:
    world = World()
    store = world.store()
    for _ in range(2):
        store.enqueue("n", concurrency_key="k", max_concurrency=1)
    store.claim()
    world.data.edit_job("j2", args_text="{")
    before = world.data.snapshot()

    assert store.claim(5) == []
    assert store.claim_job("j2") is None

    assert world.data.snapshot() == before


def test_listings_leave_it_out_and_log_it(caplog: pytest.LogCaptureFixture) -> None:
    world, store = poisoned()

    with caplog.at_level(logging.WARNING, logger="jobfence"):
        listed = [job.id for job in store.list_jobs(limit=1)]
        available = store.next_available()

    assert listed == ["j2"]
    assert available is not None
    assert available.id == "j2"
    expected = "left out: job j1 cannot be read: column args is not JSON"
    assert [record.getMessage()[: len(expected)] for record in caplog.records] == [
        expected,
        expected,
    ]
    assert store.counts()[JobStatus.QUEUED] == 2
    assert world.row("j1").status is JobStatus.QUEUED


def test_next_scheduled_passes_it_over() -> None:
    world = World()
    store = world.store()
    store.enqueue("bad", scheduled_at=2000)
    store.enqueue("good", scheduled_at=3000)
    world.data.edit_job("j1", kwargs_text="")

    found = store.next_scheduled()

    assert found is not None
    assert found.id == "j2"


def test_a_held_one_is_not_offered_and_its_holder_may_still_end_it() -> None:
    world = World()
    store = world.store()
    store.enqueue("n")
    store.claim_job("j1", worker_id="w", handoff_id="mine")
    world.data.edit_job("j1", args_text="{")

    assert store.handoffs_for_worker("w") == []
    assert store.claim_job("j1", handoff_id="mine") is None
    done, again = store.complete("j1", "mine"), store.complete("j1", "mine")

    assert (done.accepted, done.job) == (True, None)
    assert (again.repeated, again.job) == (True, None)
    assert world.row("j1").status is JobStatus.COMPLETED


def test_claim_job_leaves_a_held_one_to_recovery() -> None:
    world = World()
    store = world.store()
    store.enqueue("n")
    store.claim()
    world.data.edit_job("j1", args_text="{")
    world.clock.advance(60_000)
    before = world.data.snapshot()

    assert store.claim_job("j1") is None

    assert world.data.snapshot() == before


def test_recovery_fails_a_held_one_without_an_attempt_and_goes_on() -> None:
    world = World()
    store = world.store()
    store.enqueue("bad", concurrency_key="k", max_concurrency=1)
    store.enqueue("good")
    store.claim(2)
    world.data.edit_job("j1", args_text="{")
    world.clock.advance(60_000)
    heard = calls(store)

    recovered = store.recover_expired()

    assert [job.id for job in recovered] == ["j2"]
    bad = world.row("j1")
    assert (bad.status, bad.attempts, bad.handoff_id) == (JobStatus.FAILED, 0, None)
    assert (bad.failed_at_ms, bad.last_ack, world.active("k")) == (61_000, "reject", 0)
    assert heard == ["wake"]


def test_rejection_ends_the_job_s_own_schedule_ownership() -> None:
    world = World()
    store = world.store()
    store.replace_scheduled("s", "n")
    world.data.edit_job("j1", args_text="{")
    with pytest.raises(UnreadableJob):
        store.scheduled_job("s")

    store.claim()

    assert world.owner("s") is None
    assert store.scheduled_job("s").current is None
    with pytest.raises(UnreadableJob):
        store.scheduled_job("s", include_latest_terminal=True)


def test_requeue_of_an_unreadable_job_says_so_and_writes_nothing() -> None:
    world, store = poisoned()
    store.claim()
    before = world.data.snapshot()

    with pytest.raises(UnreadableJob):
        store.requeue("j1")

    assert world.data.snapshot() == before


def test_F23_a_row_with_too_many_attempts_does_not_stop_a_claim() -> None:
    world = World()
    store = world.store()
    for _ in range(10):
        store.enqueue("n", max_retries=0)
    world.data.edit_job("j1", attempts=5)

    handoffs = store.claim(10)

    assert len(handoffs) == 10
    assert store.fail("j1", "h1", "boom").accepted
    assert (world.row("j1").status, world.row("j1").attempts) == (JobStatus.FAILED, 6)
