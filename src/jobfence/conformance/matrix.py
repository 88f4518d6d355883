"""
Layer (a): every trigger in every state with every kind of handoff id.

What must happen is worked out from the rows of the table alone, by hand-written code
that shares nothing with any store: which row fires, and what it leaves in each column.
Every other column, and every other job, must be as it was.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import pytest

from jobfence.conformance import driven
from jobfence.conformance.base import SuiteBase
from jobfence.conformance.bench import LEASE_MS, Bench, held, there
from jobfence.conformance.capabilities import Capability
from jobfence.conformance.picture import differences, row_differences, take
from jobfence.statemachine.policy import QueuePolicy
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.table import Guard, Transition, Trigger, Value, alternatives
from jobfence.statemachine.values import Ack, AckResult, Handoff, Job
from jobfence.store.contract import JobStore

ACKS = (
    Trigger.COMPLETE,
    Trigger.FAIL,
    Trigger.RESCHEDULE,
    Trigger.RETURN_TO_QUEUE,
    Trigger.EXTEND_LEASE,
)
DELAY_MS = 5_000
BACKOFF_MS = 10_000  # rule B1, the first failure
NEW_LEASE_MS = 90_000
MAX_HANDOFFS = 2


class Which(StrEnum):
    """Whose handoff id an acknowledgement carries."""

    RIGHT = "right"  # the job's latest
    STALE = "stale"  # the one before it
    FOREIGN = "foreign"  # another job's, which is held
    UNKNOWN = "unknown"
    EMPTY = "empty"


class Case(StrEnum):
    """A small history that leads to a state."""

    QUEUED = "queued"
    HELD = "handed_off"
    HELD_LAST_RETRY = "handed_off, no retry left"
    HELD_CANCELLED = "handed_off, asked to be cancelled"
    HELD_SPENT = "handed_off, handoffs spent"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled while queued"
    ABORTED = "cancelled while handed off"


ENDED_BY: Mapping[Case, Trigger] = {
    Case.QUEUED: Trigger.RETURN_TO_QUEUE,
    Case.COMPLETED: Trigger.COMPLETE,
    Case.FAILED: Trigger.FAIL,
    Case.CANCELLED: Trigger.RETURN_TO_QUEUE,
    Case.ABORTED: Trigger.RESCHEDULE,
}


@dataclass(frozen=True, slots=True)
class Scene:
    """A job in some state, the ids its handoffs had, and another job that is held."""

    job_id: str
    ids: Mapping[Which, str]


def arrange(store: JobStore, case: Case) -> Scene:
    """Bring a job into a state, by acknowledged steps only."""
    other = held(store, store.enqueue("other", concurrency_key="k", max_concurrency=9))
    retries = 0 if case in (Case.HELD_LAST_RETRY, Case.FAILED) else 3
    job_id = store.enqueue(
        "job", [1], max_retries=retries, concurrency_key="k", max_concurrency=9
    )
    first = held(store, job_id)
    assert store.return_to_queue(job_id, first.handoff_id).accepted
    last = first
    if case not in (Case.QUEUED, Case.CANCELLED):
        last = held(store, job_id)
    _finish(store, case, last)
    stale = first if last is not first else other  # a queued job has only one
    return Scene(
        job_id,
        {
            Which.RIGHT: last.handoff_id,
            Which.STALE: stale.handoff_id,
            Which.FOREIGN: other.handoff_id,
            Which.UNKNOWN: "no-such-handoff",
            Which.EMPTY: "",
        },
    )


def _finish(store: JobStore, case: Case, last: Handoff) -> None:
    job_id, handoff_id = last.job.id, last.handoff_id
    if case is Case.COMPLETED:
        assert store.complete(job_id, handoff_id).accepted
    elif case is Case.FAILED:
        assert store.fail(job_id, handoff_id, "no").accepted
    elif case is Case.CANCELLED:
        assert store.cancel(job_id).outcome == "cancelled"
    elif case in (Case.HELD_CANCELLED, Case.ABORTED):
        assert store.cancel(job_id).outcome == "requested"
    if case is Case.ABORTED:
        assert store.reschedule(job_id, handoff_id, delay_ms=1).accepted


def acknowledge(store: JobStore, trigger: Trigger, job_id: str, handoff_id: str) -> Ack:
    """Send one acknowledgement."""
    calls: dict[Trigger, Callable[[], Ack]] = {
        Trigger.COMPLETE: lambda: store.complete(job_id, handoff_id),
        Trigger.FAIL: lambda: store.fail(job_id, handoff_id, "boom"),
        Trigger.RESCHEDULE: lambda: store.reschedule(
            job_id, handoff_id, delay_ms=DELAY_MS
        ),
        Trigger.RETURN_TO_QUEUE: lambda: store.return_to_queue(job_id, handoff_id),
        Trigger.EXTEND_LEASE: lambda: store.extend_lease(
            job_id, handoff_id, lease_ms=NEW_LEASE_MS
        ),
    }
    return calls[trigger]()


def fires(trigger: Trigger, job: Job, *, spent: bool = False) -> Transition | None:
    """Return the first row of the table that applies to this job."""
    holds = {
        Guard.RETRIES_LEFT: job.attempts + 1 <= job.max_retries,
        Guard.NO_RETRIES_LEFT: job.attempts + 1 > job.max_retries,
        Guard.CANCEL_REQUESTED: job.cancel_requested,
        Guard.HANDOFFS_SPENT: spent,
        Guard.LEASE_OVER: True,
        Guard.DUE: True,
        Guard.NOT_PAUSED: True,
        Guard.SLOT_FREE: True,
        Guard.FUTURE: True,
        Guard.UNREADABLE: False,
    }
    row = next(
        (
            each
            for each in alternatives(trigger, job.status)
            if all(holds[guard] for guard in each.guards)
        ),
        None,
    )
    driven.note(trigger, job.status, None)
    return row


def after(job: Job, row: Transition, now: int, given: Mapping[str, object]) -> Job:
    """Return the job as the row's writes leave it, and note that it was driven."""
    driven.fired[driven.edge(row)] += 1
    columns: dict[str, Any] = {"status": row.dest}
    for column, value in row.writes.items():
        if column in NOT_IN_A_JOB:
            continue
        if value is Value.NOW:
            columns[column] = now
        elif value is Value.NULL:
            columns[column] = None
        elif value is Value.TRUE:
            columns[column] = True
        elif value is Value.INCREMENT:
            columns[column] = getattr(job, column) + 1
        else:
            columns[column] = given[column]
    return replace(job, **columns)


NOT_IN_A_JOB = ("lease_ms", "last_ack")  # stored, and seen only by what follows


class Matrix(SuiteBase):
    """Layer (a) of the suite."""

    @pytest.mark.parametrize("which", Which)
    @pytest.mark.parametrize("case", Case)
    @pytest.mark.parametrize("trigger", ACKS)
    def test_an_acknowledgement_does_what_the_table_says(
        self, bench: Bench, trigger: Trigger, case: Case, which: Which
    ) -> None:
        """M3-M7b, M12, M15-M18: accepted, repeated or stale, and the whole row."""
        store = self._store_for(bench, case)
        scene = arrange(store, case)
        bench.clock.advance(500)
        job, before = there(store, scene.job_id), take(store)
        row = fires(trigger, job, spent=case is Case.HELD_SPENT)

        ack = acknowledge(store, trigger, job.id, scene.ids[which])

        told = f"{trigger} of a job that is {case} with the {which} handoff id"
        if row is not None and which is Which.RIGHT:
            self._check_accepted(bench, store, ack, job, row, told)
            return
        repeated = which is Which.RIGHT and ENDED_BY.get(case) is trigger
        expected = AckResult.REPEATED if repeated else AckResult.STALE
        assert ack.result is expected, f"M18: {told}: {expected}, not {ack.result}"
        assert ack.job == (job if repeated else None), f"M18: {told}: the answer's job"
        found = differences(before, take(store))
        assert not found, f"M18: {told} wrote:\n  " + "\n  ".join(found)

    def _check_accepted(
        self,
        bench: Bench,
        store: JobStore,
        ack: Ack,
        job: Job,
        row: Transition,
        told: str,
    ) -> None:
        now = bench.clock.now_ms()
        error = "boom" if row.trigger is Trigger.FAIL else None
        later = DELAY_MS if row.trigger is Trigger.RESCHEDULE else BACKOFF_MS
        expected = after(
            job,
            row,
            now,
            {
                "last_error": error,
                "scheduled_at_ms": now + later,
                "lease_expires_at_ms": now + NEW_LEASE_MS,
            },
        )
        assert ack.accepted, f"{row.rule}: {told} must be accepted, not {ack.result}"
        seen = there(store, job.id)
        if row.name == "give_up":  # its text is the store's own; it names the limit
            assert str(MAX_HANDOFFS) in (seen.last_error or ""), f"M7b: {told}"
            expected = replace(expected, last_error=seen.last_error)
        found = row_differences(expected, seen)
        assert not found, f"{row.rule}: after {told}:\n  " + "\n  ".join(found)
        found = row_differences(expected, ack.job or job)
        assert not found, f"M18: the answer to {told}:\n  " + "\n  ".join(found)

    def _store_for(self, bench: Bench, case: Case) -> JobStore:
        if case is not Case.HELD_SPENT:
            return bench.open()
        if Capability.MAX_HANDOFFS not in self.capabilities:
            pytest.skip("max_handoffs is declared missing")
        # The store that arranges the scene has no limit to stop it short.
        return bench.open(max_handoffs=MAX_HANDOFFS)

    @pytest.mark.parametrize("everything", [False, True], ids=["expired", "all"])
    @pytest.mark.parametrize("case", Case)
    def test_recovery_does_what_the_table_says(
        self, bench: Bench, case: Case, everything: bool
    ) -> None:
        """M8, M15, M7b: recovery is a failure with a text of its own."""
        store = self._store_for(bench, case)
        scene = arrange(store, case)
        bench.clock.advance(LEASE_MS)
        job = there(store, scene.job_id)
        row = fires(Trigger.RECOVER, job, spent=case is Case.HELD_SPENT)

        moved = store.recover_handed_off() if everything else store.recover_expired()

        seen = there(store, job.id)
        if row is None:
            assert seen == job, f"M8: recovery touched a job that is {case}"
            return
        now = bench.clock.now_ms()
        given = {"last_error": seen.last_error, "scheduled_at_ms": now + BACKOFF_MS}
        found = row_differences(after(job, row, now, given), seen)
        assert not found, f"{row.rule}: recovery, {case}:\n  " + "\n  ".join(found)
        text = str(MAX_HANDOFFS) if row.name == "give_up" else "interrupted"
        assert text in (seen.last_error or ""), f"M8: last_error is {seen.last_error!r}"
        assert seen in moved, (
            f"M8: the answer lacks the job as recovery left it: {moved}"
        )
        late = acknowledge(store, Trigger.COMPLETE, job.id, scene.ids[Which.RIGHT])
        assert late.stale, f"M18: a completion after recovery was {late.result}"
        assert there(store, job.id) == seen, "M18: a stale completion wrote"

    @pytest.mark.parametrize("case", Case)
    def test_a_cancellation_does_what_the_table_says(
        self, bench: Bench, case: Case
    ) -> None:
        """M9, M14, R3: a queued job ends, a held one is marked, an ended one stays."""
        store = self._store_for(bench, case)
        scene = arrange(store, case)
        bench.clock.advance(500)
        job = there(store, scene.job_id)
        trigger, outcome = {
            JobStatus.QUEUED: (Trigger.CANCEL, "cancelled"),
            JobStatus.HANDED_OFF: (Trigger.REQUEST_CANCEL, "requested"),
        }.get(job.status, (Trigger.CANCEL, "terminal"))

        answer = store.cancel(job.id)

        assert (answer.job_id, answer.outcome) == (job.id, outcome), f"R3: {case}"
        row = fires(trigger, job)
        expected = after(job, row, bench.clock.now_ms(), {}) if row else job
        found = row_differences(expected, there(store, job.id))
        assert not found, f"R3: cancel, {case}:\n  " + "\n  ".join(found)

    @pytest.mark.parametrize("case", Case)
    def test_a_claim_does_what_the_table_says(self, bench: Bench, case: Case) -> None:
        """M2: only a queued job is handed off, with every column of a handoff."""
        store = self._store_for(bench, case)
        scene = arrange(store, case)
        bench.clock.advance(500)
        job, before = there(store, scene.job_id), take(store)

        handoff = store.claim_job(
            job.id, worker_id="w", handoff_id="own", lease_ms=7_000
        )

        now, row = bench.clock.now_ms(), fires(Trigger.CLAIM, job)
        if row is None:
            assert handoff is None, f"M2: claim_job took a job that is {case}"
            assert take(store) == before, f"M2: a refused claim_job wrote, {case}"
            return
        given: dict[str, Any] = {
            "handoff_id": "own",
            "worker_id": "w",
            "lease_expires_at_ms": now + 7_000,
            "last_handoff_id": "own",
            "last_worker_id": "w",
        }
        expected = after(job, row, now, given)
        assert handoff == Handoff(expected, "own", now, now + 7_000), f"M2: {case}"
        found = row_differences(expected, there(store, job.id))
        assert not found, f"M2: claim_job, {case}:\n  " + "\n  ".join(found)

    @pytest.mark.parametrize("case", Case)
    def test_a_policy_touches_only_queued_jobs(self, bench: Bench, case: Case) -> None:
        """M13, C7: an explicit key stays; priority follows; other states do not."""
        store = self._store_for(bench, case)
        scene = arrange(store, case)
        job = there(store, scene.job_id)

        store.reconcile_queue_policies({"default": QueuePolicy(1, 7)})

        expected = job
        if job.status is JobStatus.QUEUED:
            expected = replace(job, priority=7)
        found = row_differences(expected, there(store, job.id))
        assert not found, f"C7: reconcile, {case}:\n  " + "\n  ".join(found)
