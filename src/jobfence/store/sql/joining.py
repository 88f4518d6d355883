"""What waits for the outermost COMMIT of a caller's connection (rules S3 and T3)."""

import logging
import threading
import weakref

from collections.abc import Callable

from sqlalchemy import Connection, Pool, event

logger = logging.getLogger("jobfence")

Listener = Callable[[], None]


class _Waiting:
    """
    The callbacks of one connection's open transaction.

    SQLAlchemy's `commit` event comes before COMMIT, too early for a wake-up: somebody
    woken by it could not see the job yet. So it only notes that a COMMIT is under way;
    the callbacks run at the next sign that it is over: the connection goes back to its
    pool, or begins another transaction.
    """

    def __init__(self) -> None:
        self.callbacks: list[Listener] = []
        self.committing = False

    def on_commit(self, _connection: Connection) -> None:
        self.committing = True

    def on_rollback(self, _connection: Connection) -> None:
        self.callbacks, self.committing = [], False

    def on_next(self, *_: object) -> None:
        if self.committing:
            due, self.callbacks = self.callbacks, []
            self.committing = False
            for callback in due:
                call(callback)
        else:
            # A connection that comes back uncommitted is rolled back by its pool.
            self.callbacks = []


_waiting: "weakref.WeakKeyDictionary[Connection, _Waiting]" = (
    weakref.WeakKeyDictionary()
)
_by_driver: dict[int, _Waiting] = {}
_watched: "weakref.WeakSet[Pool]" = weakref.WeakSet()
_lock = threading.Lock()


def after_commit(connection: Connection, callback: Listener) -> None:
    """Call back once the transaction that is open now has been committed."""
    with _lock:
        waiting = _waiting.get(connection)
        if waiting is None:
            waiting = _waiting[connection] = _Waiting()
            event.listen(connection, "commit", waiting.on_commit)
            event.listen(connection, "rollback", waiting.on_rollback)
            event.listen(connection, "begin", waiting.on_next)
        _by_driver[id(connection.connection.dbapi_connection)] = waiting
        pool = connection.engine.pool
        if pool not in _watched:
            _watched.add(pool)
            event.listen(pool, "checkin", _returned)
    waiting.callbacks.append(callback)


def _returned(driver_connection: object, _record: object) -> None:
    with _lock:
        waiting = _by_driver.pop(id(driver_connection), None)
    if waiting is not None:
        waiting.on_next()


def call(callback: Listener) -> None:
    """Call a listener; one that raises must not turn a committed change into an error."""
    try:
        callback()
    except Exception:
        logger.exception("a wake-up listener raised")
