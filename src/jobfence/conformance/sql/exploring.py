"""
Every schedule of a few clients with at most so many preemptions, judged by the model.

A run is right if its answers and its final state are those of the same operations done
one after the other, in some order, on the model. Three things more are allowed: an
operation may have answered that it found nothing (it lost a race); a claim may have passed
over jobs that another client had locked (O1), and taken others that the model lets it
take; and one whose client died may or may not have happened.
"""

import itertools
import re

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Protocol

from jobfence.conformance.bench import START_MS, Backdoor
from jobfence.conformance.model import MemoryBackdoor
from jobfence.conformance.picture import all_jobs
from jobfence.conformance.sometimes import met
from jobfence.conformance.sql.scheduler import Choice, Client, Scheduler
from jobfence.statemachine.clock import ManualClock
from jobfence.statemachine.errors import JobfenceError
from jobfence.statemachine.values import Handoff, Job, Settlement
from jobfence.store.contract import JobStore
from jobfence.store.memory import MemoryJobStore
from jobfence.store.memory.data import MemoryData

Operation = Callable[[JobStore], object]
_COUNTED = re.compile(r"^(c\d+)-\d+$")


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


class ModelWorld:
    """The model's data."""

    def __init__(self) -> None:
        self.fresh()

    def fresh(self) -> None:
        """Begin with nothing."""
        self._data, self.clock = MemoryData(), ManualClock(START_MS)
        self._stores: dict[int, JobStore] = {}
        self.backdoor: Backdoor = MemoryBackdoor(self._data)

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


@dataclass(frozen=True, slots=True)
class Wrong:
    """A schedule whose outcome no order of the operations explains."""

    scenario: str
    rules: str
    steps: tuple[tuple[int, str], ...]
    outcomes: "Outcomes"

    def __str__(self) -> str:
        lines = [
            f"{self.rules}: {self.scenario}: no order of the calls explains this run"
        ]
        lines += [
            f"  client {number}: {' '.join(statement.split())[:110]}"
            for number, statement in self.steps
        ]
        lines += [f"  client {n}: {a}" for n, a in enumerate(self.outcomes.answers)]
        jobs, counters = self.outcomes.state
        lines += [f"  afterwards: {_short(job)}" for job in jobs]
        return "\n".join([*lines, f"  afterwards: counters {counters}"])


def _short(job: object) -> str:
    """Say of a job what differs from a fresh one."""
    told = dict(job) if isinstance(job, tuple) else {}
    return ", ".join(f"{name}={value}" for name, value in told.items() if value)


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What the clients were answered, what was there afterwards, which jobs they took."""

    answers: tuple[object, ...]
    state: tuple[tuple[object, ...], tuple[object, ...]]
    taken: tuple[tuple[str, ...], ...]


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


def taken_in(answer: object) -> tuple[str, ...]:
    """Return the jobs that an answer hands off."""
    if isinstance(answer, Handoff):
        return (answer.job.id,)
    if isinstance(answer, list | tuple):
        return tuple(job_id for each in answer for job_id in taken_in(each))
    return ()


DIED = ("died",)


def outcome(client: Client) -> object:
    """Return a client's answer as a value that can be compared."""
    if client.dying:
        return DIED
    if client.problem is not None:
        if isinstance(client.problem, JobfenceError):
            return ("raises", type(client.problem).__name__)
        raise client.problem
    return plain(client.answer)


def plain(value: object) -> object:
    """Return a value as tuples, with handoff ids by client only."""
    if isinstance(value, Handoff | Job):
        return tuple(
            (each.name, plain(getattr(value, each.name))) for each in fields(value)
        )
    if isinstance(value, list | tuple):
        return tuple(plain(each) for each in value)
    if isinstance(value, dict):
        return tuple((key, plain(value[key])) for key in sorted(value))
    if isinstance(value, str) and (found := _COUNTED.match(value)):
        return found[1]
    if hasattr(value, "__dataclass_fields__"):
        return tuple(plain(getattr(value, name)) for name in value.__dataclass_fields__)
    return value


def state_of(world: World) -> tuple[tuple[object, ...], tuple[object, ...]]:
    """Return every job and every counter."""
    jobs = tuple(plain(job) for job in all_jobs(world.open(-1)))
    return jobs, tuple(sorted(world.backdoor.counters().items()))


def explained(scenario: Scenario, model: World, outcomes: "Outcomes") -> bool:
    """Whether some order of the operations on the model gives this outcome."""
    numbers, answers = range(len(scenario.clients)), outcomes.answers
    # A client that died may have done nothing; so may one that lost a race and says so.
    may_not = [answers[n] in (DIED, (), None) for n in numbers]
    for skipping in (False, True):
        for done in itertools.product(
            *([True, False] if may else [True] for may in may_not)
        ):
            some = [n for n in numbers if done[n]]
            for order in itertools.permutations(some):
                if _gives(scenario, model, order, outcomes, skipping=skipping):
                    return True
    return False


def _gives(
    scenario: Scenario,
    model: World,
    order: Sequence[int],
    outcomes: "Outcomes",
    *,
    skipping: bool,
) -> bool:
    set_up(scenario, model)
    for number in order:
        work: Operation = scenario.clients[number]
        if skipping and isinstance(work, Claiming):
            work = partial(work.only, outcomes.taken[number])
        try:
            answer = plain(work(model.open(number)))
        except JobfenceError as problem:
            answer = ("raises", type(problem).__name__)
        if outcomes.answers[number] not in (DIED, answer):
            return False
    return state_of(model) == outcomes.state


def set_up(scenario: Scenario, world: World) -> None:
    """Make the scene."""
    world.fresh()
    scenario.before(world.open(-1))
    for key, active in scenario.drift:
        world.backdoor.set_active(key, active)
    world.pass_time(scenario.wait_ms)


def explore(
    scenario: Scenario,
    world: World,
    model: World,
    scheduler: Scheduler,
    monitor: Any,
    *,
    preemptions: int = 2,
    deaths: bool = False,
    most: int | None = None,
) -> tuple[int, Wrong | None]:
    """
    Run every schedule within the bound; return their number and the first wrong one.

    `most` ends the search early, for a run that has only so much time.
    """
    plans: list[tuple[tuple[int, bool], ...]] = [()]
    known: set[Outcomes] = set()
    world.reopen()
    runs = 0
    while plans and (most is None or runs < most):
        plan = plans.pop()
        set_up(scenario, world)
        stores = [world.open(number) for number in range(len(scenario.clients))]
        works = [
            partial(work, store)
            for work, store in zip(scenario.clients, stores, strict=True)
        ]
        clients, choices = scheduler.run(monitor, works, plan)
        runs += 1
        found = Outcomes(
            tuple(outcome(each) for each in clients),
            state_of(world),
            tuple(taken_in(each.answer) for each in clients),
        )
        note_race(scenario, clients, found)
        if found not in known:
            if not explained(scenario, model, found):
                steps = tuple((choice.chosen, choice.at) for choice in choices)
                return runs, Wrong(scenario.name, scenario.rules, steps, found)
            known.add(found)
        plans += _others(choices, len(plan), preemptions, deaths=deaths)
    return runs, None


def note_race(scenario: Scenario, clients: Sequence[Client], found: Outcomes) -> None:
    """Note what must happen in some run."""
    if any(client.dying for client in clients):
        met("a client died in the middle")
    if any(answer in ((), None) for answer in found.answers):
        met("a client found nothing in a race")
    if scenario.name == "a completion and a recovery":
        met("a recovery raced an acknowledgement")
    if scenario.name == "replaced and claimed":
        met("a replacement raced a claim")


def _others(
    choices: Sequence[Choice], begin: int, preemptions: int, *, deaths: bool
) -> Iterator[tuple[tuple[int, bool], ...]]:
    """Return the plans that leave this run at a point behind its own plan."""
    spent = 0
    died = any(choice.dies for choice in choices)
    for index, choice in enumerate(choices):
        prefix = tuple((each.chosen, each.dies) for each in choices[:index])
        if index >= begin:
            for other in choice.enabled:
                cost = _cost(choice, other)
                if other != choice.chosen and spent + cost <= preemptions:
                    yield (*prefix, (other, False))
            if deaths and not died:
                yield (*prefix, (choice.chosen, True))
        spent += _cost(choice, choice.chosen)


def _cost(choice: Choice, taken: int) -> int:
    """Leaving a client that could go on is a preemption."""
    return int(choice.before in choice.enabled and taken != choice.before)
