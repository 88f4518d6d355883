"""The suite on `AsyncSqlJobStore`: the same statements awaited, driven on a loop."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, cast

import pytest

from hypothesis import settings
from sqlalchemy import Engine

from jobfence.conformance.examples.awaiting import Awaiting
from jobfence.conformance.stateful.machine import Stateful, usual_settings
from jobfence.store import AsyncSqlJobStore
from jobfence.store.contract import JobStore
from jobfence.store.dialects.engines import make_engine
from jobfence.store.sql.schema import schema_for
from model_tests.sql_suite import SqlBackdoor


class AsyncSequences(Awaiting, Stateful):
    """What only async stores can do, and the state machine: every method, and shorter than on the sync store."""

    database: ClassVar[str]
    url: ClassVar[str]
    engine: ClassVar[Engine]  # for what goes past the store
    stateful_settings = settings(
        usual_settings(), max_examples=20, stateful_step_count=30
    )

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def _engine(cls, database_urls: Mapping[str, str]) -> Iterator[None]:
        if cls.database not in database_urls:
            pytest.skip(f"{cls.database} does not answer")
        cls.url = database_urls[cls.database].replace("+pymysql", "")
        cls.engine = make_engine(database_urls[cls.database])
        yield
        cls.engine.dispose()

    def open_store(self, namespace: str, **given: Any) -> JobStore:
        store = AsyncSqlJobStore(self.url, table_prefix=f"{namespace}_", **given)
        return cast("JobStore", store)  # the suite waits for its coroutines

    def open_backdoor(self, namespace: str) -> SqlBackdoor:
        return SqlBackdoor(self.engine, schema_for(f"{namespace}_", None))

    def drop_namespace(self, namespace: str) -> None:
        with self.engine.begin() as connection:
            schema_for(f"{namespace}_", None).metadata.drop_all(connection)


class TestAsyncSqlJobStoreOnSQLite(AsyncSequences):
    database: ClassVar = "sqlite"


class TestAsyncSqlJobStoreOnPostgreSQL(AsyncSequences):
    database: ClassVar = "postgresql"


class TestAsyncSqlJobStoreOnMariaDB(AsyncSequences):
    database: ClassVar = "mariadb"
