"""Each test here runs once on every database of the run."""

from collections.abc import Iterator, Mapping

import pytest

from sqlalchemy import Connection

from jobfence.store import SqlJobStore
from tests.store.sql.bench import Database, World


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"], scope="session")
def database(
    request: pytest.FixtureRequest, database_urls: Mapping[str, str]
) -> Iterator[Database]:
    """Give one database of the run after the other."""
    if request.param not in database_urls:
        pytest.skip(f"{request.param} does not answer")
    found = Database.open(request.param, database_urls[request.param])
    yield found
    found.close()


@pytest.fixture(scope="session")
def shared(database: Database) -> Iterator[SqlJobStore]:
    """Make tables once for all tests that do not care how they came to be."""
    with database.fresh_prefix() as prefix:
        store = World(database, prefix).store()
        store.ensure_ready()
        yield store


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
