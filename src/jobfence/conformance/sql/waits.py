"""Whether a session of a server waits for a lock, as the server says at this moment."""

import re

from sqlalchemy import Connection, text

_POSTGRESQL = text("SELECT cardinality(pg_blocking_pids(:id)) > 0")
# Not information_schema.innodb_trx: that is renewed only when nobody has read it for a
# tenth of a second, so two who look often never see anything new.
_MYSQL = text("SHOW ENGINE INNODB STATUS")
_TRANSACTION = "\n---TRANSACTION "


def waits_for_lock(connection: Connection, session: int) -> bool:
    """Ask on another connection whether this session waits for anybody's lock."""
    if connection.dialect.name == "postgresql":
        return bool(connection.execute(_POSTGRESQL, {"id": session}).scalar())
    return any(
        re.search(rf"\b(?:MariaDB|MySQL) thread id {session},", each)
        for each in waiting_on_mysql(connection)
    )


def waiting_on_mysql(connection: Connection) -> list[str]:
    """Return what InnoDB says of each transaction that waits for a lock."""
    status = str(connection.execute(_MYSQL).one()[2])
    return [each for each in status.split(_TRANSACTION)[1:] if "\nLOCK WAIT" in each]
