"""A fault in the store is found where it happened, on every database (spec: traces)."""

import json

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import pytest

from sqlalchemy import Update, update

from jobfence import Handoff, SqlJobStore
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.table import Fence, Guard, Transition, Value
from jobfence.store.notes import Entity
from jobfence.store.sql import acks, handing, moving, recover, single, writes
from jobfence.store.sql.calls import Call
from jobfence.store.sql.journal import Journal
from jobfence.store.sql.statements import counters, others
from jobfence.store.sql.tx import Tx
from tests.store.sql.bench import World
from tests.store.sql.journal.audit import (
    assert_possible,
    entries_of,
    refused,
    verdict_of,
)

CAP = 2

# Plants one and returns the id of the row whose entry is wrong.
Fault: TypeAlias = "Callable[[Plot], str]"


@dataclass
class Plot:
    """A store to plant a fault in. What is patched is mended when the fault is done."""

    world: World
    store: SqlJobStore
    patch: pytest.MonkeyPatch

    def held(self, *, keyed: bool = False, **options: Any) -> Handoff:
        """Enqueue and hand off one job."""
        if keyed:
            options |= {"concurrency_key": "k", "max_concurrency": CAP}
        job_id = self.store.enqueue("work", **options)
        found = self.store.claim_job(job_id)
        assert found is not None
        return found

    def complete(self, held: Handoff) -> bool:
        return self.store.complete(held.job.id, held.handoff_id).accepted

    def within(self, work: Callable[[Tx], object]) -> None:
        """Do something in a transaction of the store's that it would not do."""
        self.store._run(Call(work))  # noqa: SLF001  past the store's methods

    def with_rows(self, change: Callable[[Transition], Transition]) -> None:
        """Let acknowledgements and recovery execute other rows than the table's."""

        def move_jobs(tx: Tx, row: Transition, *rest: Any, **options: Any) -> Any:
            return moving.move_jobs(tx, change(row), *rest, **options)

        def move_job(tx: Tx, row: Transition, *rest: Any, **options: Any) -> Any:
            return moving.move_job(tx, change(row), *rest, **options)

        self.patch.setattr(acks, "move_jobs", move_jobs)
        self.patch.setattr(recover, "move_job", move_job)
        self.patch.setattr(single, "move_job", move_job)


def unfenced(row: Transition) -> Transition:
    return replace(row, fence=())


def ack_without_fence(plot: Plot) -> str:
    late = plot.held()
    plot.store.return_to_queue(late.job.id, late.handoff_id)
    assert plot.store.claim_job(late.job.id) is not None
    plot.with_rows(unfenced)

    assert plot.complete(late)
    return late.job.id


def claim_without_fence(plot: Plot) -> str:
    held = plot.held()
    any_status = replace(
        handing._CLAIM,  # noqa: SLF001
        source=JobStatus.HANDED_OFF,
        fence=(),
    )
    plot.patch.setattr(handing, "_CLAIM", any_status)
    plot.patch.setattr(single, "_claimable", lambda *_: True)

    assert plot.store.claim_job(held.job.id) is not None
    return held.job.id


def claim_too_early(plot: Plot) -> str:
    later = plot.world.clock.now_ms() + 1000
    job_id = plot.store.enqueue("work", scheduled_at=later)
    row = handing._CLAIM  # noqa: SLF001
    plot.patch.setattr(handing, "_CLAIM", replace(row, fence=(Fence.CONCURRENCY_KEY,)))
    plot.patch.setattr(single, "_due", lambda *_: True)

    assert plot.store.claim_job(job_id) is not None
    return job_id


def counter_leak(plot: Plot) -> str:
    held = plot.held(keyed=True)
    plot.patch.setattr(moving.Effects, "apply", lambda *_: None)

    assert plot.complete(held)
    return held.job.id


def double_release(plot: Plot) -> str:
    held, _ = plot.held(keyed=True), plot.held(keyed=True)
    apply = moving.Effects.apply

    def twice(self: moving.Effects, tx: Tx) -> None:
        apply(self, tx)
        apply(self, tx)

    plot.patch.setattr(moving.Effects, "apply", twice)

    assert plot.complete(held)
    return "k"


def release_in_a_second_transaction(plot: Plot) -> str:
    held = plot.held(keyed=True)
    plot.patch.setattr(moving.Effects, "apply", lambda *_: None)
    assert plot.complete(held)
    # Nothing but the clock says which of the two came first.
    plot.world.clock.advance(1)

    plot.within(
        lambda tx: writes.counter(tx, counters.release(tx.schema), "k", "release", n=1)
    )
    return held.job.id


def counter_read_before_written(plot: Plot) -> str:
    """Two claims read 0 and both write 1."""
    plot.held(keyed=True)

    def lost(schema: Any) -> Update:
        table = schema.concurrency
        return update(table).values(active_count=1, rev=table.c.rev + 1)

    plot.patch.setattr(counters, "reserve", lost)
    real = writes.counter

    def counter(
        tx: Tx, statement: Update, key: str, action: str, **values: Any
    ) -> bool:
        if action == "reserve":
            return bool(tx.run(statement).rowcount and note(tx, key))
        return real(tx, statement, key, action, **values)

    def note(tx: Tx, key: str) -> bool:
        assert tx.journal is not None
        tx.journal.touched(Entity.COUNTER, key, "reserve")
        return True

    plot.patch.setattr(writes, "counter", counter)
    plot.held(keyed=True)
    return "k"


def cap_exceeded(plot: Plot) -> str:
    for _ in range(CAP):
        plot.held(keyed=True)

    def uncapped(schema: Any) -> Update:
        table = schema.concurrency
        return counters.set_active(schema).values(active_count=table.c.active_count + 1)

    def counter(tx: Tx, _: Update, key: str, action: str, **__: Any) -> bool:
        return real(tx, uncapped(tx.schema), key, action)

    real = writes.counter
    plot.patch.setattr(writes, "counter", counter)
    plot.held(keyed=True)
    return "k"


def attempts_counted_on_reschedule(plot: Plot) -> str:
    held = plot.held()
    plot.with_rows(
        lambda row: replace(row, writes={**row.writes, "attempts": Value.INCREMENT})
    )

    assert plot.store.reschedule(held.job.id, held.handoff_id, delay_ms=1).accepted
    return held.job.id


def retried_without_retries(plot: Plot) -> str:
    held = plot.held(max_retries=0)
    answers = dict(moving._ANSWERS)  # noqa: SLF001
    answers[Guard.RETRIES_LEFT] = lambda *_: True
    plot.patch.setattr(moving, "_ANSWERS", answers)

    assert plot.store.fail(held.job.id, held.handoff_id, "error").accepted
    return held.job.id


def cancel_of_a_terminal_job(plot: Plot) -> str:
    held = plot.held()
    assert plot.complete(held)
    plot.with_rows(
        lambda row: replace(
            row,
            source=JobStatus.COMPLETED,
            writes={**row.writes, "completed_at_ms": Value.NULL},
        )
    )

    row = plot.world.row(held.job.id)
    plot.within(lambda tx: single.cancel_queued(tx, row))
    return held.job.id


def live_handoff_recovered(plot: Plot) -> str:
    held = plot.held()
    plot.with_rows(lambda row: replace(row, fence=(Fence.HANDOFF,)))
    real = recover._recover  # noqa: SLF001

    def every(tx: Tx, _: Any, *, whole: bool) -> Any:
        return real(tx, [held.job.id], whole=whole)

    plot.patch.setattr(recover, "_recover", every)

    assert len(plot.store.recover_expired()) == 1
    return held.job.id


def wake_of_a_due_job(plot: Plot) -> str:
    job_id = plot.store.replace_scheduled("s", "work").job_id
    answers = dict(moving._ANSWERS)  # noqa: SLF001
    answers[Guard.FUTURE] = lambda *_: True
    plot.patch.setattr(moving, "_ANSWERS", answers)

    plot.store.wake_scheduled("s")
    return job_id


def ownership_taken_back(plot: Plot) -> str:
    first = plot.store.replace_scheduled("s", "work").job_id
    plot.store.claim_job(first)
    plot.store.replace_scheduled("s", "work")

    plot.within(
        lambda tx: writes.schedule_key(
            tx, others.own(tx.schema), "s", "own", set_job_id=first, set_order=3
        )
    )
    return "s"


def ownership_kept_after_the_end(plot: Plot) -> str:
    job_id = plot.store.replace_scheduled("s", "work").job_id
    held = plot.store.claim_job(job_id)
    assert held is not None
    plot.patch.setattr(moving.Effects, "apply", lambda *_: None)

    assert plot.complete(held)
    return job_id


def handoff_id_used_again(plot: Plot) -> str:
    held = plot.held()
    job_id, handoff_id = held.job.id, held.handoff_id
    plot.store.return_to_queue(job_id, handoff_id)
    assert plot.store.claim_job(job_id, handoff_id="another") is not None
    plot.store.return_to_queue(job_id, "another")

    assert plot.store.claim_job(job_id, handoff_id=handoff_id) is not None
    return job_id


def write_without_a_note(plot: Plot) -> str:
    held = plot.held()
    jobs = plot.world.tables.jobs
    plot.world.execute(update(jobs).values(priority=9, rev=jobs.c.rev + 1))

    assert plot.complete(held)
    return held.job.id


def write_without_a_revision(plot: Plot) -> str:
    held = plot.held()
    plot.world.execute(update(plot.world.tables.jobs).values(attempts=1))

    assert plot.complete(held)
    return held.job.id


def enqueue_without_a_note(plot: Plot) -> str:
    with plot.patch.context() as patch:
        patch.setattr(Journal, "job", lambda *_: None)
        job_id = plot.store.enqueue("work")

    assert plot.store.claim_job(job_id) is not None
    return job_id


FAULTS: list[tuple[Fault, str, str, str]] = [
    (ack_without_fence, "M3", "complete:complete", "the handoff that the job is held"),
    (claim_without_fence, "M2", "claim:claim", "a job that is queued"),
    (claim_too_early, "M2", "claim:claim", "due for claim"),
    (counter_leak, "C5", "complete:complete", "active 0"),
    (double_release, "C4", "release+release", "active 1, from 2"),
    (release_in_a_second_transaction, "C5", "complete:complete", "active 0"),
    (counter_read_before_written, "C4", "reserve", "active 2, from 1"),
    (cap_exceeded, "C4", "reserve", "at most 2 active"),
    (attempts_counted_on_reschedule, "M6", "reschedule:reschedule", "attempts still 0"),
    (retried_without_retries, "M4", "fail:retry", "retries_left for retry"),
    (cancel_of_a_terminal_job, "M9", "cancel:cancel", "a job that is queued"),
    (live_handoff_recovered, "M8", "recover:retry", "lease_over for retry"),
    (wake_of_a_due_job, "M10", "wake:wake", "future for wake"),
    (ownership_taken_back, "K2", "own", "a job that is enqueued for this key here"),
    (ownership_kept_after_the_end, "K2", "complete:complete", "which ended"),
    (handoff_id_used_again, "M19", "claim:claim", "never used before"),
    (write_without_a_note, "journal", "complete:complete", "revision 2"),
    (write_without_a_revision, "M3", "complete:complete", "attempts still 0"),
    (enqueue_without_a_note, "journal", "claim:claim", "revision 0"),
]


@pytest.fixture
def plot(world: World) -> Iterator[Plot]:
    with pytest.MonkeyPatch.context() as patch:
        store = world.store(journal=True, lease_ms=1000)
        store.ensure_ready()
        yield Plot(world, store, patch)


@pytest.mark.parametrize(
    ("fault", "rule", "action", "expected"), FAULTS, ids=[f[0].__name__ for f in FAULTS]
)
def test_a_planted_fault_is_refused_at_its_event(
    plot: Plot, fault: Fault, rule: str, action: str, expected: str
) -> None:
    plot.complete(plot.held())
    assert_possible(plot.store)
    entity_id = fault(plot)
    plot.patch.undo()
    guilty = [
        entry
        for entry in entries_of(plot.store)
        if (entry.entity_id, entry.action) == (entity_id, action)
    ][-1]
    plot.complete(plot.held())  # and the store goes on as if nothing had been

    found = refused(plot.store)

    assert (found.rule, found.action) == (rule, action)
    assert expected in found.expected
    assert (found.entity_id, found.rev) == (entity_id, guilty.rev)
    assert found.tx == guilty.tx


def test_the_same_stories_without_the_faults_are_possible(plot: Plot) -> None:
    """No fault is found because of how its story begins."""
    late = plot.held()
    plot.store.return_to_queue(late.job.id, late.handoff_id)
    again = plot.store.claim_job(late.job.id)
    assert again is not None
    assert not plot.complete(late)
    for held in (again, plot.held(keyed=True), plot.held(keyed=True)):
        assert plot.complete(held)
    failing = plot.held(max_retries=0)
    plot.store.fail(failing.job.id, failing.handoff_id, "error")
    for _ in range(2):
        first = plot.store.replace_scheduled("s", "work").job_id
        plot.store.claim_job(first)
    plot.world.clock.advance(1000)
    assert len(plot.store.recover_expired()) == 2

    verdict = verdict_of(plot.store)

    assert verdict.ok, verdict.impossible
    assert json.loads(entries_of(plot.store)[0].post or "")
