"""What waits for the outermost COMMIT of a caller's connection (rules S3 and T3)."""

import logging
import threading
import weakref

from collections.abc import Callable

from sqlalchemy import Connection, Dialect, ExceptionContext, Pool, event
from sqlalchemy.pool import ConnectionPoolEntry

logger = logging.getLogger("jobfence")

Listener = Callable[[], None]

# Where a pool's entry keeps what waits on it: cleared with a connection that is lost.
_KEY = "jobfence.waiting"


class _Waiting:
    """
    The callbacks of one connection's open transaction.

    SQLAlchemy's `commit` event comes before COMMIT, too early for a wake-up: somebody
    woken by it could not see the job yet. So it only notes that a COMMIT is under way;
    the callbacks run at the next sign that it is over: the connection goes back to its
    pool, or begins another transaction. A COMMIT that failed drops them.
    """

    def __init__(self) -> None:
        self.callbacks: list[Listener] = []
        self.committing = False

    def on_commit(self, _connection: Connection) -> None:
        self.committing = True

    def forget(self, *_: object) -> None:
        self.callbacks, self.committing = [], False

    def on_next(self, *_: object) -> None:
        # A connection that comes back uncommitted is rolled back by its pool.
        due = self.callbacks if self.committing else []
        self.forget()
        for callback in due:
            call(callback)


_waiting: "weakref.WeakKeyDictionary[Connection, _Waiting]" = (
    weakref.WeakKeyDictionary()
)
_watched: "weakref.WeakSet[Pool | Dialect]" = weakref.WeakSet()
_lock = threading.Lock()


def after_commit(connection: Connection, callback: Listener) -> None:
    """Call back once the transaction that is open now has been committed."""
    with _lock:
        waiting = _waiting.get(connection)
        if waiting is None:
            waiting = _waiting[connection] = _Waiting()
            event.listen(connection, "commit", waiting.on_commit)
            event.listen(connection, "rollback", waiting.forget)
            event.listen(connection, "begin", waiting.on_next)
        connection.info[_KEY] = waiting
        _watch(connection)
    if callback not in waiting.callbacks:
        waiting.callbacks.append(callback)


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
