"""Staging what happens at once: a call in a thread, and whether it waits for a lock."""

import threading

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from sqlalchemy import Connection, text

from jobfence.conformance.sql.waits import waits_for_lock
from tests.store.sql.bench import World

T = TypeVar("T")
PATIENCE_S = 20.0
_PAUSE_S = 0.005
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
    pause = threading.Event()
    with world.database.engine.connect() as connection:
        for _ in range(int(PATIENCE_S / _PAUSE_S)):
            if waits_for_lock(connection, session):
                return
            connection.rollback()
            pause.wait(_PAUSE_S)
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
