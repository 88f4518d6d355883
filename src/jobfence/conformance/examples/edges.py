"""Rules E1 and M19: text that is nearly the same, and text as long as it may be."""

from typing import Any

import pytest

from jobfence.conformance.base import SuiteBase
from jobfence.conformance.bench import Bench, held, there
from jobfence.conformance.capabilities import Capability, requires
from jobfence.statemachine.policy import QueuePolicy

# One byte and four bytes in UTF-8, where a column may count either.
CHARACTERS = ["x", "\N{GRINNING FACE}"]


def alike(character: str) -> tuple[str, str]:
    """Return two texts of 255 characters that differ in the last one."""
    return character * 254 + "a", character * 254 + "b"


class Edges(SuiteBase):
    """Part of layer (b)."""

    def test_queues_are_compared_byte_by_byte(self, bench: Bench) -> None:
        """Rule E1: "q" and "Q" are two, with their policies and in every filter."""
        store = bench.open(queues={"q": QueuePolicy(1, priority=3)})
        names = ("q", "Q", "q\N{COMBINING ACUTE ACCENT}")
        ids = {name: store.enqueue("mail", queue=name) for name in names}
        for name, job_id in ids.items():
            job = there(store, job_id)
            assert (job.queue, job.priority) == (name, 3 if name == "q" else 0)
            assert store.list_jobs(queue=name) == [job]
            assert store.next_available(queues=[name]) == job
        for name in reversed(names):
            handoffs = store.claim(9, queues=[name])
            assert [each.job.id for each in handoffs] == [ids[name]]

    def test_handoff_ids_are_compared_byte_by_byte(self, bench: Bench) -> None:
        """Rules E1 and M19: "mine", "MINE" and "mine " are three."""
        store = bench.open()
        names = ("mine", "MINE", "mine ", "m\N{LATIN SMALL LETTER I WITH ACUTE}ne")
        ids = [store.enqueue("mail") for _ in names]
        for job_id, name in zip(ids, names, strict=True):
            assert held(store, job_id, name).handoff_id == name
        for other in names[1:]:
            with bench.unchanged(store, "M18"):
                assert store.complete(ids[0], other).stale
                assert store.claim_job(ids[0], handoff_id="mine") is not None
        for job_id, name in zip(ids, names, strict=True):
            assert store.complete(job_id, name).accepted

    @pytest.mark.parametrize("character", CHARACTERS)
    def test_names_queues_and_keys_of_full_length_are_kept(
        self, bench: Bench, character: str
    ) -> None:
        """Rule E1: 255 characters, whatever they are; the last one counts."""
        store = bench.open()
        texts = alike(character)
        ids = [
            store.enqueue(each, queue=each, concurrency_key=each, max_concurrency=1)
            for each in texts
        ]
        for text, job_id in zip(texts, ids, strict=True):
            job = there(store, job_id)
            assert (job.name, job.queue, job.concurrency_key) == (text, text, text)
            assert store.list_jobs(name=text) == [job]
            assert store.list_jobs(queue=text) == [job]
        for text, job_id in zip(texts, ids, strict=True):
            assert [each.job.id for each in store.claim(9, queues=[text])] == [job_id]

    @pytest.mark.parametrize("character", CHARACTERS)
    def test_workers_and_handoff_ids_of_full_length_are_kept(
        self, bench: Bench, character: str
    ) -> None:
        """Rules E1 and M19: 255 characters; the last one counts."""
        store = bench.open()
        one, other = alike(character)
        taken = []
        for each in (one, other):
            job_id = store.enqueue("mail")
            handoff = store.claim_job(job_id, worker_id=each, handoff_id=each)
            assert handoff is not None
            job = there(store, job_id)
            assert (job.worker_id, job.handoff_id) == (each, each)
            taken.append(handoff)
        assert store.handoffs_for_worker(one) == taken[:1]
        assert store.handoffs_for_worker(other) == taken[1:]
        assert store.complete(taken[0].job.id, other).stale
        assert store.complete(taken[0].job.id, one).accepted

    @pytest.mark.parametrize("character", CHARACTERS)
    def test_caps_of_queues_with_long_names_are_apart(
        self, bench: Bench, character: str
    ) -> None:
        """Rules C2 and E1: a key made from a queue's name is longer than the name."""
        texts = alike(character)
        store = bench.open(queues=dict.fromkeys(texts, QueuePolicy(1)))
        store.reconcile_queue_policies()
        for each in (*texts, *texts):
            store.enqueue("mail", queue=each)
        taken = store.claim(9)
        assert [each.job.queue for each in taken] == [*texts]
        keys = [each.job.concurrency_key for each in taken]
        assert keys == [f"queue:{each}" for each in texts]

    @requires(Capability.SCHEDULE_KEYS)
    @pytest.mark.parametrize("character", CHARACTERS)
    def test_schedule_keys_of_full_length_are_apart(
        self, bench: Bench, character: str
    ) -> None:
        """Rules K and E1: 255 characters; the last one counts."""
        store = bench.open()
        texts = alike(character)
        owners = [store.replace_scheduled(each, "mail") for each in texts]
        for text, owner in zip(texts, owners, strict=True):
            assert owner.previous_job_id is None
            job = store.scheduled_job(text).current
            assert job is not None
            assert job == there(store, owner.job_id)
            assert job.schedule_key == text

    @requires(Capability.IDEMPOTENCY)
    @pytest.mark.parametrize("character", CHARACTERS)
    def test_idempotency_keys_of_full_length_are_apart(
        self, bench: Bench, character: str
    ) -> None:
        """Rules E5 and E1: also beside a name and a queue as long."""
        store = bench.open()
        one, other = alike(character)
        asked: list[dict[str, Any]] = [
            {"name": name, "queue": queue, "idempotency_key": key}
            for name in (one, other)
            for queue in (one, other)
            for key in (one, other)
        ]
        ids = [store.enqueue(**each) for each in asked]
        assert len(set(ids)) == len(asked)
        assert [store.enqueue(**each) for each in asked] == ids
