"""
Making, checking and upgrading the tables (the S rules).

What is there is looked at, table by table; the ledger only says which step made it
(S2). Upgrades add; nothing is ever dropped.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    Index,
    Table,
    inspect,
    select,
)
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import CreateColumn, CreateIndex, CreateTable

from jobfence.statemachine.errors import IncompatibleSchema
from jobfence.statemachine.states import JobStatus
from jobfence.store.dialects.base import Fault, Names, Room
from jobfence.store.sql.schema import VERSION, Schema
from jobfence.store.sql.statements import journals, others

_TRIES = 20


@dataclass(slots=True)
class Findings:
    """What a database lacks."""

    recorded: frozenset[int]
    tables: list[Table] = field(default_factory=list)
    columns: list[tuple[Table, Column[Any]]] = field(default_factory=list)
    indexes: list[Index] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether nothing is to be done."""
        steps = set(range(1, VERSION + 1))
        return (
            not (self.tables or self.columns or self.indexes) and steps <= self.recorded
        )

    def summary(self) -> str:
        """Name what is missing."""
        names = [table.name for table in self.tables]
        names += [f"{table.name}.{column.name}" for table, column in self.columns]
        names += [str(index.name) for index in self.indexes]
        return ", ".join(names) or f"entries of the ledger up to {VERSION}"


def look(connection: Connection, schema: Schema, room: Room) -> Findings:
    """Compare the database with the tables; `IncompatibleSchema` if none can fit it."""
    place = schema.metadata.schema
    if place is not None:
        _check_place(connection, place)
    tables = schema.tables_for(connection.dialect.name)
    names = [table.name for table in tables]
    present = room.present(connection, place, names)
    findings = Findings(_recorded(connection, schema, present))
    if findings.recorded and _lacks(tables, present):
        # Another process may have upgraded between the two reads. What the ledger tells
        # of was there before the ledger told it, so this look finds it.
        present = room.present(connection, place, names)
    newest = max(findings.recorded, default=0)
    if newest > VERSION:
        raise IncompatibleSchema(
            f"the tables {schema.prefix}* are at version {newest}, made by a newer "
            f"jobfence; this one knows versions up to {VERSION}: upgrade the library"
        )
    for table in tables:
        found = present.get(table.name)
        if found is None:
            findings.tables.append(table)
            continue
        _look_at_columns(found.columns, table, newest, findings)
        findings.indexes += [
            index
            for index in schema.indexes_for(table, connection.dialect.name)
            if index.name not in found.indexes
        ]
    return findings


def _lacks(tables: Iterable[Table], present: Mapping[str, Names]) -> bool:
    return any(
        table.name not in present
        or not present[table.name].columns.issuperset(table.columns.keys())
        for table in tables
    )


def _check_place(connection: Connection, name: str) -> None:
    known = inspect(connection).get_schema_names()
    # Reflection leaves this on, on MySQL, for good: a caller's connection would not
    # hear of its errors any more, nor `joining` of a COMMIT that failed.
    connection.execution_options(skip_user_error_events=False)
    if name not in known:
        raise IncompatibleSchema(
            f"the database has no schema {name!r}; create it first, or leave schema= out"
        )


def _recorded(
    connection: Connection, schema: Schema, present: Mapping[str, Names]
) -> frozenset[int]:
    ledger = schema.migrations
    found = present.get(ledger.name)
    if found is None or ledger.c.version.name not in found.columns:
        return frozenset()
    return frozenset(connection.execute(select(ledger.c.version)).scalars())


def _look_at_columns(
    names: Collection[str], table: Table, newest: int, findings: Findings
) -> None:
    missing = [column for column in table.columns if column.name not in names]
    lost = [column.name for column in missing if column.info["since"] <= newest]
    # A table whose oldest columns are not there is somebody else's.
    lost += [
        column.name
        for column in missing
        if column.info["since"] == table.info["since"] and column.name not in lost
    ]
    if lost:
        raise IncompatibleSchema(
            f"table {table.name} has no column {', '.join(sorted(lost))}; nothing was "
            f"changed: restore it, or use another table_prefix",
            table=table.name,
            columns=sorted(lost),
        )
    findings.columns += [(table, column) for column in missing]


def ensure(
    connection: Connection,
    schema: Schema,
    room: Room,
    *,
    now_ms: int,
    create: bool,
    joined: bool,
) -> Collection[str]:
    """
    Bring the database to the present version, or refuse.

    Returns the schedule keys whose owners were lost and have been rebuilt (K3).
    In a transaction; `joined` says it is the caller's. Several processes may do this
    at once: where DDL is part of the transaction one waits for the other, and
    elsewhere what the other has just made is looked at again.
    """
    room.check_server(connection)
    findings = look(connection, schema, room)
    if findings.complete:
        return ()
    if not create:
        raise IncompatibleSchema(
            f"the database lacks {findings.summary()}; run `jobfence migrate`, or "
            f"ensure_ready()"
        )
    if joined and not room.ddl_rolls_back:
        raise IncompatibleSchema(
            "this database cannot undo the making of tables, so it is not done inside "
            "your transaction; call ensure_ready() on the store first"
        )
    room.lock_schema(connection, schema.metadata.schema, schema.prefix)
    for attempt in range(_TRIES):
        try:
            return _apply(
                connection, schema, room, look(connection, schema, room), now_ms
            )
        except DBAPIError as error:
            if room.fault(error) is not Fault.EXISTS:
                raise
            if room.ddl_rolls_back or attempt == _TRIES - 1:
                raise _taken(error) from error
    return ()


def _taken(error: DBAPIError) -> IncompatibleSchema:
    return IncompatibleSchema(
        f"a name that jobfence needs is taken: {str(error.orig).splitlines()[0]}; if "
        f"that is not jobfence's, use another table_prefix; if another process has just "
        f"made the tables, try again"
    )


def _apply(
    connection: Connection, schema: Schema, room: Room, findings: Findings, now_ms: int
) -> Collection[str]:
    step = schema.schedule_keys.info["since"]
    recorded = findings.recorded
    if schema.schedule_keys in findings.tables and recorded:
        # Where DDL commits by itself an empty table outlives a process that ends before
        # it is filled. Until the ledger tells of its step again, it is to be filled.
        ledger = schema.migrations
        connection.execute(ledger.delete().where(ledger.c.version >= step))
        recorded = frozenset(each for each in recorded if each < step)
    for table in findings.tables:
        connection.execute(CreateTable(table))
        for index in schema.indexes_for(table, connection.dialect.name):
            connection.execute(CreateIndex(index))
    for table, column in findings.columns:
        connection.exec_driver_sql(add_column(connection, table, column))
    for index in findings.indexes:
        connection.execute(CreateIndex(index))
    rebuilt: Collection[str] = ()
    if step not in recorded and schema.jobs not in findings.tables:
        rebuilt = _rebuild_owners(connection, schema, room)
    steps = sorted(set(range(1, VERSION + 1)) - recorded)
    statement = room.insert_if_missing(schema.migrations)
    for version in steps:
        connection.execute(statement, {"version": version, "at_ms": now_ms})
    return rebuilt


def add_column(connection: Connection, table: Table, column: Column[Any]) -> str:
    """Return the ALTER TABLE of one column, in this database's words."""
    dialect = connection.dialect
    name = dialect.identifier_preparer.format_table(table)
    spelled = str(CreateColumn(column).compile(dialect=dialect))
    return f"ALTER TABLE {name} ADD COLUMN {spelled}"


def _rebuild_owners(
    connection: Connection, schema: Schema, room: Room
) -> Collection[str]:
    """
    Rebuild lost owners from the jobs, which keep key and order (K3).

    Revisions go on from those that the journal knows. An owner that is there, because
    it was not lost or another process has written it meanwhile, stays as it is.
    """
    there = set(
        connection.execute(select(schema.schedule_keys.c.schedule_key)).scalars()
    )
    owners: dict[str, tuple[str | None, int]] = {}
    for key, job_id, status, order, marked in connection.execute(
        others.owners_from_jobs(schema)
    ):
        # The last one by order owns the key while it is active; a marked one was
        # cancelled by its key or by id, and is given the benefit of the doubt: not.
        active = not JobStatus(status).terminal and not marked
        if key not in there:
            owners[key] = (job_id if active else None, order or 0)
    if owners:
        noted = connection.execute(journals.last_owner_revs(schema))
        last = {row.entity_id: row.last for row in noted}
        connection.execute(
            room.insert_if_missing(schema.schedule_keys),
            [
                {
                    "schedule_key": key,
                    "job_id": job_id,
                    "last_order": order,
                    "rev": last.get(key, -1) + 1,
                }
                for key, (job_id, order) in owners.items()
            ],
        )
    return owners


def ddl(schema: Schema, dialect: Any) -> Iterable[str]:
    """Return the statements that make all tables, for a team's own migrations (S4)."""
    for table in schema.tables_for(dialect.name):
        yield str(CreateTable(table).compile(dialect=dialect)).strip()
        for index in schema.indexes_for(table, dialect.name):
            yield str(CreateIndex(index).compile(dialect=dialect)).strip()
    ledger = schema.migrations
    for version in range(1, VERSION + 1):
        row = ledger.insert().values(version=version, at_ms=0)
        yield str(row.compile(dialect=dialect, compile_kwargs={"literal_binds": True}))
