"""Layer (f): connections that are lost around COMMIT, and servers that end them."""

import os
import socket

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Engine, event, text

from jobfence.conformance.sql.scheduler import session_of


@dataclass(slots=True)
class Loss:
    """How often it happened."""

    count: int = 0


@contextmanager
def commit_lost(engine: Engine, *, applied: bool) -> Iterator[Loss]:
    """
    Cut the link at the next COMMIT, once: before it is sent, or after it was applied.

    The driver itself then meets a dead link, as it would in the field.
    """
    loss, real = Loss(), engine.dialect.do_commit

    def cut(raw: Any) -> None:
        if loss.count:
            real(raw)
            return
        loss.count = 1
        if applied:
            real(raw)
        hang_up(raw)
        raw.cursor().execute("SELECT 1")  # raises what this driver raises

    engine.dialect.do_commit = cut  # type: ignore[method-assign, assignment]
    try:
        yield loss
    finally:
        engine.dialect.do_commit = real  # type: ignore[method-assign]


def hang_up(raw: Any) -> None:
    """Shut the socket of a driver's connection down; the object stays as it is."""
    inner = getattr(raw, "driver_connection", None) or raw
    found = getattr(inner, "_sock", None)  # PyMySQL's
    if found is not None:
        found.shutdown(socket.SHUT_RDWR)
        return
    # Not close(): the driver would know, and SQLAlchemy could no longer ask it why.
    with socket.socket(fileno=os.dup(inner.fileno())) as link:
        link.shutdown(socket.SHUT_RDWR)


@contextmanager
def backend_killed(engine: Engine, monitor: Connection, at: int) -> Iterator[Loss]:
    """Have the server end the connection before its statement number `at`, once."""
    loss, seen = Loss(), 0

    def kill(connection: Connection, *_: object) -> None:
        nonlocal seen
        if loss.count or connection is monitor:
            return
        seen += 1
        if seen == at:
            loss.count = 1
            number = session_of(connection)
            if engine.dialect.name == "postgresql":
                monitor.execute(
                    text("SELECT pg_terminate_backend(:id, 2000)"), {"id": number}
                )
            else:
                monitor.execute(text(f"KILL CONNECTION {number}"))

    event.listen(engine, "before_cursor_execute", kill)
    try:
        yield loss
    finally:
        event.remove(engine, "before_cursor_execute", kill)
