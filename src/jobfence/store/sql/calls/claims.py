"""Claims and `settle`, which may take a second transaction (C4, T5)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import EllipsisType

from jobfence.statemachine import checks, options
from jobfence.statemachine.values import (
    Ack,
    Handoff,
    Settlement,
)
from jobfence.store.contract import Lease
from jobfence.store.sql import (
    acks,
    claim,
    single,
)
from jobfence.store.sql.calls.base import Call, Plan
from jobfence.store.sql.calls.core import MOST_AT_ONCE
from jobfence.store.sql.handing import Ask
from jobfence.store.sql.tx import Settings, Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a caller asks of a claim, as given."""

    limit: object
    queues: object
    execution_modes: object
    worker_id: object
    lease_ms: Lease


def _ask(settings: Settings, wanted: Wanted) -> Ask:
    n = checks.integer("limit", wanted.limit, least=0, most=MOST_AT_ONCE)
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
    """Claim; once more if counters that others held were in the way (C4)."""
    return _claim(_ask(settings, wanted))


def _claim(ask: Ask) -> Plan[list[Handoff]]:
    if not ask.handoff_ids:
        return []
    first: claim.Claimed = yield _claim_once(ask)
    more = yield from _claim_rest(ask, first)
    return first.handoffs + more


def _claim_once(ask: Ask) -> Call[claim.Claimed]:
    return Call(lambda tx: claim.claim(tx, ask))


def _claim_rest(ask: Ask, first: claim.Claimed) -> Plan[list[Handoff]]:
    """
    Claim what the first transaction left, in others that may wait once more (C4).

    One for the counters that it passed over; and one after another while each stops at
    a counter that has to be made, which the next one begins with.
    """
    found, more = first, list[Handoff]()
    again = first.busy or first.stopped
    while again:
        used = {handoff.handoff_id for handoff in found.handoffs}
        unused = [each for each in ask.handoff_ids if each not in used]
        if not unused:
            break
        ask = replace(ask, handoff_ids=unused)
        found = yield _claim_once(ask)
        more += found.handoffs
        again = found.stopped
    return more


def claim_job(
    settings: Settings,
    job_id: object,
    worker_id: object,
    handoff_id: object,
    lease_ms: Lease,
) -> Call[Handoff | None]:
    """Claim one job by id."""
    wanted = checks.storable("job_id", job_id)
    chosen = handoff_id is not None
    ask = Ask(
        handoff_ids=[
            checks.text("handoff_id", handoff_id) if chosen else settings.handoff_ids()
        ],
        queues=None,
        modes=None,
        worker_id=checks.text("worker_id", worker_id),
        lease_ms=_lease(settings, lease_ms),
    )
    return Call(lambda tx: single.claim_job(tx, wanted, ask, chosen=chosen))


def settle(
    settings: Settings, settlements: Sequence[Settlement], wanted: Wanted
) -> Plan[tuple[list[Ack], list[Handoff]]]:
    """Acknowledge a batch and claim the next one in one transaction (T5)."""
    checked = [acks.check(each) for each in settlements]
    return _settle(checked, _ask(settings, wanted))


def _settle(
    settlements: list[Settlement], ask: Ask
) -> Plan[tuple[list[Ack], list[Handoff]]]:
    if not settlements:
        return [], (yield from _claim(ask))

    def work(tx: Tx) -> tuple[list[Ack], claim.Claimed]:
        answers, holding = acks.acknowledge(tx, settlements)
        return answers, claim.claim(tx, ask, holding_counters=holding)

    answers, first = yield Call(work)
    more = yield from _claim_rest(ask, first)
    return answers, first.handoffs + more
