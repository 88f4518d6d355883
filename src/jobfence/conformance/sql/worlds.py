"""What is explored: scenarios, and the worlds that they are played in."""

import itertools

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from jobfence.conformance.bench import START_MS, Backdoor
from jobfence.conformance.model import DataBackdoor
from jobfence.statemachine.clock import ManualClock
from jobfence.statemachine.values import Settlement
from jobfence.store.contract import JobStore
from jobfence.store.memory import MemoryJobStore
from jobfence.store.memory.data import MemoryData

Operation = Callable[[JobStore], object]


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is there before, and what each client then does at the same time."""

    name: str
    rules: str
    before: Operation
    clients: tuple[Operation, ...]
    wait_ms: int = 0  # time that passes in between
    whole: bool = True  # False: several transactions, so a death may leave a part
    drift: tuple[tuple[str, int], ...] = ()  # counters that say something else before


@dataclass(frozen=True, slots=True)
class Claiming:
    """An operation that ends with a claim, which may pass over what is locked."""

    limit: int
    acks: tuple[Settlement, ...] = ()

    def __call__(self, store: JobStore) -> object:
        """Do it."""
        if not self.acks:
            return store.claim(self.limit)
        return store.settle(self.acks, claim=self.limit)

    def only(self, job_ids: Sequence[str], store: JobStore) -> object:
        """Do it with these jobs."""
        answers = store.settle(self.acks)[0] if self.acks else []
        taken = [store.claim_job(job_id) for job_id in job_ids]
        return (answers, taken) if self.acks else taken


class World(Protocol):
    """A store's data: cleared, opened for each client, and looked at."""

    backdoor: Backdoor

    def fresh(self) -> None:
        """Delete everything, and start ids and clock anew."""
        ...

    def open(self, client: int) -> JobStore:
        """
        Return a client's store; the scene's is -1.

        The ids it makes are `c<client>-<number>`, the scene's `s-<number>`.
        """
        ...

    def pass_time(self, ms: int) -> None:
        """Move the clock."""
        ...

    def reopen(self) -> None:
        """Forget the stores, and what they may remember of another scenario."""
        ...


class ModelWorld:
    """The model's data."""

    def __init__(self) -> None:
        self.fresh()

    def fresh(self) -> None:
        """Begin with nothing."""
        self._data, self.clock = MemoryData(), ManualClock(START_MS)
        self._stores: dict[int, JobStore] = {}
        self.backdoor: Backdoor = DataBackdoor(self._data)

    def open(self, client: int) -> JobStore:
        """Return a client's store."""
        if client not in self._stores:
            self._stores[client] = MemoryJobStore(
                data=self._data,
                clock=self.clock,
                ids=named_ids(client),
                handoff_ids=named_ids(client),
            )
        return self._stores[client]

    def pass_time(self, ms: int) -> None:
        """Move the clock."""
        self.clock.advance(ms)

    def reopen(self) -> None:
        """Begin with nothing."""
        self.fresh()


def named_ids(client: int) -> Callable[[], str]:
    """Return a maker of ids that say whose they are."""
    numbers = itertools.count(1)
    name = "s" if client < 0 else f"c{client}"
    return lambda: f"{name}-{next(numbers)}"


def set_up(scenario: Scenario, world: World) -> None:
    """Make the scene."""
    world.fresh()
    scenario.before(world.open(-1))
    for key, active in scenario.drift:
        world.backdoor.set_active(key, active)
    world.pass_time(scenario.wait_ms)
