"""Rules E4, E5 and E8: dedupe while queued, and idempotency keys."""

from typing import Any

import pytest

from jobfence.conformance.base import SuiteBase
from jobfence.conformance.bench import START_MS, Bench, held, there
from jobfence.conformance.capabilities import Capability, requires
from jobfence.statemachine.errors import ConcurrencyConflict, IdempotencyConflict
from jobfence.statemachine.states import JobStatus
from jobfence.store.contract import JobStore


def once(store: JobStore, *args: Any, **options: Any) -> str:
    """Enqueue with dedupe."""
    return store.enqueue(
        "mail",
        args,
        deduplicate_while_queued=True,
        **options,
    )


class Identity(SuiteBase):
    """Part of layer (b)."""

    def test_a_queued_twin_stands_for_the_new_job(self, bench: Bench) -> None:
        """Rule E4: same name, arguments and queue; the order of keys does not count."""
        store = bench.open()
        first = store.enqueue("mail", [{"a": 1, "b": 2}], {"x": 1, "y": 2})
        with bench.unchanged(store, "E4"):
            again = store.enqueue(
                "mail",
                [{"b": 2, "a": 1}],
                {"y": 2, "x": 1},
                priority=9,
                max_retries=0,
                deduplicate_while_queued=True,
            )
        assert again == first

    @pytest.mark.parametrize(
        "other",
        [
            {"name": "scan"},
            {"args": [2]},
            {"args": ["1"]},
            {"args": [1.0]},
            {"args": [True]},
            {"kwargs": {"x": 1}},
            {"queue": "bulk"},
        ],
    )
    def test_another_identity_is_another_job(
        self, bench: Bench, other: dict[str, Any]
    ) -> None:
        """Rule E4."""
        store = bench.open()
        first = once(store, 1)
        given = {"name": "mail", "args": [1], **other}
        second = store.enqueue(**given, deduplicate_while_queued=True)
        assert second != first
        assert store.counts()[JobStatus.QUEUED] == 2

    def test_a_running_job_is_no_twin(self, bench: Bench) -> None:
        """Rule E4, case A19."""
        store = bench.open()
        first = once(store, 1)
        held(store, first)
        assert once(store, 1) != first

    @pytest.mark.parametrize("end", ["complete", "fail", "cancel"])
    def test_an_ended_job_is_no_twin(self, bench: Bench, end: str) -> None:
        """Rule E4, cases F37, F38: there is no lock apart from the rows."""
        store = bench.open()
        first = once(store, 1, max_retries=0)
        if end == "cancel":
            store.cancel(first)
        else:
            handoff = held(store, first)
            error = ("no",) if end == "fail" else ()
            getattr(store, end)(first, handoff.handoff_id, *error)
        second = once(store, 1)
        assert second != first
        assert once(store, 1) == second

    def test_a_retry_in_the_future_does_not_stop_work_now(self, bench: Bench) -> None:
        """Rule E4, case A85: planner failed once, then two rows in total."""
        store = bench.open()
        first = once(store, "plan")
        store.fail(first, held(store, first).handoff_id, "no")
        second = once(store, "plan")
        assert second != first
        assert once(store, "plan") == second
        assert store.counts()[JobStatus.QUEUED] == 2

    def test_a_job_due_sooner_or_at_once_is_a_twin(self, bench: Bench) -> None:
        """Rule E4: the existing time is at most the new one; the earliest wins."""
        store = bench.open()
        later = store.enqueue("mail", [1], scheduled_at=START_MS + 100)
        sooner = store.enqueue("mail", [1], scheduled_at=START_MS + 50)
        assert once(store, 1, scheduled_at=START_MS + 50) == sooner
        assert once(store, 1, scheduled_at=START_MS + 100) == sooner
        assert once(store, 1, scheduled_at=START_MS + 49) not in (sooner, later)

    def test_of_twins_due_at_once_the_one_created_earlier_is_meant(
        self, bench: Bench
    ) -> None:
        """Rule E4: by the clock, also where that was set back meanwhile."""
        store = bench.open()
        store.enqueue("mail", [1], scheduled_at=START_MS + 50)
        bench.clock.advance(-1)
        first = store.enqueue("mail", [1], scheduled_at=START_MS + 50)
        assert once(store, 1, scheduled_at=START_MS + 50) == first

    def test_names_apart_share_a_key_and_no_identity(self, bench: Bench) -> None:
        """Rule E4, case A86."""
        store = bench.open()
        pair: dict[str, Any] = {"concurrency_key": "shared", "max_concurrency": 5}
        ids = {
            store.enqueue(name, deduplicate_while_queued=True, **pair)
            for name in ("JobA", "JobB")
        }
        assert len(ids) == 2
        assert store.enqueue(
            "JobC", [1], deduplicate_while_queued=True
        ) == store.enqueue("JobC", [1], deduplicate_while_queued=True)

    def test_a_cap_conflict_is_raised_even_with_a_twin(self, bench: Bench) -> None:
        """Rule E4."""
        store = bench.open()
        once(store, 1, concurrency_key="k", max_concurrency=1)
        with bench.unchanged(store, "E4"), pytest.raises(ConcurrencyConflict):
            once(store, 1, concurrency_key="k", max_concurrency=2)

    @requires(Capability.SCHEDULE_KEYS)
    def test_a_job_with_a_schedule_key_is_no_twin(self, bench: Bench) -> None:
        """Rule E4: its owner may cancel it at any time."""
        store = bench.open()
        owner = store.replace_scheduled("nightly", "mail", [1])
        assert once(store, 1) != owner.job_id

    def test_a_job_that_comes_back_does_not_clash_with_its_twin(
        self, bench: Bench
    ) -> None:
        """Rule E4: dedupe acts at enqueue only."""
        store = bench.open()
        first = once(store, 1)
        handoff = held(store, first)
        second = once(store, 1)
        assert store.return_to_queue(first, handoff.handoff_id).accepted
        assert store.counts()[JobStatus.QUEUED] == 2
        assert once(store, 1) == first, "the earliest of both stands for the new one"
        assert second != first

    @requires(Capability.IDEMPOTENCY)
    def test_an_idempotency_key_gives_the_original_in_every_state(
        self, bench: Bench
    ) -> None:
        """Rule E5, case A134."""
        store = bench.open()

        def ask() -> str:
            return store.enqueue("mail", [1], idempotency_key="i")

        first = ask()
        assert ask() == first, "queued"
        handoff = held(store, first)
        assert ask() == first, "handed off"
        store.complete(first, handoff.handoff_id)
        assert ask() == first, "completed"
        assert len(store.list_jobs()) == 1

    @requires(Capability.IDEMPOTENCY, Capability.RETENTION)
    def test_an_idempotency_key_outlives_its_job(self, bench: Bench) -> None:
        """Rule E5, case A134: no row is created for a pruned original."""
        store = bench.open()
        first = store.enqueue("mail", idempotency_key="i")
        store.cancel(first)
        assert store.prune_terminal(cancelled_ttl_ms=0) == 1
        assert store.enqueue("mail", idempotency_key="i") == first
        assert store.list_jobs() == []

    @requires(Capability.IDEMPOTENCY)
    @pytest.mark.parametrize(
        "other",
        [
            {"args": [2]},
            {"max_retries": 10},
            {"priority": 0},
            {"scheduled_at": START_MS},
            {"timeout_ms": 5},
            {"execution_mode": "inline"},
            {"concurrency_key": "k", "max_concurrency": 1},
        ],
    )
    def test_another_request_under_the_key_is_a_conflict(
        self, bench: Bench, other: dict[str, Any]
    ) -> None:
        """Rules E5 and E8: compared as given, so a spelled-out default differs."""
        store = bench.open()
        store.enqueue("mail", [1], idempotency_key="i")
        given: dict[str, Any] = {"args": [1], "idempotency_key": "i", **other}
        with bench.unchanged(store, "E5"), pytest.raises(IdempotencyConflict):
            store.enqueue("mail", **given)

    @requires(Capability.IDEMPOTENCY)
    def test_the_scope_of_a_key_is_name_and_queue(self, bench: Bench) -> None:
        """Rule E5: each has its own original, and keeps it."""
        store = bench.open()
        asked: list[dict[str, Any]] = [
            {"name": "mail", "idempotency_key": "i"},
            {"name": "scan", "idempotency_key": "i"},
            {"name": "mail", "idempotency_key": "i", "queue": "bulk"},
            {"name": "mail", "idempotency_key": "I"},
        ]
        ids = [store.enqueue(**each) for each in asked]
        assert len(set(ids)) == 4
        assert [store.enqueue(**each) for each in asked] == ids

    @requires(Capability.IDEMPOTENCY)
    def test_an_idempotency_key_goes_before_dedupe(self, bench: Bench) -> None:
        """Rules E5 and E8: the dedupe flag is ignored, and not compared."""
        store = bench.open()
        twin = store.enqueue("mail")
        first = store.enqueue(
            "mail", idempotency_key="i", deduplicate_while_queued=True
        )
        assert first != twin
        assert store.enqueue("mail", idempotency_key="i") == first
        assert there(store, first).status is JobStatus.QUEUED
