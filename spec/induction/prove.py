"""Ask z3 for each step and each property: is there a state from which it breaks?"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import z3  # type: ignore[import-untyped]  # it has no type information

from induction.properties import INVARIANTS, OF_STEPS
from induction.steps import Step
from induction.symbolic import (
    STATUS,
    State,
    World,
    after,
    any_state,
    any_world,
    applies,
    assumptions,
)

_ALWAYS_SHOWN = (
    *("status", "attempts", "max_retries"),
    *("cancel_requested", "concurrency_key", "counter"),
)


@dataclass(frozen=True, slots=True)
class Broken:
    """A step that does not keep a property, and one state from which it does not."""

    property: str
    step: Step
    example: str


def broken(
    steps: Sequence[Step],
    *,
    only: Collection[str] = (*INVARIANTS, *OF_STEPS),
    without: Collection[str] = (),
) -> Iterator[Broken]:
    """
    Yield each step and property that go wrong; nothing means: proved.

    `only` names the properties to ask for, `without` the assumptions to do without.
    """
    state, world = any_state(), any_world()
    solver = assuming(state, world, without)
    for step in steps:
        solver.push()
        solver.add(applies(step, steps, state, world))
        yield from _broken_by(solver, step, state, world, only)
        solver.pop()


def never_taken(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Return the steps that no state allows: they keep everything and show nothing."""
    state, world = any_state(), any_world()
    solver = assuming(state, world)
    return tuple(
        step
        for step in steps
        if solver.check(applies(step, steps, state, world)) != z3.sat
    )


def assuming(state: State, world: World, without: Collection[str] = ()) -> z3.Solver:
    """Return a solver that takes for granted what is assumed, and the invariants."""
    solver = z3.Solver()
    assumed = assumptions(state, world)
    solver.add([each for name, each in assumed.items() if name not in without])
    solver.add([holds(state, world) for holds in INVARIANTS.values()])
    return solver


def _broken_by(
    solver: z3.Solver, step: Step, state: State, world: World, only: Collection[str]
) -> Iterator[Broken]:
    then = after(step, state, world)
    kept = {name: holds(then, world) for name, holds in INVARIANTS.items()}
    kept |= {name: holds(state, then, world) for name, holds in OF_STEPS.items()}
    for name in only:
        solver.push()
        solver.add(z3.Not(kept[name]))
        answer = solver.check()
        if answer == z3.sat:
            yield Broken(name, step, _example(solver.model(), state, then, world))
        elif answer != z3.unsat:
            raise RuntimeError(f"z3 cannot say whether {step} keeps {name}: {answer}")
        solver.pop()


def _example(model: z3.ModelRef, before: State, then: State, world: World) -> str:
    """Say what the job and the counter looked like, and what the step made of them."""
    was, now = _shown(model, before), _shown(model, then)
    told = [
        f"{name} {value}" if value == now[name] else f"{name} {value} -> {now[name]}"
        for name, value in was.items()
        if value != now[name] or name in _ALWAYS_SHOWN
    ]
    key, shown = (
        model.eval(term, model_completion=True) for term in (world.key, world.presented)
    )
    return f"{', '.join(told)}; the counter is of key {key}, the caller shows {shown}"


def _shown(model: z3.ModelRef, state: State) -> dict[str, str]:
    status = {number: str(status or "absent") for status, number in STATUS.items()}
    terms = {"counter": state.counter, "owns its key": state.owns, **state.columns}
    return {
        "status": status[model.eval(state.status, model_completion=True).as_long()],
        **{
            name: str(model.eval(term, model_completion=True))
            for name, term in terms.items()
        },
    }
