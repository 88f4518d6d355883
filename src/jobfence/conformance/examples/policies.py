"""Rules C0, C3, C7, C8 and M13: what a queue's policy does to its jobs, and when."""

from jobfence.conformance.base import SuiteBase
from jobfence.conformance.bench import Bench, held, there
from jobfence.conformance.examples.caps import keyed
from jobfence.statemachine.policy import QueuePolicy
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import Settlement


class Policies(SuiteBase):
    """Part of layer (b)."""

    def test_a_changed_queue_cap_is_no_conflict(self, bench: Bench) -> None:
        """Rule C3, cases A67, F31: adopted by the next claim."""
        old = bench.open(queues={"builds": QueuePolicy(1)})
        old.enqueue("mail", queue="builds")
        store = bench.open(queues={"builds": QueuePolicy(3)})
        job = there(store, store.enqueue("mail", queue="builds"))
        assert job.max_concurrency == 3
        taken = store.claim(5)
        assert len(taken) == 2
        assert {each.job.max_concurrency for each in taken} == {3}

    def test_a_claim_applies_the_policy_of_now(self, bench: Bench) -> None:
        """Rules C8 and M13: key, cap and priority, and returns what is committed."""
        plain = bench.open()
        ids = [plain.enqueue("mail", queue="builds") for _ in range(2)]
        store = bench.open(queues={"builds": QueuePolicy(1, priority=6)})
        (handoff,) = store.claim(5)
        job = handoff.job
        assert job == there(store, ids[0])
        assert (job.concurrency_key, job.max_concurrency) == ("queue:builds", 1)
        assert job.priority == 6

    def test_a_refused_slot_keeps_the_adopted_key(self, bench: Bench) -> None:
        """Rule C8: the one write that a refusal keeps."""
        plain = bench.open()
        ids = [plain.enqueue("mail", queue="builds") for _ in range(2)]
        store = bench.open(queues={"builds": QueuePolicy(1)})
        assert len(store.claim(5)) == 1
        job = there(store, ids[1])
        assert job.status is JobStatus.QUEUED
        assert (job.concurrency_key, job.max_concurrency) == ("queue:builds", 1)

    def test_policies_are_adopted_only_by_claims_and_on_request(
        self, bench: Bench
    ) -> None:
        """Rule C7, cases A73, A76: adopted, changed, released."""
        plain = bench.open()
        job_id = plain.enqueue("mail", queue="builds")
        store = bench.open(queues={"builds": QueuePolicy(2, priority=3)})
        store.ensure_ready()
        assert there(store, job_id).concurrency_key is None
        store.reconcile_queue_policies()
        job = there(store, job_id)
        assert (job.concurrency_key, job.max_concurrency) == ("queue:builds", 2)
        assert job.priority == 3
        bench.open(queues={}).reconcile_queue_policies()
        job = there(store, job_id)
        assert (job.concurrency_key, job.max_concurrency) == (None, None)
        assert job.priority == 0

    def test_a_held_job_keeps_the_key_it_was_claimed_under(self, bench: Bench) -> None:
        """Rule C7: and releases exactly that one."""
        store = bench.open(queues={"builds": QueuePolicy(1)})
        ids = [store.enqueue("mail", queue="builds") for _ in range(2)]
        handoff = held(store, ids[0])
        store.reconcile_queue_policies({"builds": QueuePolicy()})
        assert there(store, ids[0]).concurrency_key == "queue:builds"
        assert there(store, ids[1]).concurrency_key is None
        store.complete(ids[0], handoff.handoff_id)
        store.reconcile_queue_policies({"builds": QueuePolicy(1)})
        assert store.claim_job(ids[1]) is not None

    def test_a_store_without_opinion_goes_by_the_durable_policies(
        self, bench: Bench
    ) -> None:
        """Rule C0: a process without configuration never strips caps."""
        configured = bench.open(queues={"builds": QueuePolicy(1, priority=2)})
        configured.reconcile_queue_policies()
        plain = bench.open()
        ids = [plain.enqueue("mail", queue="builds") for _ in range(2)]
        job = there(plain, ids[0])
        assert (job.concurrency_key, job.max_concurrency) == ("queue:builds", 1)
        assert job.priority == 2
        plain.reconcile_queue_policies()
        assert there(plain, ids[0]).concurrency_key == "queue:builds"
        assert len(plain.claim(5)) == 1

    def test_policies_given_become_the_instance_s_own(self, bench: Bench) -> None:
        """Rule C7: also of one that was opened without any opinion."""
        store = bench.open()
        store.reconcile_queue_policies({"builds": QueuePolicy(1)})
        bench.open(queues={}).reconcile_queue_policies()
        ids = [store.enqueue("mail", queue="builds") for _ in range(2)]
        assert there(store, ids[0]).concurrency_key == "queue:builds"
        assert len(store.claim(5)) == 1
        bench.open(queues={}).reconcile_queue_policies()
        store.reconcile_queue_policies()
        assert there(store, ids[1]).concurrency_key == "queue:builds"

    def test_queues_not_named_are_released_unless_told(self, bench: Bench) -> None:
        """Rule C7: several services on one database."""
        store = bench.open()
        policies = {"a": QueuePolicy(1), "b": QueuePolicy(1)}
        store.reconcile_queue_policies(policies)
        jobs = {queue: store.enqueue("mail", queue=queue) for queue in policies}
        store.reconcile_queue_policies({"a": QueuePolicy(2)}, release_others=False)
        assert there(store, jobs["a"]).max_concurrency == 2
        assert there(store, jobs["b"]).max_concurrency == 1
        store.reconcile_queue_policies({"a": QueuePolicy(2)})
        assert there(store, jobs["b"]).max_concurrency is None

    def test_an_explicit_priority_is_never_touched(self, bench: Bench) -> None:
        """Rule C7."""
        store = bench.open()
        own = store.enqueue("mail", queue="builds", priority=0)
        derived = store.enqueue("mail", queue="builds")
        store.reconcile_queue_policies({"builds": QueuePolicy(priority=9)})
        assert (there(store, own).priority, there(store, derived).priority) == (0, 9)

    def test_a_raised_cap_holds_from_the_next_claim(self, bench: Bench) -> None:
        """Rules C0 and C3: before anybody has reconciled the queue's counter."""
        store = bench.open(queues={"q": QueuePolicy(1)})
        ids = [store.enqueue("mail", [each], queue="q") for each in range(2)]
        assert len(store.claim(2)) == 1
        assert store.next_available() is None
        raised = bench.open(queues={"q": QueuePolicy(2)})
        assert raised.next_available() == there(store, ids[1])
        assert len(raised.claim(2)) == 1

    def test_a_batch_takes_over_each_queue_s_own_policy(self, bench: Bench) -> None:
        """Rules C8 and M13: jobs of two queues, claimed at once."""
        store = bench.open()
        ids = [store.enqueue("mail", queue=queue) for queue in ("a", "b")]
        policies = {"a": QueuePolicy(1, 5), "b": QueuePolicy(2, 7)}
        assert len(bench.open(queues=policies).claim(2)) == 2
        found = [there(store, job_id) for job_id in ids]
        assert [(job.priority, job.max_concurrency) for job in found] == [
            (5, 1),
            (7, 2),
        ]

    def test_a_job_with_a_full_key_takes_nothing_over(self, bench: Bench) -> None:
        """Rules C8 and O1: nobody takes it, so it stays as it is."""
        store = bench.open(queues={"builds": QueuePolicy(2, priority=3)})
        keyed(store, "k", 1)
        assert len(store.claim(1)) == 1
        blocked = bench.open().enqueue(
            "mail", queue="builds", concurrency_key="k", max_concurrency=1
        )
        with bench.unchanged(store, "C8"):
            assert store.claim(5) == []
            assert store.claim_job(blocked) is None

    def test_a_job_whose_key_the_batch_filled_takes_nothing_over(
        self, bench: Bench
    ) -> None:
        """Rules C6 and C8: as if the jobs had been claimed one after another."""
        store = bench.open(queues={"builds": QueuePolicy(2, priority=3)})
        (first,) = keyed(store, "k", 1)
        blocked = bench.open().enqueue(
            "mail", queue="builds", concurrency_key="k", max_concurrency=1
        )
        assert [each.job.id for each in store.claim(5)] == [first]
        assert there(store, blocked).priority == 0

    def test_a_job_whose_counter_has_to_be_made_is_not_passed_over(
        self, bench: Bench
    ) -> None:
        """Rules O1 and C8: nobody holds that counter, so the next in order it is."""
        plain = bench.open()
        first, *_ = keyed(plain, "k", 1, 3)
        later = [plain.enqueue("mail", queue=queue) for queue in ("a", "b")]
        plain.enqueue("mail")
        store = bench.open(queues={"a": QueuePolicy(2), "b": QueuePolicy(2)})
        assert [each.job.id for each in store.claim(3)] == [first, *later]

    def test_nor_is_it_by_a_settlement_that_claims(self, bench: Bench) -> None:
        """Rules O1, C8 and T5: which holds the counter of what it acknowledged."""
        plain = bench.open()
        first, second, _ = keyed(plain, "k", 1, 3)
        later = [plain.enqueue("mail", queue=queue) for queue in ("a", "b")]
        plain.enqueue("mail")
        store = bench.open(queues={"a": QueuePolicy(2), "b": QueuePolicy(2)})
        handoff = held(store, first)
        _, taken = store.settle([Settlement.complete(handoff)], claim=3)
        assert [each.job.id for each in taken] == [second, *later]
