"""Every schedule of a few clients with at most so many preemptions."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from jobfence.conformance.sometimes import met
from jobfence.conformance.sql.judging import (
    Outcomes,
    Wrong,
    explained,
    outcome,
    state_of,
    taken_in,
)
from jobfence.conformance.sql.scheduler import Choice, Client, Scheduler
from jobfence.conformance.sql.worlds import Scenario, World, set_up


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
