"""What waits for the outermost COMMIT of a caller's connection (rules S3 and T3)."""

import logging
import re
import threading
import weakref

from collections.abc import Callable, Mapping

from sqlalchemy import Connection, Dialect, ExceptionContext, Pool, event
from sqlalchemy.pool import ConnectionPoolEntry

logger = logging.getLogger("jobfence")

Listener = Callable[[], None]
# A callback, and which savepoint of its connection was the last one before it.
_Noted = tuple[int, Listener]

# Where a pool's entry keeps what waits on it: cleared with a connection that is lost.
_KEY = "jobfence.waiting"


class _Waiting:
    """
    The callbacks of one connection's open transaction.

    SQLAlchemy's `commit` event comes before COMMIT, too early for a wake-up: somebody
    woken by it could not see the job yet. So it only notes that a COMMIT is under way;
    the callbacks run at the next sign that it is over: the connection goes back to its
    pool, or begins another transaction. A COMMIT that failed drops them.

    SQLAlchemy tells of neither once it is done, so a callback that uses the store needs
    another connection of the pool.
    """

    def __init__(self) -> None:
        self.callbacks: list[_Noted] = []
        self.undoing: list[_Noted] = []
        self.committing = False
        self._last = 0

    def add(self, callback: Listener) -> None:
        if all(callback != noted for _, noted in self.callbacks):
            self.callbacks.append((self._last, callback))

    def add_undoing(self, callback: Listener) -> None:
        self.undoing.append((self._last, callback))

    def on_commit(self, *_: object) -> None:
        self.committing = True

    def forget(self, *_: object) -> None:
        undone, self.undoing = self.undoing, []
        self.callbacks, self.committing = [], False
        _undo(undone)

    def on_savepoint_kept(
        self, _connection: Connection, name: str, _context: object
    ) -> None:
        self._last = max(self._last, _number(name))

    def on_savepoint_undone(
        self, _connection: Connection, name: str, _context: object
    ) -> None:
        # Those that were added in it came after it was made.
        first = _number(name)
        undone = [each for each in self.undoing if each[0] >= first]
        self.callbacks = [each for each in self.callbacks if each[0] < first]
        self.undoing = [each for each in self.undoing if each[0] < first]
        _undo(undone)

    def listeners(self) -> Mapping[str, Callable[..., None]]:
        """Return what listens to which of a connection's events."""
        return {
            "begin": self.on_next,
            "begin_twophase": self.on_next,
            "commit": self.on_commit,
            "commit_twophase": self.on_commit,
            "rollback": self.forget,
            "rollback_twophase": self.forget,
            "release_savepoint": self.on_savepoint_kept,
            "rollback_savepoint": self.on_savepoint_undone,
        }

    def on_next(self, *_: object) -> None:
        # A connection that comes back uncommitted is rolled back by its pool.
        due = self.callbacks if self.committing else []
        if self.committing:
            self.undoing = []
        self.forget()
        for _savepoint, callback in due:
            call(callback)


_waiting: "weakref.WeakKeyDictionary[Connection, _Waiting]" = (
    weakref.WeakKeyDictionary()
)
_watched: "weakref.WeakSet[Pool | Dialect]" = weakref.WeakSet()
_lock = threading.Lock()


def _number(savepoint: str) -> int:
    """Return a savepoint's number: SQLAlchemy counts them on each connection."""
    found = re.search(r"\d+\Z", savepoint)
    return int(found[0]) if found else 0


def _undo(undone: list[_Noted]) -> None:
    """Undo the latest first: each goes back to what was before it."""
    for _, callback in reversed(undone):
        callback()


def watch(connection: Connection) -> None:
    """Listen to a connection, before the savepoint that a callback comes from."""
    _waiting_on(connection)


def after_commit(connection: Connection, callback: Listener) -> None:
    """
    Call back once the transaction that is open now has been committed.

    A savepoint that is undone takes the callbacks that were added in it with it.
    """
    _waiting_on(connection).add(callback)


def after_undo(connection: Connection, callback: Listener) -> None:
    """Call back if what is done now is undone, with its savepoint or with everything."""
    _waiting_on(connection).add_undoing(callback)


def _waiting_on(connection: Connection) -> _Waiting:
    with _lock:
        waiting = _waiting.get(connection)
        if waiting is None:
            waiting = _waiting[connection] = _Waiting()
            for name, listener in waiting.listeners().items():
                event.listen(connection, name, listener)
        connection.info[_KEY] = waiting
        _watch(connection)
    return waiting


def _watch(connection: Connection) -> None:
    pool, dialect = connection.engine.pool, connection.dialect
    if pool not in _watched:
        _watched.add(pool)
        event.listen(pool, "checkin", _returned)
    if dialect not in _watched:
        _watched.add(dialect)
        event.listen(connection.engine, "handle_error", _failed)


def _returned(_driver_connection: object, entry: ConnectionPoolEntry) -> None:
    waiting = entry.info.pop(_KEY, None)
    if waiting is not None:
        waiting.on_next()


def _failed(context: ExceptionContext) -> None:
    connection = context.connection
    waiting = None if connection is None else _waiting.get(connection)
    if waiting is not None and waiting.committing:
        waiting.forget()


def call(callback: Listener) -> None:
    """Call a listener; one that raises must not turn a committed change into an error."""
    try:
        callback()
    except Exception:
        logger.exception("a wake-up listener raised")
