"""
The one function that moves a job: a row of the table as a fenced UPDATE (rule M20).

WHERE is the job's id, the row's source status and the row's fences; SET is its
destination and its writes. The caller checks how many rows changed. What differs from
job to job is a parameter, or a column of a table of values that moves many at once.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    FromClause,
    Table,
    Update,
    bindparam,
    func,
    null,
    true,
    update,
)
from sqlalchemy.types import TypeEngine

from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.table import Fence, Transition, Value

# Names of bound parameters must differ from column names: an executemany UPDATE takes
# a parameter with a column's name for a value to set.
AT_ID = "at_id"
NOW = "at_now"
FENCE = "fence_"
SET = "set_"


# What an operation supplies, by name.
Supplied = Callable[[str, TypeEngine[Any]], ColumnElement[Any]]
MakeTable = Callable[[Mapping[str, TypeEngine[Any]]], FromClause]


def _parameter(name: str, kind: TypeEngine[Any]) -> ColumnElement[Any]:
    return bindparam(name, type_=kind)


@cache
def move(jobs: Table, row: Transition, *, whole: bool = False) -> Update:
    """
    Return the UPDATE of one row of the table on one job.

    `whole` leaves out the lease: a single owner recovers every handoff (L2).
    """
    return _move(jobs, row, _parameter, jobs.c.status, whole=whole)


@cache
def move_many(
    jobs: Table, row: Transition, make_table: MakeTable, *, whole: bool = False
) -> tuple[Update, tuple[str, ...]]:
    """
    Return the same UPDATE on all the jobs of a table of values, and its columns.

    The time alone is still a parameter: it is one for all.
    """
    columns: dict[str, TypeEngine[Any]] = {}

    def note(name: str, kind: TypeEngine[Any]) -> ColumnElement[Any]:
        columns[name] = kind
        return _parameter(name, kind)

    _move(jobs, row, note, jobs.c.status, whole=whole)
    values = make_table(columns)
    # Never NULL, so the same; but no index of the jobs in this status can be taken for a
    # short way to these few, as PostgreSQL does while it has old statistics.
    status = func.coalesce(jobs.c.status, "")
    many = _move(jobs, row, lambda name, _: values.c[name], status, whole=whole)
    return many, tuple(columns)


def _move(
    jobs: Table,
    row: Transition,
    supplied: Supplied,
    status: ColumnElement[str],
    *,
    whole: bool,
) -> Update:
    where = [
        jobs.c.id == supplied(AT_ID, jobs.c.id.type),
        status == _stored(row.source),
    ]
    where += [
        _FENCES[fence](jobs, supplied)
        for fence in row.fence
        if not (whole and fence is Fence.LEASE_OVER)
    ]
    values = {
        name: _value(jobs, name, value, supplied) for name, value in row.writes.items()
    }
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


def _now() -> ColumnElement[int]:
    return bindparam(NOW, type_=BigInteger())


def _value(jobs: Table, name: str, value: Value, supplied: Supplied) -> Any:
    column = jobs.c[name]
    spelled: Mapping[Value, Callable[[], Any]] = {
        Value.NOW: _now,
        Value.GIVEN: lambda: supplied(SET + name, column.type),
        Value.NULL: null,
        Value.TRUE: true,
        Value.INCREMENT: lambda: column + 1,
    }
    return spelled[value]()


def _as_read(jobs: Table, name: str, supplied: Supplied) -> ColumnElement[Any]:
    return supplied(FENCE + name, jobs.c[name].type)


_FENCES: Mapping[Fence, Callable[[Table, Supplied], ColumnElement[bool]]] = {
    Fence.HANDOFF: lambda jobs, supplied: (
        jobs.c.handoff_id == _as_read(jobs, "handoff_id", supplied)
    ),
    Fence.DUE: lambda jobs, _: jobs.c.scheduled_at_ms <= _now(),
    Fence.LEASE_OVER: lambda jobs, _: jobs.c.lease_expires_at_ms <= _now(),
    Fence.SCHEDULED_AT: lambda jobs, supplied: (
        jobs.c.scheduled_at_ms == _as_read(jobs, "scheduled_at_ms", supplied)
    ),
    Fence.CONCURRENCY_KEY: lambda jobs, supplied: (
        jobs.c.concurrency_key.is_not_distinct_from(
            _as_read(jobs, "concurrency_key", supplied)
        )
    ),
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
