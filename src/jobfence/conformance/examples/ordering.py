"""Rules O and R2: order, listings and figures."""

from typing import Any

import pytest

from jobfence.conformance.base import SuiteBase
from jobfence.conformance.bench import START_MS, Bench, held
from jobfence.conformance.capabilities import Capability, requires
from jobfence.statemachine.errors import InvalidOption
from jobfence.statemachine.policy import QueuePolicy
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import QueueStats


class Ordering(SuiteBase):
    """Part of layer (b)."""

    def test_a_claim_takes_the_best_first(self, bench: Bench) -> None:
        """Rule O1: priority, then scheduled, then created, then id."""
        store = bench.open()
        bench.clock.set(START_MS + 100)
        created = {
            "e": store.enqueue("mail", [1], scheduled_at=START_MS + 100),
            "d": store.enqueue("mail", [2], scheduled_at=START_MS + 50),
            "a": store.enqueue("mail", [3], priority=2),
            "g": store.enqueue("mail", [4], priority=-1, scheduled_at=0),
            "f": store.enqueue("mail", [5], scheduled_at=START_MS + 100),
            "b": store.enqueue("mail", [6], priority=1, scheduled_at=START_MS),
            "c": store.enqueue("mail", [7], priority=1),
        }
        expected = [created[letter] for letter in "abcdefg"]
        available = store.next_available()
        assert available is not None
        assert available.id == expected[0]
        assert [each.job.id for each in store.claim(2)] == expected[:2]
        assert [each.job.id for each in store.claim(10)] == expected[2:]

    def test_what_is_available_next_is_what_a_claim_takes(self, bench: Bench) -> None:
        """Rule O1: by the same order, whichever part of it decides."""
        store = bench.open()
        bench.clock.set(START_MS + 2)
        for priority, due in ((0, 2), (0, 1), (1, 2), (1, 1)):
            store.enqueue("mail", priority=priority, scheduled_at=START_MS + due)
        bench.clock.set(START_MS + 1)  # created later, and earlier by the clock
        for priority in (0, 1):
            store.enqueue("mail", priority=priority, scheduled_at=START_MS + 1)
        bench.clock.set(START_MS + 2)
        for _ in range(6):
            available = store.next_available()
            (handoff,) = store.claim()
            assert available is not None
            assert handoff.job.id == available.id

    def test_a_queue_s_priority_is_its_jobs(self, bench: Bench) -> None:
        """Rules O1 and C2, cases A68, A70."""
        queues = {"urgent": QueuePolicy(priority=10), "sweep": QueuePolicy(priority=-5)}
        store = bench.open(queues=queues)
        ids = [
            store.enqueue("mail", queue=queue) for queue in ("sweep", "low", "urgent")
        ]
        assert [each.job.id for each in store.claim(3)] == ids[::-1]

    def test_a_recovered_job_keeps_its_place(self, bench: Bench) -> None:
        """Rule O1, case F47: fresh work of a lower priority does not starve it."""
        store = bench.open()
        urgent = store.enqueue("mail", priority=10)
        held(store, urgent)
        bench.clock.advance(60_000)
        store.recover_expired()
        for _ in range(3):
            store.enqueue("mail")
        bench.clock.advance(10_000)
        assert [each.job.id for each in store.claim(1)] == [urgent]

    def test_what_is_due_is_due_to_the_millisecond(self, bench: Bench) -> None:
        """Rules O1 and O2, cases A34, A97, A98."""
        store = bench.open()
        assert store.next_scheduled() is None
        later = store.enqueue("mail", scheduled_at=START_MS + 60_000)
        sooner = store.enqueue("mail", scheduled_at=START_MS + 30_000)
        assert store.next_available() is None
        scheduled = store.next_scheduled()
        assert scheduled is not None
        assert scheduled.id == sooner
        bench.clock.advance(29_999)
        assert store.claim(5) == []
        bench.clock.advance(1)
        assert [each.job.id for each in store.claim(5)] == [sooner]
        scheduled = store.next_scheduled()
        assert scheduled is not None
        assert scheduled.id == later
        bench.clock.advance(30_000)
        assert store.next_scheduled() is None

    def test_next_scheduled_knows_no_priority_and_no_cap(self, bench: Bench) -> None:
        """Rule O2."""
        store = bench.open()
        store.enqueue("mail", priority=9, scheduled_at=START_MS + 9)
        pair: dict[str, Any] = {"concurrency_key": "k", "max_concurrency": 1}
        held(store, store.enqueue("mail", **pair))
        first = store.enqueue("mail", scheduled_at=START_MS + 5, **pair)
        scheduled = store.next_scheduled()
        assert scheduled is not None
        assert scheduled.id == first

    def test_the_next_scheduled_job_is_one_that_waits(self, bench: Bench) -> None:
        """Rule O2: of one moment the first by id; an ended one is none."""
        store, due = bench.open(), START_MS + 60_000
        ids = [store.enqueue("mail", scheduled_at=due) for _ in range(3)]
        found = []
        while (scheduled := store.next_scheduled()) is not None:
            found.append(scheduled.id)
            store.cancel(scheduled.id)
            assert len(found) <= len(ids), "O2: a cancelled job is the next one"
        assert found == sorted(ids)

    def test_a_claim_asks_for_queues_and_modes(self, bench: Bench) -> None:
        """Rule E, C's issue: execution modes and queues as filters."""
        store = bench.open()
        ids = {
            (queue, mode): store.enqueue("mail", queue=queue, execution_mode=mode)
            for queue in ("a", "b")
            for mode in ("inline", "process")
        }
        found = store.next_available(queues=["b"], execution_modes=["process"])
        assert found is not None
        assert found.id == ids["b", "process"]
        assert store.claim(9, queues=[]) == []
        assert store.claim(9, execution_modes=[]) == []
        taken = store.claim(9, queues=["b"], execution_modes=["process"])
        assert [each.job.id for each in taken] == [ids["b", "process"]]
        taken = store.claim(9, queues=["a"])
        assert [each.job.id for each in taken] == [
            ids["a", "inline"],
            ids["a", "process"],
        ]

    @pytest.mark.parametrize("limit", [-1, 10_001, 1.5, True, "1"])
    def test_a_bad_limit_of_a_claim_is_refused(self, bench: Bench, limit: int) -> None:
        """Rule E1: 0 to 10000."""
        store = bench.open()
        store.enqueue("mail")
        with bench.unchanged(store, "E1"), pytest.raises(InvalidOption):
            store.claim(limit)
        assert store.claim(0) == []

    def test_of_one_due_time_the_job_made_first_is_first(self, bench: Bench) -> None:
        """Rules O1 and O2: by the clock that was set back, and not by the id."""
        store, due = bench.open(), START_MS + 60_000
        second = store.enqueue("mail", scheduled_at=due)
        bench.clock.advance(-10)
        first = store.enqueue("mail", scheduled_at=due)
        scheduled = store.next_scheduled()
        assert scheduled is not None
        assert scheduled.id == first
        bench.clock.set(due)
        assert [each.job.id for each in store.claim(2)] == [first, second]

    def test_pages_of_a_listing_leave_nothing_out(self, bench: Bench) -> None:
        """Rule O2: several jobs of one moment, and a clock that was set back."""
        store = bench.open()
        later = [store.enqueue("mail") for _ in range(3)]
        bench.clock.advance(-10)
        earlier = [store.enqueue("mail") for _ in range(3)]
        expected, seen = [*earlier, *later], list[str]()
        assert [job.id for job in store.list_jobs()] == expected
        while page := store.list_jobs(limit=1, after=seen[-1] if seen else None):
            seen += [job.id for job in page]
            assert len(seen) <= len(expected), f"O2: listed again: {seen}"
        assert seen == expected

    def test_a_listing_has_filters_and_a_cursor(self, bench: Bench) -> None:
        """Rule O2: created, then id."""
        store = bench.open()
        ids = []
        for number in range(6):
            queue = "a" if number % 2 else "b"
            ids.append(store.enqueue("mail" if number < 3 else "scan", queue=queue))
            bench.clock.advance(number % 2)
        assert [job.id for job in store.list_jobs()] == ids
        page = store.list_jobs(limit=2)
        assert [job.id for job in page] == ids[:2]
        assert [job.id for job in store.list_jobs(after=page[-1])] == ids[2:]
        assert [job.id for job in store.list_jobs(after=ids[3])] == ids[4:]
        assert [job.id for job in store.list_jobs(name="scan")] == ids[3:]
        assert [job.id for job in store.list_jobs(name="scan", after=ids[3])] == ids[4:]
        assert [job.id for job in store.list_jobs(queue="a", limit=1)] == [ids[1]]
        held(store, ids[4])
        found = store.list_jobs(status=JobStatus.HANDED_OFF)
        assert [job.id for job in found] == [ids[4]]

    @pytest.mark.parametrize("limit", [0, -1, 10_001, True])
    def test_a_bad_limit_of_a_listing_is_refused(
        self, bench: Bench, limit: int
    ) -> None:
        """Rule O2."""
        with pytest.raises(InvalidOption):
            bench.open().list_jobs(limit=limit)

    def test_counts_name_every_status(self, bench: Bench) -> None:
        """Rule R2."""
        store = bench.open()
        assert dict(store.counts()) == dict.fromkeys(JobStatus, 0)
        ids = [store.enqueue("mail", max_retries=0) for _ in range(5)]
        store.complete(ids[0], held(store, ids[0]).handoff_id)
        store.fail(ids[1], held(store, ids[1]).handoff_id, "no")
        store.cancel(ids[2])
        held(store, ids[3])
        assert dict(store.counts()) == dict.fromkeys(JobStatus, 1)

    @requires(Capability.QUEUE_STATS)
    def test_queues_have_figures(self, bench: Bench) -> None:
        """Rule R2: every queue with jobs or a policy, by name."""
        store = bench.open()
        store.reconcile_queue_policies({"b": QueuePolicy(4), "idle": QueuePolicy(1)})
        store.enqueue("mail", queue="b")
        store.enqueue("mail", queue="b", scheduled_at=START_MS + 10**6)
        held(store, store.enqueue("mail", queue="a"))
        store.enqueue("mail", queue="not yet", scheduled_at=START_MS + 10**6)
        bench.clock.advance(250)
        none = dict.fromkeys(JobStatus, 0)
        assert store.queue_stats() == [
            QueueStats("a", {**none, JobStatus.HANDED_OFF: 1}, False, None, 1, None),
            QueueStats("b", {**none, JobStatus.QUEUED: 2}, False, 4, 0, 250),
            QueueStats("idle", none, False, 1, 0, None),
            QueueStats("not yet", {**none, JobStatus.QUEUED: 1}, False, None, 0, None),
        ]
