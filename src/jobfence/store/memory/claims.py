"""Handing jobs off (M2, M11, M13, M19; O1; C4 to C8)."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from jobfence.statemachine import checks, texts
from jobfence.statemachine.errors import HandoffIdInUse
from jobfence.statemachine.options import execution_modes as check_modes, queue_names
from jobfence.statemachine.policy import is_derived
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.table import Trigger
from jobfence.statemachine.values import Handoff
from jobfence.store.contract import Lease
from jobfence.store.memory.base import StoreBase
from jobfence.store.memory.rows import JobRow, best_first, read_handoff, unreadable
from jobfence.store.memory.transaction import Transaction

MAX_CLAIM = 10_000


@dataclass(frozen=True, slots=True)
class Holder:
    """Who takes the jobs, and for how long at a time."""

    worker_id: str
    lease_ms: int | None


@dataclass(frozen=True, slots=True)
class Wish:
    """The checked options of one claim."""

    limit: int
    queues: tuple[str, ...] | None
    execution_modes: tuple[str, ...] | None
    holder: Holder


class Claims(StoreBase):
    """`claim` and `claim_job`."""

    def claim(
        self,
        limit: int = 1,
        *,
        queues: Collection[str] | None = None,
        execution_modes: Collection[str] | None = None,
        worker_id: str = "local",
        lease_ms: Lease = ...,
    ) -> list[Handoff]:
        """Take up to `limit` candidates, best first."""
        wish = self._wish(limit, queues, execution_modes, worker_id, lease_ms)
        with self._transaction() as transaction:
            return self._claim(transaction, wish)

    def claim_job(
        self,
        job_id: str,
        *,
        worker_id: str = "local",
        handoff_id: str | None = None,
        lease_ms: Lease = ...,
    ) -> Handoff | None:
        """Take this job, under the id given or a fresh one (M19)."""
        wanted = checks.storable("job_id", job_id)
        worker = checks.text("worker_id", worker_id)
        chosen = None if handoff_id is None else checks.text("handoff_id", handoff_id)
        holder = self._holder(worker, lease_ms)
        with self._transaction() as transaction:
            row = transaction.tables.jobs.get(wanted)
            if chosen is not None:
                if row is not None and row.handoff_id == chosen:
                    return None if unreadable(row) else read_handoff(row)
                refuse_used_id(transaction, chosen)
            if row is None or not ready(transaction, row):
                return None
            make_id = self._handoff_ids if chosen is None else lambda: chosen
            return hand_off(transaction, row, holder, make_id)

    def _claim(self, transaction: Transaction, wish: Wish) -> list[Handoff]:
        taken: list[Handoff] = []
        for row in candidates(transaction, wish.queues, wish.execution_modes):
            if len(taken) == wish.limit:
                break
            handoff = hand_off(transaction, row, wish.holder, self._handoff_ids)
            if handoff is not None:
                taken.append(handoff)
        return taken

    def _wish(
        self,
        limit: int,
        queues: Collection[str] | None,
        execution_modes: Collection[str] | None,
        worker_id: str,
        lease_ms: Lease,
        *,
        option: str = "limit",
    ) -> Wish:
        """Check what is asked of a claim; `option` is what the caller calls its limit."""
        return Wish(
            checks.integer(option, limit, least=0, most=MAX_CLAIM),
            queue_names(queues),
            check_modes(execution_modes),
            self._holder(worker_id, lease_ms),
        )

    def _holder(self, worker_id: str, lease_ms: Lease) -> Holder:
        return Holder(
            checks.text("worker_id", worker_id),
            self._lease_ms if lease_ms is ... else checks.lease_ms(lease_ms),
        )


def ready(transaction: Transaction, row: JobRow) -> bool:
    """Whether nothing but its key's counter may stand between a job and a claim."""
    return (
        row.status is JobStatus.QUEUED
        and row.scheduled_at_ms <= transaction.now
        and not transaction.paused(row.queue)
    )


def candidates(
    transaction: Transaction,
    queues: tuple[str, ...] | None,
    execution_modes: tuple[str, ...] | None,
) -> list[JobRow]:
    """
    Return the jobs to try, best first, by their stored priority (O1).

    Whether a slot is free is asked when a job's turn has come: the jobs before it in
    the same claim may have taken the last one (C6).
    """
    found = [
        row
        for row in transaction.rows(JobStatus.QUEUED)
        if ready(transaction, row)
        and (queues is None or row.queue in queues)
        and (execution_modes is None or row.execution_mode in execution_modes)
    ]
    return sorted(found, key=best_first)


def hand_off(
    transaction: Transaction,
    row: JobRow,
    holder: Holder,
    make_id: Callable[[], str],
) -> Handoff | None:
    """
    Take one ready job, unless its key is full or it cannot be read.

    A refused slot keeps what the job adopted (C8); an unreadable job fails (M11).
    """
    if not transaction.slot_free(row):
        return None
    problem = unreadable(row)
    if problem is not None:
        error = texts.unreadable(problem.column, problem.problem)
        transaction.move(row, Trigger.REJECT, given={"last_error": error})
        return None
    row = transaction.adopt(row, transaction.policy(row.queue))
    _follow_policy_cap(transaction, row)
    if not transaction.slot_free(row):
        return None  # the machine would refuse too, but an id would be spent
    handoff_id = make_id()
    refuse_used_id(transaction, handoff_id)
    lease = holder.lease_ms
    until = None if lease is None else checks.later_ms(transaction.now, lease)
    moved = transaction.move(
        row,
        Trigger.CLAIM,
        given={
            "handoff_id": handoff_id,
            "worker_id": holder.worker_id,
            "lease_ms": lease,
            "lease_expires_at_ms": until,
            "last_handoff_id": handoff_id,
            "last_worker_id": holder.worker_id,
        },
    )
    return None if moved is None else read_handoff(moved)


def refuse_used_id(transaction: Transaction, handoff_id: str) -> None:
    """Refuse a handoff id that stands in the database, this job's own included (M19)."""
    if any(
        row.last_handoff_id == handoff_id for row in transaction.tables.jobs.values()
    ):
        raise HandoffIdInUse(handoff_id)


def _follow_policy_cap(transaction: Transaction, row: JobRow) -> None:
    """Let the counter of a queue-derived key take the policy's cap (C3)."""
    key, cap = row.concurrency_key, row.max_concurrency
    if key is not None and cap is not None and is_derived(key):
        transaction.set_cap(key, cap)
