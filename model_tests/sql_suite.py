"""The suite on `SqlJobStore`, for a database that a subclass names."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, ClassVar

import pytest

from sqlalchemy import Connection, Engine, event, select, update

from jobfence.conformance import JobStoreSuite
from jobfence.store import SqlJobStore
from jobfence.store.dialects.engines import make_engine
from jobfence.store.sql.schema import Schema, schema_for


class SqlBackdoor:
    """Reads and damages a namespace's tables by plain statements."""

    def __init__(self, engine: Engine, tables: Schema) -> None:
        self._engine, self._tables = engine, tables

    def counters(self) -> Mapping[str, tuple[int, int]]:
        rows = self._tables.concurrency.c
        with self._engine.connect() as connection:
            found = connection.execute(
                select(rows.concurrency_key, rows.max_concurrency, rows.active_count)
            )
            return {key: (cap, active) for key, cap, active in found}

    def _write(self, statement: Any) -> None:
        with self._engine.begin() as connection:
            assert connection.execute(statement).rowcount == 1

    def set_active(self, concurrency_key: str, active: int) -> None:
        table = self._tables.concurrency
        self._write(
            update(table)
            .where(table.c.concurrency_key == concurrency_key)
            .values(active_count=active)
        )

    def drop_counter(self, concurrency_key: str) -> None:
        table = self._tables.concurrency
        self._write(table.delete().where(table.c.concurrency_key == concurrency_key))

    def damage(self, job_id: str) -> None:
        table = self._tables.jobs
        self._write(update(table).where(table.c.id == job_id).values(args="{"))


# These tests lose no power, and there are thousands of commits. MariaDB has no such
# setting for a session.
UNSAFE = {
    "sqlite": "PRAGMA synchronous=OFF",
    "postgresql": "SET synchronous_commit=off",
}


def commit_without_waiting(engine: Engine) -> None:
    """Let commits not wait until they are on disk."""
    statement = UNSAFE.get(engine.dialect.name)

    def set_up(connection: Any, _record: object) -> None:
        cursor = connection.cursor()
        cursor.execute(statement)
        cursor.close()
        connection.commit()

    if statement is not None:
        event.listen(engine, "connect", set_up)


class SqlJobStoreSuite(JobStoreSuite):
    """One engine for the class; a namespace is a prefix of table names."""

    database: ClassVar[str]
    engine: ClassVar[Engine]

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def _engine(cls, database_urls: Mapping[str, str]) -> Iterator[None]:
        if cls.database not in database_urls:
            pytest.skip(f"{cls.database} does not answer")
        cls.engine = make_engine(database_urls[cls.database])
        commit_without_waiting(cls.engine)
        yield
        cls.engine.dispose()

    def open_store(self, namespace: str, **settings: Any) -> SqlJobStore:
        return SqlJobStore(self.engine, table_prefix=f"{namespace}_", **settings)

    def open_backdoor(self, namespace: str) -> SqlBackdoor:
        return SqlBackdoor(self.engine, schema_for(f"{namespace}_", None))

    def open_transaction(self, namespace: str) -> AbstractContextManager[Connection]:
        return self.engine.begin()

    def drop_namespace(self, namespace: str) -> None:
        with self.engine.begin() as connection:
            schema_for(f"{namespace}_", None).metadata.drop_all(connection)
