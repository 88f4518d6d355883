"""
A program that forks with a store in use (cases F68 and F77); run by test_engines.

    python forking.py URL PREFIX

Prints what it saw as JSON. A program of its own: forking beside threads is unsafe.
"""

import json
import os
import sys

from sqlalchemy import Engine

from jobfence.store import SqlJobStore

_SESSION = {
    "sqlite": "SELECT 0",
    "postgresql": "SELECT pg_backend_pid()",
    "mariadb": "SELECT connection_id()",
}


def session(engine: Engine) -> int:
    with engine.connect() as connection:
        name = connection.dialect.name
        return int(connection.exec_driver_sql(_SESSION[name]).scalar_one())


def driver(engine: Engine) -> object:
    with engine.connect() as connection:
        return connection.connection.driver_connection


def work(url: str, prefix: str) -> dict[str, object]:
    store = SqlJobStore(url, table_prefix=prefix)
    first = store.enqueue("before the fork")
    before = session(store.engine)
    inherited = driver(store.engine)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        handoffs = store.claim(worker_id="child")
        seen = {
            "claimed": [each.job.id for each in handoffs],
            "session": session(store.engine),
            "same connection": driver(store.engine) is inherited,
        }
        os.write(writer, json.dumps(seen).encode())
        os.close(writer)
        # Ends like any program: what it inherited is let go of, and must not be closed
        # on the parent's side.
        sys.exit(0)
    os.close(writer)
    seen = json.loads(os.read(reader, 65_536))
    os.close(reader)
    _, status = os.waitpid(child, 0)
    second = store.enqueue("after the fork")
    after = session(store.engine)
    (handoff,) = store.claim(worker_id="parent")
    found = {
        "child": seen,
        "child ended with": status,
        "first": first,
        "second": second,
        "claimed by the parent": handoff.job.id,
        "sessions of the parent": [before, after],
    }
    store.close()
    return found


if __name__ == "__main__":
    print(json.dumps(work(*sys.argv[1:])))  # noqa: T201  read by the test
