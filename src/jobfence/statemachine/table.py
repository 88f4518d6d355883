"""
The transitions of a job: the whole state machine as one table (rules M1 to M20).

Everything else reads these rows: the `transitions` machine, the one function that
moves a status in SQL, the CHECK constraints, the in-memory model, the diagram, the
tables in README and `spec/`, and the conformance suite. Nothing restates them.

A row says, in this order: who asked (`trigger`), what the step is called, from where to
where, when it applies (`guards`, in Python, over the row that was read), what the
UPDATE itself must compare (`fence`), and what it writes. Rows that share a trigger and
a source are alternatives, tried in the order in which they stand here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from jobfence.statemachine.states import JobStatus

_Q, _H = JobStatus.QUEUED, JobStatus.HANDED_OFF
_C, _F, _X = JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED


class Trigger(StrEnum):
    """What can happen to a job: the store's verbs, one name each everywhere."""

    ENQUEUE = "enqueue"
    CLAIM = "claim"
    COMPLETE = "complete"
    FAIL = "fail"
    RESCHEDULE = "reschedule"
    RETURN_TO_QUEUE = "return_to_queue"
    RECOVER = "recover"
    CANCEL = "cancel"
    WAKE = "wake"
    REJECT = "reject"
    EXTEND_LEASE = "extend_lease"
    ADOPT_POLICY = "adopt_policy"
    REQUEST_CANCEL = "request_cancel"


class Guard(StrEnum):
    """A condition on the row as read. All guards of a row must hold."""

    DUE = "due"
    FUTURE = "future"
    SLOT_FREE = "slot_free"
    NOT_PAUSED = "not_paused"
    CANCEL_REQUESTED = "cancel_requested"
    RETRIES_LEFT = "retries_left"
    NO_RETRIES_LEFT = "no_retries_left"
    HANDOFFS_SPENT = "handoffs_spent"
    LEASE_OVER = "lease_over"
    UNREADABLE = "unreadable"
    POLICY_DIFFERS = "policy_differs"


class Fence(StrEnum):
    """
    A comparison the UPDATE makes, beside the job's id and its source status.

    The statement must change exactly one row, else the transition did not happen.
    """

    HANDOFF = "handoff"  # handoff_id is the caller's
    DUE = "due"  # scheduled_at_ms <= now
    LEASE_OVER = "lease_over"  # lease_expires_at_ms <= now, or single-owner start
    SCHEDULED_AT = "scheduled_at"  # scheduled_at_ms is the one that was read
    CONCURRENCY_KEY = "concurrency_key"  # concurrency_key is the one that was read


class Value(StrEnum):
    """Where a written column takes its value from."""

    NOW = "now"  # the operation's one reading of the clock
    GIVEN = "given"  # the operation supplies it under the column's name
    NULL = "null"
    TRUE = "true"
    INCREMENT = "increment"  # the column's old value plus one


class Slot(StrEnum):
    """What the step does to the counter of the job's concurrency key (C4)."""

    NONE = "none"
    RESERVE = "reserve"
    RELEASE = "release"


Writes = Mapping[str, Value]


def _writes(*parts: Writes, **columns: Value) -> Writes:
    merged: dict[str, Value] = {}
    for part in parts:
        merged.update(part)
    merged.update(columns)
    return MappingProxyType(merged)


@dataclass(frozen=True, slots=True)
class Transition:
    """One row of the table. `source` is None only for enqueue, which inserts."""

    rule: str
    trigger: Trigger
    name: str
    source: JobStatus | None
    dest: JobStatus
    guards: tuple[Guard, ...] = ()
    fence: tuple[Fence, ...] = ()
    writes: Writes = field(  # a mapping has no hash; a row shall have one
        default_factory=lambda: MappingProxyType({}), hash=False
    )

    @property
    def consumes_attempt(self) -> bool:
        """Rule M17: attempts count failures, not runs."""
        return "attempts" in self.writes

    @property
    def slot(self) -> Slot:
        """The counter equals the handed-off jobs, so the states say it (C5)."""
        if self.source is not _H and self.dest is _H:
            return Slot.RESERVE
        if self.source is _H and self.dest is not _H:
            return Slot.RELEASE
        return Slot.NONE

    @property
    def ends_ownership(self) -> bool:
        """A terminal transition gives up the job's own schedule key (K2)."""
        return self.dest.terminal


# What only a handed-off job carries (M16): every way out clears it, in one place, so
# that no way out can forget it and let an old holder write again.
HANDOFF_COLUMNS = (
    "handoff_id",
    "worker_id",
    "lease_expires_at_ms",
    "lease_ms",
    "handed_off_at_ms",
)
_LEAVE = _writes(dict.fromkeys(HANDOFF_COLUMNS, Value.NULL), last_ack=Value.GIVEN)
_COUNT_FAILURE = _writes(attempts=Value.INCREMENT, last_error=Value.GIVEN)
_FAILED = _writes(failed_at_ms=Value.NOW)
_CANCELLED = _writes(cancelled_at_ms=Value.NOW)
_BACK_LATER = _writes(scheduled_at_ms=Value.GIVEN)
_GIVE_UP = _writes(_LEAVE, _FAILED, last_error=Value.GIVEN)

_BY_HOLDER = (Fence.HANDOFF,)
_BY_RECOVERY = (Fence.HANDOFF, Fence.LEASE_OVER)


def _ways_back(
    trigger: Trigger, rule: str, fence: tuple[Fence, ...], scheduled_at: Value
) -> tuple[Transition, ...]:
    """Abort, give up, or go back: the three ends of a step that spends no attempt."""
    return (
        Transition(
            "M15",
            trigger,
            "abort",
            _H,
            _X,
            (Guard.CANCEL_REQUESTED,),
            fence,
            _writes(_LEAVE, _CANCELLED),
        ),
        Transition(
            "M7b",
            trigger,
            "give_up",
            _H,
            _F,
            (Guard.HANDOFFS_SPENT,),
            fence,
            _GIVE_UP,
        ),
        Transition(
            rule,
            trigger,
            trigger.value,
            _H,
            _Q,
            (),
            fence,
            _writes(_LEAVE, scheduled_at_ms=scheduled_at),
        ),
    )


TABLE: tuple[Transition, ...] = (
    Transition("M1", Trigger.ENQUEUE, "enqueue", None, _Q),
    Transition(
        "M2",
        Trigger.CLAIM,
        "claim",
        _Q,
        _H,
        (Guard.DUE, Guard.NOT_PAUSED, Guard.SLOT_FREE),
        (Fence.DUE, Fence.CONCURRENCY_KEY),
        _writes(
            handed_off_at_ms=Value.NOW,
            handoff_id=Value.GIVEN,
            worker_id=Value.GIVEN,
            lease_ms=Value.GIVEN,
            lease_expires_at_ms=Value.GIVEN,
            handoffs=Value.INCREMENT,
            last_handoff_id=Value.GIVEN,
            last_worker_id=Value.GIVEN,
            last_handed_off_at_ms=Value.NOW,
            last_ack=Value.NULL,
        ),
    ),
    Transition(
        "M3",
        Trigger.COMPLETE,
        "complete",
        _H,
        _C,
        (),
        _BY_HOLDER,
        _writes(_LEAVE, completed_at_ms=Value.NOW),
    ),
    Transition(
        "M15",
        Trigger.FAIL,
        "abort",
        _H,
        _X,
        (Guard.RETRIES_LEFT, Guard.CANCEL_REQUESTED),
        _BY_HOLDER,
        _writes(_LEAVE, _COUNT_FAILURE, _CANCELLED),
    ),
    Transition(
        "M4",
        Trigger.FAIL,
        "retry",
        _H,
        _Q,
        (Guard.RETRIES_LEFT,),
        _BY_HOLDER,
        _writes(_LEAVE, _COUNT_FAILURE, _BACK_LATER),
    ),
    Transition(
        "M5",
        Trigger.FAIL,
        "exhaust",
        _H,
        _F,
        (Guard.NO_RETRIES_LEFT,),
        _BY_HOLDER,
        _writes(_LEAVE, _COUNT_FAILURE, _FAILED),
    ),
    *_ways_back(Trigger.RESCHEDULE, "M6", _BY_HOLDER, Value.GIVEN),
    *_ways_back(Trigger.RETURN_TO_QUEUE, "M7", _BY_HOLDER, Value.NOW),
    Transition(
        "M15",
        Trigger.RECOVER,
        "abort",
        _H,
        _X,
        (Guard.LEASE_OVER, Guard.RETRIES_LEFT, Guard.CANCEL_REQUESTED),
        _BY_RECOVERY,
        _writes(_LEAVE, _COUNT_FAILURE, _CANCELLED),
    ),
    Transition(
        "M7b",
        Trigger.RECOVER,
        "give_up",
        _H,
        _F,
        (Guard.LEASE_OVER, Guard.RETRIES_LEFT, Guard.HANDOFFS_SPENT),
        _BY_RECOVERY,
        _writes(_GIVE_UP, _COUNT_FAILURE),
    ),
    Transition(
        "M8",
        Trigger.RECOVER,
        "retry",
        _H,
        _Q,
        (Guard.LEASE_OVER, Guard.RETRIES_LEFT),
        _BY_RECOVERY,
        _writes(_LEAVE, _COUNT_FAILURE, _BACK_LATER),
    ),
    Transition(
        "M8",
        Trigger.RECOVER,
        "exhaust",
        _H,
        _F,
        (Guard.LEASE_OVER, Guard.NO_RETRIES_LEFT),
        _BY_RECOVERY,
        _writes(_LEAVE, _COUNT_FAILURE, _FAILED),
    ),
    Transition("M9", Trigger.CANCEL, "cancel", _Q, _X, (), (), _CANCELLED),
    Transition(
        "M10",
        Trigger.WAKE,
        "wake",
        _Q,
        _Q,
        (Guard.FUTURE,),
        (Fence.SCHEDULED_AT,),
        _writes(scheduled_at_ms=Value.NOW),
    ),
    Transition(
        "M11",
        Trigger.REJECT,
        "reject",
        _Q,
        _F,
        (Guard.UNREADABLE,),
        (),
        _writes(_FAILED, last_error=Value.GIVEN),
    ),
    Transition(
        "M21",
        Trigger.REJECT,
        "reject",
        _H,
        _F,
        (Guard.UNREADABLE, Guard.LEASE_OVER),
        _BY_RECOVERY,
        _writes(_LEAVE, _FAILED, last_error=Value.GIVEN),
    ),
    Transition(
        "M12",
        Trigger.EXTEND_LEASE,
        "extend_lease",
        _H,
        _H,
        (),
        _BY_HOLDER,
        _writes(lease_ms=Value.GIVEN, lease_expires_at_ms=Value.GIVEN),
    ),
    Transition(
        "M13",
        Trigger.ADOPT_POLICY,
        "adopt_policy",
        _Q,
        _Q,
        (Guard.POLICY_DIFFERS,),
        (Fence.CONCURRENCY_KEY,),
        _writes(
            concurrency_key=Value.GIVEN,
            max_concurrency=Value.GIVEN,
            priority=Value.GIVEN,
        ),
    ),
    Transition(
        "M14",
        Trigger.REQUEST_CANCEL,
        "request_cancel",
        _H,
        _H,
        (),
        (),
        _writes(cancel_requested=Value.TRUE),
    ),
)


def alternatives(trigger: Trigger, source: JobStatus) -> tuple[Transition, ...]:
    """Return the rows for one trigger from one state, in the order to try them."""
    return _ALTERNATIVES.get((trigger, source), ())


def row(trigger: Trigger, name: str, source: JobStatus) -> Transition:
    """Return the one row of this trigger and name that leaves this state."""
    for each in alternatives(trigger, source):
        if each.name == name:
            return each
    raise LookupError(f"the table has no {trigger} from {source} called {name!r}")


def _index() -> Mapping[tuple[Trigger, JobStatus], tuple[Transition, ...]]:
    found: dict[tuple[Trigger, JobStatus], tuple[Transition, ...]] = {}
    for each in TABLE:
        if each.source is not None:
            at = (each.trigger, each.source)
            found[at] = (*found.get(at, ()), each)
    return MappingProxyType(found)


_ALTERNATIVES = _index()
