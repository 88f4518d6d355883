"""What a claim does to queued jobs that it has locked: adopt, hand off, reject."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from jobfence.statemachine import texts
from jobfence.statemachine.errors import UnreadableJob
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.table import Trigger, row as table_row
from jobfence.statemachine.values import Handoff
from jobfence.store.sql.acks import lease_values
from jobfence.store.sql.moving import Effects, Move, move_job, move_jobs
from jobfence.store.sql.rows import Row, handoff_of, job_from
from jobfence.store.sql.tx import Tx

_CLAIM = table_row(Trigger.CLAIM, "claim", JobStatus.QUEUED)
_REJECT = table_row(Trigger.REJECT, "reject", JobStatus.QUEUED)
_ADOPT = table_row(Trigger.ADOPT_POLICY, "adopt_policy", JobStatus.QUEUED)


@dataclass(frozen=True, slots=True)
class Ask:
    """What a claim asks for. One handoff id for each job it may take, made before."""

    handoff_ids: Collection[str]
    queues: Collection[str] | None
    modes: Collection[str] | None
    worker_id: str
    lease_ms: int | None


def adopt(tx: Tx, pairs: Sequence[tuple[Row, Row]]) -> list[Row]:
    """Write the policies that locked queued jobs take over (M13), from and to rows."""
    names = ("concurrency_key", "max_concurrency", "priority")
    moves = [
        Move(before, {name: after[name] for name in names}) for before, after in pairs
    ]
    moved = move_jobs(tx, _ADOPT, moves)
    assert None not in moved, "a locked queued job could not adopt its policy"
    return [row for row in moved if row is not None]


def hand_off(
    tx: Tx, rows: Sequence[Row], handoff_ids: Sequence[str], ask: Ask
) -> list[Handoff | None]:
    """Execute the claims of locked jobs whose slots are to be had (M2)."""
    lease = lease_values(tx, ask.lease_ms)
    moves = [
        Move(
            row,
            {
                "handoff_id": handoff_id,
                "worker_id": ask.worker_id,
                "last_handoff_id": handoff_id,
                "last_worker_id": ask.worker_id,
                **lease,
            },
        )
        for row, handoff_id in zip(rows, handoff_ids, strict=True)
    ]
    return [
        None if after is None else handoff_of(job_from(after))
        for after in move_jobs(tx, _CLAIM, moves)
    ]


def reject(tx: Tx, row: Row, problem: UnreadableJob) -> None:
    """Fail a queued row that cannot be read (M11)."""
    error = texts.unreadable(problem.column, problem.problem)
    effects = Effects()
    if move_job(tx, _REJECT, Move(row, {"last_error": error})) is not None:
        effects.add(tx, _REJECT, row)
    effects.apply(tx)
