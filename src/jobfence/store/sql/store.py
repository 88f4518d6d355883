"""`SqlJobStore`: the contract on SQLite, PostgreSQL, MariaDB and MySQL."""

import sys

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.engine import URL

from jobfence.statemachine import checks
from jobfence.statemachine.clock import Clock, DatabaseClock
from jobfence.statemachine.errors import InvalidOption
from jobfence.statemachine.ids import IdFactory, random_id, time_ordered_id
from jobfence.statemachine.parts import check_parts
from jobfence.statemachine.policy import QueuePolicy, check_queues
from jobfence.statemachine.retry import RetryPolicy, SteppedRetry
from jobfence.store.contract import (
    DEFAULT_LEASE_MS,
)
from jobfence.store.dialects.engines import (
    begins_at,
    check_pool,
    guard_against_fork,
    make_engine,
)
from jobfence.store.dialects.rooms import room_for
from jobfence.store.sql.joined import JoinedRunner
from jobfence.store.sql.methods.core import CoreMethods
from jobfence.store.sql.methods.others import (
    ConcurrencyMethods,
    OperationsMethods,
    ScheduleMethods,
)
from jobfence.store.sql.runner import OwnRunner, Ready
from jobfence.store.sql.schema import Schema, named_schema
from jobfence.store.sql.tx import Settings

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

T = TypeVar("T")
DEFAULT_PREFIX = "jobfence_"


def settings_for(
    dialect: Any,
    *,
    queues: Mapping[str, QueuePolicy] | None,
    clock: Clock | DatabaseClock | None,
    lease_ms: int | None,
    retry_policy: RetryPolicy | None,
    max_handoffs: int | None,
    journal: bool,
    table_prefix: str,
    schema: str | None,
    ids: IdFactory | None,
    handoff_ids: IdFactory | None,
) -> Settings:
    """Check what a store is made with."""
    room = room_for(dialect)
    if max_handoffs is not None:
        checks.integer("max_handoffs", max_handoffs, least=1, most=checks.INT32_MAX)
    check_parts(clock, retry_policy, ids, handoff_ids, has_server=True)
    return Settings(
        schema=named_schema(table_prefix, schema),
        room=room,
        clock=room.clock if clock is None else clock,
        queues=check_queues(queues),
        lease_ms=checks.lease_ms(lease_ms),
        retry_policy=retry_policy or SteppedRetry(),
        max_handoffs=max_handoffs,
        journal=checks.flag("journal", journal),
        ids=ids or time_ordered_id,
        handoff_ids=handoff_ids or random_id,
    )


class SqlJobStore(CoreMethods, ConcurrencyMethods, ScheduleMethods, OperationsMethods):
    """
    Jobs in a SQL database.

    Takes a URL, for an engine of its own, or an engine of yours, which it never
    disposes of. `queues` None has no opinion on caps and goes by the durable ones; an
    empty mapping means no caps (C0). `clock` None is the database server's clock, on
    SQLite this process's. `lease_ms` None hands off without leases. Thread-safe.
    """

    def __init__(
        self,
        engine_or_url: Engine | URL | str,
        *,
        queues: Mapping[str, QueuePolicy] | None = None,
        clock: Clock | DatabaseClock | None = None,
        lease_ms: int | None = DEFAULT_LEASE_MS,
        retry_policy: RetryPolicy | None = None,
        max_handoffs: int | None = None,
        journal: bool = False,
        table_prefix: str = DEFAULT_PREFIX,
        schema: str | None = None,
        ids: IdFactory | None = None,
        handoff_ids: IdFactory | None = None,
    ) -> None:
        self._owns_engine = not isinstance(engine_or_url, Engine)
        self._engine = (
            engine_or_url
            if isinstance(engine_or_url, Engine)
            else make_engine(engine_or_url)
        )
        check_pool(self._engine)
        self._settings = settings_for(
            self._engine.dialect,
            queues=queues,
            clock=clock,
            lease_ms=lease_ms,
            retry_policy=retry_policy,
            max_handoffs=max_handoffs,
            journal=journal,
            table_prefix=table_prefix,
            schema=schema,
            ids=ids,
            handoff_ids=handoff_ids,
        )
        self._ready = Ready()
        guard_against_fork(self._engine)
        own, isolation = self._engine, self._settings.room.isolation
        if isolation is not None and not begins_at(own, isolation):
            # The engine may be set to REPEATABLE READ or AUTOCOMMIT for its owner.
            own = own.execution_options(isolation_level=isolation)
        self._runner: OwnRunner | JoinedRunner = OwnRunner(
            own, self._settings, self._ready
        )

    @property
    def engine(self) -> Engine:
        """The engine in use."""
        return self._engine

    @property
    def tables(self) -> Schema:
        """The tables, with their `metadata`, for a team's own migrations (S4)."""
        return self._settings.schema

    @property
    def clock(self) -> Clock | DatabaseClock:
        """What judges due and lease times (L3)."""
        return self._settings.clock

    def within(self, transaction: "Connection | Session") -> "SqlJobStore":
        """
        Return this store, joined to a transaction of the caller's (T1).

        A refused call undoes only its own savepoint. What the database asks to be run
        again comes as `RetryableError`: roll back and repeat the whole.
        """
        connection = _connection_of(transaction)
        if not isinstance(connection, Connection):
            raise InvalidOption(
                "transaction", transaction, "must be a SQLAlchemy Connection or Session"
            )
        joined = object.__new__(type(self))
        joined.__dict__.update(self.__dict__)
        joined._settings = self._settings.joined()
        joined._runner = JoinedRunner(connection, joined._settings, self._ready)
        return joined

    def close(self) -> None:
        """Close the connections of the store's own engine; it can be used again."""
        if self._owns_engine:
            self._engine.dispose()


def _connection_of(transaction: Any) -> object:
    # Whoever has a Session has loaded the ORM. To others it would be a fifth of the
    # time that this package takes to import.
    orm = sys.modules.get("sqlalchemy.orm")
    if orm is not None and isinstance(transaction, orm.Session):
        return transaction.connection()
    return transaction
