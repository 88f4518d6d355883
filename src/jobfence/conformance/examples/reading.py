"""Rules O2, M11 and M21: no job is passed over by a cursor or behind damaged rows."""

from typing import Any

from jobfence.conformance.base import SuiteBase
from jobfence.conformance.bench import Bench, there
from jobfence.conformance.capabilities import Capability, requires


class Reading(SuiteBase):
    """Part of layer (b)."""

    @requires(Capability.RETENTION)
    def test_a_listing_goes_on_behind_a_job_that_was_pruned(self, bench: Bench) -> None:
        """Rule O2: its place in the order stays known."""
        store = bench.open()
        ids = [store.enqueue("mail") for _ in range(3)]
        last_seen = there(store, ids[1])
        store.cancel(ids[1])
        assert store.prune_terminal(cancelled_ttl_ms=0) == 1
        assert [job.id for job in store.list_jobs(after=last_seen)] == ids[2:]

    def test_unreadable_rows_fill_no_page(self, bench: Bench) -> None:
        """Rules M21 and O2: a page that is not full is the last one."""
        store = bench.open()
        ids = [store.enqueue("mail") for _ in range(5)]
        for each in (*ids[:2], ids[3]):
            bench.backdoor.damage(each)
        page = store.list_jobs(limit=1)
        assert [job.id for job in page] == [ids[2]]
        assert [job.id for job in store.list_jobs(limit=1, after=page[0])] == ids[4:]
        assert [job.id for job in store.list_jobs(limit=2)] == [ids[2], ids[4]]

    def test_unreadable_rows_use_up_no_limit_of_a_claim(self, bench: Bench) -> None:
        """Rules M11 and M21: one job is asked for, and one is there."""
        store = bench.open()
        ids = [store.enqueue("mail") for _ in range(5)]
        for each in (*ids[:2], ids[3]):
            bench.backdoor.damage(each)
        assert [each.job.id for each in store.claim(1)] == [ids[2]]
        assert [each.job.id for each in store.claim(1)] == [ids[4]]

    def test_unreadable_rows_use_up_no_slot(self, bench: Bench) -> None:
        """Rules M11 and C6."""
        store = bench.open()
        pair: dict[str, Any] = {"concurrency_key": "k", "max_concurrency": 1}
        ids = [store.enqueue("mail", **pair) for _ in range(3)]
        bench.backdoor.damage(ids[0])
        assert [each.job.id for each in store.claim(3)] == [ids[1]]
