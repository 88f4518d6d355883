"""
One job among arbitrarily many, in z3's terms, and what a step makes of it.

All other jobs are one number for each key: how many of them are handed off with it. A
step of the table moves one job, and whichever it moves is the one looked at here. So
neither jobs nor attempts, caps, handoffs and times have a bound.

Every column is an integer and NULL is 0, which no column that can be empty holds
otherwise. `key` is one arbitrary concurrency key: what holds for it holds for all.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from types import MappingProxyType
from typing import Final

import z3  # type: ignore[import-untyped]  # it has no type information

from induction.steps import Step, tried_before
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.table import TABLE, Fence, Guard, Slot, Trigger, Value
from jobfence.store.memory.rows import JobRow

NULL: Final = 0
ABSENT: Final = 0
STATUS: Final[Mapping[JobStatus | None, int]] = MappingProxyType(
    {None: ABSENT, **{status: at for at, status in enumerate(JobStatus, start=1)}}
)
TRIGGER: Final[Mapping[Trigger, int]] = MappingProxyType(
    {trigger: at for at, trigger in enumerate(Trigger, start=1)}
)
_READ_BY_GUARDS = ("max_retries", "concurrency_key", "cancel_requested", "attempts")
COLUMNS: Final = tuple(
    sorted({*_READ_BY_GUARDS, *(name for row in TABLE for name in row.writes)})
)
# Where one operation gives the same value to two columns.
_GIVEN_AS: Final = {"last_handoff_id": "handoff_id", "last_worker_id": "worker_id"}


@dataclass(frozen=True, slots=True)
class State:
    """
    What is durable, as far as one job and one key are concerned.

    `others` counts the other jobs that are handed off with the key; `issued` is the set
    of handoff ids ever given out; `owns` says that the job owns its schedule key.
    """

    status: z3.ArithRef
    columns: Mapping[str, z3.ArithRef]
    counter: z3.ArithRef
    others: z3.ArithRef
    owns: z3.BoolRef
    issued: z3.ArrayRef

    def __getitem__(self, column: str) -> z3.ArithRef:
        """Return a column of the job."""
        return self.columns[column]

    def is_in(self, *statuses: JobStatus) -> z3.BoolRef:
        """Say that the job has one of these statuses."""
        return z3.Or([self.status == STATUS[status] for status in statuses])


@dataclass(frozen=True, slots=True)
class World:
    """All that a step may ask for beside the row: caller, clock, settings."""

    key: z3.ArithRef
    cap: z3.ArithRef
    now: z3.ArithRef
    presented: z3.ArithRef  # the handoff id that the caller shows
    max_handoffs: z3.ArithRef  # NULL: no limit
    paused: z3.BoolRef
    unreadable: z3.BoolRef
    every_lease: z3.BoolRef  # a single owner starts (L2)
    other_slot_free: z3.BoolRef  # of a key that is not the one looked at
    policy_differs: z3.BoolRef
    given: Mapping[str, z3.ArithRef]


def any_state() -> State:
    """Return a state of which nothing is known."""
    return State(
        status=z3.Int("status"),
        columns={name: z3.Int(name) for name in COLUMNS},
        counter=z3.Int("counter"),
        others=z3.Int("others"),
        owns=z3.Bool("owns"),
        issued=z3.Const("issued", z3.ArraySort(z3.IntSort(), z3.BoolSort())),
    )


def any_world() -> World:
    """Return a world of which nothing is known."""
    return World(
        key=z3.Int("key"),
        cap=z3.Int("cap"),
        now=z3.Int("now"),
        presented=z3.Int("presented"),
        max_handoffs=z3.Int("max_handoffs"),
        paused=z3.Bool("paused"),
        unreadable=z3.Bool("unreadable"),
        every_lease=z3.Bool("every_lease"),
        other_slot_free=z3.Bool("other_slot_free"),
        policy_differs=z3.Bool("policy_differs"),
        given={name: z3.Int(f"given_{name}") for name in COLUMNS},
    )


def assumptions(state: State, world: World) -> dict[str, z3.BoolRef]:
    """Return what is taken for granted of callers and settings, by rule."""
    given = world.given
    return {
        "E1": z3.And(given["max_retries"] >= 0, world.key > NULL, world.cap >= 1),
        "C2": given["concurrency_key"] >= NULL,
        "M18": world.presented > NULL,
        "M7b": world.max_handoffs >= NULL,
        "M19": z3.And(
            given["handoff_id"] > NULL,
            z3.Not(z3.Select(state.issued, given["handoff_id"])),
        ),
        "types": z3.And(
            state["cancel_requested"] >= 0,
            state["cancel_requested"] <= 1,
            state["lease_expires_at_ms"] >= NULL,
        ),
        "times": z3.And(world.now > NULL, given["lease_expires_at_ms"] >= NULL),
        "names": z3.And(given["worker_id"] > NULL, given["last_error"] > NULL),
    }


_Meaning = Callable[[State, World], z3.BoolRef]


def _slot_free(state: State, world: World) -> z3.BoolRef:
    wanted = state["concurrency_key"]
    here = z3.If(wanted == world.key, state.counter < world.cap, world.other_slot_free)
    return z3.Or(wanted == NULL, here)


def _lease_over(state: State, world: World) -> z3.BoolRef:
    end = state["lease_expires_at_ms"]
    return z3.Or(world.every_lease, z3.And(end != NULL, end <= world.now))


GUARDS: Final[Mapping[Guard, _Meaning]] = {
    Guard.DUE: lambda s, w: s["scheduled_at_ms"] <= w.now,
    Guard.FUTURE: lambda s, w: s["scheduled_at_ms"] > w.now,
    Guard.SLOT_FREE: _slot_free,
    Guard.NOT_PAUSED: lambda _, w: z3.Not(w.paused),
    Guard.CANCEL_REQUESTED: lambda s, _: s["cancel_requested"] != 0,
    Guard.RETRIES_LEFT: lambda s, _: s["attempts"] + 1 <= s["max_retries"],
    Guard.NO_RETRIES_LEFT: lambda s, _: s["attempts"] + 1 > s["max_retries"],
    Guard.HANDOFFS_SPENT: lambda s, w: z3.And(
        w.max_handoffs != NULL, s["handoffs"] >= w.max_handoffs
    ),
    Guard.LEASE_OVER: _lease_over,
    Guard.UNREADABLE: lambda _, w: w.unreadable,
    Guard.POLICY_DIFFERS: lambda _, w: w.policy_differs,
}

# The row is read under its lock, so what was read is what is written to: of the
# fences, only the caller's handoff can differ from it. L2 has the statements.
FENCES: Final[Mapping[Fence, _Meaning]] = {
    Fence.HANDOFF: lambda s, w: s["handoff_id"] == w.presented,
    Fence.DUE: GUARDS[Guard.DUE],
    Fence.LEASE_OVER: _lease_over,
    Fence.SCHEDULED_AT: lambda _s, _w: z3.BoolVal(val=True),
    Fence.CONCURRENCY_KEY: lambda _s, _w: z3.BoolVal(val=True),
}


def applies(
    step: Step, steps: Sequence[Step], state: State, world: World
) -> z3.BoolRef:
    """Say that this step is the one to take, and that its UPDATE finds its row."""
    return z3.And(
        state.status == STATUS[step.source],
        _guarded(step, state, world),
        *(z3.Not(_guarded(each, state, world)) for each in tried_before(step, steps)),
        *(FENCES[fence](state, world) for fence in step.fence),
    )


def after(step: Step, state: State, world: World) -> State:
    """Return the state that the step leads to."""
    columns = _inserted(world) if step.source is None else dict(state.columns)
    for name, value in step.writes.items():
        columns[name] = _value(step, state, world, name, value)
    here = state["concurrency_key"] == world.key
    change = {Slot.NONE: 0, Slot.RESERVE: 1, Slot.RELEASE: -1}[step.slot]
    claimed = z3.Store(state.issued, columns["handoff_id"], z3.BoolVal(val=True))
    return replace(
        state,
        status=z3.IntVal(STATUS[step.dest]),
        columns=columns,
        counter=state.counter + z3.If(here, change, 0),
        owns=_owns(step, state),
        issued=claimed if step.trigger is Trigger.CLAIM else state.issued,
    )


def _guarded(step: Step, state: State, world: World) -> z3.BoolRef:
    return z3.And([GUARDS[guard](state, world) for guard in step.guards])


def _owns(step: Step, state: State) -> z3.BoolRef:
    if step.ends_ownership:
        return z3.BoolVal(val=False)
    return z3.Bool("owns_from_now_on") if step.source is None else state.owns


def _inserted(world: World) -> dict[str, z3.ArithRef]:
    """Return the whole row of rule M1: what JobRow presets, and what is given."""
    preset = {
        each.name: int(each.default or NULL)
        for each in fields(JobRow)
        if each.name in COLUMNS and each.default is not MISSING
    }
    return {
        name: z3.IntVal(preset[name]) if name in preset else world.given[name]
        for name in COLUMNS
    }


def _value(
    step: Step, state: State, world: World, name: str, value: Value
) -> z3.ArithRef:
    if name == "last_ack" and value is Value.GIVEN:
        return z3.IntVal(TRIGGER[step.trigger])  # by a rule, for every operation
    match value:
        case Value.NOW:
            return world.now
        case Value.GIVEN:
            return world.given[_GIVEN_AS.get(name, name)]
        case Value.NULL:
            return z3.IntVal(NULL)
        case Value.TRUE:
            return z3.IntVal(1)
        case Value.INCREMENT:
            return state[name] + 1
