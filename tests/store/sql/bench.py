"""Databases under test, and a world on one of them: known time, raw rows, no leftovers."""

import secrets

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypedDict, Unpack

import pytest

from sqlalchemy import (
    Connection,
    Engine,
    Inspector,
    Table,
    create_engine,
    inspect,
    select,
)
from sqlalchemy.engine import make_url
from sqlalchemy.schema import ExecutableDDLElement

from jobfence.statemachine.clock import Clock, DatabaseClock, ManualClock
from jobfence.statemachine.ids import IdFactory
from jobfence.statemachine.policy import QueuePolicy
from jobfence.statemachine.retry import RetryPolicy
from jobfence.store import SqlJobStore
from jobfence.store.dialects.engines import make_engine
from jobfence.store.sql.schema import Schema, schema_for

START_MS = 1000


def only(*names: str) -> pytest.MarkDecorator:
    """Run a test on these databases alone; its docstring or name says why."""
    return pytest.mark.parametrize("database", names, indirect=True)


class StoreOptions(TypedDict, total=False):
    """What a test may set when it opens a store."""

    queues: Mapping[str, QueuePolicy] | None
    clock: Clock | DatabaseClock | None
    lease_ms: int | None
    retry_policy: RetryPolicy | None
    max_handoffs: int | None
    journal: bool
    ids: IdFactory | None
    handoff_ids: IdFactory | None


def numbered(prefix: str) -> Callable[[], str]:
    """Make j1, j2, j3 ..."""
    numbers = count(1)
    return lambda: f"{prefix}{next(numbers)}"


@dataclass(frozen=True)
class Database:
    """
    A database of this run. `engine` is as the store makes it, `stock` as anybody does.
    """

    name: str
    url: str
    engine: Engine
    stock: Engine

    @classmethod
    def open(cls, name: str, url: str) -> "Database":
        # A test that fails to let go of a connection should say so, not hang.
        stock = create_engine(make_url(url), pool_timeout=10)
        return cls(name, url, make_engine(url), stock)

    def close(self) -> None:
        self.engine.dispose()
        self.stock.dispose()

    @property
    def dialect(self) -> str:
        return self.engine.dialect.name

    def inspect(self) -> Inspector:
        return inspect(self.engine)

    @contextmanager
    def fresh_prefix(self) -> Iterator[str]:
        """Lend a prefix that no table has yet; drop what was made under it."""
        prefix = f"s{secrets.token_hex(4)}_"
        try:
            yield prefix
        finally:
            schema_for(prefix, None).metadata.drop_all(self.engine)


@dataclass
class World:
    """Tables under one prefix of a database, and stores on them."""

    database: Database
    prefix: str
    clock: ManualClock = field(default_factory=lambda: ManualClock(START_MS))
    ids: IdFactory = field(default_factory=lambda: numbered("j"))
    handoff_ids: IdFactory = field(default_factory=lambda: numbered("h"))

    @property
    def tables(self) -> Schema:
        return schema_for(self.prefix, None)

    @property
    def name(self) -> str:
        return self.database.name

    def index_names(self) -> set[str]:
        """Return the names of the indexes that the schema declares here."""
        return {
            str(index.name)
            for table in self.tables.tables_for(self.database.dialect)
            for index in self.tables.indexes_for(table, self.database.dialect)
        }

    def store(
        self, engine: Engine | None = None, **options: Unpack[StoreOptions]
    ) -> SqlJobStore:
        settings: dict[str, Any] = {
            "clock": self.clock,
            "ids": self.ids,
            "handoff_ids": self.handoff_ids,
            **options,
        }
        return SqlJobStore(
            engine or self.database.engine, table_prefix=self.prefix, **settings
        )

    @contextmanager
    def undone(self) -> Iterator[Connection]:
        """Lend a stock engine's transaction that is rolled back at the end."""
        with (
            self.database.stock.connect() as connection,
            connection.begin() as transaction,
        ):
            yield connection
            transaction.rollback()

    @contextmanager
    def joined(self, **options: Unpack[StoreOptions]) -> Iterator[SqlJobStore]:
        """Join a stock engine's transaction, which commits at the end."""
        with self.database.stock.begin() as connection:
            yield self.store(**options).within(connection)

    def execute(self, statement: Any) -> int:
        """Write past the store; return the rows matched."""
        with self.database.engine.begin() as connection:
            return connection.execute(statement).rowcount

    def execute_ddl(self, statement: ExecutableDDLElement) -> None:
        with self.database.engine.begin() as connection:
            connection.execute(statement)

    def impatient(self, connection: Connection) -> None:
        """Let this connection wait for no lock: a test that would hang then fails."""
        setting = {
            "postgresql": "SET LOCAL lock_timeout = '1s'",
            "mariadb": "SET SESSION innodb_lock_wait_timeout = 1",
            "sqlite": "PRAGMA busy_timeout = 1000",
        }
        connection.exec_driver_sql(setting[self.name])

    def sql(self, text: str) -> None:
        """Write past the store in the database's own words; {p} is the prefix."""
        with self.database.engine.begin() as connection:
            connection.exec_driver_sql(text.replace("{p}", self.prefix))

    def rows(self, table: Table) -> list[dict[str, Any]]:
        """Read all rows of a table by another connection, by primary key."""
        with self.database.engine.connect() as connection:
            found = connection.execute(select(table).order_by(*table.primary_key))
            return [dict(row) for row in found.mappings()]

    def row(self, job_id: str) -> dict[str, Any]:
        """Read one job's row by another connection."""
        (found,) = (row for row in self.rows(self.tables.jobs) if row["id"] == job_id)
        return found

    def statuses(self) -> dict[str, str]:
        return {row["id"]: row["status"] for row in self.rows(self.tables.jobs)}

    def counters(self) -> dict[str, tuple[int, int]]:
        """Return (cap, active) by key."""
        return {
            row["concurrency_key"]: (row["max_concurrency"], row["active_count"])
            for row in self.rows(self.tables.concurrency)
        }

    def everything(self) -> dict[str, list[dict[str, Any]]]:
        """Read every table, to compare before and after."""
        return {
            table.name: self.rows(table)
            for table in self.tables.tables_for(self.database.dialect)
        }
