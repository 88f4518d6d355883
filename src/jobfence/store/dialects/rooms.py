"""Which room a database lives in."""

from sqlalchemy import Dialect

from jobfence.statemachine.errors import InvalidOption
from jobfence.store.dialects.base import Room
from jobfence.store.dialects.mysql import MySQLRoom
from jobfence.store.dialects.naming import is_mysql, is_postgresql, is_sqlite
from jobfence.store.dialects.postgresql import PostgreSQLRoom
from jobfence.store.dialects.sqlite import SQLiteRoom


def room_for(dialect: Dialect) -> Room:
    """Return the room of a SQLAlchemy dialect; `InvalidOption` if there is none."""
    if is_sqlite(dialect):
        return SQLiteRoom()
    if is_postgresql(dialect):
        return PostgreSQLRoom()
    if is_mysql(dialect):
        return MySQLRoom()
    raise InvalidOption(
        "engine", dialect.name, "must be of sqlite, postgresql, mariadb or mysql"
    )
