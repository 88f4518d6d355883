"""One set of tables on one database, the stores on it, and a look into its rows."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Engine, Table, func, select, text

from jobfence.conformance.sql.waits import waiting_on_mysql
from jobfence.statemachine.clock import Clock
from jobfence.statemachine.policy import QueuePolicy
from jobfence.statemachine.retry import RetryPolicy
from jobfence.statemachine.states import JobStatus
from jobfence.store.dialects.engines import make_engine
from jobfence.store.sql.schema import Schema, schema_for
from jobfence.store.sql.store import SqlJobStore
from tests.store.sql.journal.audit import assert_possible
from tests.store.sql.races.crew import Running
from tests.store.sql.races.watch import Troubles, wait_until


@dataclass
class Place:
    """
    Where a test's jobs are.

    `troubles` counts the database errors that its stores met, also those they got over
    by trying again.
    """

    database: str
    url: str
    prefix: str
    has_tables: bool = False
    journal: bool = False
    troubles: Troubles = field(default_factory=Troubles)
    _engines: list[Engine] = field(default_factory=list)
    _looking: Engine | None = None

    @property
    def tables(self) -> Schema:
        return schema_for(self.prefix, None)

    @property
    def locks_rows(self) -> bool:
        return self.database != "sqlite"

    def store(
        self,
        *,
        queues: Mapping[str, QueuePolicy] | None = None,
        clock: Clock | None = None,
        lease_ms: int | None = 60_000,
        retry_policy: RetryPolicy | None = None,
        max_handoffs: int | None = None,
    ) -> SqlJobStore:
        """Open a store with connections of its own."""
        store = SqlJobStore(
            self._engine(),
            queues=queues,
            clock=clock,
            lease_ms=lease_ms,
            retry_policy=retry_policy,
            max_handoffs=max_handoffs,
            journal=self.journal,
            table_prefix=self.prefix,
        )
        if self.has_tables:
            # To look at all of them again takes longer than a test.
            store._ready.mark()  # noqa: SLF001
        return store

    def judge(self) -> None:
        """What happened was possible, if it was noted (`journal`)."""
        if self.journal and self.has_tables:
            assert_possible(self.store())

    def make_tables(self) -> None:
        """Make the tables, or empty those that are there."""
        if not self.has_tables:
            self.store().ensure_ready()
            self.has_tables = True
        self.store().clear()

    def _engine(self) -> Engine:
        engine = make_engine(self.url)
        self.troubles.watch(engine)
        self._engines.append(engine)
        return engine

    @property
    def looking(self) -> Engine:
        """An engine for the test itself, whose errors are not the stores'."""
        if self._looking is None:
            self._looking = make_engine(self.url)
            self._engines.append(self._looking)
        return self._looking

    def close(self) -> None:
        while self._engines:
            self._engines.pop().dispose()
        self._looking = None

    def drop(self) -> None:
        with self.looking.begin() as connection:
            self.tables.metadata.drop_all(connection)

    def rows(self, table: Table) -> list[Mapping[str, Any]]:
        with self.looking.connect() as connection:
            return [dict(row) for row in connection.execute(select(table)).mappings()]

    def jobs(self) -> dict[str, Mapping[str, Any]]:
        return {row["id"]: row for row in self.rows(self.tables.jobs)}

    def count(self, status: JobStatus) -> int:
        jobs = self.tables.jobs
        wanted = select(func.count()).where(jobs.c.status == status.value)
        with self.looking.connect() as connection:
            return int(connection.execute(wanted).scalar_one())

    def counters(self) -> dict[str, int]:
        """Return active counts by key."""
        return {
            row["concurrency_key"]: row["active_count"]
            for row in self.rows(self.tables.concurrency)
        }

    def drift(self, connection: Connection | None = None) -> dict[str, tuple[int, int]]:
        """Return the keys whose counter is not their handed-off jobs (C5), with both."""
        if connection is None:
            with self.snapshot() as snapshot:
                return self.drift(snapshot)
        jobs, counters = self.tables.jobs.c, self.tables.concurrency.c
        held_rows = connection.execute(
            select(jobs.concurrency_key, func.count())
            .where(
                jobs.status == JobStatus.HANDED_OFF.value,
                jobs.concurrency_key.is_not(None),
            )
            .group_by(jobs.concurrency_key)
        )
        held = {key: int(n) for key, n in held_rows}
        counted_rows = connection.execute(
            select(counters.concurrency_key, counters.active_count)
        )
        counted = {key: int(n) for key, n in counted_rows}
        return {
            key: (counted.get(key, 0), held.get(key, 0))
            for key in held.keys() | counted.keys()
            if counted.get(key, 0) != held.get(key, 0)
        }

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """Give a transaction in which all reads see one committed state."""
        with self.looking.connect() as plain:
            if self.database == "sqlite":
                plain.exec_driver_sql("BEGIN DEFERRED")
                connection = plain
            else:
                connection = plain.execution_options(isolation_level="REPEATABLE READ")
            if self.database == "mariadb":
                connection.exec_driver_sql("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            yield connection
            connection.rollback()

    def is_free(self, table: Table, **row: str) -> bool:
        """
        Say whether nobody holds a lock on this row; `row` is its primary key.

        A row that is not there is free when it can be inserted without waiting.
        """
        ((column, value),) = row.items()
        wanted = (
            select(table.c[column])
            .where(table.c[column] == value)
            .with_for_update(skip_locked=True)
        )
        with self.looking.connect() as connection, connection.begin() as transaction:
            found = connection.execute(wanted).first()
            transaction.rollback()
        return found is not None

    @contextmanager
    def holding(self, table: Table, **row: str) -> Iterator[Connection]:
        """Hold the lock of one existing row on another connection, until the end."""
        ((column, value),) = row.items()
        wanted = (
            select(table.c[column]).where(table.c[column] == value).with_for_update()
        )
        with self.looking.connect() as connection, connection.begin():
            found = connection.execute(wanted).first()
            assert found is not None, f"no row {value!r} to hold in {table.name}"
            yield connection

    def waiting_for_locks(self) -> int:
        """Count the statements of this place that wait for a lock now."""
        with self.looking.connect() as connection:
            if self.database == "postgresql":
                statement = text(
                    "SELECT count(*) FROM pg_stat_activity "
                    "WHERE wait_event_type = 'Lock' AND application_name = :prefix"
                )
                found = connection.execute(statement, {"prefix": self.prefix})
                return int(found.scalar_one())
            return sum(self.prefix in each for each in waiting_on_mysql(connection))

    def until_waiting(self, *running: Running[Any]) -> None:
        """Return once all of these wait for a lock; none may end instead."""

        def waiting() -> bool:
            for each in running:
                if each.done:
                    each.result()
                    raise AssertionError("it did not wait for the lock")
            return self.waiting_for_locks() >= len(running)

        wait_until(waiting, f"{len(running)} to wait for a lock")


PlaceFactory = Callable[[], Place]
