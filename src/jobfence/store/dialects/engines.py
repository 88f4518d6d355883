"""Engines that the store makes itself from a URL, and the settings they need."""

import importlib.util
import os
import ssl
import time
import weakref

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    AsyncAdaptedQueuePool,
    Engine,
    Pool,
    QueuePool,
    SingletonThreadPool,
    StaticPool,
    create_engine,
    event,
)
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from jobfence.statemachine.errors import InvalidOption, MissingDriver
from jobfence.store.dialects.naming import MYSQL_NAMES
from jobfence.store.dialects.urls import shown_url, without_secrets_of

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine

OWN_ISOLATION = "READ COMMITTED"
BUSY_TIMEOUT_S = 30
CONNECT_TIMEOUT_S = 10
_WAL_TRIES = 200
_WAL_PAUSE_S = 0.01

# Of a file that a URL names, or of what is in it. Other OSErrors may be of the network.
_OF_FILES = (
    FileNotFoundError,
    PermissionError,
    IsADirectoryError,
    NotADirectoryError,
    ssl.SSLError,  # drivers make errors of their own of a failed handshake
)

# A plain URL takes the driver that the extra of that name installs.
_SYNC = {
    "sqlite": ("sqlite", "sqlite3", "sqlite"),
    "postgresql": ("postgresql+psycopg", "psycopg", "postgresql"),
    "mysql": ("mysql+pymysql", "pymysql", "mariadb"),
    "mariadb": ("mariadb+pymysql", "pymysql", "mariadb"),
}
_ASYNC = {
    "sqlite": ("sqlite+aiosqlite", "aiosqlite", "async"),
    "postgresql": ("postgresql+psycopg", "psycopg", "postgresql"),
    "mysql": ("mysql+aiomysql", "aiomysql", "async-mariadb"),
    "mariadb": ("mariadb+aiomysql", "aiomysql", "async-mariadb"),
}


def make_engine(url: str | URL) -> Engine:
    """Make a store's own engine; `InvalidOption` or `MissingDriver` say what is wrong."""
    parsed = _with_driver(url, _SYNC)
    with _blaming(parsed):
        engine = create_engine(parsed, **_options(parsed))
    _attach(engine)
    return engine


def begins_at(engine: Engine, isolation: str) -> bool:
    """
    Whether the engine's transactions are known to begin at this isolation level.

    To set it for each costs MariaDB four round trips: two before, and two to undo it.
    """
    chosen = engine.get_execution_options().get("isolation_level")
    if chosen is not None:
        return bool(chosen == isolation)
    return isolation == OWN_ISOLATION and engine in _made


def make_async_engine(url: str | URL) -> "AsyncEngine":
    """Make an async store's own engine."""
    # In here: it needs greenlet, which only the extra `async` installs.
    from sqlalchemy.ext.asyncio import create_async_engine  # noqa: PLC0415

    parsed = _with_driver(url, _ASYNC)
    with _blaming(parsed):
        engine = create_async_engine(parsed, **_options(parsed, sync=False))
    _attach(engine.sync_engine)
    return engine


def _with_driver(url: str | URL, drivers: dict[str, tuple[str, str, str]]) -> URL:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):  # ValueError: of a port that is no number
        # Only its beginning is repeated: it may hold a password.
        beginning = str(url).partition(":")[0].partition("/")[0]
        raise InvalidOption(
            "url", f"{beginning}…", "must be a database URL such as sqlite:///jobs.db"
        ) from None
    name = parsed.get_backend_name()
    if name not in drivers:
        raise InvalidOption(
            "url", name, f"must begin with one of {', '.join(sorted(drivers))}"
        )
    full_name, module, extra = drivers[name]
    if parsed.drivername == name:
        parsed = parsed.set(drivername=full_name)
    shown = shown_url(parsed)
    if parsed.drivername == full_name and importlib.util.find_spec(module) is None:
        raise MissingDriver(shown, module, extra)
    try:
        parsed.get_dialect().import_dbapi()
    except NoSuchModuleError:
        raise InvalidOption("url", shown, "names a driver SQLAlchemy lacks") from None
    except ImportError:
        driver = parsed.get_driver_name()
        raise InvalidOption(
            "url",
            shown,
            f"names the driver {driver}, which is not installed; install it, or leave "
            f"the driver out of the URL to use {module}",
        ) from None
    return parsed


@contextmanager
def _blaming(url: URL) -> Iterator[None]:
    """
    Say of a URL that SQLAlchemy, or the driver, could do nothing with it.

    An error of the database is another matter, and not of these kinds.
    """
    try:
        yield
    except (ArgumentError, TypeError, ValueError, OverflowError, *_OF_FILES) as problem:
        told = " ".join(without_secrets_of(url, str(problem)).split())
        raise InvalidOption(
            "url", shown_url(url), f"must be one that its driver takes ({told})"
        ) from None


def _options(url: URL, *, sync: bool = True) -> dict[str, Any]:
    name = url.get_backend_name()
    if name == "sqlite":
        options: dict[str, Any] = {"connect_args": _usual(url, timeout=BUSY_TIMEOUT_S)}
        if in_memory(url):
            # Each connection would be a database of its own: all share one, in turn.
            options["poolclass"] = QueuePool if sync else AsyncAdaptedQueuePool
            options["pool_size"], options["max_overflow"] = 1, 0
            options["connect_args"]["check_same_thread"] = False
        return options
    options = {"isolation_level": OWN_ISOLATION, "pool_recycle": 1800}
    if url.get_driver_name() == "psycopg":
        # Prepared statements live in a server's session, which a transaction pooler
        # hands to somebody else (rule T4).
        options["connect_args"] = {
            "prepare_threshold": None,
            **_usual(url, connect_timeout=CONNECT_TIMEOUT_S),
        }
    elif name in MYSQL_NAMES:
        options["connect_args"] = {
            "charset": "utf8mb4",
            **_usual(url, connect_timeout=CONNECT_TIMEOUT_S),
        }
    return options


def _usual(url: URL, **seconds: int) -> dict[str, int]:
    """Return what a driver is given unless the URL says it: that would go unheard."""
    return {name: value for name, value in seconds.items() if name not in url.query}


def in_memory(url: URL) -> bool:
    """Whether a SQLite database lives and ends with its connection."""
    named = url.database or ":memory:"
    return ":memory:" in named or url.query.get("mode") == "memory"


def check_pool(engine: Engine) -> None:
    """
    Refuse an engine whose connections may be one and the same.

    Two transactions would then be one: each could commit or undo the other's work.
    """
    if isinstance(engine.pool, StaticPool | SingletonThreadPool):
        raise InvalidOption(
            "engine",
            type(engine.pool).__name__,
            "must give each transaction a connection of its own: use another poolclass "
            "(for SQLite in memory QueuePool, or AsyncAdaptedQueuePool, with "
            "pool_size=1 and max_overflow=0), or give the store the URL",
        )


def _attach(engine: Engine) -> None:
    _made.add(engine)
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _set_up_sqlite)
    elif engine.dialect.name in MYSQL_NAMES:
        event.listen(engine, "connect", _set_up_mysql)
    event.listen(engine, "do_connect", partial(_connect, engine.url))
    guard_against_fork(engine)


def _connect(
    url: URL, dialect: Any, _record: object, args: Any, options: dict[str, Any]
) -> Any:
    """Connect; some of what a URL asks for is looked at only then."""
    with _blaming(url):
        return dialect.connect(*args, **options)


def _set_up_sqlite(connection: Any, _record: object) -> None:
    """
    Turn WAL on, and the durability that WAL takes away by default.

    Switching a new file to WAL does not wait for the busy timeout when several
    processes try at once, so it is tried again here.
    """
    cursor = connection.cursor()
    try:
        for attempt in range(_WAL_TRIES):
            try:
                cursor.execute("PRAGMA journal_mode=WAL")
                break
            except Exception as error:
                last = attempt == _WAL_TRIES - 1
                if last or "locked" not in str(error).lower():
                    raise
                time.sleep(_WAL_PAUSE_S)
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.execute("PRAGMA foreign_keys=ON")
    finally:
        cursor.close()


def _set_up_mysql(connection: Any, _record: object) -> None:
    cursor = connection.cursor()
    try:
        cursor.execute(
            "SET SESSION sql_mode = CONCAT_WS(',', @@sql_mode, 'STRICT_TRANS_TABLES')"
        )
    finally:
        cursor.close()


_made: "weakref.WeakSet[Engine]" = weakref.WeakSet()
_guarded: "weakref.WeakSet[Engine]" = weakref.WeakSet()
# Pools inherited over a fork. Their connections belong to the parent: even closing one
# here would speak on the parent's socket, or release the parent's file locks.
_inherited: list[Pool] = []


def guard_against_fork(engine: Engine) -> None:
    """Make a forked child open connections of its own (cases F68, F77)."""
    _guarded.add(engine)


def _start_anew_in_child() -> None:
    for engine in list(_guarded):
        _inherited.append(engine.pool)
        engine.dispose(close=False)


os.register_at_fork(after_in_child=_start_anew_in_child)
