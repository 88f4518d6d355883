"""What is looked at before any rule: does the store open, has it all, does it clear."""

from collections.abc import Callable, Collection, Iterator

import pytest

from jobfence.conformance.bench import LEASE_MS, START_MS, StoreFactory
from jobfence.conformance.blocking import blocking
from jobfence.conformance.capabilities import Capability
from jobfence.statemachine.clock import ManualClock
from jobfence.statemachine.retry import SteppedRetry
from jobfence.store import contract

# Methods that a store can do without, by what is then declared missing.
OF_CAPABILITY = {
    Capability.OWNERSHIP: ("acquire_ownership", "release_ownership"),
    Capability.PAUSE: ("pause_queue", "resume_queue"),
    Capability.QUEUE_STATS: ("queue_stats",),
    Capability.REQUEUE: ("requeue",),
    Capability.RETENTION: ("prune_terminal",),
    Capability.SCHEDULE_KEYS: (
        "replace_scheduled",
        "cancel_scheduled",
        "wake_scheduled",
        "scheduled_job",
    ),
    Capability.WAKE_UPS: ("on_commit_wake",),
}
_CAPABILITY_OF = {
    method: capability
    for capability, methods in OF_CAPABILITY.items()
    for method in methods
}
UNFINISHED = "the store is not finished"
NOT_RUN = f"not run: {UNFINISHED}"
MAX_HANDOFFS = 2
_PARTS = (
    contract.CoreStore,
    contract.ConcurrencyStore,
    contract.ScheduleStore,
    contract.OperationsStore,
    contract.OwnershipStore,
)
METHODS = tuple(
    name for part in _PARTS for name in vars(part) if not name.startswith("_")
)


class Finished:
    """
    Whether a class's store can be judged; what is missing is said by one test.

    Looked for when the first test asks: an author's fixtures for the class are there then.
    """

    def __init__(self, look: Callable[[], str]) -> None:
        self._look = look
        self._missing: str | None = None
        self._told = False

    def check(self) -> None:
        """Fail the first test with what is missing, and leave out the others."""
        if self._missing is None:
            self._missing = self._look()
        if not self._missing:
            return
        if self._told:
            pytest.skip(NOT_RUN)
        self._told = True
        pytest.fail(f"{UNFINISHED}\n{self._missing}", pytrace=False)


def missing_parts(
    factory: StoreFactory, namespace: str, capabilities: Collection[Capability]
) -> str:
    """Say what is not there yet, or nothing."""
    limited = Capability.MAX_HANDOFFS in capabilities
    try:
        store: object = factory(
            namespace,
            clock=ManualClock(START_MS),
            queues=None,
            lease_ms=LEASE_MS,
            retry_policy=SteppedRetry(),
            **({"max_handoffs": MAX_HANDOFFS} if limited else {}),
        )
    except Exception as problem:  # noqa: BLE001  an author's code may raise anything
        return f"open_store opens no store: {type(problem).__name__}: {problem}"
    if store is None:
        return "open_store returns None: have it return the store"
    lacking = [*_lacking(store, capabilities)]
    if not lacking:
        opened = blocking(store)
        lacking = [*_leaving(opened)]
        opened.close()
    return "\n".join(lacking)


def _leaving(store: contract.JobStore) -> Iterator[str]:
    """Every test begins with `clear`: what it leaves makes all of them fail oddly."""
    try:
        store.ensure_ready()
        store.enqueue("mail")
        store.clear()
        left = sum(store.counts().values())
    except Exception:  # noqa: BLE001  the tests say what that is
        return
    if left:
        yield f"clear() leaves jobs behind ({left}): have it delete every row"


def _lacking(store: object, capabilities: Collection[Capability]) -> Iterator[str]:
    by_capability: dict[Capability | None, list[str]] = {}
    for method in METHODS:
        if not callable(getattr(store, method, None)):
            capability = _CAPABILITY_OF.get(method)
            by_capability.setdefault(capability, []).append(f"`{method}`")
    for capability, methods in by_capability.items():
        told = f"{type(store).__name__} lacks {', '.join(methods)}: write "
        told += "them" if methods[1:] else "it"
        if capability is None:
            yield f"{told}, no store can do without"
        elif capability in capabilities:
            yield f"{told}, or declare `Capability.{capability.name}` missing"
