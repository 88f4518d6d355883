"""Rule L2: one worker at a time has the data alone."""

from itertools import count
from typing import cast

import pytest

from jobfence.conformance.base import SuiteBase
from jobfence.conformance.bench import Bench, held
from jobfence.conformance.capabilities import Capability, requires
from jobfence.conformance.threads import THREADS, race
from jobfence.statemachine.errors import InvalidOption
from jobfence.store.contract import JobStore, OwnershipStore

ROUNDS = 5
TTL_MS = 100


def owning(store: JobStore) -> OwnershipStore:
    """Return it as what it is where the capability is declared."""
    return cast("OwnershipStore", store)


class Owning(SuiteBase):
    """Part of layer (b)."""

    @requires(Capability.OWNERSHIP)
    def test_one_worker_owns_the_data_until_its_time_is_over(
        self, bench: Bench
    ) -> None:
        """Rule L2: for another instance too; the end is inclusive, as a lease's is."""
        store, other = owning(bench.open()), owning(bench.open())
        assert store.acquire_ownership("w1", ttl_ms=TTL_MS)
        bench.clock.advance(TTL_MS - 1)
        for each in (store, other):
            assert not each.acquire_ownership("w2", ttl_ms=TTL_MS)
        bench.clock.advance(1)
        assert other.acquire_ownership("w2", ttl_ms=TTL_MS)
        assert not store.acquire_ownership("w1", ttl_ms=TTL_MS)

    @requires(Capability.OWNERSHIP)
    def test_ownership_is_renewed_from_now(self, bench: Bench) -> None:
        """Rule L2: for as long as was said last, and by its owner only."""
        store = owning(bench.open())
        assert store.acquire_ownership("w1", ttl_ms=TTL_MS)
        bench.clock.advance(TTL_MS // 2)
        assert not store.acquire_ownership("w2", ttl_ms=10 * TTL_MS)
        assert store.acquire_ownership("w1", ttl_ms=TTL_MS)
        bench.clock.advance(TTL_MS - 1)
        assert not store.acquire_ownership("w2", ttl_ms=TTL_MS)
        assert store.acquire_ownership("w1", ttl_ms=1)
        bench.clock.advance(1)
        assert store.acquire_ownership("w2", ttl_ms=TTL_MS)

    @requires(Capability.OWNERSHIP)
    def test_only_its_owner_lets_go_of_the_data(self, bench: Bench) -> None:
        """Rule L2: what another releases stays owned; names are compared exactly."""
        store, other = owning(bench.open()), owning(bench.open())
        store.release_ownership("w1")  # nobody's yet
        assert store.acquire_ownership("w1", ttl_ms=TTL_MS)
        for name in ("w2", "W1", "w1 "):
            other.release_ownership(name)
            assert not other.acquire_ownership(name, ttl_ms=TTL_MS)
        other.release_ownership("w1")
        assert store.acquire_ownership("w2", ttl_ms=TTL_MS)
        store.release_ownership("w1")
        assert not store.acquire_ownership("w1", ttl_ms=TTL_MS)

    @requires(Capability.OWNERSHIP)
    def test_ownership_touches_no_job(self, bench: Bench) -> None:
        """Rule L2: whoever owns the data recovers by a call of its own."""
        store = bench.open()
        held(store, store.enqueue("mail"))
        store.enqueue("mail")
        with bench.unchanged(store, "L2"):
            assert owning(store).acquire_ownership("w1", ttl_ms=TTL_MS)
            assert not owning(store).acquire_ownership("w2", ttl_ms=TTL_MS)
            owning(store).release_ownership("w1")
            assert owning(store).acquire_ownership("w2", ttl_ms=TTL_MS)

    @pytest.mark.parametrize(
        ("worker", "ttl_ms"),
        [("", TTL_MS), ("w\0", TTL_MS), ("w", 0), ("w", True), ("w", 1.5)],
    )
    @requires(Capability.OWNERSHIP)
    def test_a_bad_owner_or_time_is_refused(
        self, bench: Bench, worker: str, ttl_ms: int
    ) -> None:
        """Rules L2 and E1: then nobody owns the data."""
        store = owning(bench.open())
        with pytest.raises(InvalidOption):
            store.acquire_ownership(worker, ttl_ms=ttl_ms)
        assert store.acquire_ownership("another", ttl_ms=1)

    @requires(Capability.OWNERSHIP)
    def test_of_many_workers_at_once_one_owns_the_data(self, bench: Bench) -> None:
        """Rule L2: it is looked for and taken in one step."""
        stores = bench.open(), bench.open()
        names = count()

        def acquire(store: JobStore) -> bool:
            return owning(store).acquire_ownership(f"w{next(names)}", ttl_ms=TTL_MS)

        for _ in range(ROUNDS):
            answers = race(stores, acquire)
            assert answers.count(True) == 1, (
                f"L2: of {THREADS} workers at once {answers.count(True)} own the data"
            )
            bench.clock.advance(TTL_MS)
