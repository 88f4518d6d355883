"""
Hand-written loops on the bare driver: what a database gives a program that does only this.

One plain table with two indexes, one statement a step, no library. They are what
`measure.py` holds the store against, in the same run. They do less than the store does
(no caps, no schedule keys, no canonical JSON, no history of the last handoff).
"""

import sqlite3
import time
import uuid

from collections.abc import Callable, Sequence
from typing import Any, Protocol

PAYLOAD = '{"args":[1,"abcdefghij"],"kwargs":{"pad":"' + "x" * 60 + '"}}'
BATCH = 50
BULK = 1000

_COLUMNS = """
  queue {text} NOT NULL, name {text} NOT NULL, payload {long} NOT NULL,
  status {text} NOT NULL, priority INTEGER NOT NULL, due_ms BIGINT NOT NULL,
  attempts INTEGER NOT NULL, most INTEGER NOT NULL, handoff {text}, worker {text},
  lease_ms BIGINT, started_ms BIGINT, ended_ms BIGINT, created_ms BIGINT NOT NULL,
  capkey {text}, error {long}
"""
_INSERT = (
    "INSERT INTO yard (queue, name, payload, status, priority, due_ms, attempts, most, "
    "created_ms) VALUES ('default', 'noop', {p}, 'queued', 0, {p}, 0, 10, {p})"
)


class Yardstick(Protocol):
    """The four pieces of work, each returning how many jobs it did."""

    def enqueue_one(self) -> int: ...
    def enqueue_bulk(self) -> int: ...
    def one_by_one(self) -> int: ...
    def batch(self) -> int: ...
    def close(self) -> None: ...


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class SQLiteYardstick:
    """sqlite3, WAL, synchronous=FULL; the claim is one UPDATE … RETURNING."""

    def __init__(self, path: str) -> None:
        self._db = sqlite3.connect(path, isolation_level=None, timeout=30)
        run = self._db.execute
        run("PRAGMA journal_mode=WAL")
        run("PRAGMA synchronous=FULL")
        columns = _COLUMNS.format(text="TEXT", long="TEXT")
        run(f"CREATE TABLE yard (id INTEGER PRIMARY KEY, {columns})")
        run(
            "CREATE INDEX yard_due ON yard (queue, priority, due_ms, id) "
            "WHERE status = 'queued'"
        )
        run("CREATE INDEX yard_lease ON yard (lease_ms) WHERE status = 'handed_off'")

    def _in_transaction(self, work: Callable[[], int]) -> int:
        self._db.execute("BEGIN IMMEDIATE")
        done = work()
        self._db.execute("COMMIT")
        return done

    def _insert(self, n: int) -> int:
        now = now_ms()
        self._db.executemany(_INSERT.format(p="?"), [(PAYLOAD, now, now)] * n)
        return n

    def enqueue_one(self) -> int:
        return self._in_transaction(lambda: self._insert(1))

    def enqueue_bulk(self) -> int:
        return self._in_transaction(lambda: self._insert(BULK))

    def _claim(self, n: int) -> tuple[str, list[int]]:
        handoff, now = uuid.uuid4().hex, now_ms()
        found = self._db.execute(
            "UPDATE yard SET status = 'handed_off', handoff = ?, worker = 'w', "
            "attempts = attempts + 1, started_ms = ?, lease_ms = ? WHERE id IN (SELECT "
            "id FROM yard WHERE queue = 'default' AND status = 'queued' AND due_ms <= ? "
            "ORDER BY priority, due_ms, id LIMIT ?) RETURNING id, payload",
            (handoff, now, now + 60_000, now, n),
        ).fetchall()
        return handoff, [row[0] for row in found]

    def _complete(self, handoff: str, ids: Sequence[int]) -> int:
        now = now_ms()
        done = self._db.executemany(
            "UPDATE yard SET status = 'completed', ended_ms = ?, lease_ms = NULL "
            "WHERE id = ? AND status = 'handed_off' AND handoff = ?",
            [(now, each, handoff) for each in ids],
        )
        assert done.rowcount == len(ids)
        return len(ids)

    def one_by_one(self) -> int:
        self._db.execute("BEGIN IMMEDIATE")
        handoff, ids = self._claim(1)
        self._db.execute("COMMIT")
        return self._in_transaction(lambda: self._complete(handoff, ids))

    def batch(self) -> int:
        self._db.execute("BEGIN IMMEDIATE")
        handoff, ids = self._claim(BATCH)
        self._db.execute("COMMIT")
        return self._in_transaction(lambda: self._complete(handoff, ids))

    def close(self) -> None:
        self._db.close()


class PostgreSQLYardstick:
    """psycopg at autocommit: one statement a step; the claim is ANY(ARRAY(SELECT …))."""

    def __init__(self, conninfo: str) -> None:
        import psycopg  # noqa: PLC0415  only this one needs it

        self._db = psycopg.connect(conninfo, autocommit=True)
        run: Any = self._db.execute
        run("DROP TABLE IF EXISTS yard")
        columns = _COLUMNS.format(text="TEXT", long="TEXT")
        run(
            "CREATE TABLE yard (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
            f"{columns})"
        )
        run(
            "CREATE INDEX yard_due ON yard (queue, priority, due_ms, id) "
            "WHERE status = 'queued'"
        )
        run("CREATE INDEX yard_lease ON yard (lease_ms) WHERE status = 'handed_off'")

    def enqueue_one(self) -> int:
        now = now_ms()
        self._db.execute(
            _INSERT.format(p="%s") + " RETURNING id", (PAYLOAD, now, now)
        ).fetchone()
        return 1

    def enqueue_bulk(self) -> int:
        now = now_ms()
        found = self._db.execute(
            "INSERT INTO yard (queue, name, payload, status, priority, due_ms, attempts, "
            "most, created_ms) SELECT 'default', 'noop', p, 'queued', 0, %s, 0, 10, %s "
            "FROM unnest(%s::text[]) AS p RETURNING id",
            (now, now, [PAYLOAD] * BULK),
        ).fetchall()
        return len(found)

    def _claim(self, n: int) -> tuple[str, list[int]]:
        handoff, now = uuid.uuid4().hex, now_ms()
        found = self._db.execute(
            "UPDATE yard SET status = 'handed_off', handoff = %s, worker = 'w', "
            "attempts = attempts + 1, started_ms = %s, lease_ms = %s WHERE id = ANY("
            "ARRAY(SELECT id FROM yard WHERE queue = 'default' AND status = 'queued' "
            "AND due_ms <= %s ORDER BY priority, due_ms, id LIMIT %s "
            "FOR UPDATE SKIP LOCKED)) RETURNING id, payload",
            (handoff, now, now + 60_000, now, n),
        ).fetchall()
        return handoff, [row[0] for row in found]

    def _complete(self, handoff: str, ids: Sequence[int]) -> int:
        done = self._db.execute(
            "UPDATE yard SET status = 'completed', ended_ms = %s, lease_ms = NULL "
            "WHERE id = ANY(%s) AND status = 'handed_off' AND handoff = %s",
            (now_ms(), list(ids), handoff),
        )
        assert done.rowcount == len(ids)
        return len(ids)

    def one_by_one(self) -> int:
        return self._complete(*self._claim(1))

    def batch(self) -> int:
        return self._complete(*self._claim(BATCH))

    def close(self) -> None:
        self._db.execute("DROP TABLE yard")
        self._db.close()


class MariaDBYardstick:
    """PyMySQL at READ COMMITTED: SELECT … FOR UPDATE SKIP LOCKED, UPDATE, COMMIT."""

    def __init__(self, **connect: Any) -> None:
        import pymysql  # noqa: PLC0415  only this one needs it

        self._db = pymysql.connect(
            charset="utf8mb4",
            client_flag=pymysql.constants.CLIENT.FOUND_ROWS,
            **connect,
        )
        self._run("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        self._run("DROP TABLE IF EXISTS yard")
        columns = _COLUMNS.format(text="VARCHAR(64)", long="LONGTEXT")
        self._run(
            f"CREATE TABLE yard (id BIGINT AUTO_INCREMENT PRIMARY KEY, {columns}) "
            "ENGINE=InnoDB"
        )
        self._run("CREATE INDEX yard_due ON yard (queue, status, priority, due_ms, id)")
        self._run("CREATE INDEX yard_lease ON yard (status, lease_ms)")

    def _run(self, statement: str, values: Sequence[Any] | None = None) -> Any:
        cursor = self._db.cursor()
        cursor.execute(statement, values)
        return cursor

    def enqueue_one(self) -> int:
        now = now_ms()
        self._run(_INSERT.format(p="%s"), (PAYLOAD, now, now))
        self._db.commit()
        return 1

    def enqueue_bulk(self) -> int:
        now = now_ms()
        self._db.cursor().executemany(
            _INSERT.format(p="%s"), [(PAYLOAD, now, now)] * BULK
        )
        self._db.commit()
        return BULK

    def _claim(self, n: int) -> tuple[str, list[int]]:
        handoff, now = uuid.uuid4().hex, now_ms()
        ids = [
            row[0]
            for row in self._run(
                "SELECT id, payload FROM yard WHERE queue = 'default' AND "
                "status = 'queued' AND due_ms <= %s ORDER BY priority, due_ms, id "
                "LIMIT %s FOR UPDATE SKIP LOCKED",
                (now, n),
            ).fetchall()
        ]
        self._run(
            "UPDATE yard SET status = 'handed_off', handoff = %s, worker = 'w', "
            "attempts = attempts + 1, started_ms = %s, lease_ms = %s WHERE id IN %s",
            (handoff, now, now + 60_000, ids),
        )
        self._db.commit()
        return handoff, ids

    def _complete(self, handoff: str, ids: Sequence[int]) -> int:
        done = self._run(
            "UPDATE yard SET status = 'completed', ended_ms = %s, lease_ms = NULL "
            "WHERE id IN %s AND status = 'handed_off' AND handoff = %s",
            (now_ms(), list(ids), handoff),
        )
        assert done.rowcount == len(ids)
        self._db.commit()
        return len(ids)

    def one_by_one(self) -> int:
        return self._complete(*self._claim(1))

    def batch(self) -> int:
        return self._complete(*self._claim(BATCH))

    def close(self) -> None:
        self._run("DROP TABLE yard")
        self._db.close()
