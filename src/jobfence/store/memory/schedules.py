"""Stable schedule keys: at most one active owner each (the K rules)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Unpack

from jobfence.statemachine.canonical import JSONInput
from jobfence.statemachine.options import (
    ScheduleOptions,
    prepare_scheduled,
    schedule_key as check_key,
)
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.table import Trigger
from jobfence.statemachine.values import (
    Cancellation,
    CancelOutcome,
    Replacement,
    ScheduledJob,
    Wake,
    WakeOutcome,
)
from jobfence.store.memory.enqueues import Enqueues, check_cap
from jobfence.store.memory.rows import JobRow, ScheduleRow, oldest_first, read_job
from jobfence.store.memory.transaction import Transaction


class Schedules(Enqueues):
    """The four methods of a schedule key."""

    def replace_scheduled(
        self,
        schedule_key: str,
        name: str,
        args: Sequence[JSONInput] = (),
        kwargs: Mapping[str, JSONInput] | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Replacement:
        """Make a new owner; a queued one before it is cancelled, a running one let go."""
        key, wanted = prepare_scheduled(schedule_key, name, args, kwargs, **options)
        with self._transaction() as transaction:
            check_cap(transaction, wanted)
            owner = _owner(transaction, key)
            if owner is not None:
                transaction.move(owner, Trigger.CANCEL)
            row = transaction.tables.schedule_keys.get(key)
            order = 1 if row is None else row.high_water + 1
            job_id = self._insert(
                transaction, wanted, schedule_key=key, schedule_order=order
            )
            transaction.tables.schedule_keys[key] = ScheduleRow(key, job_id, order)
            if owner is None:
                return Replacement(job_id, None, None)
            return Replacement(job_id, owner.id, owner.status)

    def cancel_scheduled(self, schedule_key: str) -> Cancellation:
        """End the ownership; a running owner is marked, so that it does not run again."""
        key = check_key(schedule_key)
        with self._transaction() as transaction:
            owner = _owner(transaction, key)
            _disown(transaction, key)
            if owner is None:
                return Cancellation(None, CancelOutcome.NOT_FOUND)
            transaction.wake = True
            if transaction.move(owner, Trigger.CANCEL) is not None:
                return Cancellation(owner.id, CancelOutcome.CANCELLED)
            transaction.move(owner, Trigger.REQUEST_CANCEL)
            return Cancellation(owner.id, CancelOutcome.HANDED_OFF)

    def wake_scheduled(self, schedule_key: str) -> Wake:
        """Make a future owner due."""
        key = check_key(schedule_key)
        with self._transaction() as transaction:
            owner = _owner(transaction, key)
            if owner is None:
                return Wake(None, WakeOutcome.NOT_FOUND)
            if owner.status is JobStatus.HANDED_OFF:
                return Wake(owner.id, WakeOutcome.HANDED_OFF)
            transaction.wake = True
            if transaction.move(owner, Trigger.WAKE) is None:
                return Wake(owner.id, WakeOutcome.ALREADY_DUE)
            return Wake(owner.id, WakeOutcome.WOKEN)

    def scheduled_job(
        self, schedule_key: str, *, include_latest_terminal: bool = False
    ) -> ScheduledJob:
        """Look up the owner, and the key's latest ended job; `UnreadableJob` as `get`."""
        key = check_key(schedule_key)
        with self._transaction() as transaction:
            owner = _owner(transaction, key)
            ended = (
                _latest_terminal(transaction, key) if include_latest_terminal else None
            )
            return ScheduledJob(
                None if owner is None else read_job(owner),
                None if ended is None else read_job(ended),
            )


def _owner(transaction: Transaction, key: str) -> JobRow | None:
    """Return the key's active owner; one that is gone or has ended is none."""
    row = transaction.tables.schedule_keys.get(key)
    if row is None or row.job_id is None:
        return None
    owner = transaction.tables.jobs.get(row.job_id)
    return None if owner is None or owner.status.terminal else owner


def _disown(transaction: Transaction, key: str) -> None:
    """Remove the owner; the key's high-water stays (K3)."""
    row = transaction.tables.schedule_keys.get(key)
    if row is not None:
        transaction.tables.schedule_keys[key] = replace(row, job_id=None)


def _latest_terminal(transaction: Transaction, key: str) -> JobRow | None:
    ended = [
        row
        for row in transaction.tables.jobs.values()
        if row.schedule_key == key and row.status.terminal
    ]
    # Orders start at 1, so a row without one comes last.
    return max(
        ended,
        key=lambda row: (row.schedule_order or 0, *oldest_first(row)),
        default=None,
    )
