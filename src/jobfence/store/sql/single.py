"""One job by its id: claim it, cancel it (M2, M9, M14, M19, R3)."""

from jobfence.statemachine.errors import HandoffIdInUse
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.table import Trigger
from jobfence.statemachine.values import Cancellation, CancelOutcome, Handoff
from jobfence.store.sql import locks, writes
from jobfence.store.sql.caps import adopted, differs, is_full, make, with_cap
from jobfence.store.sql.handing import Ask, adopt, hand_off, reject
from jobfence.store.sql.moving import Effects, Move, choose, move_job
from jobfence.store.sql.rows import Row, handoff_of, job_or_none, unreadable
from jobfence.store.sql.statements import counters, jobs
from jobfence.store.sql.tx import Tx


def claim_job(tx: Tx, job_id: str, ask: Ask, *, chosen: bool) -> Handoff | None:
    """Hand off this job; `chosen` says that the caller named the handoff id (M19)."""
    (handoff_id,) = ask.handoff_ids
    row = locks.job_rows(tx, [job_id]).get(job_id)
    if chosen and row is not None and row["handoff_id"] == handoff_id:
        held = job_or_none(row)
        return None if held is None else handoff_of(held)
    if chosen and tx.scalar(jobs.having_handoff(tx.schema), handoff_id=handoff_id):
        raise HandoffIdInUse(handoff_id)
    if row is None or not _claimable(tx, row):
        return None
    return _take(tx, row, handoff_id, ask)


def _take(tx: Tx, row: Row, handoff_id: str, ask: Ask) -> Handoff | None:
    """Hand off a locked job that is ready, unless its key is full or it is damaged."""
    problem = unreadable(row)
    after = row if problem is not None else adopted(tx, row)
    stored = row["concurrency_key"]
    key = after["concurrency_key"] if stored is None else stored
    counter = None
    if isinstance(key, str):
        counter = locks.counter_rows(tx, [key]).get(key)
    if stored is not None and counter is not None:
        # If nothing but the slot is to be written, taking that decides, and alone.
        takes_over = (
            after != row or counter["max_concurrency"] != row["max_concurrency"]
        )
        if (problem is not None or takes_over) and is_full(tx, row, counter):
            return None
    if problem is not None:
        reject(tx, row, problem)
        return None
    if differs(row, after):
        (after,) = adopt(tx, [(row, after)])
    key, cap = after["concurrency_key"], after["max_concurrency"]
    if isinstance(key, str) and isinstance(cap, int):
        if counter is None:
            make(tx, key, cap)
        else:
            with_cap(tx, counter, cap)
    # All locks are held: this is the time that counts, and a clock may be set back.
    if not _due(after, tx.now):
        return None
    if isinstance(key, str) and not _reserved(tx, key):
        return None
    (handoff,) = hand_off(tx, [after], [handoff_id], ask)
    assert handoff is not None, "a locked, due job could not be handed off"
    return handoff


def _reserved(tx: Tx, key: str) -> bool:
    return writes.counter(tx, counters.reserve(tx.schema), key, "reserve", n=1)


def _claimable(tx: Tx, row: Row) -> bool:
    if row["status"] != JobStatus.QUEUED or _paused(tx, row):
        return False
    return _due(row, tx.time_so_far())


def _due(row: Row, now: int) -> bool:
    due = row["scheduled_at_ms"]
    return not isinstance(due, int) or due <= now


def _paused(tx: Tx, row: Row) -> bool:
    return row["queue"] in tx.policies(latest=True).paused


def cancel(tx: Tx, job_id: str) -> Cancellation:
    """Cancel a queued job, mark a handed-off one (R3)."""
    row = locks.job_rows(tx, [job_id]).get(job_id)
    if row is None:
        return Cancellation(None, CancelOutcome.NOT_FOUND)
    if row["status"] == JobStatus.QUEUED:
        cancel_queued(tx, row)
        return Cancellation(job_id, CancelOutcome.CANCELLED)
    if row["status"] == JobStatus.HANDED_OFF:
        request_cancel(tx, row)
        return Cancellation(job_id, CancelOutcome.REQUESTED)
    return Cancellation(job_id, CancelOutcome.TERMINAL)


def cancel_queued(tx: Tx, row: Row) -> None:
    """Execute M9 on a locked queued job, and end its ownership."""
    transition = choose(tx, Trigger.CANCEL, JobStatus.QUEUED, row)
    assert transition is not None
    after = move_job(tx, transition, Move(row))
    assert after is not None, "a locked queued job could not be cancelled"
    effects = Effects()
    effects.add(tx, transition, row)
    effects.apply(tx)
    tx.wake = True


def request_cancel(tx: Tx, row: Row) -> None:
    """Execute M14 on a locked handed-off job."""
    transition = choose(tx, Trigger.REQUEST_CANCEL, JobStatus.HANDED_OFF, row)
    assert transition is not None
    after = move_job(tx, transition, Move(row))
    assert after is not None, "a locked handed-off job could not be marked"
