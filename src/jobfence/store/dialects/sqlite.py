"""SQLite: one writer at a time, and BEGIN IMMEDIATE is its lock."""

import sqlite3

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from sqlalchemy import (
    Connection,
    Insert,
    Select,
    Table,
    TextClause,
    bindparam,
    delete,
    false,
    text,
)
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError

from jobfence.statemachine.clock import Clock, DatabaseClock, SystemClock
from jobfence.statemachine.errors import InvalidOption
from jobfence.store.dialects.base import Fault, Room
from jobfence.store.dialects.engines import in_memory
from jobfence.store.dialects.turns import Turn, turn_for

_CATALOG = """
    SELECT m.name, 'column', c.name
    FROM {place}.sqlite_master m, pragma_table_xinfo(m.name, coalesce(:place, 'main')) c
    WHERE m.type = 'table' AND m.name IN :names
    UNION ALL
    SELECT tbl_name, 'index', name
    FROM {place}.sqlite_master
    WHERE type = 'index' AND tbl_name IN :names
"""
_PRIMARY = 0xFF
_UNDECODED = "Could not decode to UTF-8"
_FAULTS = {
    sqlite3.SQLITE_BUSY: Fault.RETRY,
    sqlite3.SQLITE_LOCKED: Fault.RETRY,
    sqlite3.SQLITE_PROTOCOL: Fault.RETRY,
    sqlite3.SQLITE_READONLY: Fault.UNAVAILABLE,
    sqlite3.SQLITE_FULL: Fault.UNAVAILABLE,
    sqlite3.SQLITE_CANTOPEN: Fault.UNAVAILABLE,
    sqlite3.SQLITE_IOERR: Fault.UNAVAILABLE,
    sqlite3.SQLITE_CORRUPT: Fault.UNAVAILABLE,
    sqlite3.SQLITE_NOTADB: Fault.UNAVAILABLE,
}
_NOT_THERE = ("no such table", "no such column", "has no column named")
_THERE = ("already exists", "there is already", "duplicate column name")
_UNIQUE = (sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY)


class SQLiteRoom(Room):
    """
    SQLite, 3.35 or newer.

    It drops FOR UPDATE silently: the write transaction's own lock stands for every row
    lock. A deferred BEGIN that reads first and then writes would fail at once with
    "locked", whatever the busy timeout, so writers begin IMMEDIATE.
    """

    clock: Clock | DatabaseClock = SystemClock()
    locks_rows = False
    isolation = None
    # Each try has waited for the busy timeout already.
    tries = 5

    def begin(self, connection: Connection) -> None:
        """
        Take the write lock.

        Many engines begin by themselves, deferred, in an event or in the driver:
        nothing has been done yet then, so it is begun anew.
        """
        _check_commits(connection)
        begun = _in_transaction(connection)
        if begun:
            connection.exec_driver_sql("ROLLBACK")
        try:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        except BaseException:
            if begun:
                # A driver that always has a transaction open could not roll back
                # without one, and that would be what the caller gets to know.
                connection.exec_driver_sql("BEGIN DEFERRED")
            raise

    def join(self, connection: Connection, table: Table, *, reading: bool) -> None:
        """
        Take the write lock, and wait for it as long as the caller's driver waits.

        A deferred transaction that is open takes it by a statement that changes
        nothing. Where something has been read in it already, SQLite does not wait;
        a call that only reads can do without then.
        """
        if not _in_transaction(connection):
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            return
        try:
            connection.execute(delete(table).where(false()))
        except DBAPIError as error:
            # Where the table is not there or nobody may write, what comes next says so.
            code = getattr(error.orig, "sqlite_errorcode", 0) & _PRIMARY
            if self.fault(error) is Fault.SCHEMA or code == sqlite3.SQLITE_READONLY:
                return
            if not (reading and code == sqlite3.SQLITE_BUSY):
                raise

    def turn(self, url: URL) -> Turn | None:
        """Return the file's turn; a database in memory has one connection anyway."""
        database = url.database or ""
        if in_memory(url) or database.startswith("file:"):
            return None
        return turn_for(database)

    def begin_reading(self, connection: Connection) -> None:
        """Hold one snapshot for several reads."""
        _check_commits(connection)
        if not _in_transaction(connection):
            connection.exec_driver_sql("BEGIN DEFERRED")

    def locked(
        self,
        statement: Select[Any],
        *,
        skip_locked: bool = False,  # noqa: ARG002  nobody else can hold a row
    ) -> Select[Any]:
        """Return the SELECT as it is."""
        return statement

    def insert_if_missing(self, table: Table) -> Insert:
        """Return INSERT … ON CONFLICT DO NOTHING."""
        return insert(table).on_conflict_do_nothing()

    def _catalog(self, connection: Connection, place: str | None) -> TextClause:
        quote = connection.dialect.identifier_preparer.quote_identifier
        return text(_CATALOG.format(place=quote(place or "main"))).bindparams(
            bindparam("names", expanding=True)
        )

    def now_ms(self, connection: Connection) -> int:
        """Read the clock that SQLite reads too: this machine's."""
        found = connection.exec_driver_sql(
            "SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"
        )
        return int(found.scalar_one())

    def autocommit(self, connection: Connection) -> bool:
        """
        Ask the driver as well: an engine may be made so.

        One that leaves transactions to SQLAlchemy's events looks the same until an
        event has begun one.
        """
        if _commits_do_nothing(connection):
            return True
        driver = connection.connection.driver_connection
        manual = getattr(driver, "isolation_level", "") is None
        return super().autocommit(connection) or (
            manual and not _in_transaction(connection)
        )

    def reading_bytes(
        self, connection: Connection, error: DBAPIError
    ) -> AbstractContextManager[None] | None:
        """Return a context for texts that are no UTF-8: SQLite stores any bytes."""
        return _bytes(connection) if _UNDECODED in str(error.orig) else None

    def fault(self, error: DBAPIError) -> Fault:
        """Say what kind of trouble an error is, by SQLite's own code."""
        code = getattr(error.orig, "sqlite_errorcode", None)
        if code is None:
            return Fault.OTHER
        if code in _UNIQUE:
            return Fault.DUPLICATE
        message = str(error.orig)
        if code == sqlite3.SQLITE_ERROR:
            if any(each in message for each in _NOT_THERE):
                return Fault.SCHEMA
            if any(each in message for each in _THERE):
                return Fault.EXISTS
        return _FAULTS.get(code & _PRIMARY, Fault.OTHER)


@contextmanager
def _bytes(connection: Connection) -> Iterator[None]:
    driver: Any = connection.connection.driver_connection
    usual = driver.text_factory
    driver.text_factory = _text_or_bytes
    try:
        yield
    finally:
        driver.text_factory = usual


def _text_or_bytes(stored: bytes) -> str | bytes:
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return stored


def _in_transaction(connection: Connection) -> bool:
    driver = connection.connection.driver_connection
    return bool(getattr(driver, "in_transaction", False))


def _check_commits(connection: Connection) -> None:
    if _commits_do_nothing(connection):
        raise InvalidOption(
            "engine",
            "autocommit=True",
            "must leave commits to SQLAlchemy (leave autocommit out of its "
            "connect_args, or give it False)",
        )


def _commits_do_nothing(connection: Connection) -> bool:
    """
    Whether the driver's commit() and rollback() do nothing, as with autocommit=True.

    They would leave open a transaction begun by a statement (Python 3.12 and later).
    """
    lent = connection.connection
    driver: Any = lent.driver_connection
    try:
        # Inside aiosqlite's connection is one of sqlite3's.
        return getattr(getattr(driver, "_conn", driver), "autocommit", None) is True
    except sqlite3.ProgrammingError:
        # It answers on its own thread alone.
        adapted: Any = lent.dbapi_connection
        return bool(adapted.run_async(_autocommit_by_thread) is True)


async def _autocommit_by_thread(driver: Any) -> object:
    return await driver._execute(getattr, driver._conn, "autocommit")  # noqa: SLF001
