"""Rules M2, M16 and M19: what a claim gives, asked again, and listed."""

import pytest

from jobfence.conformance.base import SuiteBase
from jobfence.conformance.bench import LEASE_MS, START_MS, Bench, held, there
from jobfence.statemachine.errors import HandoffIdInUse


class Claiming(SuiteBase):
    """Part of layer (b)."""

    def test_a_claim_asked_again_is_the_same_handoff(self, bench: Bench) -> None:
        """Rule M19: an ambiguous claim can be asked for again."""
        store = bench.open()
        job_id = store.enqueue("mail")
        first = held(store, job_id, "mine")
        bench.clock.advance(100)
        with bench.unchanged(store, "M19"):
            assert store.claim_job(job_id, handoff_id="mine") == first
            assert store.claim_job(job_id) is None
            assert store.claim_job(job_id, handoff_id="another") is None

    def test_a_used_handoff_id_is_refused(self, bench: Bench) -> None:
        """Rule M19: another job's, held or ended, and this job's own ended one."""
        store = bench.open()
        one, other = store.enqueue("mail"), store.enqueue("mail")
        held(store, one, "mine")
        with bench.unchanged(store, "M19"), pytest.raises(HandoffIdInUse):
            store.claim_job(other, handoff_id="mine")
        store.return_to_queue(one, "mine")
        for job_id in (one, other):
            with bench.unchanged(store, "M19"), pytest.raises(HandoffIdInUse):
                store.claim_job(job_id, handoff_id="mine")

    def test_a_handoff_says_what_was_committed(self, bench: Bench) -> None:
        """Rule M2: the row as the claim left it; `fence` only grows."""
        store = bench.open()
        job_id = store.enqueue("mail")
        first = held(store, job_id)
        assert first.job == there(store, job_id)
        assert first.lease_expires_at_ms == START_MS + LEASE_MS
        assert first.handed_off_at_ms == START_MS
        store.return_to_queue(job_id, first.handoff_id)
        second = held(store, job_id)
        assert (first.fence, second.fence) == (1, 2)
        assert first.handoff_id != second.handoff_id

    def test_a_handoff_is_listed_for_its_worker(self, bench: Bench) -> None:
        """Rule M16, case A49: only this worker's, oldest first."""
        store = bench.open()
        ids = [store.enqueue("mail") for _ in range(3)]
        mine = store.claim(2, worker_id="w1")
        store.claim(1, worker_id="w2")
        assert [each.job.id for each in mine] == ids[:2]
        assert store.handoffs_for_worker("w1") == mine
        store.return_to_queue(ids[0], mine[0].handoff_id)
        assert store.handoffs_for_worker("w1") == mine[1:]
        for other in ("nobody", "W1", "w", "w1 "):
            assert store.handoffs_for_worker(other) == []

    def test_handoffs_of_a_worker_come_oldest_first(self, bench: Bench) -> None:
        """Rule M16: by when they were handed off, and not by when they were made."""
        store = bench.open()
        ids = [store.enqueue("mail") for _ in range(2)]
        for job_id in reversed(ids):
            assert store.claim_job(job_id, worker_id="w1") is not None
            bench.clock.advance(1)
        found = store.handoffs_for_worker("w1")
        assert [each.job.id for each in found] == ids[::-1]
