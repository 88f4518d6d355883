"""
What only calls at once get wrong: a look and a write with another's write in between.

Threads on two instances of one data, begun together. A race is not the same in every
run; each has many calls, so that a store without atomicity hardly ever gets through.
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import partial
from operator import methodcaller

import pytest

from jobfence.conformance.base import SuiteBase
from jobfence.conformance.bench import LEASE_MS, Bench, held, there
from jobfence.conformance.capabilities import Capability, requires
from jobfence.conformance.threads import THREADS, race
from jobfence.statemachine.options import JobRequest
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import Ack, Cancellation, CancelOutcome, Handoff, Job
from jobfence.store.contract import JobStore

JOBS = 40
ROUNDS = 5


def claim_all(store: JobStore, verb: str = "claim") -> list[Handoff]:
    """Claim one by one until nothing is left, or far more than there is was given."""
    found: list[Handoff] = []
    while len(found) <= JOBS and (more := _claim_one(store, verb)):
        found += more
    return found


def _claim_one(store: JobStore, verb: str) -> list[Handoff]:
    """Claim by itself, or as workers do."""
    return store.claim(1) if verb == "claim" else store.settle([], claim=1)[1]


class Racing(SuiteBase):
    """Part of layer (b)."""

    @pytest.mark.parametrize("verb", ["claim", "settle"])
    def test_no_job_is_claimed_by_two_at_once(self, bench: Bench, verb: str) -> None:
        """Rules M2, M16, T5: every job is handed off, and each to one caller."""
        stores = bench.open(), bench.open()
        ids = stores[0].enqueue_many([JobRequest("mail", [n]) for n in range(JOBS)])
        taken = [each.job.id for each in _claimed(stores, verb)]
        twice = _repeated(taken)
        assert not twice, (
            f"M2: {len(twice)} of {JOBS} jobs were handed to two callers at once"
        )
        assert sorted(taken) == sorted(ids), "M2: not every job was handed off"

    @pytest.mark.parametrize("verb", ["claim", "settle"])
    def test_no_cap_is_exceeded_at_once(self, bench: Bench, verb: str) -> None:
        """Rules C4, C5, T5: a slot is checked and taken in one step."""
        stores = bench.open(), bench.open()
        for number in range(JOBS):
            key = f"k{number % ROUNDS}"
            stores[0].enqueue("mail", concurrency_key=key, max_concurrency=1)
        taken = _claimed(stores, verb)
        over = _repeated([each.job.concurrency_key for each in taken])
        assert not over, (
            f"C4: {len(over)} of {ROUNDS} keys with a cap of 1 were given more slots "
            "by calls at once"
        )
        assert len(taken) == ROUNDS, f"C4: {len(taken)} of {ROUNDS} free slots taken"

    def test_every_job_enqueued_at_once_is_kept(self, bench: Bench) -> None:
        """Rules E6, C3: no call writes over another's, nor makes a counter anew."""
        stores = bench.open(), bench.open()

        def enqueue_some(store: JobStore) -> list[str]:
            return [
                store.enqueue("mail", concurrency_key=f"k{n}", max_concurrency=1)
                for n in range(ROUNDS)
            ]

        ids = [each for found in race(stores, enqueue_some) for each in found]
        assert not _repeated(ids), "E7: two jobs were given one id"
        stored = {job.id for job in stores[1].list_jobs()}
        lost = set(ids) - stored
        assert not lost, f"E6: {len(lost)} of {len(ids)} jobs enqueued at once are lost"
        assert stored == set(ids), "E6: there are jobs that no call enqueued"

    def test_one_dedupe_identity_at_once_gives_one_job(self, bench: Bench) -> None:
        """Rule E4: the twin is looked for and the job written in one step."""
        self._check_one_job(
            bench,
            "E4: callers at once with one dedupe identity",
            deduplicate_while_queued=True,
        )

    @requires(Capability.IDEMPOTENCY)
    def test_one_idempotency_key_at_once_gives_one_job(self, bench: Bench) -> None:
        """Rule E5: all callers get the same job."""
        self._check_one_job(
            bench,
            "E5: callers at once with one idempotency key",
            idempotency_key="i",
        )

    def _check_one_job(self, bench: Bench, told: str, **options: object) -> None:
        stores = bench.open(), bench.open()
        for number in range(ROUNDS):
            name = f"round {number}"
            ids = set(race(stores, methodcaller("enqueue", name, **options)))
            assert len(ids) == 1, f"{told} got {len(ids)} jobs"
            stored = [job.id for job in stores[1].list_jobs(name=name)]
            assert stored == [*ids], f"{told} left {len(stored)} jobs"

    def test_one_acknowledgement_of_several_at_once_is_accepted(
        self, bench: Bench
    ) -> None:
        """Rule M18: the handoff id is compared in the write itself."""
        stores = bench.open(), bench.open()
        for number in range(ROUNDS):
            job_id = stores[0].enqueue("mail", concurrency_key="k", max_concurrency=9)
            handoff_id = held(stores[0], job_id).handoff_id
            verb = ("complete", "return_to_queue")[number % 2]
            answers = race(stores, methodcaller(verb, job_id, handoff_id))
            accepted = sum(ack.accepted for ack in answers)
            assert accepted == 1, (
                f"M18: {accepted} of {THREADS} times {verb} at once were accepted"
            )
            assert there(stores[1], job_id).status is not JobStatus.HANDED_OFF

    def test_each_expired_job_is_recovered_once_at_once(self, bench: Bench) -> None:
        """Rules L4, M8: any number may recover; the handoff read is the one ended."""
        stores = bench.open(), bench.open()
        request = JobRequest("mail", concurrency_key="k", max_concurrency=JOBS)
        ids = stores[0].enqueue_many([request] * JOBS)
        assert len(stores[0].claim(JOBS)) == JOBS
        bench.clock.advance(LEASE_MS)
        found = [job.id for jobs in race(stores, recover_all) for job in jobs]
        found += [job.id for job in recover_all(stores[0])]
        twice = _repeated(found)
        assert not twice, (
            f"L4: {len(twice)} of {JOBS} jobs were recovered by two callers at once"
        )
        assert sorted(found) == sorted(ids), "L4: not every expired job was recovered"
        attempts = {job.attempts for job in stores[1].list_jobs()}
        assert attempts == {1}, "M8: a recovery is one attempt"

    def test_a_job_is_completed_or_recovered_at_once_and_never_both(
        self, bench: Bench
    ) -> None:
        """Rules M8, M18: who comes second changes nothing."""
        stores = bench.open(), bench.open()
        for number in range(ROUNDS):
            job_id = stores[0].enqueue("mail", concurrency_key="k", max_concurrency=9)
            handoff_id = held(stores[0], job_id).handoff_id
            bench.clock.advance(LEASE_MS)
            complete = methodcaller("complete", job_id, handoff_id)
            answers = race(stores, *_in_turn(number, complete, recover_all))
            acks = [each for each in answers if isinstance(each, Ack)]
            completed = sum(ack.accepted for ack in acks)
            recovered = sum(len(each) for each in answers if isinstance(each, list))
            assert completed + recovered == 1, (
                f"M8: of calls at once {completed} completed and {recovered} recovered "
                "one job"
            )
            job = there(stores[1], job_id)
            expected = JobStatus.COMPLETED if completed else JobStatus.QUEUED
            assert (job.status, job.attempts) == (expected, recovered), (
                f"M8: {job.status} after calls at once, of which one was told {expected}"
            )

    def test_a_job_is_cancelled_or_claimed_at_once_and_never_both(
        self, bench: Bench
    ) -> None:
        """Rules M9, R3: what was told to be cancelled is handed to nobody."""
        stores = bench.open(), bench.open()
        for number in range(ROUNDS):
            job_id = stores[0].enqueue("mail")
            cancel, claim = methodcaller("cancel", job_id), methodcaller("claim", 1)
            answers = race(stores, *_in_turn(number, cancel, claim))
            claimed = sum(len(each) for each in answers if isinstance(each, list))
            cancelled = sum(
                each.outcome is CancelOutcome.CANCELLED
                for each in answers
                if isinstance(each, Cancellation)
            )
            assert claimed + cancelled == 1, (
                f"M9: of calls at once {cancelled} cancelled and {claimed} claimed "
                "one job"
            )
            job = there(stores[1], job_id)
            expected = JobStatus.CANCELLED if cancelled else JobStatus.HANDED_OFF
            assert job.status is expected, (
                f"M9: {job.status} after calls at once, of which one was told {expected}"
            )

    @requires(Capability.SCHEDULE_KEYS)
    def test_one_of_several_replacements_at_once_owns_the_key(
        self, bench: Bench
    ) -> None:
        """Rules K1, K3: all but the last are cancelled, and no order is used twice."""
        stores = bench.open(), bench.open()
        for number in range(ROUNDS):
            key = f"key {number}"
            race(stores, methodcaller("replace_scheduled", key, "mail"))
            jobs = [job for job in stores[1].list_jobs() if job.schedule_key == key]
            assert len(jobs) == THREADS, (
                f"K1: {len(jobs)} of {THREADS} replacements at once are kept"
            )
            queued = [job for job in jobs if job.status is JobStatus.QUEUED]
            assert len(queued) == 1, (
                f"K1: after replacements at once {len(queued)} jobs are queued"
            )
            assert stores[0].scheduled_job(key).current == queued[0], (
                "K1: after replacements at once the owner is not the job that is queued"
            )
            twice = _repeated([job.schedule_order for job in jobs])
            assert not twice, f"K3: replacements at once share the order {twice[0]}"


def _claimed(stores: Sequence[JobStore], verb: str) -> list[Handoff]:
    """Have all claim at once, then one alone what they left to each other."""
    claim = partial(claim_all, verb=verb)
    return [each for taken in race(stores, claim) for each in taken] + claim(stores[0])


def _in_turn(
    number: int, *works: Callable[[JobStore], object]
) -> tuple[Callable[[JobStore], object], ...]:
    """Let another work begin, on the other instance, in every second round."""
    return works if number % 2 else works[::-1]


def recover_all(store: JobStore) -> list[Job]:
    """Recover a few at a time until nothing is left, or far more than there is was."""
    found: list[Job] = []
    while len(found) <= JOBS and (more := store.recover_expired(limit=ROUNDS)):
        found += more
    return found


def _repeated(values: Collection[object]) -> list[object]:
    return [value for value, times in Counter(values).items() if times > 1]
