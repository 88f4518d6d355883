"""The bench a test works at: a manual clock, and stores on one namespace of data."""

from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol, cast

import pytest

from jobfence.conformance.blocking import at_once, blocking
from jobfence.conformance.picture import Picture, audit, differences, take
from jobfence.statemachine.clock import ManualClock
from jobfence.statemachine.policy import QueuePolicy
from jobfence.statemachine.retry import RetryPolicy, SteppedRetry
from jobfence.statemachine.values import Handoff, Job
from jobfence.store.contract import JobStore, TransactionalStore

START_MS = 1_000
LEASE_MS = 60_000


class StoreFactory(Protocol):
    """What an adapter author writes: `open_store`."""

    def __call__(
        self,
        namespace: str,
        *,
        clock: ManualClock,
        queues: Mapping[str, QueuePolicy] | None,
        lease_ms: int | None,
        retry_policy: RetryPolicy,
        max_handoffs: int | None = None,
    ) -> JobStore:
        """Open a store; the same namespace again is the same data."""
        ...


class Backdoor(Protocol):
    """
    Ways past the store into its data, for damage that the contract cannot do.

    Optional: without one, the tests of repair and of unreadable rows are skipped.
    """

    def counters(self) -> Mapping[str, tuple[int, int]]:
        """Return (cap, active) for every concurrency key that has a counter."""
        ...

    def set_active(self, concurrency_key: str, active: int) -> None:
        """Make a counter wrong."""
        ...

    def drop_counter(self, concurrency_key: str) -> None:
        """Lose a counter."""
        ...

    def damage(self, job_id: str) -> None:
        """Make a job's arguments unreadable."""
        ...


TransactionFactory = Callable[[str], AbstractContextManager[Any] | None]


class Bench:
    """One test's stores. All of them read the same manual clock and the same data."""

    def __init__(
        self,
        factory: StoreFactory,
        namespace: str,
        backdoor: Backdoor | None = None,
        transactions: TransactionFactory | None = None,
    ) -> None:
        self.clock = ManualClock(START_MS)
        self._factory, self._namespace = factory, namespace
        self._backdoor, self._transactions = backdoor, transactions
        self._opened: list[JobStore] = []
        self._spare: JobStore | None = None

    def open(
        self,
        *,
        queues: Mapping[str, QueuePolicy] | None = None,
        lease_ms: int | None = LEASE_MS,
        retry_policy: RetryPolicy | None = None,
        max_handoffs: int | None = None,
    ) -> JobStore:
        """Open one more store on this bench's data; the bench closes it."""
        plain = (queues, lease_ms, retry_policy, max_handoffs)
        if self._spare is not None and plain == (None, LEASE_MS, None, None):
            spare, self._spare = self._spare, None
            return spare
        # Only asked for where a test needs it: an adapter may not know the option.
        limit = {} if max_handoffs is None else {"max_handoffs": max_handoffs}
        store = blocking(
            self._factory(
                self._namespace,
                clock=self.clock,
                queues=queues,
                lease_ms=lease_ms,
                retry_policy=retry_policy or SteppedRetry(),
                **limit,
            )
        )
        self._opened.append(store)
        return store

    @property
    def backdoor(self) -> Backdoor:
        """The adapter's backdoor; the test is skipped when it has none."""
        if self._backdoor is None:
            pytest.skip("the adapter gives no backdoor")
        return self._backdoor

    @contextmanager
    def transaction(self, store: JobStore) -> Iterator[JobStore]:
        """Give the store joined to a transaction; skip if the adapter gives none."""
        make = self._transactions
        begun = None if make is None else make(self._namespace)
        if begun is None:
            pytest.skip("the adapter gives no transaction to join")
        with begun as transaction:
            yield cast("TransactionalStore", store).within(transaction)

    def at_once(
        self, store: JobStore, *calls: Callable[[Any], Coroutine[Any, Any, object]]
    ) -> list[Any]:
        """Make calls of an async store as tasks of one loop; skip if it is none."""
        answers = at_once(store, *calls)
        if answers is None:
            pytest.skip("not an async store")
        return answers

    def clean(self) -> None:
        """Begin with no data at all."""
        store = self.open()
        store.ensure_ready()
        store.clear()
        # The first plain store a test asks for: opening one may cost a look at tables.
        self._spare = store

    def close(self, store: JobStore) -> None:
        """Close a store now."""
        self._opened.remove(store)
        store.close()

    def close_all(self) -> None:
        """Close whatever a test left open."""
        while self._opened:
            self._opened.pop().close()

    def audit(self) -> None:
        """Check what holds at every commit (M16, C5), whatever the test did."""
        store = self._opened[0] if self._opened else self.open()
        audit(store, self._backdoor)

    @contextmanager
    def unchanged(self, store: JobStore, rule: str) -> Iterator[None]:
        """Assert that what happens inside writes nothing at all."""
        before = take(store)
        yield
        _none(differences(before, take(store)), f"{rule}: a refused move wrote")


def held(store: JobStore, job_id: str, handoff_id: str | None = None) -> Handoff:
    """Hand a job off, which must succeed."""
    handoff = store.claim_job(job_id, handoff_id=handoff_id)
    assert handoff is not None, f"M2: claim_job({job_id!r}) found nothing to hand off"
    return handoff


def there(store: JobStore, job_id: str) -> Job:
    """Return a job, which must exist."""
    job = store.get(job_id)
    assert job is not None, f"get({job_id!r}) found no job"
    return job


def _none(found: list[str], what: str) -> None:
    assert not found, what + "\n  " + "\n  ".join(found)


__all__ = ["LEASE_MS", "START_MS", "Backdoor", "Bench", "Picture", "StoreFactory"]
