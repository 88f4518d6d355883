"""MariaDB and MySQL: READ COMMITTED, locking reads, and names locked by rows."""

import secrets

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Insert,
    Select,
    Table,
    bindparam,
    delete,
    select,
    text,
    update,
)
from sqlalchemy.dialects.mysql import insert
from sqlalchemy.exc import DBAPIError

from jobfence.statemachine.errors import IncompatibleSchema
from jobfence.store.dialects.base import Fault, Room
from jobfence.store.dialects.naming import MYSQL_NAMES, is_mariadb

_NOW = text(
    "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000"
)
_SETTINGS = text("SELECT @@sql_mode")
_CATALOG = text(
    """
    SELECT c.table_name, 'column', c.column_name
    FROM information_schema.columns c
    WHERE c.table_schema = coalesce(:place, database()) AND c.table_name IN :names
    UNION ALL
    SELECT s.table_name, 'index', s.index_name
    FROM information_schema.statistics s
    WHERE s.table_schema = coalesce(:place, database()) AND s.table_name IN :names
    """
).bindparams(bindparam("names", expanding=True))
# A user without the right (1142, 1143), a server that is read only (1290, 1836), a
# transaction that is (1792).
_MAY_NOT_WRITE = [(1142,), (1143,), (1290,), (1836,), (1792,)]
_PROBE_LENGTH = 32  # bytes; twice as many characters
_STRICT = ("STRICT_TRANS_TABLES", "STRICT_ALL_TABLES", "TRADITIONAL")
# By whether it is MariaDB: the first release with all that is needed, and what it
# brought. MySQL had SKIP LOCKED from 8.0.1, and enforces CHECKs from 8.0.16.
_OLDEST = {
    True: ((10, 6), "SKIP LOCKED"),
    False: ((8, 0, 17), "utf8mb4_0900_bin, the collation of names and keys"),
}

_BY_NUMBER = {
    Fault.RETRY: (1213, 1205, 1020, 3572),
    Fault.LOST: (2006, 2013, 2055, 1927, 1053, 4031),
    Fault.DUPLICATE: (1062, 1586),
    Fault.EXISTS: (1050, 1060, 1061, 1826),
    Fault.SCHEMA: (1146, 1054, 1176),
    Fault.UNAVAILABLE: (
        *(1290, 1836, 1021, 1114, 1040, 1044, 1045, 1049, 1129, 1130, 1142, 1698),
        *(2002, 2003, 2005),
        *(1792, 1969, 3024, 1317),  # a read-only transaction; a statement cut short
    ),
}
_FAULTS = {number: fault for fault, all_ in _BY_NUMBER.items() for number in all_}


class MySQLRoom(Room):
    """MariaDB 10.6 or newer, MySQL 8.0.17 or newer."""

    ddl_rolls_back = False
    catalog = _CATALOG
    # Of the rows looked at, others may hold the first ones: a few workers' worth, and
    # when those are all held, as many as batches of workers can hold.
    look_ahead = (50, 5000)

    def locked_first(
        self,
        best: Select[Any],
        table: Table,
        still: Sequence[ColumnElement[bool]],
    ) -> Select[Any]:
        """
        Look without locks, then lock by primary key, in the order found.

        A locking read here keeps the locks of the rows that it passed over, whatever
        its conditions: one claim would lock the jobs of all other queues and of full
        keys, and other workers would find none.
        """
        (key,) = table.primary_key.columns
        found = best.with_only_columns(key).limit(bindparam("look_limit"))
        first = found.subquery("best")
        rows = select(table).select_from(first.join(table, key == first.c[key.name]))
        for name in MYSQL_NAMES:
            # A small table would be read as a whole into a buffer, in its own order.
            rows = rows.with_hint(table, "FORCE INDEX (PRIMARY)", name)
        return (
            # From the rows found to the table, one by one, until there are enough.
            rows.prefix_with("STRAIGHT_JOIN")
            .where(*still)
            .limit(bindparam("row_limit"))
            .with_for_update(skip_locked=True)
        )

    def insert_if_missing(self, table: Table) -> Insert:
        """
        Return an INSERT whose clash with the primary key changes nothing.

        Not INSERT IGNORE, which hides other errors too.
        """
        statement = insert(table)
        key = next(iter(table.primary_key.columns))
        return statement.on_duplicate_key_update({key.name: key})

    def lock_identities(
        self,
        connection: Connection,
        digests: Sequence[str],
        *,
        jobs: Table,  # noqa: ARG002  the rows are in a table of their own
        locks: Table,
    ) -> None:
        """
        Insert a row for each name and delete it at once: its lock stays till the end.

        An upsert takes an exclusive lock at once. A plain INSERT first takes a shared
        one when the row exists, and two of those wait for each other for ever.
        """
        for digest in digests:
            connection.execute(self.insert_if_missing(locks), {"lock_key": digest})
            connection.execute(delete(locks).where(locks.c.lock_key == digest))

    def now_ms(self, connection: Connection) -> int:
        """Read the statement's own time in UTC, whatever the session's zone."""
        return int(connection.execute(_NOW).scalar_one())

    def autocommit(self, connection: Connection) -> bool:
        """Ask the driver as well: an engine may be made so."""
        driver = connection.connection.driver_connection
        ask = getattr(driver, "get_autocommit", None)
        return super().autocommit(connection) or bool(ask and ask())

    def check_server(self, connection: Connection) -> None:
        """Refuse releases that lack what is needed, and modes that cut values."""
        dialect = connection.dialect
        found = tuple(getattr(dialect, "server_version_info", None) or ())
        oldest, brought = _OLDEST[is_mariadb(dialect)]
        if found and found[: len(oldest)] < oldest:
            raise IncompatibleSchema(
                f"this server is {'.'.join(map(str, found))}; jobfence needs "
                f"{'.'.join(map(str, oldest))} or newer, which has {brought}"
            )
        modes = str(connection.execute(_SETTINGS).scalar_one()).split(",")
        if not set(_STRICT) & set(modes):
            raise IncompatibleSchema(
                "the server's sql_mode is not strict, so it would cut values silently; "
                "add STRICT_TRANS_TABLES to it"
            )

    def check_rowcounts(self, connection: Connection, locks: Table) -> None:
        """
        Refuse a driver or proxy that counts changed rows where matched ones are meant.

        A fence is won when its UPDATE matches a row, also one that it leaves the same.
        Asked on a row of its own, since nobody else may have to wait for this. Whoever
        may not write can do without: no fence of theirs will be tried.
        """
        probe = secrets.token_hex(_PROBE_LENGTH)
        mine = locks.c.lock_key == probe
        try:
            connection.execute(insert(locks), {"lock_key": probe})
        except DBAPIError as error:
            if error.orig is not None and error.orig.args[:1] in _MAY_NOT_WRITE:
                return
            raise
        matched = connection.execute(update(locks).where(mine).values(lock_key=probe))
        connection.execute(delete(locks).where(mine))
        if matched.rowcount != 1:
            raise IncompatibleSchema(
                "this connection counts changed rows instead of matched ones; connect "
                "with CLIENT.FOUND_ROWS"
            )

    def reads_the_past(self, connection: Connection) -> bool:
        """
        Whether a caller's transaction is at the server's default, REPEATABLE READ.

        Plain reads then see the time of its first read. Its locking reads and writes
        see what is committed, so what decides is read with a lock.
        """
        return connection.get_isolation_level() != "READ COMMITTED"

    def message(self, error: DBAPIError) -> str:
        """Return the server's sentence without its number."""
        words = " ".join(map(str, getattr(error.orig, "args", ())[1:2])).split()
        return " ".join(words) or super().message(error)

    def fault(self, error: DBAPIError) -> Fault:
        """Say what kind of trouble an error is, by the server's number."""
        arguments = getattr(error.orig, "args", ())
        found = _FAULTS.get(arguments[0]) if arguments else None
        if found is None and error.connection_invalidated:
            return Fault.LOST
        return found or Fault.OTHER
