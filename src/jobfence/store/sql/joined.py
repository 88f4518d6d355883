"""Running calls in a transaction of the caller's (T1)."""

import weakref

from collections.abc import Mapping
from functools import partial
from typing import TypeVar

from sqlalchemy import Connection, NestedTransaction, RootTransaction
from sqlalchemy.exc import DBAPIError

from jobfence.statemachine.errors import InvalidOption, RetryableError
from jobfence.statemachine.policy import QueuePolicy
from jobfence.store.dialects.rooms import room_for
from jobfence.store.sql import joining
from jobfence.store.sql.calls import Call, Mode
from jobfence.store.sql.runner import Ready, prepare
from jobfence.store.sql.tries import AGAIN, explained
from jobfence.store.sql.tx import Settings, Tx

T = TypeVar("T")

# Callers' transactions in which a call has locked counters (C4).
_holding: "weakref.WeakSet[RootTransaction]" = weakref.WeakSet()


class JoinedRunner:
    """Runs each call in a savepoint of the caller's transaction; tries nothing again."""

    def __init__(
        self, connection: Connection, settings: Settings, ready: Ready
    ) -> None:
        if not isinstance(room_for(connection.dialect), type(settings.room)):
            raise InvalidOption(
                "transaction",
                connection.dialect.name,
                "must be on this store's database",
            )
        self._connection = connection
        self._settings = settings
        self._ready = ready

    def run(self, call: Call[T]) -> T:
        """Run a call; a refusal undoes it alone."""
        try:
            self._begin(call.mode)
            return self._in_savepoint(call)
        except DBAPIError as error:
            room = self._settings.room
            if room.fault(error) in AGAIN:
                raise RetryableError(
                    f"roll this transaction back and run it again: "
                    f"{room.message(error)}"
                ) from error
            raise explained(room, error, self._connection.engine.url) from error

    def _begin(self, mode: Mode) -> None:
        """Begin the caller's transaction if nothing did, and take its first lock."""
        connection, room = self._connection, self._settings.room
        if not connection.in_transaction():
            connection.begin()
        if room.autocommit(connection):
            raise InvalidOption(
                "transaction", "an AUTOCOMMIT connection", "must be one that can commit"
            )
        # Also for reads: a later write on SQLite needs the lock from the start.
        jobs = self._settings.schema.jobs
        room.join(connection, jobs, reading=mode is Mode.READ)

    def _go_by(self, queues: Mapping[str, QueuePolicy] | None) -> None:
        """Go by new policies here at once, elsewhere when they are committed (C7)."""
        if queues is None:
            return
        before, origin = self._settings.queues, self._settings.origin
        joining.after_undo(self._connection, partial(self._settings.put_back, before))
        self._settings.go_by(queues)
        if origin is not None:
            joining.after_commit(self._connection, partial(origin.go_by, queues))

    def _in_savepoint(self, call: Call[T]) -> T:
        joining.watch(self._connection)
        whole = self._connection.get_transaction()
        assert whole is not None, "no transaction was begun"
        savepoint = self._connection.begin_nested()
        tx = Tx(
            self._connection,
            self._settings,
            joined=True,
            holds_counters=whole in _holding,
        )
        try:
            if not self._ready.done:
                prepare(tx, self._ready)
            result = call.work(tx)
            tx.finish()
            savepoint.commit()
        except BaseException:
            self._undo(savepoint)
            raise
        finally:
            # Also if it was undone: some databases keep the locks.
            if tx.holds_counters:
                _holding.add(whole)
        if not self._ready.done:
            joining.after_commit(self._connection, self._ready.mark)
        self._go_by(tx.given_queues)
        if tx.wake:
            joining.after_commit(self._connection, self._ready.wake)
        return result

    def _undo(self, savepoint: NestedTransaction) -> None:
        """
        Undo a call alone, or give the whole transaction up where that cannot be.

        After a deadlock MySQL has undone everything, the savepoint too; on SQLite a
        full disk may do so. What the caller did before is gone then: its transaction is
        ended here, so that it cannot commit the rest of it by mistake.
        """
        whole = self._connection.get_transaction()
        try:
            savepoint.rollback()
        except DBAPIError:
            if whole is not None and whole.is_active:
                whole.rollback()
