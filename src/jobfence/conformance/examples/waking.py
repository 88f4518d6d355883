"""Rule T3: whoever asked to be called back is, whatever the others do."""

from jobfence.conformance.base import SuiteBase
from jobfence.conformance.bench import Bench
from jobfence.conformance.capabilities import Capability, requires
from jobfence.store.contract import JobStore


def listeners(store: JobStore, calls: list[str]) -> None:
    """Add three, of which the first and the second raise."""

    def raises(name: str) -> None:
        calls.append(name)
        raise RuntimeError(f"the {name} listener of the test's")

    store.on_commit_wake(lambda: raises("first"))
    store.on_commit_wake(lambda: raises("second"))
    store.on_commit_wake(lambda: calls.append("third"))


class Waking(SuiteBase):
    """Part of layer (b)."""

    @requires(Capability.WAKE_UPS)
    def test_every_listener_is_called_though_another_raises(self, bench: Bench) -> None:
        """Rule T3: a further listener takes no other's place."""
        store, calls = bench.open(), list[str]()
        listeners(store, calls)
        store.enqueue("mail")
        assert sorted(calls) == ["first", "second", "third"]
        store.enqueue("mail")
        assert sorted(calls) == ["first", "first", "second", "second", "third", "third"]

    @requires(Capability.WAKE_UPS, Capability.AMBIENT_TRANSACTIONS)
    def test_every_listener_is_called_after_the_callers_commit(
        self, bench: Bench
    ) -> None:
        """Rules T1 and T3."""
        store, calls = bench.open(), list[str]()
        listeners(store, calls)
        with bench.transaction(store) as joined:
            job_id = joined.enqueue("mail")
            assert calls == []
        assert sorted(calls) == ["first", "second", "third"]
        assert [each.job.id for each in store.claim()] == [job_id]
