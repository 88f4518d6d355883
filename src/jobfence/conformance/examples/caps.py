"""Rules C: caps, and counters that are mended."""

from typing import Any

import pytest

from jobfence.conformance.base import SuiteBase
from jobfence.conformance.bench import LEASE_MS, Bench, held, there
from jobfence.statemachine.errors import ConcurrencyConflict, InvalidOption
from jobfence.statemachine.policy import QueuePolicy
from jobfence.statemachine.states import JobStatus
from jobfence.store.contract import JobStore


def keyed(store: JobStore, key: str, cap: int, number: int = 1) -> list[str]:
    """Enqueue jobs with an explicit key."""
    return [
        store.enqueue("mail", [each], concurrency_key=key, max_concurrency=cap)
        for each in range(number)
    ]


class Caps(SuiteBase):
    """Part of layer (b)."""

    def test_a_full_key_is_passed_over(self, bench: Bench) -> None:
        """Rules O1, C4, cases A20, A62: and has its turn when a slot is free."""
        store = bench.open()
        first, blocked = keyed(store, "serial", 1, 2)
        (free,) = keyed(store, "other", 1)
        handoff = held(store, first)
        available = store.next_available()
        assert available is not None
        assert available.id == free
        with bench.unchanged(store, "C4"):
            assert store.claim_job(blocked) is None
        store.complete(first, handoff.handoff_id)
        available = store.next_available()
        assert available is not None
        assert available.id == blocked

    def test_a_batch_respects_the_cap(self, bench: Bench) -> None:
        """Rule C6, case F26: two of ten, and the rest of the batch is others'."""
        store = bench.open()
        keyed(store, "k", 2, 10)
        (free,) = keyed(store, "l", 1)
        taken = store.claim(10)
        assert [each.job.concurrency_key for each in taken] == ["k", "k", "l"]
        assert taken[-1].job.id == free
        assert store.claim(10) == []

    def test_a_full_key_hides_no_job_without_a_key(self, bench: Bench) -> None:
        """Rule C6: it is found when the key fills up in the middle of a batch."""
        store = bench.open()
        (first, *_) = keyed(store, "k", 1, 3)
        plain = store.enqueue("mail")
        assert [each.job.id for each in store.claim(3)] == [first, plain]

    def test_a_backlog_hides_nothing(self, bench: Bench) -> None:
        """Rule C6, case F46: a full key with a thousand jobs ahead."""
        store = bench.open()
        keyed(store, "k", 1)
        store.claim()
        for _ in range(10):
            keyed(store, "k", 1, 30)
        (other,) = keyed(store, "l", 1)
        assert [each.job.id for each in store.claim(1)] == [other]

    @pytest.mark.parametrize(
        "way",
        ["complete", "fail", "exhaust", "reschedule", "return", "recover", "abort"],
    )
    def test_every_way_out_frees_the_slot_once(self, bench: Bench, way: str) -> None:
        """Rule C5, cases A82, F28: exactly one more can be claimed."""
        store = bench.open()
        retries = 0 if way == "exhaust" else 3
        pair: dict[str, Any] = {"concurrency_key": "k", "max_concurrency": 2}
        job_id = store.enqueue("mail", max_retries=retries, **pair)
        other = held(store, keyed(store, "k", 2)[0])
        handoff_id = held(store, job_id).handoff_id
        keyed(store, "k", 2, 3)
        assert store.claim(5) == []
        if way == "abort":
            store.cancel(job_id)
        if way == "recover":
            store.extend_lease(other.job.id, other.handoff_id, lease_ms=LEASE_MS * 9)
            bench.clock.advance(LEASE_MS)
            assert len(store.recover_expired()) == 1
        elif way in ("fail", "exhaust"):
            store.fail(job_id, handoff_id, "no")
        elif way == "reschedule":
            store.reschedule(job_id, handoff_id, delay_ms=10**6)
        elif way == "complete":
            store.complete(job_id, handoff_id)
        else:
            store.return_to_queue(job_id, handoff_id)
        assert len(store.claim(5)) == 1, f"C5: after {way}"
        for late in (store.complete, store.return_to_queue):
            late(job_id, handoff_id)
        assert store.claim(5) == [], f"C5: a late answer after {way} freed a slot"

    def test_an_explicit_pair_replaces_the_queue_s(self, bench: Bench) -> None:
        """Rule C2, cases A4, A65."""
        store = bench.open(queues={"builds": QueuePolicy(5)})
        job_id = store.enqueue(
            "mail", queue="builds", concurrency_key="account:1", max_concurrency=1
        )
        job = there(store, job_id)
        assert (job.concurrency_key, job.max_concurrency) == ("account:1", 1)

    def test_a_queue_has_a_cap(self, bench: Bench) -> None:
        """Rule C2, case A64."""
        store = bench.open(queues={"builds": QueuePolicy(2)})
        ids = [store.enqueue("mail", queue="builds") for _ in range(3)]
        job = there(store, ids[0])
        assert (job.concurrency_key, job.max_concurrency) == ("queue:builds", 2)
        handoffs = [store.claim_job(job_id) for job_id in ids]
        assert [each is not None for each in handoffs] == [True, True, False]
        assert handoffs[0] is not None
        store.complete(ids[0], handoffs[0].handoff_id)
        assert store.claim_job(ids[2]) is not None

    def test_another_cap_for_a_key_is_a_conflict(self, bench: Bench) -> None:
        """Rule C3, case A61: nothing is written; the registered cap still holds."""
        store = bench.open()
        keyed(store, "account:1", 2)
        with bench.unchanged(store, "C3"), pytest.raises(ConcurrencyConflict) as found:
            keyed(store, "account:1", 3)
        assert (found.value.registered, found.value.given) == (2, 3)

    def test_a_cap_can_be_changed(self, bench: Bench) -> None:
        """Rule C3: the counter's cap is the authority; a lower one drains first."""
        store = bench.open()
        keyed(store, "k", 1, 5)
        assert len(store.claim(5)) == 1
        store.set_concurrency("k", 3)
        taken = store.claim(5)
        assert len(taken) == 2
        store.set_concurrency("k", 1)
        for each in taken:
            assert store.claim(5) == [], "C5: a cap below what runs admits none"
            store.complete(each.job.id, each.handoff_id)
        assert store.claim(5) == []
        keyed(store, "k", 1)

    def test_a_cap_can_be_set_before_any_job(self, bench: Bench) -> None:
        """Rule C3."""
        store = bench.open()
        store.set_concurrency("k", 2)
        with pytest.raises(ConcurrencyConflict):
            keyed(store, "k", 1)
        keyed(store, "k", 2)

    @pytest.mark.parametrize(
        ("key", "cap"), [("queue:builds", 1), ("", 1), ("k", 0), ("k", True)]
    )
    def test_a_bad_cap_is_refused(self, bench: Bench, key: str, cap: int) -> None:
        """Rules C3 and E1."""
        store = bench.open()
        with bench.unchanged(store, "E1"), pytest.raises(InvalidOption):
            store.set_concurrency(key, cap)

    def test_a_healthy_pass_repairs_nothing(self, bench: Bench) -> None:
        """Rule C9."""
        store = bench.open()
        keyed(store, "k", 2, 3)
        store.claim(5)
        with bench.unchanged(store, "C9"):
            report = store.reconcile_active_concurrency()
        assert (report.candidate_count, report.repaired_count) == (0, 0)
        assert (report.repairs, report.repairs_truncated_count) == ((), 0)

    def test_an_unreadable_row_with_a_full_key_waits_for_its_turn(
        self, bench: Bench
    ) -> None:
        """Rules O1, C6 and M11: no claim may take it, so none fails it."""
        store = bench.open()
        first, second, third = keyed(store, "k", 1, 3)
        bench.backdoor.damage(second)
        (handoff,) = store.claim(5)
        assert handoff.job.id == first
        assert store.claim_job(second) is None
        assert store.counts()[JobStatus.FAILED] == 0
        store.complete(first, handoff.handoff_id)
        assert [each.job.id for each in store.claim(5)] == [third]
        assert store.counts()[JobStatus.FAILED] == 1
