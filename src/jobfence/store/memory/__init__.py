"""
The in-memory store: the reference model that every other store is compared with.

Written to be read, and slow on purpose: each operation looks at every job. One
operation is one function over a copy of the data that replaces the data at the end, so
nothing is half done. Where the data is kept is a `JobData`'s own affair. A status moves
in one place, `Transaction.move`, and only by a row of the table that the state machine
picked (rule M20).
"""

from jobfence.store.memory.changes import Change, apply, changes
from jobfence.store.memory.data import JobData, MemoryData, Snapshot, Tables
from jobfence.store.memory.rows import (
    CounterRow,
    IdempotencyRow,
    JobRow,
    OwnerRow,
    QueueRow,
    ScheduleRow,
)
from jobfence.store.memory.store import MemoryJobStore

__all__ = [
    "Change",
    "CounterRow",
    "IdempotencyRow",
    "JobData",
    "JobRow",
    "MemoryData",
    "MemoryJobStore",
    "OwnerRow",
    "QueueRow",
    "ScheduleRow",
    "Snapshot",
    "Tables",
    "apply",
    "changes",
]
