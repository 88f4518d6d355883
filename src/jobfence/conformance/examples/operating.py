"""Rules R and T: retention, cancelling, pausing, settling, wake-ups, reopening."""

import pytest

from jobfence.conformance.base import SuiteBase
from jobfence.conformance.bench import LEASE_MS, START_MS, Bench, held, there
from jobfence.conformance.capabilities import Capability, requires
from jobfence.statemachine.errors import InvalidOption
from jobfence.statemachine.states import JobStatus

DAY = 24 * 3_600_000


class Operating(SuiteBase):
    """Part of layer (b)."""

    @requires(Capability.RETENTION)
    def test_old_ended_jobs_are_pruned(self, bench: Bench) -> None:
        """Rule R1, cases A94, A95: cut-off inclusive; active ones stay."""
        store = bench.open()
        old = [store.enqueue("mail", max_retries=0) for _ in range(3)]
        queued, busy = store.enqueue("mail"), store.enqueue("mail")
        store.complete(old[0], held(store, old[0]).handoff_id)
        store.fail(old[1], held(store, old[1]).handoff_id, "no")
        store.cancel(old[2])
        held(store, busy)
        bench.clock.advance(7 * DAY - 1)
        assert store.prune_terminal() == 0
        bench.clock.advance(1)
        assert store.prune_terminal() == 1
        assert store.get(old[0]) is None
        bench.clock.advance(23 * DAY)
        fresh = store.enqueue("mail")
        store.complete(fresh, held(store, fresh).handoff_id)
        assert store.prune_terminal() == 2
        assert [job.id for job in store.list_jobs()] == [queued, busy, fresh]

    @requires(Capability.RETENTION)
    def test_none_keeps_for_ever_and_batches_add_up(self, bench: Bench) -> None:
        """Rule R1."""
        store = bench.open()
        for _ in range(5):
            store.cancel(store.enqueue("mail"))
        bench.clock.advance(400 * DAY)
        assert store.prune_terminal(cancelled_ttl_ms=None) == 0
        assert store.prune_terminal(cancelled_ttl_ms=0, batch_size=2) == 5
        assert store.list_jobs() == []

    @requires(Capability.RETENTION)
    def test_a_counter_goes_with_the_last_job_of_its_key(self, bench: Bench) -> None:
        """Rule R1: then the key can be registered with another cap."""
        store = bench.open()
        store.enqueue("mail", concurrency_key="other", max_concurrency=1)
        ids = [
            store.enqueue("mail", concurrency_key="k", max_concurrency=1)
            for _ in range(2)
        ]
        store.cancel(ids[0])
        assert store.prune_terminal(cancelled_ttl_ms=0) == 1
        with pytest.raises(Exception, match="k"):
            store.enqueue("mail", concurrency_key="k", max_concurrency=2)
        store.cancel(ids[1])
        assert store.prune_terminal(cancelled_ttl_ms=0) == 1
        store.enqueue("mail", concurrency_key="k", max_concurrency=2)
        with pytest.raises(Exception, match="other"):
            store.enqueue("mail", concurrency_key="other", max_concurrency=2)

    @pytest.mark.parametrize("ttl", [-1, 1.5, True])
    @requires(Capability.RETENTION)
    def test_a_bad_time_to_live_is_refused(self, bench: Bench, ttl: int) -> None:
        """Rules R1 and E1."""
        store = bench.open()
        store.cancel(store.enqueue("mail"))
        with bench.unchanged(store, "R1"), pytest.raises(InvalidOption):
            store.prune_terminal(cancelled_ttl_ms=ttl)

    def test_a_cancellation_says_what_it_found(self, bench: Bench) -> None:
        """Rule R3."""
        store = bench.open()
        job_id = store.enqueue("mail")
        assert store.cancel(job_id).outcome == "cancelled"
        assert there(store, job_id).cancelled_at_ms == START_MS
        with bench.unchanged(store, "R3"):
            assert store.cancel(job_id).outcome == "terminal"
            assert store.cancel("no-such-job").outcome == "not_found"
            assert store.cancel("no-such-job").job_id is None
        assert store.claim(5) == []

    @requires(Capability.PAUSE)
    def test_resuming_one_queue_leaves_another_paused(self, bench: Bench) -> None:
        """Rule R4."""
        store = bench.open()
        ids = [store.enqueue("mail", queue=queue) for queue in ("a", "b")]
        store.pause_queue("a")
        store.pause_queue("b")
        store.resume_queue("a")
        assert [each.job.id for each in store.claim(5)] == ids[:1]

    @requires(Capability.PAUSE)
    def test_a_paused_queue_is_not_claimed_from(self, bench: Bench) -> None:
        """Rules R4, O1: durable, also for another instance; acknowledging goes on."""
        store = bench.open()
        busy = held(store, store.enqueue("mail", queue="a"))
        job_id = store.enqueue("mail", queue="a")
        other = store.enqueue("mail", queue="b")
        store.pause_queue("a")
        again = bench.open()
        with bench.unchanged(again, "R4"):
            assert again.claim_job(job_id) is None
        assert again.next_available() == there(store, other)
        assert [each.job.id for each in again.claim(5)] == [other]
        assert again.next_available() is None
        assert store.complete(busy.job.id, busy.handoff_id).accepted
        again.resume_queue("a")
        assert [each.job.id for each in store.claim(5)] == [job_id]

    @requires(Capability.PAUSE)
    def test_a_pause_outlives_reconciling(self, bench: Bench) -> None:
        """Rules R4 and C7: others lose cap and priority, not their pause."""
        store = bench.open()
        store.pause_queue("a")
        store.enqueue("mail", queue="a")
        store.reconcile_queue_policies({})
        assert store.claim(5) == []

    @requires(Capability.REQUEUE)
    def test_an_ended_job_runs_again_as_a_new_one(self, bench: Bench) -> None:
        """Rule R5: the copy names its origin and has its choices."""
        store = bench.open()
        job_id = store.enqueue(
            "mail",
            [1],
            {"x": 2},
            queue="a",
            priority=3,
            max_retries=4,
            timeout_ms=5,
            execution_mode="process",
            concurrency_key="k",
            max_concurrency=2,
        )
        store.complete(job_id, held(store, job_id).handoff_id)
        store.set_concurrency("k", 7)
        bench.clock.advance(100)
        before = there(store, job_id)
        copy = there(store, store.requeue(job_id))
        assert there(store, job_id) == before, "R5: terminal stays terminal"
        assert copy.id != job_id
        assert copy.origin_id == job_id
        assert (copy.name, copy.args, copy.kwargs) == ("mail", (1,), {"x": 2})
        assert (copy.queue, copy.priority, copy.max_retries) == ("a", 3, 4)
        assert (copy.timeout_ms, copy.execution_mode) == (5, "process")
        assert (copy.concurrency_key, copy.max_concurrency) == ("k", 7)
        assert copy.scheduled_at_ms == copy.created_at_ms == START_MS + 100
        assert (copy.status, copy.attempts) == (JobStatus.QUEUED, 0)

    @requires(Capability.REQUEUE)
    def test_an_active_or_unknown_job_is_not_requeued(self, bench: Bench) -> None:
        """Rule R5."""
        store = bench.open()
        job_id = store.enqueue("mail")
        for each in (job_id, "no-such-job"):
            with bench.unchanged(store, "R5"), pytest.raises(InvalidOption):
                store.requeue(each)

    @requires(Capability.WAKE_UPS)
    def test_a_commit_that_makes_work_due_calls_back(self, bench: Bench) -> None:
        """Rule T3: once committed, and a listener that raises changes nothing."""
        store, seen = bench.open(), bench.open()
        calls: list[int] = []

        def listener() -> None:
            calls.append(seen.counts()[JobStatus.QUEUED])
            raise RuntimeError("a listener of the test's")

        store.on_commit_wake(listener)
        job_id = store.enqueue("mail")
        assert calls == [1], "T3: not called, or before the commit could be seen"
        handoff = held(store, job_id)
        assert calls == [1]
        assert store.return_to_queue(job_id, handoff.handoff_id).accepted
        assert calls == [1, 1]
        with pytest.raises(InvalidOption):
            store.enqueue("")
        assert calls == [1, 1]

    def test_everything_outlives_the_process(self, bench: Bench) -> None:
        """Rules S1 and L1: another instance sees the rows, and recovers them."""
        store = bench.open()
        waiting = store.enqueue("mail", scheduled_at=START_MS + 10**6)
        lost = held(store, store.enqueue("mail"))
        before = store.list_jobs()
        bench.close(store)
        again = bench.open()
        assert again.list_jobs() == before
        bench.clock.advance(LEASE_MS)
        assert [job.id for job in again.recover_expired()] == [lost.job.id]
        assert again.complete(lost.job.id, lost.handoff_id).stale
        assert there(again, waiting).status is JobStatus.QUEUED

    def test_a_second_instance_sees_every_change_at_once(self, bench: Bench) -> None:
        """Rule T1, case F71: nothing is remembered over a transaction."""
        one, other = bench.open(), bench.open()
        job_id = one.enqueue("mail")
        assert there(other, job_id).status is JobStatus.QUEUED
        handoff = held(one, job_id)
        assert there(other, job_id).status is JobStatus.HANDED_OFF
        assert other.complete(job_id, handoff.handoff_id).accepted
        assert there(one, job_id).status is JobStatus.COMPLETED
        assert one.complete(job_id, handoff.handoff_id).repeated

    def test_clearing_deletes_everything(self, bench: Bench) -> None:
        """`clear`, for tests: rows, counters, policies."""
        store = bench.open()
        held(store, store.enqueue("mail", concurrency_key="k", max_concurrency=1))
        store.clear()
        assert store.list_jobs() == []
        store.enqueue("mail", concurrency_key="k", max_concurrency=2)
        assert len(store.claim(5)) == 1
