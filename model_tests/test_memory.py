"""The suite on the in-memory store, which is also its model."""

from typing import Any, ClassVar

from hypothesis import settings

from jobfence.conformance import ALL, Capability, JobStoreSuite, Model
from jobfence.conformance.model import DataBackdoor
from jobfence.conformance.stateful.machine import usual_settings
from jobfence.store import MemoryJobStore


class TestMemoryJobStore(JobStoreSuite):
    capabilities = ALL.without(
        Capability.AMBIENT_TRANSACTIONS, because="memory has no transactions to join"
    ).without(Capability.PROCESSES, because="memory is one process's own")
    # The model beside itself: this tries the machine; test_sometimes.py has it at length.
    stateful_settings = settings(
        usual_settings(), max_examples=20, stateful_step_count=30
    )
    model: ClassVar = Model()

    def open_store(self, namespace: str, **settings: Any) -> MemoryJobStore:
        return self.model.open_store(namespace, **settings)

    def open_backdoor(self, namespace: str) -> DataBackdoor:
        return self.model.open_backdoor(namespace)
