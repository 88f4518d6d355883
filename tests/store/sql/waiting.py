"""Staging what happens at once: a call in a thread, and whether it waits for a lock."""

import threading

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from sqlalchemy import Connection, text

from tests.store.sql.bench import World

T = TypeVar("T")
PATIENCE_S = 20.0
# InnoDB's list of transactions is renewed only when nobody has looked at it for 100 ms.
_PAUSE_S = {"postgresql": 0.005, "mariadb": 0.15}

_WAITING = {
    "postgresql": "SELECT count(*) FROM pg_stat_activity"
    " WHERE pid = :id AND wait_event_type = 'Lock'",
    "mariadb": "SELECT count(*) FROM information_schema.innodb_trx"
    " WHERE trx_mysql_thread_id = :id AND trx_state = 'LOCK WAIT'",
}
_ID = {
    "postgresql": "SELECT pg_backend_pid()",
    "mariadb": "SELECT connection_id()",
    "sqlite": "SELECT 0",
}


def session_id(world: World, connection: Connection) -> int:
    """Return the server's number for this connection."""
    found = connection.exec_driver_sql(_ID[world.name]).scalar_one()
    return int(found)


def until_waiting(world: World, session: int) -> None:
    """Return as soon as the server says that this session waits for a lock."""
    statement = text(_WAITING[world.name])
    pause, pause_s = threading.Event(), _PAUSE_S[world.name]
    with world.database.engine.connect() as connection:
        for _ in range(int(PATIENCE_S / pause_s)):
            if connection.execute(statement, {"id": session}).scalar_one():
                return
            connection.rollback()
            pause.wait(pause_s)
    raise AssertionError("it does not wait for any lock")


@contextmanager
def beside(call: Callable[[], T]) -> Iterator[Future[T]]:
    """Run a call in a thread; at the end it must have come back."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(call)
        try:
            yield future
        finally:
            future.exception(PATIENCE_S)


def kill(world: World, session: int) -> None:
    """End another connection's session, as an operator or a crash does."""
    ending: dict[str, Any] = {
        "postgresql": "SELECT pg_terminate_backend(:id, 5000)",
        "mariadb": "KILL :id",
    }
    with world.database.engine.connect() as connection:
        connection.execute(text(ending[world.name]), {"id": session})
