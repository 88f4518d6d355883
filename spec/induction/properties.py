"""
What every reachable state keeps, and what every step keeps, without any bound.

The names are those of JobQueueProps.tla where it has them.
"""

from collections.abc import Callable, Mapping
from typing import Final

import z3  # type: ignore[import-untyped]  # it has no type information

from induction.symbolic import ABSENT, NULL, STATUS, State, World
from jobfence.statemachine.states import ACTIVE, TERMINAL, JobStatus
from jobfence.statemachine.table import HANDOFF_COLUMNS

_Q, _H = JobStatus.QUEUED, JobStatus.HANDED_OFF
# A handoff may have no lease; the other columns are set exactly while it lasts (M16).
_LEASE = ("lease_ms", "lease_expires_at_ms")
_ALWAYS = tuple(name for name in HANDOFF_COLUMNS if name not in _LEASE)
_ENDS = {
    JobStatus.COMPLETED: "completed_at_ms",
    JobStatus.FAILED: "failed_at_ms",
    JobStatus.CANCELLED: "cancelled_at_ms",
}


def _held(state: State, _: World) -> z3.BoolRef:
    held = state.is_in(_H)
    return z3.And(
        [
            *(held == (state[name] != NULL) for name in _ALWAYS),
            *(z3.Implies(state[name] != NULL, held) for name in _LEASE),
        ]
    )


def _counter_exact(state: State, world: World) -> z3.BoolRef:
    own = z3.And(state.is_in(_H), state["concurrency_key"] == world.key)
    return z3.And(state.others >= 0, state.counter == state.others + z3.If(own, 1, 0))


def _attempts(state: State, _: World) -> z3.BoolRef:
    spent, most = state["attempts"], state["max_retries"]
    return z3.Implies(
        state.status != ABSENT,
        z3.And(
            spent >= 0,
            spent <= most + 1,
            z3.Implies(state.is_in(*ACTIVE), spent <= most),
            spent + z3.If(state.is_in(_H), 1, 0) <= state["handoffs"],
        ),
    )


def _queued_is_not_cancelled(state: State, _: World) -> z3.BoolRef:
    return z3.Implies(state.is_in(_Q), state["cancel_requested"] == 0)


def _end_is_stamped(state: State, _: World) -> z3.BoolRef:
    stamped = [
        (state[column] != NULL) == state.is_in(status)
        for status, column in _ENDS.items()
    ]
    return z3.Implies(state.status != ABSENT, z3.And(stamped))


def _latest_is_known(state: State, _: World) -> z3.BoolRef:
    held, latest = state["handoff_id"], state["last_handoff_id"]
    return z3.Implies(
        state.status != ABSENT,
        z3.And(
            z3.Implies(held != NULL, z3.And(held == latest, state["last_ack"] == NULL)),
            z3.Implies(latest != NULL, z3.Select(state.issued, latest)),
            (latest != NULL) == (state["handoffs"] > 0),
        ),
    )


def _owner_active(state: State, _: World) -> z3.BoolRef:
    return z3.Implies(state.owns, state.is_in(*ACTIVE))


INVARIANTS: Final[Mapping[str, Callable[[State, World], z3.BoolRef]]] = {
    "HeldIffHandedOff": lambda s, w: z3.Implies(s.status != ABSENT, _held(s, w)),
    "CounterExact": _counter_exact,
    "AttemptsBounded": _attempts,
    "QueuedIsNotCancelled": _queued_is_not_cancelled,
    "EndIsStamped": _end_is_stamped,
    "LatestIsKnown": _latest_is_known,
    "OwnerActive": _owner_active,
}


def _fence_strict(before: State, after: State, world: World) -> z3.BoolRef:
    touched = z3.Or([before[name] != after[name] for name in HANDOFF_COLUMNS])
    return z3.Implies(
        z3.And(before.is_in(_H), touched), before["handoff_id"] == world.presented
    )


def _handoffs_fresh(before: State, after: State, _: World) -> z3.BoolRef:
    new = after["handoff_id"]
    return z3.Implies(
        z3.And(new != NULL, new != before["handoff_id"]),
        z3.Not(z3.Select(before.issued, new)),
    )


def _terminal_absorbing(before: State, _: State, _w: World) -> z3.BoolRef:
    return z3.Not(before.is_in(*TERMINAL))


def _attempts_counted(before: State, after: State, _: World) -> z3.BoolRef:
    same = after["attempts"] == before["attempts"]
    one_more = after["attempts"] == before["attempts"] + 1
    ended = z3.And(before.is_in(_H), z3.Not(after.is_in(_H)))
    return z3.Implies(before.status != ABSENT, z3.Or(same, z3.And(one_more, ended)))


def _cancel_stays(before: State, after: State, _: World) -> z3.BoolRef:
    return z3.Implies(
        z3.And(before.status != ABSENT, before["cancel_requested"] != 0),
        after["cancel_requested"] != 0,
    )


def _cap_respected(before: State, after: State, world: World) -> z3.BoolRef:
    return z3.Implies(after.counter > before.counter, after.counter <= world.cap)


def _handoffs_bounded(before: State, after: State, world: World) -> z3.BoolRef:
    """Past `max_handoffs` only a counted failure goes back (M7b, L5)."""
    free = after["attempts"] == before["attempts"]
    back = z3.And(before.is_in(_H), after.status == STATUS[_Q], free)
    return z3.Implies(
        z3.And(back, world.max_handoffs != NULL),
        after["handoffs"] < world.max_handoffs,
    )


OF_STEPS: Final[Mapping[str, Callable[[State, State, World], z3.BoolRef]]] = {
    "FenceStrict": _fence_strict,
    "HandoffsFresh": _handoffs_fresh,
    "TerminalAbsorbing": _terminal_absorbing,
    "AttemptsCounted": _attempts_counted,
    "CancelStays": _cancel_stays,
    "CapRespected": _cap_respected,
    "HandoffsBounded": _handoffs_bounded,
}
