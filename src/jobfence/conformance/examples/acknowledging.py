"""Rules M2 to M19 and B: handoffs, their fences, and retries."""

from typing import Any

import pytest

from jobfence.conformance.base import SuiteBase
from jobfence.conformance.bench import LEASE_MS, START_MS, Bench, held, there
from jobfence.conformance.capabilities import Capability, requires
from jobfence.statemachine.errors import InvalidOption, UnreadableJob
from jobfence.statemachine.retry import ExponentialRetry
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import AckResult

HOUR = 3_600_000
DELAYS = [10_000, 60_000, 600_000, *(hours * HOUR for hours in range(1, 10))]
MAX_ERROR_BYTES = 64 * 1024


class Acknowledging(SuiteBase):
    """Part of layer (b)."""

    def test_the_delays_between_retries(self, bench: Bench) -> None:
        """Rules B1 and B2, cases A10, A89: twelve failures, then none left."""
        store = bench.open()
        job_id = store.enqueue("mail", max_retries=12)
        for failures, delay in enumerate(DELAYS, 1):
            ack = store.fail(job_id, held(store, job_id).handoff_id, f"e{failures}")
            assert ack.job is not None
            assert ack.job.status is JobStatus.QUEUED
            assert ack.job.attempts == failures
            assert ack.job.last_error == f"e{failures}"
            assert ack.job.scheduled_at_ms == bench.clock.now_ms() + delay
            bench.clock.advance(delay - 1)
            assert store.claim() == [], "B1: due a millisecond too early"
            bench.clock.advance(1)
        ack = store.fail(job_id, held(store, job_id).handoff_id, "last")
        assert ack.job is not None
        assert (ack.job.status, ack.job.attempts) == (JobStatus.FAILED, 13)

    def test_without_retries_the_first_failure_is_the_end(self, bench: Bench) -> None:
        """Rule B2, case A91."""
        store = bench.open()
        job_id = store.enqueue("mail", max_retries=0)
        store.fail(job_id, held(store, job_id).handoff_id, "no")
        job = there(store, job_id)
        assert (job.status, job.attempts) == (JobStatus.FAILED, 1)
        assert job.failed_at_ms == START_MS

    def test_a_policy_of_its_own_is_asked(self, bench: Bench) -> None:
        """Rule B1, case F43: capped, whatever the number of failures."""
        store = bench.open(
            retry_policy=ExponentialRetry(base_ms=1_000, factor=5.0, max_ms=70_000)
        )
        job_id = store.enqueue("mail", max_retries=100)
        for delay in (1_000, 5_000, 25_000, 70_000, 70_000):
            ack = store.fail(job_id, held(store, job_id).handoff_id, "no")
            assert ack.job is not None
            assert ack.job.scheduled_at_ms == bench.clock.now_ms() + delay
            bench.clock.advance(delay)

    @pytest.mark.parametrize(
        "error",
        [
            "\ud800 and \0",
            "😀" * 70_000,
            "x" * 2_000_000,
            b"bytes",
            {"code": 1},
            ValueError("é\0"),
            None,
        ],
        ids=["surrogate", "wide", "long", "bytes", "mapping", "exception", "none"],
    )
    def test_any_error_can_be_recorded(self, bench: Bench, error: object) -> None:
        """Rule B3, cases F20, F58, F61."""
        store = bench.open()
        job_id = store.enqueue("mail")
        ack = store.fail(job_id, held(store, job_id).handoff_id, error)
        assert ack.accepted
        assert ack.job == there(store, job_id)
        text = there(store, job_id).last_error
        assert text is not None
        assert "\0" not in text
        assert 0 < len(text.encode()) <= MAX_ERROR_BYTES

    def test_the_fence_holds_against_a_second_handoff(self, bench: Bench) -> None:
        """Rule M18, cases A88, A112, F4, F5: the same worker, an older handoff."""
        store = bench.open()
        job_id = store.enqueue("mail")
        old = held(store, job_id)
        store.return_to_queue(job_id, old.handoff_id)
        new = held(store, job_id)
        with bench.unchanged(store, "M18"):
            assert store.complete(job_id, old.handoff_id).stale
            assert store.fail(job_id, old.handoff_id, "late").stale
            assert store.reschedule(job_id, old.handoff_id, delay_ms=1).stale
            assert store.return_to_queue(job_id, old.handoff_id).stale
            assert store.extend_lease(job_id, old.handoff_id).stale
        assert store.complete(job_id, new.handoff_id).accepted

    def test_a_lapsed_worker_cannot_end_the_job(self, bench: Bench) -> None:
        """Rule M18, cases F2, F10: recovered, then the old holder speaks."""
        store = bench.open()
        job_id = store.enqueue("mail", max_retries=1)
        lost = held(store, job_id)
        bench.clock.advance(LEASE_MS)
        store.recover_expired()
        with bench.unchanged(store, "M18"):
            assert store.complete(job_id, lost.handoff_id).stale
        bench.clock.advance(10_000)
        store.fail(job_id, held(store, job_id).handoff_id, "no")
        with bench.unchanged(store, "M18"):
            assert store.fail(job_id, lost.handoff_id, "late").stale
        job = there(store, job_id)
        assert (job.status, job.attempts) == (JobStatus.FAILED, 2)

    def test_an_acknowledgement_asked_again_is_repeated(self, bench: Bench) -> None:
        """Rule M18, cases A79, F74: the reply was lost, the slot released once."""
        store, other = bench.open(), bench.open()
        pair: dict[str, Any] = {"concurrency_key": "k", "max_concurrency": 1}
        job_id = store.enqueue("mail", **pair)
        handoff = held(store, job_id)
        first = store.complete(job_id, handoff.handoff_id)
        again = other.complete(job_id, handoff.handoff_id)
        assert (first.result, again.result) == (AckResult.ACCEPTED, AckResult.REPEATED)
        assert again.job == first.job == there(store, job_id)
        assert bool(again)
        store.enqueue("mail", **pair)
        assert len(store.claim(2)) == 1

    def test_repeated_is_the_same_kind_by_the_latest_handoff(
        self, bench: Bench
    ) -> None:
        """Rule M18: another text or delay does not matter, another kind does."""
        store = bench.open()
        job_id = store.enqueue("mail")
        handoff = held(store, job_id)
        store.reschedule(job_id, handoff.handoff_id, delay_ms=5)
        with bench.unchanged(store, "M18"):
            assert store.reschedule(job_id, handoff.handoff_id, delay_ms=9).repeated
            assert store.return_to_queue(job_id, handoff.handoff_id).stale
            assert store.complete(job_id, handoff.handoff_id).stale
        bench.clock.advance(5)
        held(store, job_id)
        with bench.unchanged(store, "M18"):
            assert store.reschedule(job_id, handoff.handoff_id, delay_ms=5).stale

    def test_an_unknown_job_is_stale(self, bench: Bench) -> None:
        """Rule M18, case A112."""
        store = bench.open()
        handoff = held(store, store.enqueue("mail"))
        with bench.unchanged(store, "M18"):
            assert store.complete("no-such-job", handoff.handoff_id).stale
            assert store.complete(handoff.job.id, "").stale

    def test_rescheduling_costs_no_attempt(self, bench: Bench) -> None:
        """Rules M6 and M17, case A37."""
        store = bench.open()
        job_id = store.enqueue("mail", max_retries=0)
        ack = store.reschedule(job_id, held(store, job_id).handoff_id, delay_ms=500)
        assert ack.job is not None
        assert (ack.job.attempts, ack.job.last_error) == (0, None)
        assert ack.job.scheduled_at_ms == START_MS + 500
        bench.clock.advance(500)
        assert store.complete(job_id, held(store, job_id).handoff_id).accepted
        assert there(store, job_id).handoffs == 2

    @pytest.mark.parametrize("delay_ms", [-1, 1.5, True, 253_402_300_800_000])
    def test_a_bad_delay_is_refused(self, bench: Bench, delay_ms: int) -> None:
        """Rules M6 and E1, case A115."""
        store = bench.open()
        handoff = held(store, store.enqueue("mail"))
        with bench.unchanged(store, "M6"), pytest.raises(InvalidOption):
            store.reschedule(handoff.job.id, handoff.handoff_id, delay_ms=delay_ms)

    def test_no_time_passes_year_9999(self, bench: Bench) -> None:
        """Rule E1: the longest delay still gives a time that can be stored."""
        store = bench.open()
        handoff = held(store, store.enqueue("mail"))
        longest = 253_402_300_799_999
        ack = store.reschedule(handoff.job.id, handoff.handoff_id, delay_ms=longest)
        assert ack.job is not None
        assert ack.job.scheduled_at_ms == longest

    def test_a_returned_job_is_due_now(self, bench: Bench) -> None:
        """Rules M7, M16, case F16."""
        store = bench.open()
        job_id = store.enqueue("mail", scheduled_at=0)
        handoff = held(store, job_id)
        bench.clock.advance(7)
        ack = store.return_to_queue(job_id, handoff.handoff_id)
        assert ack.job is not None
        assert ack.job.scheduled_at_ms == START_MS + 7
        assert ack.job.lease_expires_at_ms is None
        assert [each.job.id for each in store.claim()] == [job_id]

    def test_a_cancelled_job_does_not_run_again(self, bench: Bench) -> None:
        """Rules M14, M15: completing stays possible, going back does not."""
        store = bench.open()
        done, back = store.enqueue("mail"), store.enqueue("mail")
        first, second = held(store, done), held(store, back)
        for job_id in (done, back):
            assert store.cancel(job_id).outcome == "requested"
        seen = store.extend_lease(back, second.handoff_id).job
        assert seen is not None
        assert seen.cancel_requested
        ack = store.complete(done, first.handoff_id)
        assert ack.job is not None
        assert ack.job.status is JobStatus.COMPLETED
        ack = store.return_to_queue(back, second.handoff_id)
        assert ack.job is not None
        assert (ack.job.status, ack.job.attempts) == (JobStatus.CANCELLED, 0)
        assert ack.job.cancelled_at_ms == START_MS

    @requires(Capability.MAX_HANDOFFS)
    def test_a_loop_of_handoffs_ends(self, bench: Bench) -> None:
        """Rules M7b and L5: the third way back is not taken; a retry still is."""
        store = bench.open(max_handoffs=3)
        job_id = store.enqueue("mail")
        for _ in range(2):
            ack = store.return_to_queue(job_id, held(store, job_id).handoff_id)
            assert ack.job is not None
            assert ack.job.status is JobStatus.QUEUED
        ack = store.return_to_queue(job_id, held(store, job_id).handoff_id)
        assert ack.job is not None
        assert (ack.job.status, ack.job.attempts) == (JobStatus.FAILED, 0)
        assert "max_handoffs=3" in (ack.job.last_error or "")

    def test_an_unreadable_row_never_stops_the_queue(self, bench: Bench) -> None:
        """Rules M11 and M21, case F23."""
        store = bench.open()
        ids = [store.enqueue("mail", [each]) for each in range(4)]
        bench.backdoor.damage(ids[1])
        with pytest.raises(UnreadableJob) as problem:
            store.get(ids[1])
        assert problem.value.job_id == ids[1]
        assert ids[1] not in [job.id for job in store.list_jobs()]
        assert [each.job.id for each in store.claim(10)] == [ids[0], ids[2], ids[3]]
        assert store.counts()[JobStatus.FAILED] == 1

    def test_an_unreadable_row_is_rejected_when_asked_for(self, bench: Bench) -> None:
        """Rules M11 and M21."""
        store = bench.open()
        job_id = store.enqueue("mail")
        bench.backdoor.damage(job_id)
        assert store.next_available() is None
        assert store.claim_job(job_id) is None
        assert store.counts()[JobStatus.FAILED] == 1

    @pytest.mark.parametrize("due", [True, False])
    def test_any_number_of_unreadable_rows_hides_no_other(
        self,
        bench: Bench,
        due: bool,  # noqa: FBT001  a value of the test
    ) -> None:
        """Rules M11, O1 and O2: however many come before it."""
        store = bench.open()
        at = START_MS + (0 if due else 9)
        for each in range(45):
            bench.backdoor.damage(store.enqueue("mail", [each], scheduled_at=at))
        job_id = store.enqueue("mail", scheduled_at=at)
        found = store.next_available() if due else store.next_scheduled()
        assert found == there(store, job_id)

    def test_an_unreadable_row_that_is_held_is_recovered_as_failed(
        self, bench: Bench
    ) -> None:
        """Rule M21: its slot comes back."""
        store = bench.open()
        pair: dict[str, Any] = {"concurrency_key": "k", "max_concurrency": 1}
        job_id = store.enqueue("mail", **pair)
        held(store, job_id)
        bench.backdoor.damage(job_id)
        bench.clock.advance(LEASE_MS)
        assert store.recover_expired() == []
        assert store.counts()[JobStatus.FAILED] == 1
        store.enqueue("mail", **pair)
        assert len(store.claim()) == 1
