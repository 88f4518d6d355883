"""Rules L: leases, and recovery from workers that are gone."""

from types import EllipsisType

import pytest

from jobfence.conformance.base import SuiteBase
from jobfence.conformance.bench import LEASE_MS, START_MS, Bench, held, there
from jobfence.statemachine.errors import InvalidOption
from jobfence.statemachine.policy import QueuePolicy
from jobfence.statemachine.states import JobStatus
from jobfence.store.contract import Lease


class Recovering(SuiteBase):
    """Part of layer (b)."""

    def test_a_lease_is_over_at_its_end_and_not_before(self, bench: Bench) -> None:
        """Rule L1, cases F13, F14, F19."""
        store = bench.open()
        job_id = store.enqueue("mail")
        held(store, job_id)
        bench.clock.advance(LEASE_MS - 1)
        with bench.unchanged(store, "L1"):
            assert store.recover_expired() == []
        bench.clock.advance(1)
        (job,) = store.recover_expired()
        assert job == there(store, job_id)
        assert (job.status, job.attempts) == (JobStatus.QUEUED, 1)
        assert job.scheduled_at_ms == bench.clock.now_ms() + 10_000
        assert "interrupted" in (job.last_error or "")
        assert "local" in (job.last_error or ""), "the text names the worker"
        assert (job.last_worker_id, job.last_handed_off_at_ms) == ("local", START_MS)

    def test_jobs_recovered_together_are_claimed_together_again(
        self, bench: Bench
    ) -> None:
        """Rules M2 and L4: each is handed off as if for the first time."""
        store = bench.open()
        ids = [store.enqueue("mail") for _ in range(2)]
        first = {each.handoff_id for each in store.claim(2)}
        bench.clock.advance(LEASE_MS)
        assert len(store.recover_expired()) == 2
        bench.clock.advance(10_000)
        second = store.claim(2)
        assert [(each.job.id, each.job.handoffs) for each in second] == [
            (job_id, 2) for job_id in ids
        ]
        assert not first & {each.handoff_id for each in second}

    @pytest.mark.parametrize("store_lease", [None, 5_000])
    @pytest.mark.parametrize("claim_lease", [None, 7_000, ...])
    def test_the_lease_is_the_call_s_else_the_store_s(
        self, bench: Bench, store_lease: int | None, claim_lease: Lease
    ) -> None:
        """Rule L1: None means no lease at all."""
        store = bench.open(lease_ms=store_lease)
        store.enqueue("mail")
        (handoff,) = store.claim(lease_ms=claim_lease)
        length = store_lease if isinstance(claim_lease, EllipsisType) else claim_lease
        expected = START_MS + length if isinstance(length, int) else None
        assert handoff.lease_expires_at_ms == expected
        assert handoff.job.lease_expires_at_ms == expected

    def test_a_handoff_without_lease_is_recovered_by_its_owner_only(
        self, bench: Bench
    ) -> None:
        """Rule L2."""
        store = bench.open(lease_ms=None)
        job_id = store.enqueue("mail", max_retries=1)
        handoff = held(store, job_id)
        bench.clock.advance(10**9)
        with bench.unchanged(store, "L1"):
            assert store.recover_expired() == []
            assert store.extend_lease(job_id, handoff.handoff_id).accepted
        assert [job.id for job in store.recover_handed_off()] == [job_id]
        assert there(store, job_id).attempts == 1

    def test_recovery_of_all_takes_leased_ones_too(self, bench: Bench) -> None:
        """Rule L2: in the order in which they were handed off."""
        store = bench.open()
        ids = [store.enqueue("mail") for _ in range(3)]
        for job_id in (ids[2], ids[0], ids[1]):
            held(store, job_id)
            bench.clock.advance(1)
        assert [job.id for job in store.recover_handed_off()] == [
            ids[2],
            ids[0],
            ids[1],
        ]
        assert store.recover_handed_off() == []

    def test_an_extended_lease_runs_from_now(self, bench: Bench) -> None:
        """Rule L1: by its own length, by the one given, which is then its own."""
        store = bench.open()
        job_id = store.enqueue("mail")
        handoff_id = held(store, job_id).handoff_id
        for given, length in ((None, LEASE_MS), (9_000, 9_000), (None, 9_000)):
            bench.clock.advance(100)
            ack = store.extend_lease(job_id, handoff_id, lease_ms=given)
            assert ack.accepted
            assert ack.job is not None
            assert ack.job.lease_expires_at_ms == bench.clock.now_ms() + length

    def test_the_length_given_at_the_claim_is_kept(self, bench: Bench) -> None:
        """Rule L1."""
        store, other = bench.open(), bench.open(lease_ms=1)
        store.enqueue("mail")
        (handoff,) = store.claim(lease_ms=7_000)
        ack = other.extend_lease(handoff.job.id, handoff.handoff_id)
        assert ack.job is not None
        assert ack.job.lease_expires_at_ms == START_MS + 7_000

    def test_a_handoff_without_a_lease_stays_without(self, bench: Bench) -> None:
        """Rule L1: it gets one only where a length is given."""
        store = bench.open()
        store.enqueue("mail")
        (handoff,) = store.claim(lease_ms=None)
        job_id, handoff_id = handoff.job.id, handoff.handoff_id
        assert store.extend_lease(job_id, handoff_id).accepted
        assert there(store, job_id).lease_expires_at_ms is None
        assert store.extend_lease(job_id, handoff_id, lease_ms=500).accepted
        assert there(store, job_id).lease_expires_at_ms == START_MS + 500

    def test_an_expired_handoff_that_still_stands_may_be_extended(
        self, bench: Bench
    ) -> None:
        """Rule L1: and then it is not recovered."""
        store = bench.open()
        job_id = store.enqueue("mail")
        handoff_id = held(store, job_id).handoff_id
        bench.clock.advance(LEASE_MS * 2)
        assert store.extend_lease(job_id, handoff_id).accepted
        assert store.recover_expired() == []
        assert store.complete(job_id, handoff_id).accepted

    def test_extending_is_never_repeated(self, bench: Bench) -> None:
        """Rule L1: after the end it is stale."""
        store = bench.open()
        job_id = store.enqueue("mail")
        handoff_id = held(store, job_id).handoff_id
        assert store.extend_lease(job_id, handoff_id).accepted
        assert store.extend_lease(job_id, handoff_id).accepted
        store.complete(job_id, handoff_id)
        with bench.unchanged(store, "L1"):
            assert store.extend_lease(job_id, handoff_id).stale

    def test_many_leases_are_extended_in_the_order_given(self, bench: Bench) -> None:
        """Rule L1: one that is stale affects only itself."""
        store = bench.open()
        ids = [store.enqueue("mail") for _ in range(3)]
        handoffs = store.claim(3)
        store.complete(ids[1], handoffs[1].handoff_id)
        bench.clock.advance(10)
        answers = store.extend_leases(reversed(handoffs), lease_ms=500)
        assert [ack.result for ack in answers] == ["accepted", "stale", "accepted"]
        end = bench.clock.now_ms() + 500
        jobs = [there(store, job_id) for job_id in ids]
        assert [job.lease_expires_at_ms for job in jobs] == [end, None, end]

    @pytest.mark.parametrize("lease_ms", [0, -1, 1.5, True])
    def test_a_bad_lease_is_refused(self, bench: Bench, lease_ms: int) -> None:
        """Rules L1 and E1."""
        store = bench.open()
        store.enqueue("mail")
        with bench.unchanged(store, "E1"), pytest.raises(InvalidOption):
            store.claim(lease_ms=lease_ms)
        (handoff,) = store.claim()
        with bench.unchanged(store, "E1"), pytest.raises(InvalidOption):
            store.extend_lease(handoff.job.id, handoff.handoff_id, lease_ms=lease_ms)

    def test_recovery_takes_the_earliest_first_up_to_its_limit(
        self, bench: Bench
    ) -> None:
        """Rule L1."""
        store = bench.open()
        ids = [store.enqueue("mail") for _ in range(3)]
        for job_id, lease_ms in zip(ids, (300, 100, 200), strict=True):
            assert store.claim_job(job_id, lease_ms=lease_ms)
        bench.clock.advance(300)
        assert [job.id for job in store.recover_expired(limit=2)] == [ids[1], ids[2]]
        assert [job.id for job in store.recover_expired()] == [ids[0]]

    def test_each_job_is_recovered_once(self, bench: Bench) -> None:
        """Rule L4, cases F11, F17: two at once need no leader."""
        store, other = bench.open(), bench.open()
        job_id = store.enqueue("mail")
        held(store, job_id)
        bench.clock.advance(LEASE_MS)
        assert len(store.recover_expired()) + len(other.recover_expired()) == 1
        assert there(store, job_id).attempts == 1

    def test_a_completed_job_is_not_recovered(self, bench: Bench) -> None:
        """Rule M8, case F1."""
        store = bench.open()
        job_id = store.enqueue("mail")
        handoff = held(store, job_id)
        bench.clock.advance(LEASE_MS)
        assert store.complete(job_id, handoff.handoff_id).accepted
        with bench.unchanged(store, "M8"):
            assert store.recover_expired() == []

    def test_a_job_that_kills_its_workers_uses_up_its_attempts(
        self, bench: Bench
    ) -> None:
        """Rule L5, case A43."""
        store = bench.open()
        job_id = store.enqueue("mail", max_retries=1)
        for status in (JobStatus.QUEUED, JobStatus.FAILED):
            held(store, job_id)
            bench.clock.advance(LEASE_MS)
            (job,) = store.recover_expired()
            assert job.status is status
            bench.clock.advance(10_000)
        assert there(store, job_id).attempts == 2

    def test_a_waiting_job_holds_no_lease(self, bench: Bench) -> None:
        """Rule L1, case F80: longer than any lease, handed off once."""
        store = bench.open()
        job_id = store.enqueue("mail", scheduled_at=START_MS + 2 * 3_600_000)
        bench.clock.advance(3_600_000)
        assert store.recover_expired() == []
        bench.clock.advance(3_600_000)
        assert len(store.claim(5)) == 1
        assert there(store, job_id).attempts == 0

    def test_recovered_jobs_follow_the_policy_of_now(self, bench: Bench) -> None:
        """Rules L4 and C8, case A44: the old key is released first."""
        plain = bench.open()
        ids = [plain.enqueue("mail", queue="serial", max_retries=1) for _ in range(2)]
        assert len(plain.claim(2)) == 2
        store = bench.open(queues={"serial": QueuePolicy(1, priority=4)})
        moved = store.recover_handed_off()
        assert [job.id for job in moved] == ids
        for job in moved:
            assert (job.concurrency_key, job.max_concurrency) == ("queue:serial", 1)
            assert job.priority == 4
            assert job == there(store, job.id)
        bench.clock.advance(10_000)
        assert len(store.claim(2)) == 1
