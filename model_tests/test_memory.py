"""The suite on the in-memory store, which is also its model."""

from typing import ClassVar

from jobfence.conformance import ALL, Capability, JobStoreSuite, Model
from jobfence.conformance.bench import Backdoor


class TestMemoryJobStore(JobStoreSuite):
    capabilities = ALL.without(
        Capability.AMBIENT_TRANSACTIONS, because="memory has no transactions to join"
    )
    model: ClassVar = Model()

    def open_store(self, namespace, **settings):  # type: ignore[no-untyped-def]
        return self.model.open_store(namespace, **settings)

    def open_backdoor(self, namespace: str) -> Backdoor:
        return self.model.open_backdoor(namespace)
