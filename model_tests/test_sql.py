"""The suite on every database that answers."""

from typing import ClassVar

from model_tests.sql_suite import SqlJobStoreSuite as _SqlJobStoreSuite


class TestSqlJobStoreOnSQLite(_SqlJobStoreSuite):
    database: ClassVar = "sqlite"


class TestSqlJobStoreOnPostgreSQL(_SqlJobStoreSuite):
    database: ClassVar = "postgresql"


class TestSqlJobStoreOnMariaDB(_SqlJobStoreSuite):
    database: ClassVar = "mariadb"
