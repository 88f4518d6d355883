"""What is looked at before any rule: is the store whole, and one store on its data."""

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

    def open_one() -> object:
        return factory(
            namespace,
            clock=ManualClock(START_MS),
            queues=None,
            lease_ms=LEASE_MS,
            retry_policy=SteppedRetry(),
            **({"max_handoffs": MAX_HANDOFFS} if limited else {}),
        )

    try:
        store = open_one()
    except Exception as problem:  # noqa: BLE001  an author's code may raise anything
        return f"open_store opens no store: {type(problem).__name__}: {problem}"
    if store is None:
        return "open_store returns None: have it return the store"
    lacking = [*_lacking(store, capabilities)]
    if not lacking:
        opened = [blocking(store)]
        try:
            lacking = [*_tried(opened, lambda: blocking(open_one()))]
        except Exception:  # noqa: BLE001  the tests say what that is
            lacking = []
        for each in opened:
            each.close()
    return "\n".join(lacking)


def _tried(
    opened: list[contract.JobStore], open_one: Callable[[], contract.JobStore]
) -> Iterator[str]:
    """Look at what every test stands on: without it all of them fail oddly."""
    store = opened[0]
    store.ensure_ready()
    opened.append(open_one())
    opened[1].counts()  # it has looked before anything is written
    job_id = store.enqueue("mail")
    opened.append(open_one())
    for at, which in enumerate(("itself", "one opened before", "one opened after")):
        if opened[at].get(job_id) is None:
            yield (
                f"a job that one store enqueues is not found by {which}: the same "
                f"namespace must be the same data, whoever wrote it last"
            )
            return
    job = store.get(job_id)
    if job is not None and job.created_at_ms != START_MS:
        yield (
            f"created_at_ms is {job.created_at_ms} and the clock given to open_store "
            f"says {START_MS}: read the time from it"
        )
    store.clear()
    left = sum(store.counts().values())
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
