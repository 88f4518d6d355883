"""Rows as plain values: what a transaction changed, for whoever keeps them elsewhere."""

import json

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any, Final, NamedTuple, TypeAlias

from jobfence.statemachine.policy import QueuePolicy
from jobfence.statemachine.states import JobStatus
from jobfence.store.memory.data import Tables
from jobfence.store.memory.rows import (
    CounterRow,
    IdempotencyRow,
    JobRow,
    OwnerRow,
    QueueRow,
    ScheduleRow,
)

Row: TypeAlias = (
    JobRow | CounterRow | ScheduleRow | IdempotencyRow | QueueRow | OwnerRow
)


class Change(NamedTuple):
    """
    One row as it is now, as JSON can hold it; `row` is None when it was deleted.

    `table` and `key` name it: a pair of texts is the same row for ever.
    """

    table: str
    key: str
    row: Mapping[str, Any] | None


_OWNER: Final = "owner"
_TABLES: Final = ("jobs", "counters", "schedule_keys", "idempotency", "queues", _OWNER)


def changes(before: Tables, after: Tables) -> Iterator[Change]:
    """
    Yield what was written or deleted between the two.

    From `Tables()` to some tables these are all their rows.
    """
    for name in _TABLES:
        old, new = _rows(before, name), _rows(after, name)
        for key, row in new.items():
            was = old.get(key)
            if was is not row and was != row:  # most are the same object
                yield Change(name, _text(key), _plain(row))
        for key in old.keys() - new.keys():
            yield Change(name, _text(key), None)


def apply(tables: Tables, changed: Iterable[Iterable[Any]]) -> None:
    """
    Make these changes in these tables; each may come as a list, as JSON has it.

    ValueError for a table that is not one of jobfence's.
    """
    for table, key, row in changed:
        if table == _OWNER:
            tables.owner = None if row is None else OwnerRow(**row)
        elif table not in _TABLES:
            raise ValueError(f"{table!r} is no table of jobs: {', '.join(_TABLES)}")
        elif row is None:
            del _rows(tables, table)[_key(table, key)]
        else:
            _rows(tables, table)[_key(table, key)] = _READ[table](row)


def _rows(tables: Tables, name: str) -> dict[Any, Any]:
    if name == _OWNER:
        return {} if tables.owner is None else {_OWNER: tables.owner}
    rows: dict[Any, Any] = getattr(tables, name)
    return rows


def _text(key: object) -> str:
    return key if isinstance(key, str) else json.dumps(key)


def _key(table: str, text: str) -> object:
    return tuple(json.loads(text)) if table == "idempotency" else text


def _plain(row: Row) -> dict[str, Any]:
    return {each.name: _value(getattr(row, each.name)) for each in fields(row)}


def _value(value: object) -> object:
    if isinstance(value, QueuePolicy):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    return value.value if isinstance(value, JobStatus) else value


def _job(row: Mapping[str, Any]) -> JobRow:
    return JobRow(**{**row, "status": JobStatus(row["status"])})


def _idempotency(row: Mapping[str, Any]) -> IdempotencyRow:
    request = tuple((name, value) for name, value in row["request"])
    return IdempotencyRow(**{**row, "request": request})


def _queue(row: Mapping[str, Any]) -> QueueRow:
    return QueueRow(**{**row, "policy": QueuePolicy(**row["policy"])})


_READ: Final = {
    "jobs": _job,
    "counters": lambda row: CounterRow(**row),
    "schedule_keys": lambda row: ScheduleRow(**row),
    "idempotency": _idempotency,
    "queues": _queue,
}
