"""Running calls in transactions of the store's own, tried again (T2)."""

import time

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from sqlalchemy import Connection, Dialect, Engine
from sqlalchemy.exc import DBAPIError, TimeoutError as PoolTimeoutError

from jobfence.store.dialects.turns import PAUSE_S
from jobfence.store.notes import Action, Entity
from jobfence.store.sql import joining, journal, readiness
from jobfence.store.sql.calls import Call, Mode
from jobfence.store.sql.tries import Tries
from jobfence.store.sql.tx import Settings, Tx

T = TypeVar("T")


@dataclass(slots=True)
class Ready:
    """
    Whether the tables were found or made; remembered only once that is committed.

    `create` is what `ensure_ready` was last told.
    """

    done: bool = False
    create: bool = True
    listeners: list[joining.Listener] = field(default_factory=list)

    def mark(self) -> None:
        """Remember."""
        self.done = True

    def wake(self) -> None:
        """Call every listener (T3)."""
        for listener in list(self.listeners):
            joining.call(listener)


def found_ready(tx: Tx) -> bool:
    """
    Say whether the tables are there at the present version, and the journal has begun.

    Asked first: on SQLite to make them takes the write lock, and a store that is opened
    only to read must not wait for a writer, nor need a file that it may write.
    """
    tx.room.check_server(tx.connection)
    if not readiness.look(tx.connection, tx.schema, tx.room).complete:
        return False
    tx.room.check_rowcounts(tx.connection, tx.schema.locks)
    return tx.journal is None or journal.has_begun(tx)


LOOK = Call(found_ready, Mode.READ)


def prepare(tx: Tx, ready: Ready) -> None:
    """Bring the tables to the present version in this transaction (S1)."""
    rebuilt = readiness.ensure(
        tx.connection,
        tx.schema,
        tx.room,
        now_ms=tx.read_clock(),
        create=ready.create,
        joined=tx.joined,
    )
    tx.room.check_rowcounts(tx.connection, tx.schema.locks)
    if tx.journal is not None:
        if not journal.has_begun(tx):
            journal.begin(tx)
        for key in rebuilt:
            tx.journal.touched(Entity.SCHEDULE_KEY, key, Action.REBUILD)


class OwnRunner:
    """Runs each call in a transaction of its own, again when the database asks."""

    def __init__(self, engine: Engine, settings: Settings, ready: Ready) -> None:
        self._engine = engine
        self._settings = settings
        self._ready = ready
        self._turn = settings.room.turn(engine.url)

    def run(self, call: Call[T]) -> T:
        """Run a call until it commits."""
        self.make_ready()
        result, wake = self._until_done(call)
        if wake:
            self._ready.wake()
        return result

    def look(self, work: Callable[[Tx], T]) -> T:
        """Look at a database that may not be ready."""
        return self._until_done(Call(work, Mode.READ))[0]

    def make_ready(self) -> None:
        """Find or make the tables, if this store has not yet."""
        if not self._ready.done:
            found, _ = self._until_done(LOOK)
            if not found:
                self._until_done(Call(lambda tx: prepare(tx, self._ready)))
            self._ready.mark()

    def _until_done(self, call: Call[T]) -> tuple[T, bool]:
        tries = Tries(self._settings.room, self._engine.url)
        while True:
            try:
                return self._once(call, tries)
            except (DBAPIError, PoolTimeoutError) as error:
                pause = tries.pause_s(error)
            time.sleep(pause)

    def _once(self, call: Call[T], tries: Tries) -> tuple[T, bool]:
        tries.committing = False
        with self._in_turn(call.mode), self._connect() as connection:
            return in_transaction(
                connection, self._settings, call, before_commit=tries.commit_begins
            )

    @contextmanager
    def _in_turn(self, mode: Mode) -> Iterator[None]:
        """Wait until it is this writer's turn, where writers take turns."""
        if self._turn is None or mode is Mode.READ:
            yield
            return
        asking = self._turn.ask()
        try:
            while not asking.over():
                time.sleep(PAUSE_S)
            yield
        finally:
            asking.end()

    def _connect(self) -> Connection:
        try:
            return self._engine.connect()
        except self._engine.dialect.loaded_dbapi.Error as error:
            raise as_database_error(self._engine.dialect, error) from error


def as_database_error(dialect: Dialect, error: Exception) -> Exception:
    """
    Wrap an error of the driver's as SQLAlchemy does, except where it forgets to.

    An engine that sets the isolation level of each connection lets out as it is what
    goes wrong then: that a pooled connection is gone, as a rule.
    """
    return DBAPIError.instance(
        None,
        None,
        error,
        dialect.loaded_dbapi.Error,
        connection_invalidated=True,
        dialect=dialect,
    )


def in_transaction(
    connection: Connection,
    settings: Settings,
    call: Call[T],
    *,
    before_commit: Callable[[], None],
) -> tuple[T, bool]:
    """Run a call in one transaction; return its result, and whether to wake."""
    # The block commits, not a call in it: after a commit() in it that failed SQLAlchemy
    # would give the connection back to its pool with the transaction still open.
    with connection.begin():
        tx = Tx(connection, settings)
        begin(tx, call.mode)
        result = call.work(tx)
        tx.finish()
        before_commit()
    settings.go_by(tx.given_queues)
    return result, tx.wake


def begin(tx: Tx, mode: Mode) -> None:
    """Take the lock that a transaction of this mode starts with."""
    if mode is Mode.WRITE:
        tx.room.begin(tx.connection)
    else:
        tx.room.begin_reading(tx.connection)
