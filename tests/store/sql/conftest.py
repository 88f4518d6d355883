"""Each test here runs once on every database of the run."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack

import pytest

from sqlalchemy import Connection

from jobfence.store import SqlJobStore
from tests.store.sql.bench import Database, World


class Opened:
    """
    The databases of this run, and tables on each, made when first asked for.

    Not fixtures with parameters: those are made again whenever the next test wants
    another database, and to make tables takes MariaDB a second.
    """

    def __init__(self, urls: Mapping[str, str]) -> None:
        self.urls = urls
        self._at_end = ExitStack()
        self._stores: dict[str, tuple[Database, SqlJobStore]] = {}

    def __call__(self, name: str) -> tuple[Database, SqlJobStore]:
        if name not in self._stores:
            database = Database.open(name, self.urls[name])
            self._at_end.callback(database.close)
            prefix = self._at_end.enter_context(database.fresh_prefix())
            store = World(database, prefix).store()
            store.ensure_ready()
            self._stores[name] = (database, store)
        return self._stores[name]

    def close(self) -> None:
        self._at_end.close()


@pytest.fixture(scope="session")
def opened(database_urls: Mapping[str, str]) -> Iterator[Opened]:
    found = Opened(database_urls)
    yield found
    found.close()


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def database(request: pytest.FixtureRequest, opened: Opened) -> Database:
    """Give one database of the run after the other."""
    if request.param not in opened.urls:
        pytest.skip(f"{request.param} does not answer")
    return opened(request.param)[0]


@pytest.fixture
def shared(database: Database, opened: Opened) -> SqlJobStore:
    """Give a store on tables for all tests that do not care how they came to be."""
    return opened(database.name)[1]


@pytest.fixture
def world(database: Database, shared: SqlJobStore) -> World:
    """Give empty tables."""
    shared.clear()
    return World(database, shared.tables.prefix)


@pytest.fixture
def undone(world_tables: World) -> Iterator[Connection]:
    """Give a transaction on empty tables that is rolled back: it waits for no disk."""
    with world_tables.database.engine.connect() as connection:
        for table in (world_tables.tables.jobs, world_tables.tables.concurrency):
            connection.execute(table.delete())
        yield connection


@pytest.fixture
def world_tables(database: Database, shared: SqlJobStore) -> World:
    """Give the tables as the last test left them."""
    return World(database, shared.tables.prefix)


@pytest.fixture
def bare(database: Database) -> Iterator[World]:
    """Give a prefix without any table, for tests of how they are made."""
    with database.fresh_prefix() as prefix:
        yield World(database, prefix)
