"""Queue policies and counters (the C rules)."""

from collections.abc import Mapping
from dataclasses import replace

from jobfence.statemachine import checks
from jobfence.statemachine.options import explicit_key, positive_cap
from jobfence.statemachine.policy import (
    NO_POLICY,
    QueuePolicy,
    check_queues,
    derived_key,
)
from jobfence.statemachine.states import ACTIVE, JobStatus
from jobfence.statemachine.values import Reconciliation, Repair
from jobfence.store.memory.base import StoreBase
from jobfence.store.memory.rows import JobRow, oldest_first
from jobfence.store.memory.transaction import Transaction

REPAIRS_SHOWN = 10


class Caps(StoreBase):
    """`set_concurrency` and the two reconciliations."""

    def set_concurrency(self, concurrency_key: str, max_concurrency: int) -> None:
        """Change or make a counter's cap; the jobs keep their copies (C3)."""
        key, cap = explicit_key(concurrency_key), positive_cap(max_concurrency)
        with self._transaction() as transaction:
            transaction.wake = True
            transaction.set_cap(key, cap)

    def reconcile_queue_policies(
        self,
        queues: Mapping[str, QueuePolicy] | None = None,
        *,
        release_others: bool = True,
    ) -> None:
        """Make policies durable and let the queued jobs follow them (C0, C7)."""
        given = check_queues(queues)
        checks.flag("release_others", release_others)
        with self._transaction() as transaction:
            transaction.wake = True
            policies = self._queues if given is None else given
            if policies is None:
                policies = {
                    row.queue: row.policy for row in transaction.tables.queues.values()
                }
            _make_durable(transaction, policies, release_others=release_others)
            for row in transaction.rows(JobStatus.QUEUED):
                if release_others or row.queue in policies:
                    transaction.adopt(row, policies.get(row.queue, NO_POLICY))
            if given is not None:
                self._queues = given

    def reconcile_active_concurrency(self) -> Reconciliation:
        """Compare every counter with the jobs, and mend it (C9)."""
        with self._transaction() as transaction:
            keys = _keys_to_check(transaction)
            repairs = [
                repair
                for key in sorted(keys)
                if (repair := _repair(transaction, key)) is not None
            ]
            transaction.wake = bool(repairs)
            return Reconciliation(
                checked_count=len(keys),
                candidate_count=len(repairs),
                repaired_count=len(repairs),
                repairs=tuple(repairs[:REPAIRS_SHOWN]),
                repairs_truncated_count=len(repairs[REPAIRS_SHOWN:]),
            )


def _make_durable(
    transaction: Transaction,
    policies: Mapping[str, QueuePolicy],
    *,
    release_others: bool,
) -> None:
    tables = transaction.tables
    if release_others:
        for name, row in list(tables.queues.items()):
            tables.queues[name] = replace(row, policy=NO_POLICY)
    for name, policy in policies.items():
        tables.queues[name] = replace(tables.queue(name), policy=policy)
        if policy.max_concurrent is not None:
            transaction.set_cap(derived_key(name), policy.max_concurrent)


def _keys_to_check(transaction: Transaction) -> set[str]:
    counters = transaction.tables.counters
    used = {
        row.concurrency_key
        for row in transaction.tables.jobs.values()
        if row.concurrency_key is not None
        and (
            row.status is JobStatus.HANDED_OFF
            or (row.status is JobStatus.QUEUED and row.concurrency_key not in counters)
        )
    }
    return used | {key for key, row in counters.items() if row.active_count != 0}


def _repair(transaction: Transaction, key: str) -> Repair | None:
    counter = transaction.tables.counters.get(key)
    active = transaction.handed_off_with(key)
    if counter is None:
        cap = _latest_active(transaction, key).max_concurrency
        assert cap is not None
        transaction.make_counter(key, cap)
        return Repair(key, 0, active)
    if counter.active_count == active:
        return None
    transaction.tables.counters[key] = replace(counter, active_count=active)
    return Repair(key, counter.active_count, active)


def _latest_active(transaction: Transaction, key: str) -> JobRow:
    """Return the job whose copy of the cap is the newest."""
    rows = [
        row
        for row in transaction.tables.jobs.values()
        if row.concurrency_key == key and row.status in ACTIVE
    ]
    return max(rows, key=oldest_first)
