"""Rule T5: acknowledgements and a claim in one transaction."""

from types import EllipsisType
from typing import Any

import pytest

from jobfence.conformance.base import SuiteBase
from jobfence.conformance.bench import LEASE_MS, START_MS, Bench, held, there
from jobfence.conformance.capabilities import Capability, requires
from jobfence.statemachine.errors import InvalidOption
from jobfence.statemachine.settling import SETTLED
from jobfence.statemachine.table import Trigger
from jobfence.statemachine.values import Settlement
from jobfence.store.contract import Lease


class Settling(SuiteBase):
    """Part of layer (b)."""

    def test_settling_acknowledges_then_claims(self, bench: Bench) -> None:
        """Rule T5: slots and jobs just freed can be claimed by it."""
        store = bench.open()
        pair: dict[str, Any] = {"concurrency_key": "k", "max_concurrency": 1}
        ids = [store.enqueue("mail", [each], **pair) for each in range(2)]
        (first,) = store.claim(5)
        acks, handoffs = store.settle([Settlement.complete(first)], claim=5)
        assert [ack.result for ack in acks] == ["accepted"]
        assert [each.job.id for each in handoffs] == ids[1:]
        acks, handoffs = store.settle(
            [Settlement.return_to_queue(handoffs[0])], claim=5, worker_id="w"
        )
        assert acks[0].accepted
        assert [each.job.id for each in handoffs] == ids[1:]
        assert handoffs[0].job.worker_id == "w"

    @pytest.mark.parametrize("lease_ms", [None, 7_000, ...])
    def test_settling_claims_for_the_lease_that_is_asked_for(
        self, bench: Bench, lease_ms: Lease
    ) -> None:
        """Rules T5 and L1: None means no lease at all; left out, the store's."""
        store = bench.open()
        store.enqueue("mail")
        _, (handoff,) = store.settle([], claim=1, lease_ms=lease_ms)
        length = LEASE_MS if isinstance(lease_ms, EllipsisType) else lease_ms
        expected = None if length is None else START_MS + length
        assert handoff.lease_expires_at_ms == expected
        assert there(store, handoff.job.id) == handoff.job
        bench.clock.advance(100)
        ack = store.extend_lease(handoff.job.id, handoff.handoff_id)
        assert ack.job is not None
        expected = None if expected is None else expected + 100
        assert ack.job.lease_expires_at_ms == expected, "the length is kept"

    def test_settling_claims_only_what_is_asked_for(self, bench: Bench) -> None:
        """Rules T5 and E: of these queues and modes; those of no mode are none."""
        store = bench.open()
        ids = [
            store.enqueue("mail", queue=queue, execution_mode=mode)
            for queue in ("a", "b")
            for mode in ("inline", "process")
        ]
        asked: list[tuple[dict[str, Any], list[str]]] = [
            ({"execution_modes": []}, []),
            ({"queues": []}, []),
            ({"queues": ["b"], "execution_modes": ["process"]}, ids[3:]),
            ({"execution_modes": ["process"]}, ids[1:2]),
            ({"queues": ["b"]}, ids[2:3]),
            ({}, ids[:1]),
        ]
        for options, expected in asked:
            _, handoffs = store.settle([], claim=5, **options)
            assert [each.job.id for each in handoffs] == expected, options

    def test_a_stale_acknowledgement_affects_only_itself(self, bench: Bench) -> None:
        """Rule T5: in the order given; the same one twice is repeated."""
        store = bench.open()
        for _ in range(4):
            store.enqueue("mail")
        a, b, c, d = store.claim(4)
        store.complete(b.job.id, b.handoff_id)
        acks, handoffs = store.settle(
            [
                Settlement.reschedule(d, 500),
                Settlement.fail(b, "late"),
                Settlement.complete(a),
                Settlement.complete(a),
                Settlement.fail(c, "no"),
            ]
        )
        assert [ack.result for ack in acks] == [
            "accepted",
            "stale",
            "accepted",
            "repeated",
            "accepted",
        ]
        assert handoffs == []
        assert there(store, d.job.id).scheduled_at_ms == START_MS + 500
        assert there(store, c.job.id).attempts == 1

    def test_one_stale_end_among_many_of_a_kind(self, bench: Bench) -> None:
        """Rules T5 and M18: a batch is fenced job by job, however it is written."""
        store = bench.open()
        handoffs = [held(store, store.enqueue("mail", [each])) for each in range(12)]
        lost = handoffs[5]
        assert store.return_to_queue(lost.job.id, lost.handoff_id).accepted
        again = held(store, lost.job.id)
        answers, _ = store.settle([Settlement.complete(each) for each in handoffs])
        assert [each.accepted for each in answers] == [
            each is not lost for each in handoffs
        ]
        assert answers[5].stale
        assert there(store, lost.job.id) == again.job

    @requires(Capability.SCHEDULE_KEYS)
    def test_one_batch_ends_jobs_with_and_without_a_schedule_key(
        self, bench: Bench
    ) -> None:
        """Rules T5 and K2: an ownership ends with its own job."""
        store = bench.open()
        replaced = [store.replace_scheduled(key, "mail").job_id for key in ("a", "b")]
        store.enqueue("mail")
        handoffs = store.claim(3)
        ending = [each for each in handoffs if each.job.id != replaced[1]]
        acks, _ = store.settle([Settlement.complete(each) for each in ending])
        assert [ack.result for ack in acks] == ["accepted", "accepted"]
        assert store.scheduled_job("a").current is None
        left = store.scheduled_job("b").current
        assert left == there(store, replaced[1])

    def test_a_bad_option_of_a_settlement_writes_nothing(self, bench: Bench) -> None:
        """Rule T5."""
        store = bench.open()
        store.enqueue("mail")
        (first,) = store.claim()
        done = Settlement.complete(first)
        bad: list[tuple[list[Settlement], dict[str, Any]]] = [
            ([done, Settlement.reschedule(first, -1)], {}),
            ([done], {"claim": -1}),
            ([done], {"lease_ms": 0}),
        ]
        for acks, options in bad:
            with bench.unchanged(store, "T5"), pytest.raises(InvalidOption):
                store.settle(acks, **options)

    @pytest.mark.parametrize("trigger", [*Trigger])
    def test_only_an_acknowledgement_can_be_settled(
        self, bench: Bench, trigger: Trigger
    ) -> None:
        """Rule T5: complete, fail, reschedule and return; a value is no method."""
        store = bench.open()
        store.enqueue("mail")
        (handoff,) = store.claim()
        job_id, handoff_id = handoff.job.id, handoff.handoff_id
        ack = Settlement(trigger, job_id, handoff_id, error="nul \0", delay_ms=0)
        if trigger in SETTLED:
            (answer,), _ = store.settle([ack])
            assert answer.accepted
            assert answer.job is not None
            assert "\0" not in (answer.job.last_error or "")
        else:
            with bench.unchanged(store, "T5"), pytest.raises(InvalidOption):
                store.settle([ack])
