"""Which database a SQLAlchemy dialect speaks to."""

from sqlalchemy import Dialect

MYSQL_NAMES = ("mysql", "mariadb")


def is_mysql(dialect: Dialect) -> bool:
    """MySQL or MariaDB, by either URL."""
    return dialect.name in MYSQL_NAMES


def is_mariadb(dialect: Dialect) -> bool:
    """
    MariaDB, also behind a `mysql://` URL.

    Known there only after the first connection; before it, the URL's word counts.
    """
    return dialect.name == "mariadb" or bool(getattr(dialect, "is_mariadb", False))


def is_postgresql(dialect: Dialect) -> bool:
    """PostgreSQL."""
    return dialect.name == "postgresql"


def is_sqlite(dialect: Dialect) -> bool:
    """SQLite."""
    return dialect.name == "sqlite"
