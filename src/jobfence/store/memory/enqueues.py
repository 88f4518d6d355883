"""How a job comes into the store (the E rules, R5)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Unpack

from jobfence.statemachine import checks
from jobfence.statemachine.canonical import JSONInput
from jobfence.statemachine.errors import (
    ConcurrencyConflict,
    IdempotencyConflict,
    InvalidOption,
)
from jobfence.statemachine.options import EnqueueOptions, JobRequest, Prepared, prepare
from jobfence.statemachine.policy import is_derived, resolve_concurrency
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.table import TABLE
from jobfence.store.memory.base import StoreBase
from jobfence.store.memory.rows import (
    IdempotencyRow,
    JobRow,
    read_job,
    soonest_first,
)
from jobfence.store.memory.transaction import Transaction

# Enqueue inserts, so it is no trigger of the machine; where it starts is in its row.
_BORN = next(step.dest for step in TABLE if step.source is None)


class Enqueues(StoreBase):
    """`enqueue`, `enqueue_many` and `requeue`."""

    def enqueue(
        self,
        name: str,
        args: Sequence[JSONInput] = (),
        kwargs: Mapping[str, JSONInput] | None = None,
        **options: Unpack[EnqueueOptions],
    ) -> str:
        """Store one job, or find the one it stands for (E4, E5)."""
        wanted = prepare(name, args, kwargs, **options)
        with self._transaction() as transaction:
            return self._enqueue(transaction, wanted)

    def enqueue_many(self, requests: Iterable[JobRequest]) -> list[str]:
        """Enqueue each in order, all or none (E6)."""
        checked = checks.each_of("requests", requests, JobRequest)
        wanted = [each.prepared for each in checked]
        with self._transaction() as transaction:
            return [self._enqueue(transaction, each) for each in wanted]

    def requeue(self, job_id: str) -> str:
        """Enqueue an ended job's request once more, due now (R5)."""
        checks.storable("job_id", job_id)
        with self._transaction() as transaction:
            origin = transaction.tables.jobs.get(job_id)
            if origin is None:
                raise InvalidOption("job_id", job_id, "must be the id of a stored job")
            if not origin.status.terminal:
                raise InvalidOption("job_id", job_id, "must be the id of an ended job")
            wanted = _request_again(transaction, origin)
            return self._insert(transaction, wanted, origin_id=origin.id)

    def _enqueue(self, transaction: Transaction, wanted: Prepared) -> str:
        transaction.wake = True  # also for a hit: its first wake-up may be lost
        if wanted.idempotency_key is not None:
            return self._enqueue_once(transaction, wanted, wanted.idempotency_key)
        check_cap(transaction, wanted)
        if wanted.deduplicate_while_queued:
            twin = _queued_twin(transaction, wanted)
            if twin is not None:
                return twin.id
        return self._insert(transaction, wanted)

    def _enqueue_once(
        self, transaction: Transaction, wanted: Prepared, key: str
    ) -> str:
        """Rule E5: the key's first request decides, before anything else is looked at."""
        scope = (wanted.name, wanted.queue, key)
        request = wanted.request()
        owner = transaction.tables.idempotency.get(scope)
        if owner is not None:
            differing = [each for each, was in owner.request if request[each] != was]
            if differing:
                raise IdempotencyConflict(key, owner.job_id, differing)
            return owner.job_id
        check_cap(transaction, wanted)
        job_id = self._insert(transaction, wanted)
        transaction.tables.idempotency[scope] = IdempotencyRow(
            *scope, job_id, tuple(request.items())
        )
        return job_id

    def _insert(
        self,
        transaction: Transaction,
        wanted: Prepared,
        *,
        schedule_key: str | None = None,
        schedule_order: int | None = None,
        origin_id: str | None = None,
    ) -> str:
        """Write the whole row (M1), and the counter that its key lacks."""
        transaction.wake = True
        now, scheduled_at = transaction.now, wanted.scheduled_at_ms
        policy = transaction.policy(wanted.queue)
        key, cap = resolve_concurrency(wanted.queue, policy, wanted.concurrency)
        explicit = wanted.priority is not None
        row = JobRow(
            id=self._fresh_id(transaction),
            name=wanted.name,
            args_text=wanted.args_text,
            kwargs_text=wanted.kwargs_text,
            queue=wanted.queue,
            priority=policy.priority if wanted.priority is None else wanted.priority,
            priority_explicit=explicit,
            status=_BORN,
            max_retries=wanted.max_retries,
            created_at_ms=now,
            scheduled_at_ms=now if scheduled_at is None else scheduled_at,
            concurrency_key=key,
            max_concurrency=cap,
            schedule_key=schedule_key,
            schedule_order=schedule_order,
            timeout_ms=wanted.timeout_ms,
            execution_mode=wanted.execution_mode,
            origin_id=origin_id,
        )
        transaction.tables.jobs[row.id] = row
        if key is not None and cap is not None and transaction.counter(row) is None:
            transaction.make_counter(key, cap)
        return row.id

    def _fresh_id(self, transaction: Transaction) -> str:
        job_id = self._ids()
        if job_id in transaction.tables.jobs:
            raise InvalidOption("ids", job_id, "must make a new id each time")
        return job_id


def check_cap(transaction: Transaction, wanted: Prepared) -> None:
    """Refuse an explicit key that is registered with another cap (C3)."""
    key, cap = wanted.concurrency
    if key is None or cap is None:
        return
    counter = transaction.tables.counters.get(key)
    if counter is not None and counter.max_concurrency != cap:
        raise ConcurrencyConflict(key, counter.max_concurrency, cap)


def _queued_twin(transaction: Transaction, wanted: Prepared) -> JobRow | None:
    """Return the earliest queued job that already is what is asked for (E4)."""
    scheduled_at = wanted.scheduled_at_ms
    latest = transaction.now if scheduled_at is None else scheduled_at
    twins = [
        row
        for row in transaction.rows(JobStatus.QUEUED)
        if row.schedule_key is None
        and row.name == wanted.name
        and row.queue == wanted.queue
        and row.args_text == wanted.args_text
        and row.kwargs_text == wanted.kwargs_text
        and row.scheduled_at_ms <= latest
    ]
    return min(twins, key=soonest_first, default=None)


def _request_again(transaction: Transaction, origin: JobRow) -> Prepared:
    """Turn an ended job back into its request; only what was explicit stays so."""
    job = read_job(origin)
    own_key, own_cap = None, None
    if not is_derived(origin.concurrency_key):
        counter = transaction.counter(origin)
        own_key = origin.concurrency_key
        own_cap = counter.max_concurrency if counter else origin.max_concurrency
    return prepare(
        job.name,
        job.args,
        job.kwargs,
        queue=job.queue,
        priority=job.priority if origin.priority_explicit else None,
        max_retries=job.max_retries,
        concurrency_key=own_key,
        max_concurrency=own_cap,
        timeout_ms=job.timeout_ms,
        execution_mode=job.execution_mode,
    )
