"""Acknowledgements and lease extensions (M3 to M7, M12, M14, M15, M18)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from jobfence.statemachine import checks, texts
from jobfence.statemachine.retry import retry_delay_ms
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.table import Transition, Trigger, Value
from jobfence.statemachine.values import STALE, Ack, AckResult, Settlement
from jobfence.store.sql import locks
from jobfence.store.sql.moving import Effects, Move, choose, move_job, move_jobs
from jobfence.store.sql.rows import Row, job_or_none
from jobfence.store.sql.tx import Tx


@dataclass(frozen=True, slots=True)
class Extension:
    """One lease to renew; `lease_ms` None renews it by its own length."""

    job_id: str
    handoff_id: str
    lease_ms: int | None


def acknowledge(tx: Tx, acks: Sequence[Settlement]) -> list[Ack]:
    """Make these changes in the order given; a stale one affects only itself (T5)."""
    rows = locks.job_rows(tx, [ack.job_id for ack in acks])
    effects = Effects()
    answers: list[Ack] = []
    for transition, group in _groups(tx, rows, acks):
        answers += _acknowledge(tx, rows, transition, group, effects)
    effects.apply(tx)
    return answers


Group = tuple[Transition | None, list[Settlement]]


def _groups(
    tx: Tx, rows: dict[str, Row], acks: Sequence[Settlement]
) -> Iterator[Group]:
    """
    Split acknowledgements, in order, into runs that one statement can make.

    A run has one row of the table and each job once; None collects unknown jobs. Each
    run is chosen after the one before it was made, for it may speak of the same job.
    """
    run: dict[str, Settlement] = {}
    current: Transition | None = None
    for ack in acks:
        chosen = _chosen(tx, rows, ack)
        if run and (ack.job_id in run or chosen is not current):
            yield current, list(run.values())
            run = {}
            chosen = _chosen(tx, rows, ack)
        current = chosen
        run[ack.job_id] = ack
    if run:
        yield current, list(run.values())


def _chosen(tx: Tx, rows: dict[str, Row], ack: Settlement) -> Transition | None:
    row = rows.get(ack.job_id)
    if row is None:
        return None
    transition = choose(tx, ack.trigger, JobStatus.HANDED_OFF, row)
    assert transition is not None, f"no way to {ack.trigger} in the table"
    return transition


def _acknowledge(
    tx: Tx,
    rows: dict[str, Row],
    transition: Transition | None,
    group: Sequence[Settlement],
    effects: Effects,
) -> list[Ack]:
    if transition is None:
        return [STALE for _ in group]
    moves = [
        Move(
            rows[ack.job_id],
            _given(tx, transition, rows[ack.job_id], ack),
            ack.handoff_id,
        )
        for ack in group
    ]
    answers = []
    results = move_jobs(tx, transition, moves)
    for ack, before, after in zip(group, moves, results, strict=True):
        if after is None:
            answers.append(_refused(before.row, ack))
            continue
        rows[ack.job_id] = after
        effects.add(tx, transition, before.row)
        answers.append(Ack(AckResult.ACCEPTED, job_or_none(after)))
    return answers


def _refused(row: Row, ack: Settlement) -> Ack:
    """Tell a lost reply from a lost handoff (M18)."""
    # Fenced again by what the row says of its latest handoff, for one that is still
    # held has not ended in any way yet.
    if row["last_handoff_id"] == ack.handoff_id and row["last_ack"] == ack.trigger:
        return Ack(AckResult.REPEATED, job_or_none(row))
    return STALE


def _given(tx: Tx, transition: Transition, row: Row, ack: Settlement) -> dict[str, Any]:
    error = ack.error
    if transition.name == "give_up":
        error = texts.handoffs_spent(tx.settings.max_handoffs or 0)
    values = {
        "last_ack": lambda: ack.trigger.value,
        "last_error": lambda: error,
        "scheduled_at_ms": lambda: checks.later_ms(tx.now, wait_ms(tx, row, ack)),
    }
    return given_values(transition, values)


def given_values(transition: Transition, values: Any) -> dict[str, Any]:
    """Work out those values that this row of the table takes from the operation."""
    return {
        name: values[name]()
        for name, source in transition.writes.items()
        if source is Value.GIVEN
    }


def wait_ms(tx: Tx, row: Row, ack: Settlement) -> int:
    """Return how long a job that goes back waits: as asked, or by the retry policy."""
    if ack.delay_ms is not None:
        return ack.delay_ms
    return backoff_ms(tx, row)


def backoff_ms(tx: Tx, row: Row) -> int:
    """Return the wait after one more failure (B1)."""
    attempts = row["attempts"]
    failures = (attempts if isinstance(attempts, int) else 0) + 1
    return retry_delay_ms(tx.settings.retry_policy, failures)


def extend(tx: Tx, extensions: Sequence[Extension]) -> list[Ack]:
    """Renew leases; each answer says whether that handoff stands (L1)."""
    rows = locks.job_rows(tx, [each.job_id for each in extensions])
    return [_extend(tx, rows, each) for each in extensions]


def _extend(tx: Tx, rows: dict[str, Row], extension: Extension) -> Ack:
    before = rows.get(extension.job_id)
    if before is None:
        return STALE
    transition = choose(tx, Trigger.EXTEND_LEASE, JobStatus.HANDED_OFF, before)
    assert transition is not None
    length = extension.lease_ms or before["lease_ms"]
    lease = length if isinstance(length, int) else None
    after = move_job(
        tx,
        transition,
        Move(before, lease_values(tx, lease), extension.handoff_id),
    )
    if after is None:
        return STALE
    rows[extension.job_id] = after
    return Ack(AckResult.ACCEPTED, job_or_none(after))


def lease_values(tx: Tx, lease_ms: int | None) -> dict[str, Any]:
    """Return what a handoff with this lease carries; None is no lease (L1)."""
    ends = None if lease_ms is None else checks.later_ms(tx.now, lease_ms)
    return {"lease_ms": lease_ms, "lease_expires_at_ms": ends}
