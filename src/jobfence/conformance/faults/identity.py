"""Faults of dedupe and idempotency (E4, E5, E8)."""

from typing import Any

from jobfence.conformance.faults.base import Faulty, fault
from jobfence.statemachine.errors import IdempotencyConflict
from jobfence.statemachine.options import Prepared
from jobfence.statemachine.states import JobStatus
from jobfence.store.memory.rows import JobRow
from jobfence.store.memory.transaction import Transaction


class Twins(Faulty):
    """Looks for twins in a way of its own before the model does."""

    def twin(self, transaction: Transaction, wanted: Prepared, row: JobRow) -> bool:
        """Whether the row stands for what is wanted."""
        raise NotImplementedError

    def _enqueue(self, transaction: Transaction, wanted: Prepared) -> str:
        if wanted.deduplicate_while_queued and wanted.idempotency_key is None:
            for row in transaction.tables.jobs.values():
                if self.twin(transaction, wanted, row):
                    transaction.wake = True
                    return row.id
        return super()._enqueue(transaction, wanted)


def same(wanted: Prepared, row: JobRow) -> bool:
    """Whether name and arguments are the same."""
    return (row.name, row.args_text, row.kwargs_text) == (
        wanted.name,
        wanted.args_text,
        wanted.kwargs_text,
    )


@fault("E4", "examples", "a running job suppresses a new one")
class RunningIsATwin(Twins):
    def twin(self, transaction: Transaction, wanted: Prepared, row: JobRow) -> bool:
        return row.status is JobStatus.HANDED_OFF and same(wanted, row)


@fault("E4", "examples", "an ended job suppresses a new one")
class EndedIsATwin(Twins):
    def twin(self, transaction: Transaction, wanted: Prepared, row: JobRow) -> bool:
        return row.status is JobStatus.COMPLETED and same(wanted, row)


@fault("E4", "examples", "a retry in the future suppresses work for now")
class FutureIsATwin(Twins):
    def twin(self, transaction: Transaction, wanted: Prepared, row: JobRow) -> bool:
        return row.status is JobStatus.QUEUED and same(wanted, row)


@fault("E4", "examples", "a job of another queue is a twin")
class QueueIgnored(Twins):
    def twin(self, transaction: Transaction, wanted: Prepared, row: JobRow) -> bool:
        due = row.scheduled_at_ms <= (wanted.scheduled_at_ms or transaction.now)
        return (
            row.status is JobStatus.QUEUED
            and row.schedule_key is None
            and due
            and same(wanted, row)
        )


@fault("E4", "examples", "a job with a schedule key is a twin")
class OwnerIsATwin(Twins):
    def twin(self, transaction: Transaction, wanted: Prepared, row: JobRow) -> bool:
        return (
            row.schedule_key is not None
            and row.status is JobStatus.QUEUED
            and row.queue == wanted.queue
            and same(wanted, row)
        )


@fault("E4", "examples", "the arguments are compared as Python does: 1 equals True")
class ArgumentsComparedLoosely(Twins):
    def twin(self, transaction: Transaction, wanted: Prepared, row: JobRow) -> bool:
        def loose(text: str) -> str:
            return text.replace("true", "1").replace("1.0", "1").replace('"1"', "1")

        return (
            row.status is JobStatus.QUEUED
            and row.name == wanted.name
            and row.queue == wanted.queue
            and row.scheduled_at_ms <= transaction.now
            and loose(row.args_text) == loose(wanted.args_text)
            and row.kwargs_text == wanted.kwargs_text
        )


@fault("E4", "examples", "the twin is the latest, not the earliest")
class LatestTwin(Twins):
    def twin(self, transaction: Transaction, wanted: Prepared, row: JobRow) -> bool:
        latest = wanted.scheduled_at_ms or transaction.now
        rows = [
            each
            for each in transaction.rows(JobStatus.QUEUED)
            if same(wanted, each)
            and each.queue == wanted.queue
            and each.schedule_key is None
            and each.scheduled_at_ms <= latest
        ]
        rows.sort(key=lambda each: (each.scheduled_at_ms, each.id))
        return bool(rows) and row is rows[-1]


@fault("E5", "examples", "an idempotency key is forgotten when its job has ended")
class KeyForgottenAtTheEnd(Faulty):
    def _enqueue(self, transaction: Transaction, wanted: Prepared) -> str:
        for scope, row in list(transaction.tables.idempotency.items()):
            job = transaction.tables.jobs.get(row.job_id)
            if job is None or job.status.terminal:
                del transaction.tables.idempotency[scope]
        return super()._enqueue(transaction, wanted)


@fault("E5", "examples", "an idempotency key goes with its pruned job")
class KeyPruned(Faulty):
    def prune_terminal(self, **options: Any) -> int:
        number = super().prune_terminal(**options)
        for scope, row in list(self.data.tables.idempotency.items()):
            if row.job_id not in self.data.tables.jobs:
                del self.data.tables.idempotency[scope]
        return number


@fault("E5", "examples", "another request under the same key gets the first one's job")
class ConflictSwallowed(Faulty):
    def enqueue(self, *args: Any, **options: Any) -> str:
        try:
            return super().enqueue(*args, **options)
        except IdempotencyConflict as conflict:
            return conflict.job_id


@fault("E5", "examples", "the scope of an idempotency key is the store, not the queue")
class KeyWithoutScope(Faulty):
    def _enqueue(self, transaction: Transaction, wanted: Prepared) -> str:
        for row in transaction.tables.idempotency.values():
            if row.idempotency_key == wanted.idempotency_key:
                return row.job_id
        return super()._enqueue(transaction, wanted)


@fault("E8", "examples", "dedupe goes before an idempotency key")
class DedupeFirst(Twins):
    def _enqueue(self, transaction: Transaction, wanted: Prepared) -> str:
        if wanted.deduplicate_while_queued:
            for row in transaction.rows(JobStatus.QUEUED):
                if same(wanted, row) and row.queue == wanted.queue:
                    return row.id
        return Faulty._enqueue(self, transaction, wanted)
