"""Errors as the drivers raise them, and connections that are lost at a chosen moment."""

import sqlite3

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pymysql  # type: ignore[import-untyped]

from sqlalchemy import Engine, create_engine, event

from jobfence.store.dialects.engines import make_engine
from tests.store.sql.bench import World
from tests.store.sql.waiting import kill, session_id


def sqlite_error(message: str, code: int) -> Exception:
    error = sqlite3.OperationalError(message)
    error.sqlite_errorcode = code
    return error


def asked_to_retry(world: World) -> Exception:
    """Return the error of a transaction that is to be run again."""
    errors: dict[str, Callable[[], Exception]] = {
        "sqlite": lambda: sqlite_error("database is locked", sqlite3.SQLITE_BUSY),
        "postgresql": lambda: psycopg.errors.SerializationFailure(
            "could not serialize"
        ),
        "mariadb": lambda: pymysql.err.OperationalError(1213, "Deadlock found"),
    }
    return errors[world.name]()


def disk_full(world: World) -> Exception:
    errors: dict[str, Callable[[], Exception]] = {
        "sqlite": lambda: sqlite_error("disk is full", sqlite3.SQLITE_FULL),
        "postgresql": lambda: psycopg.errors.DiskFull("disk is full"),
        "mariadb": lambda: pymysql.err.InternalError(1021, "disk is full"),
    }
    return errors[world.name]()


# For `one_connection`: how to wait for no lock for long.
LOCK_TIMEOUT = {
    "sqlite": "PRAGMA busy_timeout = 1",
    "postgresql": "SET lock_timeout = '10ms'",
    "mariadb": "SET innodb_lock_wait_timeout = 1",
}


@contextmanager
def one_connection(world: World, *setup: str) -> Iterator[Engine]:
    """Lend an engine that has a single connection, set up with these statements."""
    engine = create_engine(
        world.database.url, pool_size=1, max_overflow=0, pool_timeout=0.1
    )

    @event.listens_for(engine, "connect")
    def set_up(driver: Any, _: object) -> None:
        cursor = driver.cursor()
        for statement in setup:
            cursor.execute(statement)
        cursor.close()
        driver.commit()

    try:
        yield engine
    finally:
        engine.dispose()


# Called with the driver's connection, and with what really commits it.
Fault = Callable[[Any, Callable[[], None]], None]


class Committing:
    """
    An engine whose next COMMIT meets a fault; `made` counts COMMITs that were tried.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine, self.made = engine, 0
        self._faults: list[Fault] = []
        dialect: Any = engine.dialect
        commit = dialect.do_commit

        def do_commit(connection: Any) -> None:
            self.made += 1
            if self._faults:
                self._faults.pop(0)(connection, lambda: commit(connection))
            else:
                commit(connection)

        dialect.do_commit = do_commit

    def next(self, fault: Fault, *, times: int = 1) -> None:
        self._faults += [fault] * times


@contextmanager
def committing(world: World) -> Iterator[Committing]:
    engine = make_engine(world.database.url)
    try:
        yield Committing(engine)
    finally:
        engine.dispose()


def raising(error: Exception) -> Fault:
    """Make a COMMIT fail before it is sent."""

    def fault(_: Any, __: Callable[[], None]) -> None:
        raise error

    return fault


def current_session(world: World, engine: Engine) -> Callable[[], int]:
    """Return a function that gives the session of the engine's last transaction."""
    sessions: list[int] = []

    @event.listens_for(engine, "begin")
    def note(connection: Any) -> None:
        known = connection.info.get("session")
        if known is None:
            known = connection.info["session"] = session_id(world, connection)
        sessions.append(known)

    return lambda: sessions[-1]


def lost_before_commit(world: World, session: Callable[[], int]) -> Fault:
    """Lose the connection, then try to COMMIT: nothing is stored."""

    def fault(_: Any, commit: Callable[[], None]) -> None:
        kill(world, session())
        commit()

    return fault


def lost_after_commit(world: World, session: Callable[[], int]) -> Fault:
    """COMMIT, but lose the connection before the answer: the driver raises all the same."""

    def fault(connection: Any, commit: Callable[[], None]) -> None:
        commit()
        kill(world, session())
        connection.cursor().execute("SELECT 1")

    return fault
