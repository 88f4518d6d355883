"""What faulty stores are made from, and the list they are in."""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from jobfence.conformance.base import SuiteBase
from jobfence.conformance.capabilities import ALL, Capability
from jobfence.conformance.model import DataBackdoor
from jobfence.conformance.rules import RULES_OF
from jobfence.conformance.seeded import Seeded
from jobfence.statemachine.clock import ManualClock
from jobfence.statemachine.ids import TimeOrderedIds
from jobfence.store.memory import MemoryJobStore
from jobfence.store.memory.data import MemoryData
from jobfence.store.memory.rows import JobRow
from jobfence.store.memory.transaction import Transaction

IN_MEMORY = ALL.without(Capability.PROCESSES, because="its data is in memory")


class Faulty(MemoryJobStore):
    """The model with a place for faults: in its methods or in its transactions."""

    transaction_class: ClassVar[type[Transaction]] = Transaction
    capabilities: ClassVar[Collection[Capability]] = IN_MEMORY

    @contextmanager
    def _transaction(self) -> Iterator[Transaction]:
        # What a faulty transaction has in the end is kept, whatever it began with.
        with self.data.lock:
            transaction = self.transaction_class(
                tables=self.data.tables.copy(),
                now=self._clock.now_ms(),
                machine=self._machine,
                queues=self._queues,
                retry_policy=self._retry_policy,
                max_handoffs=self._max_handoffs,
            )
            yield transaction
            self.data.tables = transaction.tables
        if transaction.wake:
            self._wake()

    @property
    def data(self) -> MemoryData:
        """The data set: a faulty store has none of another kind."""
        assert isinstance(self._data, MemoryData)
        return self._data

    def row(self, job_id: str) -> JobRow | None:
        """Return a row as it is stored."""
        return self.data.tables.jobs.get(job_id)

    def edit(self, job_id: str, **columns: Any) -> None:
        """Write columns past every rule, if there is such a job."""
        if job_id in self.data.tables.jobs:
            self.data.edit_job(job_id, **columns)

    @property
    def now(self) -> int:
        """The time."""
        return self._clock.now_ms()


class AsyncFaulty:
    """The same store behind coroutines, with a place for faults of those."""

    capabilities: ClassVar[Collection[Capability]] = IN_MEMORY

    def __init__(self, **settings: Any) -> None:
        self.inner = Faulty(**settings)


def _awaited(name: str) -> Callable[..., Any]:
    async def call(self: AsyncFaulty, *args: Any, **options: Any) -> Any:
        return getattr(self.inner, name)(*args, **options)

    return call


for _name in (*RULES_OF, "ensure_ready", "clear", "close"):
    if _name != "open":
        setattr(AsyncFaulty, _name, _awaited(_name))
AsyncFaulty.on_commit_wake = (  # type: ignore[attr-defined]
    lambda self, listener: self.inner.on_commit_wake(listener)
)
Store = type[Faulty] | type[AsyncFaulty]


@dataclass(frozen=True, slots=True)
class Fault(Seeded):
    """A faulty store: what is wrong, which rule it breaks, which layer finds it."""

    name: str
    rule: str
    layer: str  # "matrix", "examples" or "stateful"
    says: str
    store: Store


CATALOGUE: list[Fault] = []


Kind = TypeVar("Kind", bound=Store)


def fault(rule: str, layer: str, says: str) -> Callable[[Kind], Kind]:
    """Put a store into the catalogue."""

    def register(store: Kind) -> Kind:
        CATALOGUE.append(Fault(store.__name__, rule, layer, says, store))
        return store

    return register


def in_transaction(
    rule: str, layer: str, says: str
) -> Callable[[type[Transaction]], type[Transaction]]:
    """Put a store with this kind of transaction into the catalogue."""

    def register(transaction: type[Transaction]) -> type[Transaction]:
        store = type(
            transaction.__name__, (Faulty,), {"transaction_class": transaction}
        )
        CATALOGUE.append(Fault(transaction.__name__, rule, layer, says, store))
        return transaction

    return register


class FaultySuite(SuiteBase):
    """Opens one faulty store on data sets by name, as an author would his own."""

    def __init__(self, store: Store) -> None:
        self._store, self.capabilities = store, store.capabilities
        self._data: dict[str, MemoryData] = {}
        self._ids = TimeOrderedIds()

    def open_store(self, namespace: str, *, clock: ManualClock, **settings: Any) -> Any:
        """Open the store."""
        data = self._data.setdefault(namespace, MemoryData())
        return self._store(clock=clock, data=data, ids=self._ids, **settings)

    def open_backdoor(self, namespace: str) -> DataBackdoor:
        """Return the way past it."""
        return DataBackdoor(self._data.setdefault(namespace, MemoryData()))
