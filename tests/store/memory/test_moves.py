"""A status moves by a row of the table that the machine fired, and by nothing else."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from jobfence.statemachine.machine import Holds, JobMachine, Step
from jobfence.statemachine.retry import SteppedRetry
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.table import TABLE, Fence, Guard, Trigger
from jobfence.statemachine.values import CancelOutcome
from jobfence.store.memory import MemoryJobStore
from jobfence.store.memory.interpreter import FENCES, GUARDS, Attempt
from jobfence.store.memory.rows import JobRow
from jobfence.store.memory.transaction import Transaction
from tests.store.memory.world import World


def test_the_interpreter_knows_every_guard_and_every_fence() -> None:
    assert set(GUARDS) == set(Guard)
    assert set(FENCES) == set(Fence)


def asked_of(row: JobRow, *, now: int) -> Attempt:
    return Attempt(
        now=now,
        seen=row,
        slot_free=True,
        paused=False,
        max_handoffs=2,
        retry_policy=SteppedRetry(),
        handoff_id=None,
        every_lease=False,
        given={},
    )


def test_guards_answer_from_the_row_exactly_at_the_boundary() -> None:
    world = World()
    world.store().enqueue("n", max_retries=2)
    row = world.row("j1")

    def holds(guard: Guard, now: int = 1000, **columns: int | None) -> bool:
        changed = replace(row, **columns)  # type: ignore[arg-type]
        return GUARDS[guard](asked_of(changed, now=now))

    def over(guard: Guard, column: str) -> list[bool]:
        return [holds(guard, **{column: value}) for value in (1, 2, 3)]

    assert over(Guard.RETRIES_LEFT, "attempts") == [True, False, False]
    assert over(Guard.NO_RETRIES_LEFT, "attempts") == [False, True, True]
    assert over(Guard.HANDOFFS_SPENT, "handoffs") == [False, True, True]
    times = (999, 1000, 1001)
    assert [holds(Guard.DUE, now) for now in times] == [False, True, True]
    assert [holds(Guard.FUTURE, now) for now in times] == [True, False, False]
    leases = (None, 1001, 1000)
    assert [holds(Guard.LEASE_OVER, lease_expires_at_ms=lease) for lease in leases] == [
        False,
        False,
        True,
    ]


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> list[Trigger]:
    """Make every machine refuse; the list says what it was asked."""
    asked: list[Trigger] = []

    def refuse(_: JobMachine, trigger: Trigger, *_rest: object) -> Step | None:
        asked.append(trigger)
        return None

    monkeypatch.setattr(JobMachine, "fire", refuse)
    return asked


def everything(store: MemoryJobStore) -> None:
    """Call all that moves a job: j1 is held under h1, j2 queued, j3 scheduled."""
    store.claim(10)
    store.claim_job("j2", handoff_id="mine")
    store.complete("j1", "h1")
    store.fail("j1", "h1", "boom")
    store.reschedule("j1", "h1", delay_ms=5)
    store.return_to_queue("j1", "h1")
    store.extend_lease("j1", "h1", lease_ms=5)
    store.recover_handed_off()
    store.cancel("j1")
    store.cancel("j2")
    store.wake_scheduled("nightly")


def test_when_the_machine_refuses_no_job_changes_at_all(
    request: pytest.FixtureRequest,
) -> None:
    world = World()
    store = world.store()
    store.enqueue("n")
    store.claim()
    store.enqueue("n", concurrency_key="k", max_concurrency=1)
    store.replace_scheduled("nightly", "n", scheduled_at=9000)
    before = world.data.snapshot()

    asked = request.getfixturevalue("refusing")
    everything(store)

    assert world.data.snapshot() == before
    assert set(asked) == {
        Trigger.CLAIM,
        Trigger.COMPLETE,
        Trigger.FAIL,
        Trigger.RESCHEDULE,
        Trigger.RETURN_TO_QUEUE,
        Trigger.EXTEND_LEASE,
        Trigger.RECOVER,
        Trigger.CANCEL,
        Trigger.REQUEST_CANCEL,
        Trigger.WAKE,
        Trigger.ADOPT_POLICY,
    }


@pytest.mark.usefixtures("refusing")
def test_when_the_machine_refuses_an_unreadable_job_is_not_rejected_either() -> None:
    world = World()
    store = world.store()
    store.enqueue("n")
    world.data.edit_job("j1", args_text="{")
    before = world.data.snapshot()

    assert store.claim() == []

    assert world.data.snapshot() == before


def opened(world: World, *, every: int = 0) -> Transaction:
    """Open a transaction by hand, `every` ms from now, to stage a race inside it."""
    return Transaction(
        tables=world.data.tables.copy(),
        now=world.clock.now_ms() + every,
        machine=JobMachine(),
        queues=None,
        retry_policy=SteppedRetry(),
        max_handoffs=None,
    )


def held_job(world: World) -> JobRow:
    store = world.store()
    store.enqueue("n")
    store.claim()
    return world.row("j1")


def test_F1_recovery_of_a_job_that_completed_meanwhile_changes_nothing() -> None:
    world = World()
    seen = held_job(world)
    transaction = opened(world, every=60_000)
    done = transaction.move(seen, Trigger.COMPLETE, handoff_id="h1")
    assert done is not None

    recovered = transaction.move(seen, Trigger.RECOVER, handoff_id=seen.handoff_id)

    assert recovered is None
    assert transaction.tables.jobs["j1"] == done
    assert (done.status, done.attempts, done.last_error) == ("completed", 0, None)


def test_F7_recovery_that_read_h1_does_not_take_h2() -> None:
    world = World()
    seen = held_job(world)
    world.store().return_to_queue("j1", "h1")
    world.store().claim()
    transaction = opened(world, every=60_000)
    again = transaction.tables.jobs["j1"]
    assert again.handoff_id == "h2"

    recovered = transaction.move(seen, Trigger.RECOVER, handoff_id=seen.handoff_id)

    assert recovered is None
    assert transaction.tables.jobs["j1"] == again


def test_recovery_of_a_lease_that_was_renewed_meanwhile_changes_nothing() -> None:
    world = World()
    seen = held_job(world)
    transaction = opened(world, every=60_000)
    renewed = transaction.move(
        seen,
        Trigger.EXTEND_LEASE,
        handoff_id="h1",
        given={"lease_ms": 5, "lease_expires_at_ms": 61_005},
    )

    assert transaction.move(seen, Trigger.RECOVER, handoff_id="h1") is None
    assert transaction.tables.jobs["j1"] == renewed


@pytest.mark.parametrize(
    "changed",
    [
        {"concurrency_key": "other"},
        {"scheduled_at_ms": 2000},
        {"status": JobStatus.CANCELLED},
    ],
    ids=["key", "time", "status"],
)
def test_a_claim_is_fenced_on_the_row_as_it_was_read(
    changed: dict[str, object],
) -> None:
    world = World()
    world.store().enqueue("n")
    transaction = opened(world)
    seen = transaction.tables.jobs["j1"]
    now_stored = replace(seen, **changed)  # type: ignore[arg-type]
    transaction.tables.jobs["j1"] = now_stored

    assert transaction.move(seen, Trigger.CLAIM, given={}) is None
    assert transaction.tables.jobs["j1"] == now_stored


def test_a_wake_is_fenced_on_the_time_that_was_read() -> None:
    world = World()
    world.store().enqueue("n", scheduled_at=5000)
    transaction = opened(world)
    seen = transaction.tables.jobs["j1"]
    moved = replace(seen, scheduled_at_ms=7000)
    transaction.tables.jobs["j1"] = moved

    assert transaction.move(seen, Trigger.WAKE) is None
    assert transaction.tables.jobs["j1"] == moved


def test_each_row_of_the_table_writes_exactly_its_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every step of a walk through all rows is compared with the row that fired."""
    fired: list[Step | None] = []
    real_fire, real_move = JobMachine.fire, Transaction.move

    def listen(
        machine: JobMachine, trigger: Trigger, source: JobStatus, holds: Holds
    ) -> Step | None:
        fired.append(real_fire(machine, trigger, source, holds))
        return fired[-1]

    def compare(
        transaction: Transaction, seen: JobRow, trigger: Trigger, **options: object
    ) -> JobRow | None:
        before = transaction.tables.jobs[seen.id]
        moved = real_move(transaction, seen, trigger, **options)  # type: ignore[arg-type]
        if moved is not None:
            step = fired[-1]
            assert step is not None
            changed = {
                name
                for name in JobRow.__slots__
                if getattr(before, name) != getattr(moved, name)
            }
            assert changed <= {*step.transition.writes, "status"}
            assert moved.status is step.transition.dest
        return moved

    monkeypatch.setattr(JobMachine, "fire", listen)
    monkeypatch.setattr(Transaction, "move", compare)
    walk_every_row()

    rows = {step.transition for step in fired if step is not None}
    assert rows == {row for row in TABLE if row.source is not None}


ENDS: tuple[Callable[[MemoryJobStore, str, str], object], ...] = (
    lambda store, job_id, handoff_id: store.complete(job_id, handoff_id),
    lambda store, job_id, handoff_id: store.fail(job_id, handoff_id, "boom"),
    lambda store, job_id, handoff_id: store.reschedule(job_id, handoff_id, delay_ms=1),
    lambda store, job_id, handoff_id: store.return_to_queue(job_id, handoff_id),
    lambda store, *_: store.recover_handed_off(),
)


def walk_every_row() -> None:
    """Reach every row of the table by the store's own methods."""
    world = World()
    store, strict = world.store(), world.store(max_handoffs=1)

    def held(**options: int) -> tuple[str, str]:
        job_id = store.enqueue("n", **options)  # type: ignore[arg-type]
        handoff = store.claim_job(job_id)
        assert handoff is not None
        return job_id, handoff.handoff_id

    for outcome in ("go", "abort", "give up", "exhaust"):
        options = {"max_retries": 0} if outcome == "exhaust" else {}
        by = strict if outcome == "give up" else store
        for end in ENDS:
            job_id, handoff_id = held(**options)
            if outcome == "abort":
                assert store.cancel(job_id).outcome is CancelOutcome.REQUESTED
            store.extend_lease(job_id, handoff_id)
            end(by, job_id, handoff_id)
    store.cancel(store.enqueue("n"))
    store.replace_scheduled("nightly", "n", scheduled_at=10**9)
    store.wake_scheduled("nightly")
    store.enqueue("n", queue="q")
    store.set_concurrency("k", 1)
    world.data.edit_job(store.enqueue("n"), priority=7)
    store.claim(100)
    for damaged in ("queued", "held"):
        job_id = store.enqueue("n") if damaged == "queued" else held()[0]
        world.data.edit_job(job_id, args_text="{")
        store.claim(100)
    store.recover_handed_off()
