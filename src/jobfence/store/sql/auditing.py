"""Reading a journal and its tables as of one moment, a page at a time."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Select, Table

from jobfence.store.sql import journal
from jobfence.store.sql.runner import OwnRunner, Ready
from jobfence.store.sql.statements import journals
from jobfence.store.sql.store import SqlJobStore
from jobfence.store.sql.tx import Settings

PAGE = 1000

Row = Mapping[str, object]


class Snapshot:
    """The rows of a store, all as of one moment. Long texts of jobs are left out."""

    def __init__(self, connection: Connection, store: SqlJobStore) -> None:
        self._connection = connection
        self._schema = store.tables

    def entries(self) -> Iterator[Row]:
        """Return the journal's rows."""
        return self._pages(
            lambda after: journals.page(self._schema, after=after),
            {"after_entity": "entity", "after_id": "entity_id", "after_rev": "rev"},
        )

    def jobs(self) -> Iterator[Row]:
        """Return every job."""
        return self._rows(self._schema.jobs)

    def counters(self) -> Iterator[Row]:
        """Return every counter of a concurrency key."""
        return self._rows(self._schema.concurrency)

    def schedule_keys(self) -> Iterator[Row]:
        """Return every schedule key."""
        return self._rows(self._schema.schedule_keys)

    def _rows(self, table: Table) -> Iterator[Row]:
        return self._pages(
            lambda after: journals.rows_page(table, after=after),
            {"after_id": "entity_id"},
        )

    def _pages(
        self, page: Callable[[bool], Select[Any]], place: Mapping[str, str]
    ) -> Iterator[Row]:
        """Yield rows page by page; `place` says from which column each begins."""
        behind: dict[str, object] = {}
        while True:
            found = self._connection.execute(
                page(bool(behind)), {**behind, "row_limit": PAGE}
            )
            rows = found.mappings().all()
            yield from (dict(row) for row in rows)
            if len(rows) < PAGE:
                return
            behind = {name: rows[-1][column] for name, column in place.items()}


def has_journal(store: SqlJobStore) -> bool:
    """Whether any store has begun a journal here. Makes nothing ready."""
    return OwnRunner(store.engine, settings_of(store), Ready()).look(journal.is_there)


def settings_of(store: SqlJobStore) -> Settings:
    """Return what a store was made with, to read its tables beside it."""
    return store._settings  # noqa: SLF001  of this package


@contextmanager
def snapshot(store: SqlJobStore) -> Iterator[Snapshot]:
    """
    Read a store's tables in one transaction that sees one moment of them.

    It holds no locks: the store goes on being used meanwhile.
    """
    room = settings_of(store).room
    with store.engine.connect() as plain:
        connection = plain
        if room.isolation is not None:
            connection = plain.execution_options(isolation_level="REPEATABLE READ")
        with connection.begin():
            room.begin_reading(connection)
            yield Snapshot(connection, store)
