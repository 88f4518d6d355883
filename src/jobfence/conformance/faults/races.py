"""Faults that only calls at once can show."""

import threading

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jobfence.conformance.faults.base import Faulty, fault
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import Ack, Cancellation, Job
from jobfence.store.memory.transaction import Transaction

_WAIT_S = 0.05
_two = threading.Barrier(2)
_completing, _recovering = threading.Lock(), threading.Lock()


@fault("M2", "examples", "rows are read before the lock is taken")
class ReadBeforeTheLock(Faulty):
    @contextmanager
    def _transaction(self) -> Iterator[Transaction]:
        looked_at = self.data.tables
        _meet()
        with super()._transaction() as transaction:
            transaction.tables = looked_at.copy()
            yield transaction


def _early(store: Faulty) -> ReadBeforeTheLock:
    """Return the same store as one that reads too early, for one of its calls."""
    twin = object.__new__(ReadBeforeTheLock)
    twin.__dict__.update(store.__dict__)
    return twin


@fault("T5", "examples", "what settle claims is read before the lock is taken")
class SettleBeforeTheLock(Faulty):
    def settle(self, *args: Any, **options: Any) -> Any:
        return _early(self).settle(*args, **options)


@fault("L4", "examples", "what recovery takes is read before the lock is taken")
class RecoveryBeforeTheLock(Faulty):
    def recover_expired(self, *, limit: int = 100) -> list[Job]:
        return _early(self).recover_expired(limit=limit)


@fault("M9", "examples", "what is cancelled is read before the lock is taken")
class CancelBeforeTheLock(Faulty):
    def cancel(self, job_id: str) -> Cancellation:
        return _early(self).cancel(job_id)


@fault("M8", "examples", "a job that was completed meanwhile is recovered by its id")
class CompletedRecovered(Faulty):
    """One recovery at a time, but a completion between its look and its write."""

    def complete(self, job_id: str, handoff_id: str) -> Ack:
        with _completing:
            _meet()
            try:
                return super().complete(job_id, handoff_id)
            finally:
                _meet()

    def recover_expired(self, *, limit: int = 100) -> list[Job]:
        with _recovering:
            held = [
                row
                for row in self.data.tables.jobs.values()
                if row.status is JobStatus.HANDED_OFF
            ]
            _meet()  # until somebody is about to complete
            _meet()  # until that is done
            for row in held:
                self.data.tables.jobs[row.id] = row
            return super().recover_expired(limit=limit)


def _meet() -> None:
    """Wait until another thread has looked too: the fault is the same in every run."""
    if threading.current_thread() is threading.main_thread():
        return
    try:
        _two.wait(_WAIT_S)
    except threading.BrokenBarrierError:
        _two.reset()
