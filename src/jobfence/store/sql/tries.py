"""How often a transaction is tried, and what a caller gets when trying does not help."""

import random

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, TimeoutError as PoolTimeoutError

from jobfence.statemachine.errors import (
    IncompatibleSchema,
    JobfenceError,
    RetryableError,
    StoreUnavailable,
)
from jobfence.store.dialects.base import Fault, Room

AGAIN = (Fault.RETRY, Fault.DUPLICATE, Fault.LOST)
_FIRST_PAUSE_S = 0.002
_LONGEST_PAUSE_S = 0.25


@dataclass(slots=True)
class Tries:
    """
    Counts the tries of one call and says how long to pause before the next (T2).

    `committing` is set while COMMIT is under way: a connection lost then leaves the
    outcome open, and repeating could do the work twice.
    """

    room: Room
    where: URL
    random: Callable[[], float] = random.random
    made: int = 0
    committing: bool = False

    def commit_begins(self) -> None:
        """Note that from here on a lost connection leaves the outcome open."""
        self.committing = True

    def pause_s(self, error: DBAPIError | PoolTimeoutError) -> float:
        """Return the pause before another try, or raise what the caller gets."""
        if isinstance(error, PoolTimeoutError):
            raise StoreUnavailable(
                f"no connection became free: {error}; use a larger pool, or fewer "
                f"threads"
            ) from error
        fault = self.room.fault(error)
        in_doubt = self.committing and fault is Fault.LOST
        self.made += 1
        if fault in AGAIN and not in_doubt:
            if self.made < self.room.tries:
                longest = min(_FIRST_PAUSE_S * (1 << self.made), _LONGEST_PAUSE_S)
                return longest * self.random()
            raise RetryableError(
                f"the database asked {self.made} times to try again; nothing was "
                f"written: {self.room.message(error)}"
            ) from error
        raise explained(self.room, error, self.where, in_doubt=in_doubt) from error


def explained(
    room: Room, error: DBAPIError, where: URL, *, in_doubt: bool = False
) -> JobfenceError | DBAPIError:
    """Return what the caller gets for an error that trying again does not mend."""
    fault = room.fault(error)
    # Of no statement: what the URL asks for beyond an address was refused.
    connecting = error.statement is None and fault is Fault.OTHER
    if in_doubt or connecting or fault in (Fault.UNAVAILABLE, Fault.LOST):
        return room.explain(error, where, in_doubt=in_doubt)
    if fault is Fault.SCHEMA:
        return IncompatibleSchema(
            f"a table or column is missing: {room.message(error)}; call ensure_ready()"
        )
    return error
