"""What a trigger must do to a job, worked out from the rows of the table alone."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from jobfence.conformance import driven
from jobfence.statemachine.table import Guard, Transition, Trigger, Value, alternatives
from jobfence.statemachine.values import Job

NOT_IN_A_JOB = ("lease_ms", "last_ack")  # stored, and seen only by what follows


def fires(trigger: Trigger, job: Job, *, spent: bool = False) -> Transition | None:
    """Return the first row of the table that applies to this job."""
    holds = {
        Guard.RETRIES_LEFT: job.attempts + 1 <= job.max_retries,
        Guard.NO_RETRIES_LEFT: job.attempts + 1 > job.max_retries,
        Guard.CANCEL_REQUESTED: job.cancel_requested,
        Guard.HANDOFFS_SPENT: spent,
        Guard.LEASE_OVER: True,
        Guard.DUE: True,
        Guard.NOT_PAUSED: True,
        Guard.SLOT_FREE: True,
        Guard.FUTURE: True,
        Guard.UNREADABLE: False,
    }
    row = next(
        (
            each
            for each in alternatives(trigger, job.status)
            if all(holds[guard] for guard in each.guards)
        ),
        None,
    )
    driven.note(trigger, job.status, None)
    return row


def after(job: Job, row: Transition, now: int, given: Mapping[str, object]) -> Job:
    """Return the job as the row's writes leave it, and note that it was driven."""
    driven.fired[driven.edge(row)] += 1
    columns: dict[str, Any] = {"status": row.dest}
    for column, value in row.writes.items():
        if column in NOT_IN_A_JOB:
            continue
        if value is Value.NOW:
            columns[column] = now
        elif value is Value.NULL:
            columns[column] = None
        elif value is Value.TRUE:
            columns[column] = True
        elif value is Value.INCREMENT:
            columns[column] = getattr(job, column) + 1
        else:
            columns[column] = given[column]
    return replace(job, **columns)
