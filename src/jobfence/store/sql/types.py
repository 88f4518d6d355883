"""Column types whose comparison is byte by byte on every database (rule E1)."""

from typing import Any

from sqlalchemy import Dialect, String, Text
from sqlalchemy.dialects import mysql
from sqlalchemy.types import TypeDecorator, TypeEngine

from jobfence.store.dialects.naming import is_mariadb, is_mysql, is_postgresql


def _mysql_collation(dialect: Dialect) -> str:
    # utf8mb4_bin pads: it would hold 'k' and 'k ' for equal. The two servers spell the
    # collation without padding differently.
    return "utf8mb4_nopad_bin" if is_mariadb(dialect) else "utf8mb4_0900_bin"


class Key(TypeDecorator[str]):
    """A short text that is an identity: compared and sorted byte by byte."""

    impl = String
    cache_ok = True

    def __init__(self, length: int) -> None:
        super().__init__(length)
        self.length = length

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Choose the collation that neither folds case nor pads."""
        length = self.length
        if is_mysql(dialect):
            return dialect.type_descriptor(
                mysql.VARCHAR(
                    length, charset="utf8mb4", collation=_mysql_collation(dialect)
                )
            )
        collation = "C" if is_postgresql(dialect) else None
        return dialect.type_descriptor(String(length, collation=collation))


class LongText(TypeDecorator[str]):
    """A text without a practical limit; `medium` takes up to 16 MiB on MySQL."""

    impl = Text
    cache_ok = True

    def __init__(self, *, medium: bool = False) -> None:
        super().__init__()
        self.medium = medium

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Widen MySQL's TEXT, which ends at 65,535 bytes."""
        if is_mysql(dialect):
            kind = mysql.MEDIUMTEXT if self.medium else mysql.LONGTEXT
            return dialect.type_descriptor(
                kind(charset="utf8mb4", collation=_mysql_collation(dialect))
            )
        return Text()
