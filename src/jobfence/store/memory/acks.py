"""Acknowledgements: how a handoff ends, or goes on (M3 to M7, M12, M18, T5)."""

from collections.abc import Collection, Iterable, Sequence

from jobfence.statemachine import checks
from jobfence.statemachine.errortext import error_text
from jobfence.statemachine.settling import (
    extension,
    extensions,
    settled,
    settlements,
)
from jobfence.statemachine.table import Trigger
from jobfence.statemachine.values import STALE, Ack, AckResult, Handoff, Settlement
from jobfence.store.contract import Lease
from jobfence.store.memory.base import read_or_log
from jobfence.store.memory.claims import Claims
from jobfence.store.memory.transaction import Transaction


class Acks(Claims):
    """The holder's words, one at a time or many with the next claim."""

    def complete(self, job_id: str, handoff_id: str) -> Ack:
        """End the job well (M3)."""
        return self._settle_one(Settlement(Trigger.COMPLETE, job_id, handoff_id))

    def fail(self, job_id: str, handoff_id: str, error: object) -> Ack:
        """Count a failure (M4, M5)."""
        text = error_text(error)
        return self._settle_one(
            Settlement(Trigger.FAIL, job_id, handoff_id, error=text)
        )

    def reschedule(self, job_id: str, handoff_id: str, *, delay_ms: int) -> Ack:
        """Put the job back for later (M6)."""
        return self._settle_one(
            Settlement(Trigger.RESCHEDULE, job_id, handoff_id, delay_ms=delay_ms)
        )

    def return_to_queue(self, job_id: str, handoff_id: str) -> Ack:
        """Put the job back for now (M7)."""
        return self._settle_one(Settlement(Trigger.RETURN_TO_QUEUE, job_id, handoff_id))

    def _settle_one(self, settlement: Settlement) -> Ack:
        checked = settled(settlement)
        with self._transaction() as transaction:
            return _settle(transaction, checked)

    def extend_lease(
        self, job_id: str, handoff_id: str, *, lease_ms: int | None = None
    ) -> Ack:
        """Renew a lease (M12)."""
        ids = extension(job_id, handoff_id)
        length = checks.lease_ms(lease_ms)
        with self._transaction() as transaction:
            return _extend(transaction, *ids, length)

    def extend_leases(
        self, handoffs: Iterable[Handoff], *, lease_ms: int | None = None
    ) -> list[Ack]:
        """Renew many leases; each answer is its own."""
        held = extensions(handoffs)
        length = checks.lease_ms(lease_ms)
        with self._transaction() as transaction:
            return [_extend(transaction, *each, length) for each in held]

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
        """Acknowledge in the order given, then claim, in one step (T5)."""
        wanted = settlements(acks)
        wish = self._wish(
            claim, queues, execution_modes, worker_id, lease_ms, option="claim"
        )
        with self._transaction() as transaction:
            answers = [_settle(transaction, each) for each in wanted]
            return answers, self._claim(transaction, wish)


def _settle(transaction: Transaction, settlement: Settlement) -> Ack:
    given: dict[str, object] = {}
    if settlement.trigger is Trigger.FAIL:
        given["last_error"] = settlement.error
    if settlement.trigger is Trigger.RESCHEDULE:
        assert settlement.delay_ms is not None
        until = checks.later_ms(transaction.now, settlement.delay_ms)
        given["scheduled_at_ms"] = until
    return _acknowledge(
        transaction,
        settlement.trigger,
        settlement.job_id,
        settlement.handoff_id,
        given,
    )


def _extend(
    transaction: Transaction, job_id: str, handoff_id: str, lease_ms: int | None
) -> Ack:
    """Renew by the length given, else by the one kept with the handoff (L1)."""
    row = transaction.tables.jobs.get(job_id)
    kept = None if row is None else row.lease_ms
    length = kept if lease_ms is None else lease_ms
    until = None if length is None else checks.later_ms(transaction.now, length)
    return _acknowledge(
        transaction,
        Trigger.EXTEND_LEASE,
        job_id,
        handoff_id,
        {"lease_ms": length, "lease_expires_at_ms": until},
    )


def _acknowledge(
    transaction: Transaction,
    trigger: Trigger,
    job_id: str,
    handoff_id: str,
    given: dict[str, object],
) -> Ack:
    """
    Give one of the three answers of rule M18.

    Repeated means: this is the job's latest handoff, and this is how it ended. While
    it lasts, and after an end by any other trigger, `last_ack` is something else.
    """
    row = transaction.tables.jobs.get(job_id)
    if row is None:
        return STALE
    moved = transaction.move(row, trigger, handoff_id=handoff_id, given=given)
    if moved is not None:
        return Ack(AckResult.ACCEPTED, read_or_log(moved))
    if row.last_handoff_id == handoff_id and row.last_ack == trigger.value:
        return Ack(AckResult.REPEATED, read_or_log(row))
    return STALE
