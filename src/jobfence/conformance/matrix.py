"""
Layer (a): every trigger in every state with every kind of handoff id.

What must happen is worked out from the rows of the table alone, by hand-written code
that shares nothing with any store: which row fires, and what it leaves in each column.
Every other column, and every other job, must be as it was.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from jobfence.conformance.base import SuiteBase
from jobfence.conformance.bench import LEASE_MS, Bench, there
from jobfence.conformance.capabilities import Capability
from jobfence.conformance.foretelling import after, fires
from jobfence.conformance.picture import differences, row_differences, take
from jobfence.conformance.scenes import (
    DELAY_MS,
    NEW_LEASE_MS,
    Case,
    Which,
    acknowledge,
    arrange,
)
from jobfence.statemachine.policy import QueuePolicy
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.table import Transition, Trigger
from jobfence.statemachine.values import Ack, AckResult, Handoff, Job
from jobfence.store.contract import JobStore

ACKS = (
    Trigger.COMPLETE,
    Trigger.FAIL,
    Trigger.RESCHEDULE,
    Trigger.RETURN_TO_QUEUE,
    Trigger.EXTEND_LEASE,
)
BACKOFF_MS = 10_000  # rule B1, the first failure
MAX_HANDOFFS = 2
ENDED_BY: Mapping[Case, Trigger] = {
    Case.QUEUED: Trigger.RETURN_TO_QUEUE,
    Case.COMPLETED: Trigger.COMPLETE,
    Case.FAILED: Trigger.FAIL,
    Case.CANCELLED: Trigger.RETURN_TO_QUEUE,
    Case.ABORTED: Trigger.RESCHEDULE,
}


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
