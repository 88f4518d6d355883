"""
Whether what a run came to is right.

It is if its answers and its final state are those of the same operations done one after
the other, in some order, on the model. Three things more are allowed: an operation may
have answered that it found nothing (it lost a race); a claim may have passed over jobs
that another client had locked (O1), and taken others that the model lets it take; and
one whose client died may or may not have happened.
"""

import itertools
import re

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial

from jobfence.conformance.picture import all_jobs
from jobfence.conformance.sql.scheduler import Client
from jobfence.conformance.sql.worlds import (
    Claiming,
    Operation,
    Scenario,
    World,
    set_up,
)
from jobfence.statemachine.errors import JobfenceError
from jobfence.statemachine.values import Handoff, Job

_COUNTED = re.compile(r"^(c\d+)-\d+$")


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What the clients were answered, what was there afterwards, which jobs they took."""

    answers: tuple[object, ...]
    state: tuple[tuple[object, ...], tuple[object, ...]]
    taken: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Wrong:
    """A schedule whose outcome no order of the operations explains."""

    scenario: str
    rules: str
    steps: tuple[tuple[int, str], ...]
    outcomes: Outcomes

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


def explained(scenario: Scenario, model: World, outcomes: Outcomes) -> bool:
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
    outcomes: Outcomes,
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
