"""PostgreSQL: row locks, SKIP LOCKED, and advisory locks that end with the commit."""

import hashlib

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    Connection,
    FromClause,
    Insert,
    Integer,
    Table,
    Text,
    bindparam,
    column,
    func,
    select,
    text,
)
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import DBAPIError
from sqlalchemy.types import TypeEngine

from jobfence.statemachine.errors import InvalidOption
from jobfence.store.dialects.base import Fault, Room

# Told apart by the table or the schema itself, not by its name: one store may find it by
# the search path where another spells it out, and both have to meet.
_LOCK = text(
    "SELECT pg_advisory_xact_lock(:key # CAST(:table AS regclass)::oid::bigint)"
)
_LOCK_SCHEMA = text(
    """
    SELECT pg_advisory_xact_lock(:key # (
        SELECT n.oid::bigint FROM pg_catalog.pg_namespace n
        WHERE n.nspname = coalesce(CAST(:place AS name), current_schema())
    ))
    """
)
_NOW = text("SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint")
_ISOLATION = text("SELECT current_setting('transaction_isolation')")

_MANY = "many_"
# Below this an ordinary INSERT is as fast.
_WORTH_ARRAYS = 10

_BY_STATE = {
    Fault.RETRY: ("40001", "40P01", "55P03"),
    Fault.LOST: ("57P01", "57P02", "57P05"),
    Fault.DUPLICATE: ("23505",),
    Fault.EXISTS: ("42P07", "42701", "42P06", "42710"),
    Fault.SCHEMA: ("42P01", "42703", "3F000"),
    Fault.UNAVAILABLE: (
        *("25006", "53100", "53200", "53300", "57P03"),
        *("3D000", "28P01", "28000", "42501"),
        "57014",  # statement_timeout, or cancelled by an operator
    ),
}
_FAULTS = {state: fault for fault, states in _BY_STATE.items() for state in states}

# In the schema in which a table without one is made; temporary tables left out.
_CATALOG = text(
    """
    WITH tables AS (
        SELECT c.oid, c.relname
        FROM pg_catalog.pg_class c
        JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = coalesce(CAST(:place AS name), current_schema())
        AND c.relkind IN ('r', 'p') AND c.relname IN :names
    )
    SELECT t.relname, 'column', a.attname
    FROM tables t JOIN pg_catalog.pg_attribute a ON a.attrelid = t.oid
    WHERE a.attnum > 0 AND NOT a.attisdropped
    UNION ALL
    SELECT t.relname, 'index', i.relname
    FROM tables t JOIN pg_catalog.pg_index x ON x.indrelid = t.oid
    JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid
    """
).bindparams(bindparam("names", expanding=True))


class PostgreSQLRoom(Room):
    """PostgreSQL, through psycopg."""

    has_tables_of_values = True
    catalog = _CATALOG

    def insert_if_missing(self, table: Table) -> Insert:
        """Return INSERT … ON CONFLICT DO NOTHING."""
        return insert(table).on_conflict_do_nothing()

    def insert_many(
        self,
        connection: Connection,
        table: Table,
        rows: Sequence[Mapping[str, object]],
        *,
        if_missing: bool = False,
    ) -> None:
        """Send many rows as one array for each column: one statement, planned once."""
        if len(rows) < _WORTH_ARRAYS:
            super().insert_many(connection, table, rows, if_missing=if_missing)
            return
        names = tuple(rows[0])
        connection.execute(
            _insert_arrays(table, names, if_missing=if_missing),
            {_MANY + name: [row[name] for row in rows] for name in names},
        )

    @staticmethod
    def table_of_values(columns: Mapping[str, TypeEngine[Any]]) -> FromClause:
        """Return one unnest of all the arrays."""
        arrays = [
            bindparam(name, type_=ARRAY(_element(kind)))
            for name, kind in columns.items()
        ]
        named = [column(name, _element(kind)) for name, kind in columns.items()]
        return func.unnest(*arrays).table_valued(*named, name="given").render_derived()

    def lock_identities(
        self,
        connection: Connection,
        digests: Sequence[str],
        *,
        jobs: Table,
        locks: Table,  # noqa: ARG002  no table is needed, only its number
    ) -> None:
        """
        Take a transaction's advisory lock for each name.

        They leave nothing behind, work behind a transaction pooler, and the
        transaction that has one may take it again.
        """
        spelled = connection.dialect.identifier_preparer.format_table(jobs)
        for digest in digests:
            connection.execute(_LOCK, {"key": _number(digest), "table": spelled})

    def lock_schema(
        self, connection: Connection, place: str | None, prefix: str
    ) -> None:
        """Take one advisory lock until the transaction ends."""
        key = _number(f"schema:{prefix}")
        connection.execute(_LOCK_SCHEMA, {"key": key, "place": place})

    def now_ms(self, connection: Connection) -> int:
        """Read clock_timestamp(): now() would be the transaction's start."""
        return int(connection.execute(_NOW).scalar_one())

    def autocommit(self, connection: Connection) -> bool:
        """Ask the driver as well: an engine may be made so."""
        driver = connection.connection.driver_connection
        return super().autocommit(connection) or bool(
            getattr(driver, "autocommit", False)
        )

    def check_joinable(self, connection: Connection, *, dedupe: bool) -> None:
        """
        Refuse dedupe in a snapshot older than its lock (E4).

        It could not see the twin that another transaction has made meanwhile.
        """
        if dedupe:
            level = str(connection.execute(_ISOLATION).scalar_one())
            if level not in ("read committed", "read uncommitted"):  # the same here
                raise InvalidOption(
                    "deduplicate_while_queued",
                    f"a transaction at {level}",
                    "needs a transaction at read committed",
                )

    def fault(self, error: DBAPIError) -> Fault:
        """Say what kind of trouble an error is, by its SQLSTATE."""
        state = getattr(error.orig, "sqlstate", None)
        found = _FAULTS.get(state or "")
        if found is not None:
            return found
        if error.connection_invalidated:
            return Fault.LOST
        # Without a SQLSTATE the driver could not talk to a server at all.
        unreachable = state is None or state.startswith("08")
        return Fault.UNAVAILABLE if unreachable else Fault.OTHER


@cache
def _insert_arrays(table: Table, names: tuple[str, ...], *, if_missing: bool) -> Insert:
    arrays = [
        func.unnest(bindparam(_MANY + name, type_=ARRAY(_element(table.c[name].type))))
        for name in names
    ]
    statement = insert(table).from_select(names, select(*arrays))
    return statement.on_conflict_do_nothing() if if_missing else statement


def _element(kind: TypeEngine[Any]) -> TypeEngine[Any]:
    """Return the widest type of its family: the INSERT casts to the column's own."""
    if isinstance(kind, Boolean):
        return Boolean()
    return BigInteger() if isinstance(kind, Integer) else Text()


def _number(name: str) -> int:
    """Return a name as a signed 64-bit number, as advisory locks want it."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], signed=True)
