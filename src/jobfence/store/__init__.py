"""
Stores: the contract, the SQL store and the in-memory one.

Names are looked up when first used, so that importing the contract or the in-memory
store does not import SQLAlchemy.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from jobfence.statemachine.errors import MissingDriver

if TYPE_CHECKING:
    from jobfence.store.contract import JobStore, TransactionalStore
    from jobfence.store.memory import MemoryJobStore
    from jobfence.store.sql.aio.store import AsyncSqlJobStore
    from jobfence.store.sql.store import SqlJobStore

_WHERE = {
    "AsyncSqlJobStore": "jobfence.store.sql.aio.store",
    "JobStore": "jobfence.store.contract",
    "TransactionalStore": "jobfence.store.contract",
    "MemoryJobStore": "jobfence.store.memory",
    "SqlJobStore": "jobfence.store.sql.store",
}

__all__ = [
    "AsyncSqlJobStore",
    "JobStore",
    "MemoryJobStore",
    "SqlJobStore",
    "TransactionalStore",
]


if not TYPE_CHECKING:
    # A type checker would believe that every name is here.
    def __getattr__(name: str) -> object:
        if name not in _WHERE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            return getattr(import_module(_WHERE[name]), name)
        except ImportError as error:
            if "greenlet" not in str(error):
                raise
            raise MissingDriver(name, "greenlet", "async") from error
