"""
Whether "without bounds" is meant: is every number that is left open really open?

A bound in an assumption, or in the meaning of a word of the table, makes everything
easier to prove and nothing wrong. So each row must be possible with all numbers far
beyond any bound at once, and with the least of each; and every question to the world
must have both answers.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Final

import z3  # type: ignore[import-untyped]  # it has no type information

from induction.prove import assuming
from induction.steps import Step
from induction.symbolic import (
    State,
    World,
    any_state,
    any_world,
    applies,
)
from jobfence.statemachine.states import ACTIVE, JobStatus
from jobfence.statemachine.table import HANDOFF_COLUMNS

BEYOND: Final = 10**9
# These are no quantities: what they can be is a short list.
_LISTED: Final = frozenset({"status", "cancel_requested"})
_ENDS: Final = frozenset({"completed_at_ms", "failed_at_ms", "cancelled_at_ms"})
# What is empty in a status, by M16 and the invariants that say so.
_EMPTY: Final[Mapping[JobStatus | None, frozenset[str]]] = {
    None: frozenset(),
    JobStatus.QUEUED: _ENDS | frozenset(HANDOFF_COLUMNS),
    JobStatus.HANDED_OFF: _ENDS | {"last_ack"},
}
# The least that the rules allow: one slot, no retries, no limit on handoffs.
LEAST: Final[Mapping[str, int]] = {
    **dict.fromkeys(("cap", "key", "now", "presented"), 1),
    **dict.fromkeys(("max_handoffs", "max_retries", "attempts", "others"), 0),
    **dict.fromkeys(("given_max_retries", "given_concurrency_key"), 0),
}


def open_terms(state: State, world: World) -> dict[str, z3.ExprRef]:
    """Return everything that is left open, by its name: numbers and yes or no."""
    found = [
        getattr(part, each.name) for part in (state, world) for each in fields(part)
    ]
    terms = [
        term
        for each in found
        for term in (each.values() if isinstance(each, Mapping) else [each])
    ]
    return {
        str(term): term
        for term in terms
        if str(term) not in _LISTED and not z3.is_array(term)
    }


def bounded(steps: Sequence[Step]) -> Iterator[str]:
    """Say of what is left open where it has a bound; nothing means: nowhere."""
    state, world = any_state(), any_world()
    solver = assuming(state, world)
    terms = open_terms(state, world)
    for step in steps:
        numbers = {
            name: term > BEYOND
            for name, term in terms.items()
            if z3.is_int(term) and name not in _EMPTY[step.source]
        }
        solver.push()
        solver.add(applies(step, steps, state, world))
        for name in _refused(solver, numbers):
            yield f"{name} is never above {BEYOND:,} where {step} is taken"
        solver.pop()
    for source in ACTIVE:
        for told, wanted in _ways(terms).items():
            if solver.check(state.is_in(source), wanted) != z3.sat:
                yield f"{told} of a job that is {source}"


def _refused(solver: z3.Solver, wanted: Mapping[str, z3.BoolRef]) -> tuple[str, ...]:
    """Return what cannot be; where each can, but not all at once, which clash."""
    if solver.check(*wanted.values()) == z3.sat:
        return ()
    clash = {str(each) for each in solver.unsat_core()}
    alone = tuple(name for name, each in wanted.items() if solver.check(each) != z3.sat)
    return alone or tuple(name for name, each in wanted.items() if str(each) in clash)


def _ways(terms: Mapping[str, z3.ExprRef]) -> dict[str, z3.BoolRef]:
    """Return the least of each number and both answers, by what to say without."""
    ways = {
        f"{name} is never {least}": terms[name] == least
        for name, least in LEAST.items()
    }
    for name, term in terms.items():
        if z3.is_bool(term):
            ways |= {
                f"{name} is never true": term,
                f"{name} is never false": z3.Not(term),
            }
    return ways
