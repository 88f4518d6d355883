"""Rule C9: counters that are wrong or missing are found, and mended."""

from typing import Any

import pytest

from jobfence.conformance.base import SuiteBase
from jobfence.conformance.bench import Bench, held
from jobfence.conformance.capabilities import Capability, requires
from jobfence.conformance.examples.caps import keyed
from jobfence.statemachine.options import JobRequest
from jobfence.statemachine.policy import QueuePolicy
from jobfence.statemachine.table import Trigger
from jobfence.statemachine.values import Repair, Settlement


class Mending(SuiteBase):
    """Part of layer (b)."""

    @requires(Capability.COUNTER_ROWS)
    def test_a_drifted_counter_is_mended(self, bench: Bench) -> None:
        """Rule C9, cases A74, A166: not by readiness, by asking."""
        store, door = bench.open(), bench.backdoor
        keyed(store, "k", 3, 4)
        assert len(store.claim(1)) == 1
        door.set_active("k", 17)
        store.ensure_ready()
        assert store.claim(5) == []
        assert door.counters()["k"] == (3, 17)
        report = store.reconcile_active_concurrency()
        assert report.repairs == (Repair("k", 17, 1),)
        assert (report.checked_count, report.candidate_count) == (1, 1)
        assert door.counters()["k"] == (3, 1)
        assert len(store.claim(5)) == 2

    @requires(Capability.COUNTER_ROWS)
    def test_a_missing_counter_is_made_again(self, bench: Bench) -> None:
        """Rule C9: with the jobs' cap, and counted from zero in the report."""
        store, door = bench.open(), bench.backdoor
        keyed(store, "k", 3, 2)
        store.claim(1)
        door.drop_counter("k")
        report = store.reconcile_active_concurrency()
        assert report.repairs == (Repair("k", 0, 1),)
        assert door.counters()["k"] == (3, 1)

    @requires(Capability.COUNTER_ROWS)
    @pytest.mark.parametrize("derived", [False, True])
    def test_an_enqueue_after_a_lost_counter_counts_what_runs(
        self,
        bench: Bench,
        derived: bool,  # noqa: FBT001  a value of the test
    ) -> None:
        """Rules C5 and C4: the counter that it makes is right, and no cap exceeded."""
        queues = {"default": QueuePolicy(max_concurrent=2)} if derived else None
        given: dict[str, Any] = {"concurrency_key": "k", "max_concurrency": 2}
        given, key = ({}, "queue:default") if derived else (given, "k")
        store, door = bench.open(queues=queues), bench.backdoor
        held(store, store.enqueue("mail", **given))
        door.drop_counter(key)
        store.enqueue_many([JobRequest("mail", [n], **given) for n in range(2)])
        assert door.counters()[key] == (2, 1)
        assert len(store.claim(5)) == 1

    @requires(Capability.COUNTER_ROWS)
    def test_a_report_lists_ten_repairs(self, bench: Bench) -> None:
        """Rule C9."""
        store, door = bench.open(), bench.backdoor
        for number in range(12):
            keyed(store, f"k{number:02}", 1)
            door.set_active(f"k{number:02}", 1)
        report = store.reconcile_active_concurrency()
        assert report.repaired_count == 12
        assert [each.concurrency_key for each in report.repairs] == [
            f"k{number:02}" for number in range(10)
        ]
        assert report.repairs_truncated_count == 2

    @requires(Capability.COUNTER_ROWS)
    def test_a_counter_too_low_stops_no_batch(self, bench: Bench) -> None:
        """Rules C5 and C9: two slots come back where one was counted; never below 0."""
        store, door = bench.open(), bench.backdoor
        handoffs = [held(store, job_id) for job_id in keyed(store, "k", 3, 2)]
        door.set_active("k", 1)
        acks = [
            Settlement(Trigger.COMPLETE, each.job.id, each.handoff_id)
            for each in handoffs
        ]
        answers, _ = store.settle(acks)
        assert [each.accepted for each in answers] == [True, True]
        assert door.counters()["k"] == (3, 0)

    @requires(Capability.COUNTER_ROWS)
    def test_every_kind_of_wrong_counter_is_found(self, bench: Bench) -> None:
        """Rule C9: too high, too low or missing; a right one and an ended job's stay."""
        store, door = bench.open(), bench.backdoor
        for key in ("high", "idle", "missing, queued"):
            keyed(store, key, 2)
        for key in ("low", "missing, held", "right"):
            held(store, keyed(store, key, 2)[0])
        (ended,) = keyed(store, "missing, ended", 2)
        store.cancel(ended)
        store.enqueue("without a key")
        door.set_active("high", 2)
        door.set_active("low", 0)
        for key in ("missing, queued", "missing, held", "missing, ended"):
            door.drop_counter(key)

        report = store.reconcile_active_concurrency()

        assert report.repairs == (
            Repair("high", 2, 0),
            Repair("low", 0, 1),
            Repair("missing, held", 0, 1),
            Repair("missing, queued", 0, 0),
        )
        assert (report.checked_count, report.candidate_count) == (5, 4)
        assert door.counters() == {
            "high": (2, 0),
            "idle": (2, 0),
            "low": (2, 1),
            "missing, held": (2, 1),
            "missing, queued": (2, 0),
            "right": (2, 1),
        }
