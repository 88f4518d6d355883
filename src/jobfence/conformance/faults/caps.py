"""Faults of caps, counters and policies (the C rules)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from jobfence.conformance.faults.base import Faulty, fault, in_transaction
from jobfence.statemachine.errors import ConcurrencyConflict
from jobfence.statemachine.policy import QueuePolicy
from jobfence.statemachine.table import Slot, Transition
from jobfence.statemachine.values import Ack, Handoff, Reconciliation
from jobfence.store.memory.rows import JobRow
from jobfence.store.memory.transaction import Transaction


@in_transaction("C4", "examples", "a full key does not stop a claim")
class CapIgnored(Transaction):
    def slot_free(self, row: JobRow) -> bool:
        return True


@in_transaction("C4", "examples", "one more than the cap is admitted")
class CapPlusOne(Transaction):
    def slot_free(self, row: JobRow) -> bool:
        counter = self.counter(row)
        return (
            super().slot_free(row)
            or counter is None
            or counter.active_count == counter.max_concurrency
        )


@in_transaction("C6", "examples", "a batch counts its slots only at the end")
class CountedAfterTheBatch(Transaction):
    def slot_free(self, row: JobRow) -> bool:
        counter = self.counter(row)
        if counter is None:
            return True
        mine = sum(
            each.concurrency_key == row.concurrency_key
            and each.handed_off_at_ms == self.now
            for each in self.tables.jobs.values()
        )
        return counter.active_count - mine < counter.max_concurrency


@in_transaction(
    "C8", "examples", "a job that a full key holds up takes its policy over"
)
class AdoptedThoughFull(Transaction):
    def slot_free(self, row: JobRow) -> bool:
        free = super().slot_free(row)
        if not free:
            self.adopt(row, self.policy(row.queue))
        return free


class Counting(Transaction):
    """Counts slots in a way of its own."""

    def add(self, key: str | None, number: int) -> None:
        """Change a counter."""
        counter = self.tables.counters.get(key) if key is not None else None
        if counter is not None:
            self.tables.counters[counter.concurrency_key] = replace(
                counter, active_count=max(counter.active_count + number, 0)
            )


@in_transaction("C5", "examples", "a completion keeps its slot for ever")
class SlotNotFreedByCompletion(Counting):
    def _count(self, step: Transition, key: str | None) -> None:
        super()._count(step, key)
        if step.rule == "M3":
            self.add(key, 1)


@in_transaction("C5", "examples", "a recovery keeps the slot")
class SlotNotFreedByRecovery(Counting):
    def _count(self, step: Transition, key: str | None) -> None:
        super()._count(step, key)
        if step.rule == "M8":
            self.add(key, 1)


@in_transaction("C5", "examples", "an abort keeps the slot")
class SlotNotFreedByAbort(Counting):
    def _count(self, step: Transition, key: str | None) -> None:
        super()._count(step, key)
        if step.rule == "M15":
            self.add(key, 1)


@in_transaction("C5", "examples", "a failure frees the slot twice")
class SlotFreedTwice(Counting):
    def _count(self, step: Transition, key: str | None) -> None:
        super()._count(step, key)
        if step.rule in ("M4", "M5"):
            self.add(key, -1)


@in_transaction("C5", "stateful", "a release frees a slot of every key (no WHERE key)")
class EveryKeyReleased(Counting):
    def _count(self, step: Transition, key: str | None) -> None:
        super()._count(step, key)
        if step.slot is Slot.RELEASE and key is not None:
            for other in [each for each in self.tables.counters if each != key]:
                self.add(other, -1)


@fault("C5", "examples", "a repeated completion frees the slot again")
class RepeatedFreesAgain(Faulty):
    def complete(self, job_id: str, handoff_id: str) -> Ack:
        ack = super().complete(job_id, handoff_id)
        key = None if ack.job is None else ack.job.concurrency_key
        counter = self.data.tables.counters.get(key or "")
        if ack.repeated and counter is not None and counter.active_count:
            self.data.edit_counter(
                counter.concurrency_key,
                max_concurrency=counter.max_concurrency,
                active=counter.active_count - 1,
            )
        return ack


@fault("C6", "examples", "a full key at the head hides the work behind it")
class HeadOfLineBlocks(Faulty):
    def claim(self, limit: int = 1, **options: Any) -> list[Handoff]:
        with self._transaction() as transaction:
            due = [
                row
                for row in transaction.tables.jobs.values()
                if row.status == "queued" and row.scheduled_at_ms <= transaction.now
            ]
            due.sort(key=lambda row: (-row.priority, row.scheduled_at_ms, row.id))
            blocked = due and not transaction.slot_free(due[0])
        return [] if blocked else super().claim(limit, **options)


@fault("C3", "examples", "another cap for a key silently replaces the first")
class ConflictIgnored(Faulty):
    def enqueue(self, *args: Any, **options: Any) -> str:
        try:
            return super().enqueue(*args, **options)
        except ConcurrencyConflict as conflict:
            self.set_concurrency(conflict.concurrency_key, conflict.given)
            return super().enqueue(*args, **options)


@fault("C3", "examples", "set_concurrency starts the count anew")
class CapChangeForgetsTheCount(Faulty):
    def set_concurrency(self, concurrency_key: str, max_concurrency: int) -> None:
        super().set_concurrency(concurrency_key, max_concurrency)
        self.data.edit_counter(
            concurrency_key, max_concurrency=max_concurrency, active=0
        )


@in_transaction("C8", "examples", "a claim does not apply the policy of now")
class PolicyNotAdopted(Transaction):
    def adopt(self, row: JobRow, policy: QueuePolicy) -> JobRow:
        return row


@in_transaction("C7", "examples", "a policy's priority replaces one given explicitly")
class PriorityOverwritten(Transaction):
    def adopt(self, row: JobRow, policy: QueuePolicy) -> JobRow:
        adopted = super().adopt(row, policy)
        changed = replace(adopted, priority=policy.priority)
        self.tables.jobs[row.id] = changed
        return changed


@fault("C0", "examples", "policies live in the process, not in the store")
class PoliciesNotDurable(Faulty):
    def reconcile_queue_policies(
        self,
        queues: Mapping[str, QueuePolicy] | None = None,
        *,
        release_others: bool = True,
    ) -> None:
        before = self.data.tables.queues.copy()
        super().reconcile_queue_policies(queues, release_others=release_others)
        self.data.tables.queues = before


@fault("C7", "examples", "reconciling releases queues it was told to leave")
class OthersAlwaysReleased(Faulty):
    def reconcile_queue_policies(
        self,
        queues: Mapping[str, QueuePolicy] | None = None,
        *,
        release_others: bool = True,
    ) -> None:
        super().reconcile_queue_policies(queues, release_others=True)


@fault("C9", "examples", "drift is reported and not mended")
class DriftNotMended(Faulty):
    def reconcile_active_concurrency(self) -> Reconciliation:
        before = self.data.tables.counters.copy()
        report = super().reconcile_active_concurrency()
        self.data.tables.counters = before
        return report


@fault("C9", "examples", "a missing counter is not made again")
class MissingCounterIgnored(Faulty):
    def reconcile_active_concurrency(self) -> Reconciliation:
        there = set(self.data.tables.counters)
        report = super().reconcile_active_concurrency()
        for key in set(self.data.tables.counters) - there:
            self.data.drop_counter(key)
        return report


@fault("C5", "examples", "an enqueue makes a lost counter again at zero")
class LostCounterFromZero(Faulty):
    def enqueue_many(self, requests: Any) -> list[str]:
        there = set(self.data.tables.counters)
        ids = super().enqueue_many(requests)
        for key in set(self.data.tables.counters) - there:
            cap = self.data.tables.counters[key].max_concurrency
            self.data.edit_counter(key, max_concurrency=cap, active=0)
        return ids


@fault("C2", "examples", "a queue's cap goes before an explicit pair")
class QueueCapWins(Faulty):
    def enqueue(self, *args: Any, **options: Any) -> str:
        policy = (self._queues or {}).get(options.get("queue") or "default")
        if policy is not None and policy.max_concurrent is not None:
            options.pop("concurrency_key", None)
            options.pop("max_concurrency", None)
        return super().enqueue(*args, **options)
