"""One step of one job, judged by the row of the table that it says it is."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from jobfence.conformance.trace.entries import Entry, Values
from jobfence.conformance.trace.rows import ENDED_AT, check_row, number
from jobfence.conformance.trace.verdict import Refused
from jobfence.statemachine.checks import later_ms
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.table import (
    HANDOFF_COLUMNS,
    TABLE,
    Fence,
    Guard,
    Transition,
    Value,
    alternatives,
)

_POLICY = ("concurrency_key", "max_concurrency", "priority")
_NULL_AT_FIRST = (
    *HANDOFF_COLUMNS,
    "last_handoff_id",
    "last_worker_id",
    "last_handed_off_at_ms",
    "last_ack",
    *ENDED_AT.values(),
)


@dataclass(frozen=True, slots=True)
class Step:
    """
    What an entry says about a job: the row before, None if unknown, and after.

    `max_handoffs` is the store's, None if it is not known.
    """

    entry: Entry
    before: Values | None
    after: Values
    max_handoffs: int | None = None

    @property
    def whole(self) -> bool:
        """Whether a single owner recovered it, lease or not (L2)."""
        return self.entry.step[2]


def check_step(step: Step, source: JobStatus | None) -> Transition:
    """
    Return the row of the table that this step is, or raise `Refused`.

    `source` is the status before it, None for a job that was not there.
    """
    transition = _row(step, source)
    if transition.source is None:
        _check_new(step)
    else:
        _check_fence(step, transition)
        _check_guards(step, transition)
        _check_writes(step, transition)
    if step.after.get("status") != transition.dest.value:
        raise Refused(
            transition.rule,
            expected=f"status {transition.dest}",
            seen=repr(step.after.get("status")),
        )
    check_row(step.after)
    return transition


def likely_source(entry: Entry) -> JobStatus | None:
    """Return the status that an entry's action begins at, for a job not known before."""
    trigger, name, _ = entry.step
    found = [row for row in TABLE if (row.trigger, row.name) == (trigger, name)]
    # Only `reject` has two: recovery shows the handoff that it read, a claim has none.
    held = entry.handoff_id is not None
    found.sort(key=lambda row: (row.source is JobStatus.HANDED_OFF) is not held)
    return found[0].source if found else None


def _row(step: Step, source: JobStatus | None) -> Transition:
    trigger, name, _ = step.entry.step
    named = [row for row in TABLE if (row.trigger, row.name) == (trigger, name)]
    for row in named:
        if row.source is source:
            return row
    if not named:
        raise Refused(
            "M20",
            expected="a transition of the table",
            seen=f"{step.entry.action!r}, which it has not",
        )
    wanted = " or ".join(str(row.source or "no such job") for row in named)
    was = "is not there" if source is None else f"is {source}"
    ended = ", which nothing leaves" if source and source.terminal else ""
    raise Refused(
        named[0].rule, expected=f"a job that is {wanted}", seen=f"the job {was}{ended}"
    )


def _check_new(step: Step) -> None:
    """M1: what every new row holds."""
    wanted: dict[str, object] = dict.fromkeys(_NULL_AT_FIRST)
    wanted |= {"attempts": 0, "handoffs": 0, "cancel_requested": False}
    wanted["created_at_ms"] = step.entry.at_ms
    for name, value in wanted.items():
        if step.after.get(name) != value:
            raise Refused(
                "M1",
                expected=f"{name} {value!r} in a new job",
                seen=repr(step.after.get(name)),
            )


def _check_fence(step: Step, transition: Transition) -> None:
    """Refuse a step by another handoff than the job is held under (M18)."""
    if step.before is None or Fence.HANDOFF not in transition.fence:
        return
    held = step.before["handoff_id"]
    if step.entry.handoff_id != held:
        raise Refused(
            transition.rule,
            expected=f"the handoff that the job is held under, {held!r}",
            seen=f"one by handoff {step.entry.handoff_id!r}",
        )


def _check_guards(step: Step, transition: Transition) -> None:
    """Refuse a guard that does not hold, and a row of the table before it that does."""
    if step.before is None or transition.source is None:
        return
    for guard in transition.guards:
        if _holds(step, guard) is False:
            raise Refused(
                transition.rule,
                expected=f"{guard} for {transition.name}",
                seen=_shown(step.before, guard, step.entry.at_ms),
            )
    for earlier in alternatives(transition.trigger, transition.source):
        if earlier is transition:
            return
        if all(_holds(step, guard) for guard in earlier.guards):
            raise Refused(
                earlier.rule,
                expected=f"{earlier.name}, since {' and '.join(earlier.guards)}",
                seen=transition.name,
            )


def _holds(step: Step, guard: Guard) -> bool | None:
    """Judge a guard from the values; None if they do not say."""
    judge = _GUARDS.get(guard)
    return None if judge is None else judge(step, step.before or {})


def _due(step: Step, before: Values) -> bool:
    return number(before, "scheduled_at_ms") <= step.entry.at_ms


def _retries_left(before: Values) -> bool:
    return number(before, "attempts") + 1 <= number(before, "max_retries")


def _handoffs_spent(step: Step, before: Values) -> bool | None:
    most = step.max_handoffs
    return None if most is None else number(before, "handoffs") >= most


def _lease_over(step: Step, before: Values) -> bool:
    ends = before["lease_expires_at_ms"]
    return step.whole or (isinstance(ends, int) and ends <= step.entry.at_ms)


# What is not here shows elsewhere (a free slot: in the counter) or nowhere (a pause).
_GUARDS: Mapping[Guard, Callable[[Step, Values], bool | None]] = {
    Guard.DUE: _due,
    Guard.FUTURE: lambda step, before: not _due(step, before),
    Guard.CANCEL_REQUESTED: lambda _, before: bool(before["cancel_requested"]),
    Guard.RETRIES_LEFT: lambda _, before: _retries_left(before),
    Guard.NO_RETRIES_LEFT: lambda _, before: not _retries_left(before),
    Guard.HANDOFFS_SPENT: _handoffs_spent,
    Guard.LEASE_OVER: _lease_over,
    Guard.POLICY_DIFFERS: lambda step, before: any(
        step.after.get(name) != before[name] for name in _POLICY
    ),
}
_READ_BY: Mapping[Guard, tuple[str, ...]] = {
    Guard.DUE: ("scheduled_at_ms",),
    Guard.FUTURE: ("scheduled_at_ms",),
    Guard.CANCEL_REQUESTED: ("cancel_requested",),
    Guard.RETRIES_LEFT: ("attempts", "max_retries"),
    Guard.NO_RETRIES_LEFT: ("attempts", "max_retries"),
    Guard.HANDOFFS_SPENT: ("handoffs",),
    Guard.LEASE_OVER: ("lease_expires_at_ms",),
    Guard.POLICY_DIFFERS: _POLICY,
}


def _shown(before: Values, guard: Guard, at_ms: int) -> str:
    read = [f"{name} {before[name]!r}" for name in _READ_BY[guard]]
    return f"{', '.join(read)}, at {at_ms}"


def _check_writes(step: Step, transition: Transition) -> None:
    """Refuse a written column with another value, and any other that has changed."""
    for name, value in transition.writes.items():
        if name in step.after:  # the journal leaves long texts out
            _check_written(step, transition, name, value)
    for name, before in (step.before or {}).items():
        seen = step.after.get(name)
        if name not in ("status", "rev", *transition.writes) and seen != before:
            raise Refused(
                transition.rule,
                expected=f"{name} still {before!r}: {transition.name} leaves it",
                seen=repr(seen),
            )


def _check_written(step: Step, transition: Transition, name: str, value: Value) -> None:
    seen = step.after[name]
    if value is Value.GIVEN:
        problem = _GIVEN[name](step, transition) if name in _GIVEN else None
    elif value is Value.INCREMENT:
        more = None if step.before is None else number(step.before, name) + 1
        problem = None if more in (None, seen) else f"{more}, one more"
    else:
        plain = {Value.NOW: step.entry.at_ms, Value.NULL: None, Value.TRUE: True}
        problem = None if plain[value] == seen else repr(plain[value])
    if problem is not None:
        raise Refused(transition.rule, expected=f"{name} {problem}", seen=repr(seen))


def _same(name: str, other: str) -> Callable[[Step, Transition], str | None]:
    def check(step: Step, _: Transition) -> str | None:
        return None if step.after[name] == step.after[other] else f"as in {other}"

    return check


def _last_ack(step: Step, transition: Transition) -> str | None:
    wanted = transition.trigger.value
    return None if step.after["last_ack"] == wanted else repr(wanted)


def _not_before_now(name: str) -> Callable[[Step, Transition], str | None]:
    def check(step: Step, _: Transition) -> str | None:
        value, now = step.after[name], step.entry.at_ms
        fits = isinstance(value, int) and value >= now
        return None if fits else f"not before {now}"

    return check


def _lease_end(step: Step, _: Transition) -> str | None:
    """Say where a lease ends: the length is given, and the end follows from it (L1)."""
    length, ends = step.after["lease_ms"], step.after["lease_expires_at_ms"]
    if not isinstance(length, int):
        return None  # without a length there is no end: see rows.py
    right = later_ms(step.entry.at_ms, length)
    return None if ends == right else f"{right}, {length} ms from now"


# What can be said of values that the operation supplies.
_GIVEN: Mapping[str, Callable[[Step, Transition], str | None]] = {
    "handoff_id": _same("handoff_id", "last_handoff_id"),
    "worker_id": _same("worker_id", "last_worker_id"),
    "last_ack": _last_ack,
    "scheduled_at_ms": _not_before_now("scheduled_at_ms"),
    "lease_expires_at_ms": _lease_end,
}
