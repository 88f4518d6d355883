"""The store that a command works on."""

import argparse

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from jobfence.cli.arguments import database_url
from jobfence.cli.failures import CommandFailed
from jobfence.statemachine.errors import IncompatibleSchema, StoreUnavailable
from jobfence.statemachine.hiding import without_password

if TYPE_CHECKING:
    from jobfence.store.sql.store import SqlJobStore


def make_store(args: argparse.Namespace, *, journal: bool = False) -> "SqlJobStore":
    """Make the store of a command's options; nothing is opened yet."""
    from jobfence.store.sql.store import SqlJobStore  # noqa: PLC0415  SQLAlchemy

    return SqlJobStore(
        database_url(args),
        table_prefix=args.table_prefix,
        schema=args.schema,
        journal=journal,
    )


@contextmanager
def open_store(
    args: argparse.Namespace, *, create: bool = False, writes: bool = True
) -> Iterator["SqlJobStore"]:
    """
    Open the store of a command's options, and close it at the end.

    Only with `create` are tables made: a mistyped URL must not make a database. Where a
    journal has begun, it is kept: an audit would find writes that it does not know.
    A command that never writes leaves the journal alone, even one without beginning.
    """
    store = make_store(args)
    try:
        with told_with_url(args.url):
            if not create:
                _refuse_new_file(store)
            if writes and _has_journal(store):
                store.close()
                store = make_store(args, journal=True)
            store.ensure_ready(create=create)
            yield store
    finally:
        store.close()


def _has_journal(store: "SqlJobStore") -> bool:
    from jobfence.store.sql.auditing import has_journal  # noqa: PLC0415  SQLAlchemy

    return has_journal(store)


@contextmanager
def told_with_url(url: str) -> Iterator[None]:
    """Say which database it is that is not as it should be."""
    try:
        yield
    except (IncompatibleSchema, StoreUnavailable) as error:
        raise CommandFailed(f"{without_password(url)}: {error}") from error


def sqlite_file(store: "SqlJobStore") -> Path | None:
    """Return the file of a SQLite store; None for other databases, and in memory."""
    url = store.engine.url
    name = url.database or ""
    is_file = name not in ("", ":memory:") and not name.startswith("file:")
    return Path(name) if url.get_backend_name() == "sqlite" and is_file else None


def _refuse_new_file(store: "SqlJobStore") -> None:
    """Refuse a SQLite file that opening would make."""
    path = sqlite_file(store)
    if path is not None and not path.exists():
        raise CommandFailed(f"there is no file {path}; jobfence migrate makes it")
