"""
What only calls at once get wrong: a look and a write with another's write in between.

Threads on two instances of one data, begun together. A race is not the same in every
run; each has many calls, so that a store without atomicity hardly ever gets through.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from operator import methodcaller

from jobfence.conformance.base import SuiteBase
from jobfence.conformance.bench import Bench, held, there
from jobfence.conformance.capabilities import Capability, requires
from jobfence.conformance.threads import THREADS, race
from jobfence.statemachine.options import JobRequest
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import Handoff
from jobfence.store.contract import JobStore

JOBS = 40
ROUNDS = 5


def claim_all(store: JobStore) -> list[Handoff]:
    """Claim one by one until nothing is left, or far more than there is was given."""
    found: list[Handoff] = []
    while len(found) <= JOBS and (more := store.claim(1)):
        found += more
    return found


class Racing(SuiteBase):
    """Part of layer (b)."""

    def test_no_job_is_claimed_by_two_at_once(self, bench: Bench) -> None:
        """Rules M2, M16: every job is handed off, and each to one caller."""
        stores = bench.open(), bench.open()
        ids = stores[0].enqueue_many([JobRequest("mail", [n]) for n in range(JOBS)])
        taken = [each.job.id for each in _claimed(stores)]
        twice = _repeated(taken)
        assert not twice, (
            f"M2: {len(twice)} of {JOBS} jobs were handed to two callers at once"
        )
        assert sorted(taken) == sorted(ids), "M2: not every job was handed off"

    def test_no_cap_is_exceeded_at_once(self, bench: Bench) -> None:
        """Rules C4, C5: a slot is checked and taken in one step."""
        stores = bench.open(), bench.open()
        for number in range(JOBS):
            key = f"k{number % ROUNDS}"
            stores[0].enqueue("mail", concurrency_key=key, max_concurrency=1)
        taken = _claimed(stores)
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


def _claimed(stores: Sequence[JobStore]) -> list[Handoff]:
    """Have all claim at once, then one alone what they left to each other."""
    found = [each for taken in race(stores, claim_all) for each in taken]
    return found + claim_all(stores[0])


def _repeated(values: Collection[object]) -> list[object]:
    return [value for value, times in Counter(values).items() if times > 1]
