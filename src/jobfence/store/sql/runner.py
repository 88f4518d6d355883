"""Getting a call its transaction: the store's own, tried again, or the caller's."""

import random
import time

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from sqlalchemy import Connection, Dialect, Engine, NestedTransaction
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, TimeoutError as PoolTimeoutError

from jobfence.statemachine.errors import (
    IncompatibleSchema,
    InvalidOption,
    JobfenceError,
    RetryableError,
    StoreUnavailable,
)
from jobfence.statemachine.policy import QueuePolicy
from jobfence.store.dialects.base import Fault, Room
from jobfence.store.dialects.rooms import room_for
from jobfence.store.dialects.turns import PAUSE_S
from jobfence.store.notes import Action, Entity
from jobfence.store.sql import joining, journal, readiness
from jobfence.store.sql.calls import Call, Mode
from jobfence.store.sql.tx import Settings, Tx

T = TypeVar("T")
_AGAIN = (Fault.RETRY, Fault.DUPLICATE, Fault.LOST)
_FIRST_PAUSE_S = 0.002
_LONGEST_PAUSE_S = 0.25


@dataclass(slots=True)
class Tries:
    """
    Counts the tries of one call and says how long to pause before the next (T2).

    `committing` is set while COMMIT is under way: a connection lost then leaves the
    outcome open, and repeating could do the work twice.
    """

    room: Room
    where: URL
    random: Callable[[], float] = random.random
    made: int = 0
    committing: bool = False

    def commit_begins(self) -> None:
        """Note that from here on a lost connection leaves the outcome open."""
        self.committing = True

    def pause_s(self, error: DBAPIError | PoolTimeoutError) -> float:
        """Return the pause before another try, or raise what the caller gets."""
        if isinstance(error, PoolTimeoutError):
            raise StoreUnavailable(
                f"no connection became free: {error}; use a larger pool, or fewer "
                f"threads"
            ) from error
        fault = self.room.fault(error)
        in_doubt = self.committing and fault is Fault.LOST
        self.made += 1
        if fault in _AGAIN and not in_doubt:
            if self.made < self.room.tries:
                longest = min(_FIRST_PAUSE_S * (1 << self.made), _LONGEST_PAUSE_S)
                return longest * self.random()
            raise RetryableError(
                f"the database asked {self.made} times to try again; nothing was "
                f"written: {self.room.message(error)}"
            ) from error
        raise explained(self.room, error, self.where, in_doubt=in_doubt) from error


def explained(
    room: Room, error: DBAPIError, where: URL, *, in_doubt: bool = False
) -> JobfenceError | DBAPIError:
    """Return what the caller gets for an error that trying again does not mend."""
    fault = room.fault(error)
    if in_doubt or fault in (Fault.UNAVAILABLE, Fault.LOST):
        return room.explain(error, where, in_doubt=in_doubt)
    if fault is Fault.SCHEMA:
        return IncompatibleSchema(
            f"a table or column is missing: {room.message(error)}; call ensure_ready()"
        )
    return error


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
    if not readiness.look(tx.connection, tx.schema).complete:
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
        tx.room.begin(tx.connection, joined=False)
    else:
        tx.room.begin_reading(tx.connection)


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
            self._begin()
            return self._in_savepoint(call)
        except DBAPIError as error:
            room = self._settings.room
            if room.fault(error) in _AGAIN:
                raise RetryableError(
                    f"roll this transaction back and run it again: "
                    f"{room.message(error)}"
                ) from error
            raise explained(room, error, self._connection.engine.url) from error

    def _begin(self) -> None:
        """Begin the caller's transaction if nothing did, and take its first lock."""
        connection, room = self._connection, self._settings.room
        if not connection.in_transaction():
            connection.begin()
        if room.autocommit(connection):
            raise InvalidOption(
                "transaction", "an AUTOCOMMIT connection", "must be one that can commit"
            )
        # Also for reads: a later write on SQLite needs the lock from the start.
        room.begin(connection, joined=True)

    def _go_by(self, queues: Mapping[str, QueuePolicy] | None) -> None:
        """Go by new policies here at once, elsewhere when they are committed (C7)."""
        self._settings.go_by(queues)
        origin = self._settings.origin
        if queues is not None and origin is not None:
            joining.after_commit(self._connection, partial(origin.go_by, queues))

    def _in_savepoint(self, call: Call[T]) -> T:
        joining.watch(self._connection)
        savepoint = self._connection.begin_nested()
        tx = Tx(self._connection, self._settings, joined=True)
        try:
            if not self._ready.done:
                prepare(tx, self._ready)
            result = call.work(tx)
            tx.finish()
            savepoint.commit()
        except BaseException:
            self._undo(savepoint)
            raise
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
