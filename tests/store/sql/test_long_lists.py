"""Lists longer than what one statement can take: read and locked in parts."""

import pytest

from jobfence.statemachine.options import JobRequest
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.table import Trigger
from jobfence.statemachine.values import AckResult, Handoff, Settlement
from jobfence.store import SqlJobStore
from jobfence.store.sql import tx
from tests.store.sql.bench import World, only

# PostgreSQL counts the parameters of a statement in 16 bits.
TOO_MANY = 66_000


def done(job_id: str, handoff_id: str) -> Settlement:
    return Settlement(Trigger.COMPLETE, job_id, handoff_id)


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a list have two values."""
    monkeypatch.setattr(tx, "LISTED", 2)


def held(store: SqlJobStore) -> list[Handoff]:
    """Store five jobs, each with a key of its own, and claim them all."""
    store.enqueue_many(
        JobRequest("job", concurrency_key=f"key {n}", max_concurrency=n)
        for n in (4, 2, 5, 1, 3)
    )
    return store.claim(5)


@only("postgresql")
def test_more_unknown_jobs_than_a_statement_takes_are_each_stale(world: World) -> None:
    store = world.store()
    store.enqueue("job")
    (handoff,) = store.claim()
    unknown = [done(f"unknown {n}", "h") for n in range(TOO_MANY)]
    answers, _ = store.settle([*unknown, done("j1", handoff.handoff_id)])
    assert len(answers) == TOO_MANY + 1
    assert answers[-1].accepted
    assert {each.result for each in answers[:-1]} == {AckResult.STALE}
    assert world.statuses() == {"j1": "completed"}


@pytest.mark.usefixtures("in_parts")
def test_a_list_in_parts_is_one_batch_whose_stale_answer_stands_alone(
    world: World,
) -> None:
    store = world.store(journal=True)
    handoffs = held(store)
    wanted = [each.job.id for each in reversed(handoffs)]
    answers, _ = store.settle(
        [
            done(each.job.id, "stale" if each.job.id == "j3" else each.handoff_id)
            for each in reversed(handoffs)
        ]
    )
    assert [each.stale for each in answers] == [job_id == "j3" for job_id in wanted]
    assert world.statuses() == {
        f"j{n}": "handed_off" if n == 3 else "completed" for n in range(1, 6)
    }
    assert world.counters() == {
        f"key {n}": (n, 1 if n == 5 else 0) for n in range(1, 6)
    }


@pytest.mark.usefixtures("in_parts")
def test_leases_are_extended_and_handoffs_recovered_in_parts(world: World) -> None:
    store = world.store(journal=True, lease_ms=1000)
    handoffs = held(store)
    world.clock.advance(500)
    assert all(each.accepted for each in store.extend_leases(handoffs))
    ends = {row["lease_expires_at_ms"] for row in world.rows(world.tables.jobs)}
    assert ends == {world.clock.now_ms() + 1000}
    assert len(store.recover_handed_off()) == 5
    assert {job.status for job in store.list_jobs()} == {JobStatus.QUEUED}
    assert {active for _, active in world.counters().values()} == {0}


@pytest.mark.usefixtures("in_parts")
def test_schedule_keys_are_freed_in_parts(world: World) -> None:
    store = world.store()
    for n in range(5):
        store.replace_scheduled(f"daily {n}", "job", scheduled_at=0)
    store.settle([done(each.job.id, each.handoff_id) for each in store.claim(5)])
    owned = [store.scheduled_job(f"daily {n}").current for n in range(5)]
    assert owned == [None] * 5


@pytest.mark.usefixtures("in_parts")
def test_caps_of_many_keys_are_compared_in_parts(world: World) -> None:
    store = world.store()
    held(store)
    held(store)  # the same caps again: each found, none made anew
    assert {key: cap for key, (cap, _) in world.counters().items()} == {
        f"key {n}": n for n in range(1, 6)
    }
