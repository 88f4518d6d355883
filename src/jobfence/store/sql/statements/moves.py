"""
The one function that moves a job: a row of the table as a fenced UPDATE (rule M20).

WHERE is the job's id, the row's source status and the row's fences; SET is its
destination and its writes. The caller checks that exactly one row changed.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Table,
    Update,
    bindparam,
    null,
    true,
    update,
)

from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.table import Fence, Transition, Value

# Names of bound parameters must differ from column names: an executemany UPDATE takes
# a parameter with a column's name for a value to set.
AT_ID = "at_id"
NOW = "at_now"
FENCE = "fence_"
SET = "set_"


@cache
def move(jobs: Table, row: Transition, *, whole: bool = False) -> Update:
    """
    Return the UPDATE of one row of the table.

    `whole` leaves out the lease: a single owner recovers every handoff (L2).
    """
    where = [jobs.c.id == bindparam(AT_ID), jobs.c.status == _stored(row.source)]
    where += [
        _FENCES[fence](jobs)
        for fence in row.fence
        if not (whole and fence is Fence.LEASE_OVER)
    ]
    values = {name: _value(jobs, name, value) for name, value in row.writes.items()}
    # The order of SET matters on MySQL, which runs it from left to right; no value here
    # reads another column, so any order is right (asserted by a test).
    return (
        update(jobs)
        .where(*where)
        .values(status=row.dest.value, rev=jobs.c.rev + 1, **values)
    )


def _stored(source: JobStatus | None) -> str:
    assert source is not None, "enqueue inserts, it does not move"
    return source.value


def _value(jobs: Table, name: str, value: Value) -> Any:
    column = jobs.c[name]
    spelled: Mapping[Value, Callable[[], Any]] = {
        Value.NOW: lambda: bindparam(NOW, type_=BigInteger()),
        Value.GIVEN: lambda: bindparam(SET + name, type_=column.type),
        Value.NULL: null,
        Value.TRUE: true,
        Value.INCREMENT: lambda: column + 1,
    }
    return spelled[value]()


def _same_or_null(jobs: Table) -> ColumnElement[bool]:
    key = jobs.c.concurrency_key
    return key.is_not_distinct_from(
        bindparam(FENCE + "concurrency_key", type_=key.type)
    )


_FENCES: Mapping[Fence, Callable[[Table], ColumnElement[bool]]] = {
    Fence.HANDOFF: lambda jobs: jobs.c.handoff_id == bindparam(FENCE + "handoff_id"),
    Fence.DUE: lambda jobs: jobs.c.scheduled_at_ms <= bindparam(NOW),
    Fence.LEASE_OVER: lambda jobs: jobs.c.lease_expires_at_ms <= bindparam(NOW),
    Fence.SCHEDULED_AT: lambda jobs: (
        jobs.c.scheduled_at_ms == bindparam(FENCE + "scheduled_at_ms")
    ),
    Fence.CONCURRENCY_KEY: _same_or_null,
}


def _one_more(old: object) -> object:
    """Add one; a damaged number must not stop the move that ends its job (M21)."""
    return old + 1 if isinstance(old, int) else old


def written(
    row: Transition, before: Mapping[str, Any], now: int, given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the stored row as this UPDATE leaves it, from the row that was locked."""
    after = dict(before)
    after["status"] = row.dest.value
    after["rev"] = _one_more(before["rev"])
    for name, value in row.writes.items():
        if value is Value.INCREMENT:
            after[name] = _one_more(before[name])
        else:
            after[name] = {
                Value.NOW: now,
                Value.GIVEN: given.get(name),
                Value.NULL: None,
                Value.TRUE: True,
            }[value]
    return after
