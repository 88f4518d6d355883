"""The whole contract, put together from its parts."""

from typing import NoReturn

from jobfence.statemachine.errors import UnsupportedCapability
from jobfence.store.memory.acks import Acks
from jobfence.store.memory.caps import Caps
from jobfence.store.memory.operations import Operations
from jobfence.store.memory.ownership import Ownership
from jobfence.store.memory.reading import Reading
from jobfence.store.memory.recovery import Recovery
from jobfence.store.memory.schedules import Schedules


class MemoryJobStore(Schedules, Acks, Reading, Recovery, Caps, Operations, Ownership):
    """
    A `JobStore` in this process's memory: the reference model, and a test double.

    Safe for threads. Give several stores one `data` and they see the same jobs, as
    processes on one database do; settings and listeners stay each store's own. A
    `data` of another kind keeps the rows elsewhere (`JobData`).
    `ids` makes job ids (default: time-ordered), `handoff_ids` those of claims that
    name none (default: random).
    """

    def within(self, transaction: object) -> NoReturn:
        """Refuse: `UnsupportedCapability` (T1)."""
        raise UnsupportedCapability(
            type(self).__name__,
            "within",
            f"its jobs are in no database, so {type(transaction).__name__} cannot "
            f"commit or roll them back; use an SqlJobStore",
        )
