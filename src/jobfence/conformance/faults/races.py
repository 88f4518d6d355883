"""A fault that only calls at once can show."""

import threading

from collections.abc import Iterator
from contextlib import contextmanager

from jobfence.conformance.faults.base import Faulty, fault
from jobfence.store.memory.transaction import Transaction

_WAIT_S = 0.05
_two = threading.Barrier(2)


@fault("M2", "examples", "rows are read before the lock is taken")
class ReadBeforeTheLock(Faulty):
    @contextmanager
    def _transaction(self) -> Iterator[Transaction]:
        looked_at = self.data.tables
        _meet()
        with super()._transaction() as transaction:
            transaction.tables = looked_at.copy()
            yield transaction


def _meet() -> None:
    """Wait until another thread has looked too: the fault is the same in every run."""
    if threading.current_thread() is threading.main_thread():
        return
    try:
        _two.wait(_WAIT_S)
    except threading.BrokenBarrierError:
        _two.reset()
