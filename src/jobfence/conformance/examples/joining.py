"""Rules T1 and T3: calls that join a transaction of the caller's."""

import pytest

from jobfence.conformance.base import SuiteBase
from jobfence.conformance.bench import Bench, held, there
from jobfence.conformance.capabilities import Capability, requires
from jobfence.statemachine.errors import ConcurrencyConflict
from jobfence.statemachine.options import JobRequest
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import Handoff
from jobfence.store.contract import JobStore


class Broken(Exception):
    """What ends the caller's transaction."""


class Joining(SuiteBase):
    """Part of layer (b)."""

    @requires(Capability.AMBIENT_TRANSACTIONS)
    def test_a_joined_call_is_seen_when_the_caller_commits(self, bench: Bench) -> None:
        """Rules T1 and T3: by others, and by whoever waits to be woken."""
        store, other = bench.open(), bench.open()
        woken: list[str] = []
        store.on_commit_wake(lambda: woken.append("woken"))
        with bench.transaction(store) as joined:
            job_id = joined.enqueue("mail", concurrency_key="k", max_concurrency=1)
            assert joined.get(job_id) is not None
            assert other.get(job_id) is None
            assert woken == []
        assert there(other, job_id).status is JobStatus.QUEUED
        assert woken == ["woken"]

    @requires(Capability.AMBIENT_TRANSACTIONS)
    def test_a_joined_call_goes_with_the_callers_transaction(
        self, bench: Bench
    ) -> None:
        """Rules T1 and T3: rolled back, it never was, and wakes nobody."""
        store = bench.open()
        handoff = held(
            store, store.enqueue("mail", concurrency_key="k", max_concurrency=1)
        )
        woken: list[str] = []
        store.on_commit_wake(lambda: woken.append("woken"))
        with bench.unchanged(store, "T1"), pytest.raises(Broken):
            _end_and_roll_back(bench, store, handoff)
        assert woken == []
        assert store.complete(handoff.job.id, handoff.handoff_id).accepted

    @requires(Capability.AMBIENT_TRANSACTIONS)
    def test_a_refused_joined_call_undoes_only_itself(self, bench: Bench) -> None:
        """Rule T1: what the caller did before and does after it is kept."""
        store = bench.open()
        with bench.transaction(store) as joined:
            first = joined.enqueue("mail", concurrency_key="k", max_concurrency=1)
            with pytest.raises(ConcurrencyConflict):
                joined.enqueue_many(
                    [
                        JobRequest("scan"),
                        JobRequest("scan", concurrency_key="k", max_concurrency=2),
                    ]
                )
            second = joined.enqueue("mail")
        assert [job.id for job in store.list_jobs()] == [first, second]


def _end_and_roll_back(bench: Bench, store: JobStore, handoff: Handoff) -> None:
    with bench.transaction(store) as joined:
        joined.enqueue("scan")
        assert joined.complete(handoff.job.id, handoff.handoff_id).accepted
        raise Broken
