"""The suite on every database that answers."""

import os

from typing import ClassVar

from hypothesis import settings

from jobfence.conformance.stateful.machine import usual_settings
from model_tests.sql_suite import SqlJobStoreSuite as _SqlJobStoreSuite

DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"


class TestSqlJobStoreOnSQLite(_SqlJobStoreSuite):
    database: ClassVar = "sqlite"


class TestSqlJobStoreOnPostgreSQL(_SqlJobStoreSuite):
    database: ClassVar = "postgresql"


class TestSqlJobStoreOnMariaDB(_SqlJobStoreSuite):
    database: ClassVar = "mariadb"
    # Most of its statements are SQLite's; a statement here takes three times as long.
    stateful_settings = settings(usual_settings(), max_examples=90 if DEEP else 60)
