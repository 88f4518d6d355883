"""Claims and `settle`, which may take a second transaction (C4, T5)."""

import logging

from collections.abc import Sequence
from dataclasses import dataclass
from types import EllipsisType

from sqlalchemy.exc import DBAPIError

from jobfence.statemachine import checks, options, settling
from jobfence.statemachine.errors import JobfenceError, StoreUnavailable
from jobfence.statemachine.values import (
    Ack,
    Handoff,
    Settlement,
)
from jobfence.store.contract import Lease
from jobfence.store.sql import (
    acks,
    caps,
    claim,
    single,
)
from jobfence.store.sql.calls.base import Call, Plan
from jobfence.store.sql.calls.core import MOST_AT_ONCE
from jobfence.store.sql.handing import Ask
from jobfence.store.sql.tx import Settings, Tx

logger = logging.getLogger("jobfence")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a caller asks of a claim, as given; `option` is what it calls the limit."""

    limit: object
    option: str = "limit"
    queues: object
    execution_modes: object
    worker_id: object
    lease_ms: Lease


def _ask(settings: Settings, wanted: Wanted) -> Ask:
    n = checks.integer(wanted.option, wanted.limit, least=0, most=MOST_AT_ONCE)
    return Ask(
        handoff_ids=[settings.handoff_ids() for _ in range(n)],
        queues=options.queue_names(wanted.queues),
        modes=options.execution_modes(wanted.execution_modes),
        worker_id=checks.text("worker_id", wanted.worker_id),
        lease_ms=_lease(settings, wanted.lease_ms),
    )


def _lease(settings: Settings, lease_ms: object) -> int | None:
    if isinstance(lease_ms, EllipsisType):
        return settings.lease_ms
    return checks.lease_ms(lease_ms)


def claim_jobs(settings: Settings, wanted: Wanted) -> Plan[list[Handoff]]:
    """Claim; once more if all there is are jobs of counters that others held (C4)."""
    return _claim(_ask(settings, wanted))


def _claim(ask: Ask) -> Plan[list[Handoff]]:
    if not ask.handoff_ids:
        return []
    found: claim.Claimed = yield from _claim_whole(ask)
    # What is handed off is never kept from its worker by waiting for more: the next
    # call waits for what is left.
    if found.busy and not found.handoffs:
        found = yield from _claim_whole(ask)
    return found.handoffs


def _claim_whole(ask: Ask) -> Plan[claim.Claimed]:
    """Claim in one transaction, after others that make the counters it lacks."""
    while True:
        try:
            found: claim.Claimed = yield Call(lambda tx: claim.claim(tx, ask))
        except claim.Unmade as lacking:
            yield _make_counter(lacking.key, lacking.cap)
        else:
            return found


def _make_counter(key: str, cap: int) -> Call[object]:
    return Call(lambda tx: caps.counter_for(tx, key, cap))


def claim_job(
    settings: Settings,
    job_id: object,
    worker_id: object,
    handoff_id: object,
    lease_ms: Lease,
) -> Call[Handoff | None]:
    """Claim one job by id."""
    wanted = checks.storable("job_id", job_id)
    worker = checks.text("worker_id", worker_id)
    chosen = handoff_id is not None
    ask = Ask(
        handoff_ids=[
            checks.text("handoff_id", handoff_id) if chosen else settings.handoff_ids()
        ],
        queues=None,
        modes=None,
        worker_id=worker,
        lease_ms=_lease(settings, lease_ms),
    )
    return Call(lambda tx: single.claim_job(tx, wanted, ask, chosen=chosen))


def settle(
    settings: Settings, settlements: Sequence[Settlement], wanted: Wanted
) -> Plan[tuple[list[Ack], list[Handoff]]]:
    """Acknowledge a batch and claim the next one in one transaction (T5)."""
    return _settle(settling.settlements(settlements), _ask(settings, wanted))


def _settle(
    settlements: list[Settlement], ask: Ask
) -> Plan[tuple[list[Ack], list[Handoff]]]:
    if not settlements:
        return [], (yield from _claim(ask))

    def work(tx: Tx) -> tuple[list[Ack], claim.Claimed]:
        return acks.acknowledge(tx, settlements), claim.claim(tx, ask)

    try:
        answers, found = yield Call(work)
    except claim.Unmade:
        # Acknowledgements do not wait for whoever may be making that counter.
        answers = yield Call(lambda tx: acks.acknowledge(tx, settlements))
        return answers, (yield from _claim_more(ask))
    if found.busy and not found.handoffs:
        return answers, (yield from _claim_more(ask))
    return answers, found.handoffs


def _claim_more(ask: Ask) -> Plan[list[Handoff]]:
    """
    Claim after acknowledgements that are committed: their answers must reach the caller.

    Only a claim whose own COMMIT is in doubt is told of: what it may have handed off
    has to be looked for, and the same acknowledgements again are repeated ones (M18).
    """
    try:
        return (yield from _claim(ask))
    except StoreUnavailable as error:
        if error.in_doubt:
            raise
        return _left(error)
    except (JobfenceError, DBAPIError) as error:
        return _left(error)


def _left(error: Exception) -> list[Handoff]:
    logger.warning(
        "acknowledgements were stored, but nothing could be claimed after them; the "
        "next claim tries again: %s",
        error,
    )
    return []
