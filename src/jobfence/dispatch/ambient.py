"""
The session that an app's enqueues join, as a job meets it (rule T1).

In a web request a framework commits that session. In a job nobody does, unless the job
itself: so an enqueue joins only a transaction that the job began, and a job that leaves
such a transaction open has failed, for its enqueue would be lost without a word.
"""

import contextlib

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias, cast

from jobfence.dispatch.errors import UncommittedEnqueue

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.orm import Session

    Transaction: TypeAlias = Connection | Session

FindOpen = Callable[[], object]


def open_in(find: Callable[[], "Session"] | None) -> object:
    """
    Return the transaction that is open in the caller's scoped session, if any.

    It makes no session: `scoped_session` is asked first whether there is one.
    """
    has = getattr(getattr(find, "registry", None), "has", None)
    if find is None or has is None:
        return None
    with contextlib.suppress(Exception):  # of a scope that is not there in a job
        return transaction_of(find()) if has() else None
    return None


def transaction_of(session: object) -> object:
    """Return the transaction that is open in a session or connection, if any."""
    find = getattr(session, "get_transaction", None)
    return find() if callable(find) else None


class AmbientTransactions:
    """Which transactions one run found, and which its enqueues have joined."""

    def __init__(self, find_open: FindOpen) -> None:
        self._find_open = find_open
        self._found: object = None
        self._block: object = None
        self._joined: dict[int, tuple[Transaction, object]] = {}

    def begin(self) -> None:
        """Note what an earlier job has left open on this thread: not this job's."""
        self._found = self._find_open()

    def enter_block(self, session: object) -> None:
        """Note the session of a `transaction()` block, which will be committed."""
        self._block = session

    def leave_block(self) -> None:
        """End that."""
        self._block = None

    def joins(self, session: object) -> bool:
        """Whether an enqueue of this run may join: somebody has to commit it."""
        if session is self._block:
            return True
        found = transaction_of(session)
        if found is None or found is self._found:
            return False
        self._joined[id(found)] = (cast("Transaction", session), found)
        return True

    def end(self) -> None:
        """Refuse to call a run ended whose enqueues nobody will commit."""
        joined, self._joined = self._joined, {}
        left = [
            session
            for session, begun in joined.values()
            if transaction_of(session) is begun
        ]
        for session in left:
            session.rollback()  # or whoever uses it next commits it
        if left:
            raise UncommittedEnqueue
