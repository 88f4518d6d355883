"""
What a call and a plan are: the work of one transaction, and of several in a row.

The sync and the async store run the same ones; only how a transaction is had differs.
Ids are made before the work, once, so that work run again uses them again (M19).
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

from jobfence.store.sql.tx import Tx

T = TypeVar("T")


class Mode(Enum):
    """What a call does to the database."""

    WRITE = "write"
    READ = "read"


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One transaction's work. It may be run more than once, until it commits."""

    work: Callable[[Tx], T]
    mode: Mode = Mode.WRITE


# Several transactions in a row: yields calls and is sent their results.
Plan = Generator[Call[Any], Any, T]
