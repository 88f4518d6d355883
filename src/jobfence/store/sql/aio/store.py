"""`AsyncSqlJobStore`: the contract, awaited."""

from collections.abc import Mapping

from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession

from jobfence.statemachine.clock import Clock, DatabaseClock
from jobfence.statemachine.errors import InvalidOption
from jobfence.statemachine.ids import IdFactory
from jobfence.statemachine.policy import QueuePolicy
from jobfence.statemachine.retry import RetryPolicy
from jobfence.store.contract import DEFAULT_LEASE_MS
from jobfence.store.dialects.engines import (
    begins_at,
    check_pool,
    guard_against_fork,
    make_async_engine,
)
from jobfence.store.sql.aio.core import AsyncCoreMethods
from jobfence.store.sql.aio.others import (
    AsyncConcurrencyMethods,
    AsyncOperationsMethods,
    AsyncScheduleMethods,
)
from jobfence.store.sql.aio.runner import AsyncJoinedRunner, AsyncOwnRunner
from jobfence.store.sql.runner import Ready
from jobfence.store.sql.schema import Schema
from jobfence.store.sql.store import DEFAULT_PREFIX, settings_for


class AsyncSqlJobStore(
    AsyncCoreMethods,
    AsyncConcurrencyMethods,
    AsyncScheduleMethods,
    AsyncOperationsMethods,
):
    """
    Jobs in a SQL database, for a program on an event loop.

    Takes what `SqlJobStore` takes, with an async engine or a URL: aiosqlite, psycopg
    or aiomysql. A call whose task is cancelled is undone, unless its COMMIT was sent
    already; either way it leaves no open transaction and no lost connection.
    """

    def __init__(
        self,
        engine_or_url: AsyncEngine | URL | str,
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
        self._owns_engine = not isinstance(engine_or_url, AsyncEngine)
        self._engine = (
            engine_or_url
            if isinstance(engine_or_url, AsyncEngine)
            else make_async_engine(engine_or_url)
        )
        check_pool(self._engine.sync_engine)
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
        guard_against_fork(self._engine.sync_engine)
        own, isolation = self._engine, self._settings.room.isolation
        if isolation is not None and not begins_at(own.sync_engine, isolation):
            own = own.execution_options(isolation_level=isolation)
        self._runner: AsyncOwnRunner | AsyncJoinedRunner = AsyncOwnRunner(
            own, self._settings, self._ready
        )

    @property
    def engine(self) -> AsyncEngine:
        """The engine in use."""
        return self._engine

    @property
    def tables(self) -> Schema:
        """The tables, with their `metadata`, for a team's own migrations (S4)."""
        return self._settings.schema

    def within(self, transaction: AsyncConnection | AsyncSession) -> "AsyncSqlJobStore":
        """Return this store, joined to a transaction of the caller's (T1)."""
        if not isinstance(transaction, AsyncConnection | AsyncSession):
            raise InvalidOption(
                "transaction",
                transaction,
                "must be a SQLAlchemy AsyncConnection or AsyncSession",
            )
        joined = object.__new__(type(self))
        joined.__dict__.update(self.__dict__)
        joined._settings = self._settings.joined()
        joined._runner = AsyncJoinedRunner(transaction, joined._settings, self._ready)
        return joined

    async def close(self) -> None:
        """Close the connections of the store's own engine; it can be used again."""
        if self._owns_engine:
            await self._engine.dispose()
