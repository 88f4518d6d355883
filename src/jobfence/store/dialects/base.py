"""What the SQL store asks of a database: one room per family, the same questions."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Insert,
    Select,
    Table,
    TextClause,
    insert,
)
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.types import TypeEngine

from jobfence.statemachine.clock import Clock, DatabaseClock
from jobfence.statemachine.errors import JobfenceError, StoreUnavailable
from jobfence.store.dialects.turns import Turn
from jobfence.store.dialects.urls import shown_url, without_secrets_of


class Fault(Enum):
    """What kind of trouble a database error is."""

    RETRY = "retry"  # the database asks to run the transaction again
    LOST = "lost"  # the connection is gone
    DUPLICATE = "duplicate"  # a unique value exists already
    UNAVAILABLE = "unavailable"  # unreachable, read-only or full
    EXISTS = "exists"  # a table, column or index exists already
    SCHEMA = "schema"  # a table or column is not there
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Names:
    """The names of what a table has."""

    columns: set[str] = field(default_factory=set)
    indexes: set[str] = field(default_factory=set)


class Room(ABC):
    """The answers of one family of databases; capabilities, never names, are asked."""

    clock: Clock | DatabaseClock = DatabaseClock()
    locks_rows = True
    ddl_rolls_back = True
    has_tables_of_values = False
    isolation: str | None = "READ COMMITTED"
    # The SELECT of (table, "column" or "index", name), with a parameter for the schema
    # and an expanding one for the tables' names.
    catalog: TextClause
    # How many rows a claim looks at beyond those that it asks for, try after try.
    look_ahead: tuple[int, ...] = (0,)
    # How often a transaction of the store's own is tried in all (T2).
    tries = 20

    def begin(self, connection: Connection) -> None:
        """Take what lock a write transaction of the store's own starts with, if any."""

    def join(self, connection: Connection, table: Table, *, reading: bool) -> None:
        """
        Take what lock a caller's transaction needs before anything is read, if any.

        `table` is one of the store's; it may not be there yet.
        """

    def turn(self, url: URL) -> Turn | None:  # noqa: ARG002  no queue of ours
        """Return what writers wait for before they begin, where nothing queues them."""
        return None

    def begin_reading(self, connection: Connection) -> None:
        """Start a transaction whose reads all see one state, where it is needed."""

    def locked(
        self, statement: Select[Any], *, skip_locked: bool = False
    ) -> Select[Any]:
        """Return the SELECT with row locks, where the database has them."""
        return statement.with_for_update(skip_locked=skip_locked)

    def locked_first(
        self,
        best: Select[Any],
        table: Table,  # noqa: ARG002  locks what it looks at
        still: Sequence[ColumnElement[bool]],  # noqa: ARG002  and nothing changes
    ) -> Select[Any]:
        """
        Return the SELECT that locks the first `row_limit` rows that nobody holds.

        `best` has conditions and an order. A room that looks before it locks looks at
        `look_limit` rows, and asks once more for `still`: the conditions that another
        transaction may have ended meanwhile.
        """
        return self.locked(best, skip_locked=True)

    @abstractmethod
    def insert_if_missing(self, table: Table) -> Insert:
        """Return an INSERT that leaves an existing row with this primary key alone."""

    def insert_many(
        self,
        connection: Connection,
        table: Table,
        rows: Sequence[Mapping[str, object]],
        *,
        if_missing: bool = False,
    ) -> None:
        """
        Insert rows that all have the same columns, as fast as the driver can.

        `if_missing` leaves out those whose primary key is there.
        """
        statement = self.insert_if_missing(table) if if_missing else insert(table)
        connection.execute(statement, list(rows))

    @staticmethod
    def table_of_values(columns: Mapping[str, TypeEngine[Any]]) -> FromClause:
        """
        Return a table made of one list of values for each column, a parameter each.

        Only where `has_tables_of_values`.
        """
        raise NotImplementedError(f"a table of {', '.join(columns)}")

    def lock_identities(
        self,
        connection: Connection,
        digests: Sequence[str],
        *,
        jobs: Table,
        locks: Table,
    ) -> None:
        """
        Hold these names until the transaction ends; waits; sorted by the caller.

        The names of whoever uses the same tables, however each spells where they are.
        """

    def lock_schema(
        self, connection: Connection, place: str | None, prefix: str
    ) -> None:
        """Let one process at a time change the tables, until the transaction ends."""

    @abstractmethod
    def now_ms(self, connection: Connection) -> int:
        """Read the database's clock, at this moment and not at the transaction's."""

    def present(
        self, connection: Connection, place: str | None, names: Sequence[str]
    ) -> Mapping[str, Names]:
        """
        Read which of these tables are there, and what they have.

        One statement: SQLAlchemy's reflection asks for far more than names, table by
        table, and every store that is opened asks this first. `place` is the schema;
        None for the one in which a table without a schema is made.
        """
        found: dict[str, Names] = {}
        rows = connection.execute(
            self._catalog(connection, place), {"place": place, "names": list(names)}
        )
        indexes = []
        for table, kind, name in rows:
            if kind == "column":
                found.setdefault(table, Names()).columns.add(name)
            else:
                indexes.append((table, name))
        for table, name in indexes:
            # A table may have been made between the two parts of the answer.
            if table in found:
                found[table].indexes.add(name)
        return found

    def _catalog(
        self,
        connection: Connection,  # noqa: ARG002  for those who have to spell the place
        place: str | None,  # noqa: ARG002
    ) -> TextClause:
        return self.catalog

    def check_server(self, connection: Connection) -> None:
        """Refuse a server that cannot keep the rules, with a sentence."""

    def check_rowcounts(self, connection: Connection, locks: Table) -> None:
        """Refuse a connection that counts rows as the fences must not be judged."""

    def check_joinable(self, connection: Connection, *, dedupe: bool) -> None:
        """Refuse a caller's transaction in which a rule cannot be kept (T1)."""

    def reads_the_past(
        self,
        connection: Connection,  # noqa: ARG002  for those who have to ask
    ) -> bool:
        """Whether plain reads may miss what is committed, and locking reads do not."""
        return False

    def autocommit(self, connection: Connection) -> bool:
        """Whether the connection commits every statement by itself."""
        options = connection.get_execution_options()
        return options.get("isolation_level") == "AUTOCOMMIT"

    def reading_bytes(
        self,
        connection: Connection,  # noqa: ARG002  for those who have to change it
        error: DBAPIError,  # noqa: ARG002
    ) -> AbstractContextManager[None] | None:
        """
        Return a context in which a damaged text comes as bytes; None if it is not that.

        Only where a driver refuses the rows beside the damaged one too (M11).
        """
        return None

    @abstractmethod
    def fault(self, error: DBAPIError) -> Fault:
        """Say what kind of trouble an error is."""

    def message(self, error: DBAPIError) -> str:
        """Return the driver's words on one line."""
        return " ".join(str(error.orig).split())

    def explain(
        self, error: DBAPIError, where: URL, *, in_doubt: bool = False
    ) -> JobfenceError:
        """Turn an error that ends an operation into one clear sentence."""
        words = without_secrets_of(where, self.message(error))
        tail = (
            "; the connection was lost during COMMIT, so the change may have been made"
            if in_doubt
            else ""
        )
        return StoreUnavailable(
            f"the database {shown_url(where)} did not do it: {words}{tail}",
            in_doubt=in_doubt,
        )
