"""What a store may lack, by the name of a feature, never of a database."""

from collections.abc import Callable, Collection, Iterable, Mapping
from enum import StrEnum
from typing import Self, TypeVar

Test = TypeVar("Test", bound=Callable[..., None])


class Capability(StrEnum):
    """
    A part of the contract that a store can be certified without.

    Fencing, caps and atomicity are not here: a store without them is not a job store.
    """

    AMBIENT_TRANSACTIONS = "ambient_transactions"
    COUNTER_ROWS = "counter_rows"
    IDEMPOTENCY = "idempotency"
    MAX_HANDOFFS = "max_handoffs"
    OWNERSHIP = "ownership"
    PAUSE = "pause"
    PROCESSES = "processes"
    QUEUE_STATS = "queue_stats"
    REQUEUE = "requeue"
    RETENTION = "retention"
    SCHEDULE_KEYS = "schedule_keys"
    WAKE_UPS = "wake_ups"

    @property
    def meaning(self) -> str:
        """Say in a few words what a store with it can do."""
        return _MEANINGS[self]


_MEANINGS = {
    Capability.AMBIENT_TRANSACTIONS: "joins a transaction of the caller's (T1)",
    Capability.COUNTER_ROWS: "keeps a counter per key, which can drift (C9)",
    Capability.IDEMPOTENCY: "remembers idempotency keys for ever (E5)",
    Capability.MAX_HANDOFFS: "gives up after max_handoffs (M7b)",
    Capability.OWNERSHIP: "lets one worker own the data alone (L2)",
    Capability.PAUSE: "pauses queues (R4)",
    Capability.PROCESSES: "is shared by processes, of which any may die (T1)",
    Capability.QUEUE_STATS: "has figures per queue (R2)",
    Capability.REQUEUE: "runs an ended job again as a new one (R5)",
    Capability.RETENTION: "deletes old ended jobs (R1)",
    Capability.SCHEDULE_KEYS: "has stable schedule keys (the K rules)",
    Capability.WAKE_UPS: "calls listeners after a commit (T3)",
}


class Capabilities(frozenset[Capability]):
    """
    The capabilities that a store declares, with a reason for each that it lacks.

    `ALL.without(Capability.PAUSE, because="…")` says why; `ALL - {Capability.PAUSE}`
    leaves the reason to the report.
    """

    reasons: Mapping[Capability, str]

    def __new__(
        cls, have: Iterable[Capability], reasons: Mapping[Capability, str] | None = None
    ) -> Self:
        """Make the set; `reasons` is for those left out."""
        made = super().__new__(cls, have)
        made.reasons = dict(reasons or {})
        return made

    def without(self, *missing: Capability, because: str) -> "Capabilities":
        """Leave some out, and say why."""
        told = {**self.reasons, **dict.fromkeys(missing, because)}
        return Capabilities(self - set(missing), told)


ALL = Capabilities(Capability)


def reason_for(have: Collection[Capability], missing: Capability) -> str:
    """Say why a capability is not there."""
    told = have.reasons if isinstance(have, Capabilities) else {}
    return told.get(missing, f"the store declares that it lacks {missing}")


def requires(*needed: Capability) -> Callable[[Test], Test]:
    """
    Mark a test of the suite as one of these capabilities.

    Where the store declares one of them missing the test is run all the same and is
    expected to fail; if it passes, the report says that the capability works.
    """

    def mark(test: Test) -> Test:
        setattr(test, _NEEDED, (*needed_by(test), *needed))
        return test

    return mark


def needed_by(test: object) -> tuple[Capability, ...]:
    """Return what `requires` said about a test."""
    found: tuple[Capability, ...] = getattr(test, _NEEDED, ())
    return found


_NEEDED = "_jobfence_needs"
