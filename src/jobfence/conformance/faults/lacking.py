"""Faults of stores that declare something missing, and take calls for it all the same."""

from dataclasses import replace
from typing import Any

from jobfence.conformance.capabilities import Capability
from jobfence.conformance.faults.base import IN_MEMORY, Faulty, fault
from jobfence.statemachine.errors import UnsupportedCapability


@fault("E5", "examples", "idempotency is declared missing, and its option ignored")
class IdempotencyKeyIgnored(Faulty):
    capabilities = IN_MEMORY.without(
        Capability.IDEMPOTENCY, because="it remembers no keys"
    )

    def enqueue(self, *args: Any, **options: Any) -> str:
        options.pop("idempotency_key", None)
        return super().enqueue(*args, **options)


@fault("E5", "examples", "idempotency is declared missing, and ignored in a batch")
class IdempotencyKeyIgnoredInBatches(Faulty):
    capabilities = IN_MEMORY.without(
        Capability.IDEMPOTENCY, because="it remembers no keys"
    )

    def _enqueue(self, transaction: Any, wanted: Any) -> str:
        return super()._enqueue(transaction, replace(wanted, idempotency_key=None))

    def enqueue(self, *args: Any, **options: Any) -> str:
        if options.get("idempotency_key") is not None:
            raise UnsupportedCapability(
                type(self).__name__, "idempotency_key", "it remembers no keys"
            )
        return super().enqueue(*args, **options)


@fault("R4", "examples", "pausing is declared missing, and pause_queue does nothing")
class PauseForTheLookOfIt(Faulty):
    capabilities = IN_MEMORY.without(Capability.PAUSE, because="nobody asked for it")

    def pause_queue(self, queue: str) -> None:
        """Do nothing."""


@fault("T1", "examples", "joining is declared missing, and within joins nothing")
class JoinedToNothing(Faulty):
    capabilities = IN_MEMORY.without(
        Capability.AMBIENT_TRANSACTIONS, because="it is in no database"
    )

    def within(self, transaction: object) -> Any:
        return self
