"""The store that a command works on."""

import argparse

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from jobfence.cli.arguments import database_url
from jobfence.cli.failures import CommandFailed, without_secrets
from jobfence.statemachine.errors import IncompatibleSchema, StoreUnavailable

if TYPE_CHECKING:
    from jobfence.store.sql.store import SqlJobStore


def make_store(args: argparse.Namespace) -> "SqlJobStore":
    """Make the store of a command's options; nothing is opened yet."""
    from jobfence.store.sql.store import SqlJobStore  # noqa: PLC0415  SQLAlchemy

    return SqlJobStore(
        database_url(args), table_prefix=args.table_prefix, schema=args.schema
    )


@contextmanager
def open_store(
    args: argparse.Namespace, *, create: bool = False
) -> Iterator["SqlJobStore"]:
    """
    Open the store of a command's options, and close it at the end.

    Only with `create` are tables made: a mistyped URL must not make a database.
    """
    store = make_store(args)
    try:
        with told_with_url(args.url):
            if not create:
                _refuse_new_file(store)
            store.ensure_ready(create=create)
            yield store
    finally:
        store.close()


@contextmanager
def told_with_url(url: str) -> Iterator[None]:
    """Say which database it is that is not as it should be."""
    try:
        yield
    except (IncompatibleSchema, StoreUnavailable) as error:
        raise CommandFailed(f"{without_secrets(url)}: {error}") from error


def _refuse_new_file(store: "SqlJobStore") -> None:
    """Refuse a SQLite file that opening would make."""
    url = store.engine.url
    if url.get_backend_name() != "sqlite":
        return
    name = url.database or ""
    is_file = name not in ("", ":memory:") and not name.startswith("file:")
    if is_file and not Path(name).exists():
        raise CommandFailed(f"there is no file {name}; jobfence migrate makes it")
