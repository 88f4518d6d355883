"""Getting a call its transaction on an event loop; the work itself is the sync one."""

import asyncio

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession

from jobfence.store.dialects.turns import PAUSE_S
from jobfence.store.sql.calls import Call, Mode
from jobfence.store.sql.joined import JoinedRunner
from jobfence.store.sql.runner import (
    LOOK,
    Ready,
    as_database_error,
    in_transaction,
    prepare,
)
from jobfence.store.sql.tries import Tries
from jobfence.store.sql.tx import Settings

T = TypeVar("T")


class _Withdrawn(Exception):
    """The caller was cancelled: undo the work instead of committing it."""


class AsyncOwnRunner:
    """Runs each call in a transaction of its own, again when the database asks."""

    def __init__(self, engine: AsyncEngine, settings: Settings, ready: Ready) -> None:
        self._engine = engine
        self._settings = settings
        self._ready = ready
        self._turn = settings.room.turn(engine.url)

    async def run(self, call: Call[T]) -> T:
        """Run a call until it commits."""
        if not self._ready.done:
            found, _ = await self._until_done(LOOK)
            if not found:
                await self._until_done(Call(lambda tx: prepare(tx, self._ready)))
            self._ready.mark()
        result, wake = await self._until_done(call)
        if wake:
            self._ready.wake()
        return result

    async def _until_done(self, call: Call[T]) -> tuple[T, bool]:
        tries = Tries(self._settings.room, self._engine.url)
        while True:
            try:
                return await self._undisturbed(call, tries)
            except (DBAPIError, PoolTimeoutError) as error:
                pause = tries.pause_s(error)
            await asyncio.sleep(pause)

    async def _undisturbed(self, call: Call[T], tries: Tries) -> tuple[T, bool]:
        """
        Run one transaction in a task of its own, which a cancellation does not reach.

        A driver stopped in the middle of a statement leaves a connection that nobody
        can use. So a cancelled caller waits for the statement under way; the
        transaction is then undone, unless COMMIT was sent already, and the connection
        goes back to its pool whole.
        """
        withdrawn = asyncio.Event()
        work = asyncio.ensure_future(self._once(call, tries, withdrawn))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            withdrawn.set()
            while not work.done():
                try:
                    await asyncio.shield(asyncio.wait([work]))
                except asyncio.CancelledError:
                    continue
            # Looked at, so that the loop does not report it: the caller is gone.
            if not work.cancelled() and work.exception() is None and work.result()[1]:
                self._ready.wake()
            raise

    async def _once(
        self, call: Call[T], tries: Tries, withdrawn: asyncio.Event
    ) -> tuple[T, bool]:
        tries.committing = False

        def work(connection: Connection) -> tuple[T, bool]:
            return in_transaction(
                connection, self._settings, call, before_commit=before_commit
            )

        def before_commit() -> None:
            if withdrawn.is_set():
                raise _Withdrawn
            tries.commit_begins()

        try:
            async with self._in_turn(call.mode), self._engine.connect() as connection:
                return await connection.run_sync(work)
        except self._engine.dialect.loaded_dbapi.Error as error:
            raise as_database_error(self._engine.dialect, error) from error

    @asynccontextmanager
    async def _in_turn(self, mode: Mode) -> AsyncIterator[None]:
        """Wait until it is this writer's turn, where writers take turns."""
        if self._turn is None or mode is Mode.READ:
            yield
            return
        asking = self._turn.ask()
        try:
            while not asking.over():  # noqa: ASYNC110  another process sets no event
                await asyncio.sleep(PAUSE_S)
            yield
        finally:
            asking.end()


class AsyncJoinedRunner:
    """Runs each call in a savepoint of the caller's transaction."""

    def __init__(
        self,
        transaction: AsyncConnection | AsyncSession,
        settings: Settings,
        ready: Ready,
    ) -> None:
        self._transaction = transaction
        self._settings = settings
        self._ready = ready

    async def run(self, call: Call[T]) -> T:
        """Run a call; a refusal undoes it alone."""
        connection = (
            await self._transaction.connection()
            if isinstance(self._transaction, AsyncSession)
            else self._transaction
        )

        def work(sync_connection: Connection) -> T:
            return JoinedRunner(sync_connection, self._settings, self._ready).run(call)

        return await connection.run_sync(work)
