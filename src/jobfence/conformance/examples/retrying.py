"""Rules B1 and B2: what a retry policy answers is not trusted; and the last attempt."""

from collections.abc import Callable

import pytest

from jobfence.conformance.base import SuiteBase
from jobfence.conformance.bench import LEASE_MS, Bench, held, there
from jobfence.conformance.capabilities import Capability, requires
from jobfence.statemachine.checks import LAST_MS
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import Job, Settlement
from jobfence.store.contract import JobStore

FIRST_WAIT_MS = 10_000  # of rule B1
# What a policy answers, and when a job that failed at the time 0 runs again.
ANSWERS: list[tuple[object, int]] = [
    (ValueError, FIRST_WAIT_MS),
    (None, FIRST_WAIT_MS),
    ("soon", FIRST_WAIT_MS),
    (float("nan"), FIRST_WAIT_MS),
    (float("inf"), FIRST_WAIT_MS),
    (-5, 0),
    (-(2**70), 0),
    (2**70, LAST_MS),
    (7, 7),
]


class Answering:
    """A retry policy that answers anything; an error it raises."""

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def delay_ms(self, failures: int) -> int:  # noqa: ARG002  a policy's
        """Return the answer, whatever it is."""
        if isinstance(self.answer, type):
            raise self.answer("no idea")
        return self.answer  # type: ignore[return-value]  # on purpose


def _failed(store: JobStore, job_id: str, handoff_id: str) -> Job | None:
    return store.fail(job_id, handoff_id, "no").job


def _settled(store: JobStore, job_id: str, handoff_id: str) -> Job | None:
    handoff = store.claim_job(job_id, handoff_id=handoff_id)  # the same one again
    assert handoff is not None
    (ack,), _ = store.settle([Settlement.fail(handoff, "no")])
    return ack.job


def _recovered(store: JobStore, job_id: str, handoff_id: str) -> Job | None:  # noqa: ARG001  alike
    (job,) = store.recover_expired()
    return job


def _all_recovered(store: JobStore, job_id: str, handoff_id: str) -> Job | None:  # noqa: ARG001  alike
    (job,) = store.recover_handed_off()
    return job


WAYS: dict[str, Callable[[JobStore, str, str], Job | None]] = {
    "fail": _failed,
    "settle": _settled,
    "recover_expired": _recovered,
    "recover_handed_off": _all_recovered,
}


class Retrying(SuiteBase):
    """Part of layer (b)."""

    @pytest.mark.parametrize("way", [*WAYS])
    @pytest.mark.parametrize(("answer", "wait_ms"), ANSWERS)
    def test_what_a_retry_policy_answers_is_kept_within_bounds(
        self, bench: Bench, answer: object, wait_ms: int, way: str
    ) -> None:
        """Rule B1: no answer stops a failure from being recorded; none is B1's wait."""
        store = bench.open(retry_policy=Answering(answer))
        job_id = store.enqueue("mail", concurrency_key="k", max_concurrency=1)
        handoff_id = held(store, job_id).handoff_id
        bench.clock.advance(LEASE_MS)
        job = WAYS[way](store, job_id, handoff_id)
        assert job is not None
        assert job == there(store, job_id)
        assert (job.status, job.attempts) == (JobStatus.QUEUED, 1)
        expected = min(bench.clock.now_ms() + wait_ms, LAST_MS)
        assert job.scheduled_at_ms == expected

    @pytest.mark.parametrize("way", WAYS)
    def test_at_its_last_attempt_a_job_fails_although_it_was_asked_to_stop(
        self, bench: Bench, way: str
    ) -> None:
        """Rules M5, M8, M15: only one that would go back is cancelled instead."""
        store = bench.open()
        job_id = store.enqueue("mail", max_retries=0)
        handoff = held(store, job_id)
        store.cancel(job_id)
        bench.clock.advance(LEASE_MS)
        job = WAYS[way](store, job_id, handoff.handoff_id)
        assert job is not None
        assert (job.status, job.attempts) == (JobStatus.FAILED, 1)
        assert (job.failed_at_ms, job.cancelled_at_ms) == (bench.clock.now_ms(), None)

    @pytest.mark.parametrize("way", ["recover_expired", "recover_handed_off"])
    @requires(Capability.MAX_HANDOFFS)
    def test_attempts_are_spent_before_handoffs_are(
        self, bench: Bench, way: str
    ) -> None:
        """Rules M7b, M8: and the error is the one of an attempt that was interrupted."""
        store = bench.open(max_handoffs=1)
        job_id = store.enqueue("mail", max_retries=0)
        handoff = held(store, job_id)
        bench.clock.advance(LEASE_MS)
        job = WAYS[way](store, job_id, handoff.handoff_id)
        assert job is not None
        assert (job.status, job.attempts) == (JobStatus.FAILED, 1)
        assert "max_handoffs" not in (job.last_error or "")
