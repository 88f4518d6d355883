"""`SqlJobStore`: the contract on SQLite, PostgreSQL, MariaDB and MySQL."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar, Unpack

from sqlalchemy import Connection, Engine
from sqlalchemy.engine import URL
from sqlalchemy.orm import Session

from jobfence.statemachine import checks
from jobfence.statemachine.canonical import JSONInput
from jobfence.statemachine.clock import Clock, DatabaseClock
from jobfence.statemachine.errors import InvalidOption
from jobfence.statemachine.ids import IdFactory, TimeOrderedIds, random_id
from jobfence.statemachine.options import EnqueueOptions, JobRequest, ScheduleOptions
from jobfence.statemachine.policy import QueuePolicy, check_queues
from jobfence.statemachine.retry import RetryPolicy, SteppedRetry
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.table import Trigger
from jobfence.statemachine.values import (
    Ack,
    Cancellation,
    Handoff,
    Job,
    QueueStats,
    Reconciliation,
    Replacement,
    ScheduledJob,
    Settlement,
    Wake,
)
from jobfence.store.contract import (
    CANCELLED_TTL_MS,
    COMPLETED_TTL_MS,
    DEFAULT_LEASE_MS,
    FAILED_TTL_MS,
    Lease,
    WakeListener,
)
from jobfence.store.dialects.engines import guard_against_fork, make_engine
from jobfence.store.dialects.rooms import room_for
from jobfence.store.sql import calls
from jobfence.store.sql.calls import Call, Plan
from jobfence.store.sql.runner import JoinedRunner, OwnRunner, Ready
from jobfence.store.sql.schema import Schema, schema_for
from jobfence.store.sql.tx import Settings

T = TypeVar("T")
DEFAULT_PREFIX = "jobfence_"


def settings_for(
    dialect: Any,
    *,
    queues: Mapping[str, QueuePolicy] | None,
    clock: Clock | DatabaseClock | None,
    lease_ms: int | None,
    retry_policy: RetryPolicy | None,
    max_handoffs: int | None,
    table_prefix: str,
    schema: str | None,
    ids: IdFactory | None,
    handoff_ids: IdFactory | None,
) -> Settings:
    """Check what a store is made with."""
    room = room_for(dialect)
    if max_handoffs is not None:
        checks.integer("max_handoffs", max_handoffs, least=1, most=checks.INT32_MAX)
    return Settings(
        schema=schema_for(table_prefix, schema),
        room=room,
        clock=room.clock if clock is None else clock,
        queues=check_queues(queues),
        lease_ms=checks.lease_ms(lease_ms),
        retry_policy=retry_policy or SteppedRetry(),
        max_handoffs=max_handoffs,
        ids=ids or TimeOrderedIds(),
        handoff_ids=handoff_ids or random_id,
    )


class SqlJobStore:
    """
    Jobs in a SQL database.

    Takes a URL, for an engine of its own, or an engine of yours, which it never
    disposes of. `queues` None has no opinion on caps and goes by the durable ones; an
    empty mapping means no caps (C0). `clock` None is the database server's clock, on
    SQLite this process's. `lease_ms` None hands off without leases. Thread-safe.
    """

    def __init__(
        self,
        engine_or_url: Engine | URL | str,
        *,
        queues: Mapping[str, QueuePolicy] | None = None,
        clock: Clock | DatabaseClock | None = None,
        lease_ms: int | None = DEFAULT_LEASE_MS,
        retry_policy: RetryPolicy | None = None,
        max_handoffs: int | None = None,
        table_prefix: str = DEFAULT_PREFIX,
        schema: str | None = None,
        ids: IdFactory | None = None,
        handoff_ids: IdFactory | None = None,
    ) -> None:
        self._owns_engine = not isinstance(engine_or_url, Engine)
        self._engine = (
            engine_or_url
            if isinstance(engine_or_url, Engine)
            else make_engine(engine_or_url)
        )
        self._settings = settings_for(
            self._engine.dialect,
            queues=queues,
            clock=clock,
            lease_ms=lease_ms,
            retry_policy=retry_policy,
            max_handoffs=max_handoffs,
            table_prefix=table_prefix,
            schema=schema,
            ids=ids,
            handoff_ids=handoff_ids,
        )
        self._ready = Ready()
        guard_against_fork(self._engine)
        own = self._engine
        if not self._owns_engine and self._settings.room.isolation is not None:
            # The engine may be set to REPEATABLE READ or AUTOCOMMIT for its owner.
            own = own.execution_options(isolation_level=self._settings.room.isolation)
        self._runner: OwnRunner | JoinedRunner = OwnRunner(
            own, self._settings, self._ready
        )

    @property
    def engine(self) -> Engine:
        """The engine in use."""
        return self._engine

    @property
    def tables(self) -> Schema:
        """The tables, with their `metadata`, for a team's own migrations (S4)."""
        return self._settings.schema

    def within(self, transaction: Connection | Session) -> "SqlJobStore":
        """
        Return this store, joined to a transaction of the caller's (T1).

        A refused call undoes only its own savepoint. What the database asks to be run
        again comes as `RetryableError`: roll back and repeat the whole.
        """
        connection = (
            transaction.connection()
            if isinstance(transaction, Session)
            else transaction
        )
        if not isinstance(connection, Connection):
            raise InvalidOption(
                "transaction", transaction, "must be a SQLAlchemy Connection or Session"
            )
        if connection.dialect.name != self._engine.dialect.name:
            raise InvalidOption(
                "transaction",
                connection.dialect.name,
                f"must be on this store's database, {self._engine.dialect.name}",
            )
        joined = object.__new__(type(self))
        joined.__dict__.update(self.__dict__)
        joined._runner = JoinedRunner(connection, self._settings, self._ready)
        return joined

    def _run(self, call: Call[T]) -> T:
        return self._runner.run(call)

    def _follow(self, plan: Plan[T]) -> T:
        """Run the transactions of a plan one after the other."""
        try:
            call = next(plan)
            while True:
                call = plan.send(self._runner.run(call))
        except StopIteration as done:
            result: T = done.value
            return result
        finally:
            plan.close()

    def ensure_ready(self, *, create: bool = True) -> None:
        """Make, upgrade or only check the tables (the S rules)."""
        self._ready.create = checks.flag("create", create)
        self._ready.done = False
        self._run(calls.nothing())

    def close(self) -> None:
        """Close the connections of the store's own engine; it can be used again."""
        if self._owns_engine:
            self._engine.dispose()

    def clear(self) -> None:
        """Delete everything, for tests."""
        self._run(calls.clear())

    def enqueue(
        self,
        name: str,
        args: Sequence[JSONInput] = (),
        kwargs: Mapping[str, JSONInput] | None = None,
        **options: Unpack[EnqueueOptions],
    ) -> str:
        """Store one job and return its id (the E rules)."""
        return self._run(calls.enqueue_one(self._settings, name, args, kwargs, options))

    def enqueue_many(self, requests: Iterable[JobRequest]) -> list[str]:
        """Store all or none, in one transaction; ids in order (E6)."""
        return self._run(calls.enqueue_many(self._settings, requests))

    def get(self, job_id: str) -> Job | None:
        """Return a job; `UnreadableJob` when its row is damaged (M21)."""
        return self._run(calls.get(job_id))

    def list_jobs(
        self,
        *,
        status: JobStatus | None = None,
        queue: str | None = None,
        name: str | None = None,
        limit: int = 100,
        after: Job | str | None = None,
    ) -> list[Job]:
        """Return jobs by creation, from just behind `after` (O2)."""
        return self._run(calls.list_jobs(status, queue, name, limit, after))

    def next_available(
        self,
        *,
        queues: Collection[str] | None = None,
        execution_modes: Collection[str] | None = None,
    ) -> Job | None:
        """Return the job a claim would take now (O1)."""
        return self._run(calls.next_available(queues, execution_modes))

    def next_scheduled(self, *, queues: Collection[str] | None = None) -> Job | None:
        """Return the earliest of the queued jobs that are not due yet (O2)."""
        return self._run(calls.next_scheduled(queues))

    def handoffs_for_worker(self, worker_id: str) -> list[Handoff]:
        """Return what this worker holds."""
        return self._run(calls.handoffs_for_worker(worker_id))

    def counts(self) -> Mapping[JobStatus, int]:
        """Return the number of jobs in every status (R2)."""
        return self._run(calls.counts())

    def claim(
        self,
        limit: int = 1,
        *,
        queues: Collection[str] | None = None,
        execution_modes: Collection[str] | None = None,
        worker_id: str = "local",
        lease_ms: Lease = ...,
    ) -> list[Handoff]:
        """Hand off up to `limit` jobs, best first (M2, O1, C6)."""
        return self._follow(
            calls.claim_jobs(
                self._settings,
                calls.Wanted(
                    limit=limit,
                    queues=queues,
                    execution_modes=execution_modes,
                    worker_id=worker_id,
                    lease_ms=lease_ms,
                ),
            )
        )

    def claim_job(
        self,
        job_id: str,
        *,
        worker_id: str = "local",
        handoff_id: str | None = None,
        lease_ms: Lease = ...,
    ) -> Handoff | None:
        """Hand off this job, or None if it cannot be now (M2, M19)."""
        return self._run(
            calls.claim_job(self._settings, job_id, worker_id, handoff_id, lease_ms)
        )

    def complete(self, job_id: str, handoff_id: str) -> Ack:
        """Acknowledge that the job is done (M3, M18)."""
        return self._run(calls.acknowledge(Trigger.COMPLETE, job_id, handoff_id))

    def fail(self, job_id: str, handoff_id: str, error: object) -> Ack:
        """Acknowledge a failure: retried, or failed for good (M4, M5, B)."""
        return self._run(
            calls.acknowledge(Trigger.FAIL, job_id, handoff_id, error=error)
        )

    def reschedule(self, job_id: str, handoff_id: str, *, delay_ms: int) -> Ack:
        """Put the job back for a later time; costs no attempt (M6)."""
        return self._run(
            calls.acknowledge(Trigger.RESCHEDULE, job_id, handoff_id, delay_ms=delay_ms)
        )

    def return_to_queue(self, job_id: str, handoff_id: str) -> Ack:
        """Put the job back, due now; costs no attempt (M7)."""
        return self._run(calls.acknowledge(Trigger.RETURN_TO_QUEUE, job_id, handoff_id))

    def extend_lease(
        self, job_id: str, handoff_id: str, *, lease_ms: int | None = None
    ) -> Ack:
        """Renew the lease by its own length, or by the one given (M12, L1)."""
        return self._run(calls.extend([(job_id, handoff_id)], lease_ms))[0]

    def extend_leases(
        self, handoffs: Iterable[Handoff], *, lease_ms: int | None = None
    ) -> list[Ack]:
        """Renew many in one transaction; answers in the order given."""
        pairs = [(each.job.id, each.handoff_id) for each in handoffs]
        return self._run(calls.extend(pairs, lease_ms))

    def settle(
        self,
        acks: Sequence[Settlement],
        *,
        claim: int = 0,
        queues: Collection[str] | None = None,
        execution_modes: Collection[str] | None = None,
        worker_id: str = "local",
        lease_ms: Lease = ...,
    ) -> tuple[list[Ack], list[Handoff]]:
        """Acknowledge a batch and claim the next one in one transaction (T5)."""
        return self._follow(
            calls.settle(
                self._settings,
                acks,
                calls.Wanted(
                    limit=claim,
                    queues=queues,
                    execution_modes=execution_modes,
                    worker_id=worker_id,
                    lease_ms=lease_ms,
                ),
            )
        )

    def recover_handed_off(self) -> list[Job]:
        """Recover every handoff: only for the single owner of a database (L2)."""
        return self._run(calls.recover_handed_off())

    def recover_expired(self, *, limit: int = 100) -> list[Job]:
        """Recover handoffs whose lease has run out, earliest first (M8, L1)."""
        return self._run(calls.recover_expired(limit))

    def cancel(self, job_id: str) -> Cancellation:
        """Cancel a queued job; mark a handed-off one (R3)."""
        return self._run(calls.cancel(job_id))

    def requeue(self, job_id: str) -> str:
        """Run an ended job again as a new one that names its origin (R5)."""
        return self._run(calls.requeue(self._settings, job_id))

    def on_commit_wake(self, listener: WakeListener) -> None:
        """Call back after each commit that may have made work due (T3)."""
        self._ready.listeners.append(listener)

    def set_concurrency(self, concurrency_key: str, max_concurrency: int) -> None:
        """Set a key's cap, making its counter if it is new (C3)."""
        self._run(calls.set_concurrency(concurrency_key, max_concurrency))

    def reconcile_queue_policies(
        self,
        queues: Mapping[str, QueuePolicy] | None = None,
        *,
        release_others: bool = True,
    ) -> None:
        """Bring queued jobs and durable policies in line with `queues` (C7)."""
        self._follow(
            calls.reconcile_policies(
                self._settings, queues, release_others=release_others
            )
        )

    def reconcile_active_concurrency(self) -> Reconciliation:
        """Find and mend counters that differ from the handed-off jobs (C9)."""
        return self._follow(calls.reconcile_active())

    def replace_scheduled(
        self,
        schedule_key: str,
        name: str,
        args: Sequence[JSONInput] = (),
        kwargs: Mapping[str, JSONInput] | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Replacement:
        """Enqueue a job as the key's owner, in the place of the one before it (K)."""
        return self._run(
            calls.replace_scheduled(
                self._settings, schedule_key, (name, args, kwargs), options
            )
        )

    def cancel_scheduled(self, schedule_key: str) -> Cancellation:
        """End the key's ownership, and its owner if that is still queued (K)."""
        return self._run(calls.cancel_scheduled(schedule_key))

    def wake_scheduled(self, schedule_key: str) -> Wake:
        """Make the key's queued owner due now (K)."""
        return self._run(calls.wake_scheduled(schedule_key))

    def scheduled_job(
        self, schedule_key: str, *, include_latest_terminal: bool = False
    ) -> ScheduledJob:
        """Look the key's owner up (K)."""
        return self._run(
            calls.scheduled_job(
                schedule_key, include_latest_terminal=include_latest_terminal
            )
        )

    def queue_stats(self) -> list[QueueStats]:
        """Return figures for every queue with jobs or a durable row, by name (R2)."""
        return self._run(calls.queue_stats())

    def pause_queue(self, queue: str) -> None:
        """Stop claims from a queue, durably (R4)."""
        self._run(calls.set_paused(queue, paused=True))

    def resume_queue(self, queue: str) -> None:
        """Let a queue be claimed from again (R4)."""
        self._run(calls.set_paused(queue, paused=False))

    def prune_terminal(
        self,
        *,
        completed_ttl_ms: int | None = COMPLETED_TTL_MS,
        failed_ttl_ms: int | None = FAILED_TTL_MS,
        cancelled_ttl_ms: int | None = CANCELLED_TTL_MS,
        batch_size: int = 1000,
    ) -> int:
        """Delete ended jobs at least this old; return how many (R1)."""
        return self._follow(
            calls.prune_terminal(
                completed_ttl_ms, failed_ttl_ms, cancelled_ttl_ms, batch_size
            )
        )

    def acquire_ownership(self, worker_id: str, *, ttl_ms: int) -> bool:
        """Take or renew the row that says one worker has the database alone (L2)."""
        return self._run(calls.acquire_ownership(worker_id, ttl_ms))

    def release_ownership(self, worker_id: str) -> None:
        """Let that row run out now, if it is this worker's (L2)."""
        self._run(calls.release_ownership(worker_id))
