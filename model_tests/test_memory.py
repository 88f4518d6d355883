"""The suite on the in-memory store, which is also its model."""

from typing import Any, ClassVar

from jobfence.conformance import ALL, Capability, JobStoreSuite, Model
from jobfence.conformance.model import MemoryBackdoor
from jobfence.store import MemoryJobStore


class TestMemoryJobStore(JobStoreSuite):
    capabilities = ALL.without(
        Capability.AMBIENT_TRANSACTIONS, because="memory has no transactions to join"
    )
    model: ClassVar = Model()

    def open_store(self, namespace: str, **settings: Any) -> MemoryJobStore:
        return self.model.open_store(namespace, **settings)

    def open_backdoor(self, namespace: str) -> MemoryBackdoor:
        return self.model.open_backdoor(namespace)
