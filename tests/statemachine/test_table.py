"""
What the table must be, written by hand from the rules, so that it can disagree.

Nothing here is computed from the rows that it judges.
"""

from collections.abc import Iterator
from dataclasses import fields
from itertools import product

import pytest

from jobfence.statemachine.states import ACTIVE, TERMINAL, JobStatus
from jobfence.statemachine.table import (
    HANDOFF_COLUMNS,
    TABLE,
    Fence,
    Guard,
    Slot,
    Transition,
    Trigger,
    Value,
    alternatives,
    row,
)
from jobfence.statemachine.values import Job

QUEUED, HANDED_OFF = JobStatus.QUEUED, JobStatus.HANDED_OFF
COMPLETED, FAILED, CANCELLED = (
    JobStatus.COMPLETED,
    JobStatus.FAILED,
    JobStatus.CANCELLED,
)

# (trigger, source): rule, name, destination and guards, in the order they are tried.
RULES: dict[tuple[str, str | None], list[tuple[str, str, str, set[str]]]] = {
    ("enqueue", None): [("M1", "enqueue", "queued", set())],
    ("claim", "queued"): [
        ("M2", "claim", "handed_off", {"due", "slot_free", "not_paused"})
    ],
    ("complete", "handed_off"): [("M3", "complete", "completed", set())],
    ("fail", "handed_off"): [
        ("M15", "abort", "cancelled", {"cancel_requested", "retries_left"}),
        ("M4", "retry", "queued", {"retries_left"}),
        ("M5", "exhaust", "failed", {"no_retries_left"}),
    ],
    ("reschedule", "handed_off"): [
        ("M15", "abort", "cancelled", {"cancel_requested"}),
        ("M7b", "give_up", "failed", {"handoffs_spent"}),
        ("M6", "reschedule", "queued", set()),
    ],
    ("return_to_queue", "handed_off"): [
        ("M15", "abort", "cancelled", {"cancel_requested"}),
        ("M7b", "give_up", "failed", {"handoffs_spent"}),
        ("M7", "return_to_queue", "queued", set()),
    ],
    ("recover", "handed_off"): [
        (
            "M15",
            "abort",
            "cancelled",
            {"lease_over", "retries_left", "cancel_requested"},
        ),
        ("M7b", "give_up", "failed", {"lease_over", "retries_left", "handoffs_spent"}),
        ("M8", "retry", "queued", {"lease_over", "retries_left"}),
        ("M8", "exhaust", "failed", {"lease_over", "no_retries_left"}),
    ],
    ("cancel", "queued"): [("M9", "cancel", "cancelled", set())],
    ("wake", "queued"): [("M10", "wake", "queued", {"future"})],
    ("reject", "queued"): [("M11", "reject", "failed", {"unreadable"})],
    ("reject", "handed_off"): [
        ("M21", "reject", "failed", {"unreadable", "lease_over"})
    ],
    ("extend_lease", "handed_off"): [("M12", "extend_lease", "handed_off", set())],
    ("adopt_policy", "queued"): [("M13", "adopt_policy", "queued", {"policy_differs"})],
    ("request_cancel", "handed_off"): [("M14", "request_cancel", "handed_off", set())],
}
FENCES = {
    "claim": {"due", "concurrency_key"},
    "complete": {"handoff"},
    "fail": {"handoff"},
    "reschedule": {"handoff"},
    "return_to_queue": {"handoff"},
    "recover": {"handoff", "lease_over"},
    "wake": {"scheduled_at"},
    "extend_lease": {"handoff"},
    "adopt_policy": {"concurrency_key"},
}
ENDED_AT = {
    COMPLETED: "completed_at_ms",
    FAILED: "failed_at_ms",
    CANCELLED: "cancelled_at_ms",
}
# Columns that a job has in the database and not in the value that users see.
INTERNAL_COLUMNS = {"lease_ms", "last_ack"}

each_row = pytest.mark.parametrize(
    "move", TABLE, ids=lambda move: f"{move.rule}-{move.trigger}-{move.name}"
)


def worlds() -> Iterator[frozenset[Guard]]:
    """Every set of guards that can hold at once."""
    for answers in product((False, True), repeat=len(Guard)):
        holding = frozenset(
            guard for guard, holds in zip(Guard, answers, strict=True) if holds
        )
        due = Guard.DUE in holding
        retries = Guard.RETRIES_LEFT in holding
        if due != (Guard.FUTURE in holding) and retries != (
            Guard.NO_RETRIES_LEFT in holding
        ):
            yield holding


WORLDS = list(worlds())


def taken(
    trigger: Trigger, source: JobStatus, world: frozenset[Guard]
) -> Transition | None:
    return next(
        (each for each in alternatives(trigger, source) if world >= set(each.guards)),
        None,
    )


def test_M20_the_rows_are_those_of_the_rules_in_their_order() -> None:
    seen: dict[tuple[str, str | None], list[tuple[str, str, str, set[str]]]] = {}
    for each in TABLE:
        seen.setdefault((each.trigger, each.source), []).append(
            (each.rule, each.name, each.dest, set(each.guards))
        )
    assert seen == RULES


@pytest.mark.parametrize("source", JobStatus)
@pytest.mark.parametrize("trigger", Trigger)
def test_a_trigger_without_a_rule_for_a_state_has_no_alternative(
    trigger: Trigger, source: JobStatus
) -> None:
    named = [(each.rule, each.name) for each in alternatives(trigger, source)]
    assert named == [rule[:2] for rule in RULES.get((trigger, source), [])]


def test_no_transition_leaves_a_terminal_state() -> None:
    assert set(TERMINAL) == {COMPLETED, FAILED, CANCELLED}
    assert set(ACTIVE) == {QUEUED, HANDED_OFF}
    assert [each for each in TABLE if each.source in TERMINAL] == []
    assert {status for status in JobStatus if status.terminal} == TERMINAL


def test_every_state_is_reached_and_every_active_one_can_be_left() -> None:
    assert {each.dest for each in TABLE} == set(JobStatus)
    assert {each.source for each in TABLE if each.source != each.dest} >= ACTIVE


def test_only_enqueue_comes_from_nowhere() -> None:
    assert [each.trigger for each in TABLE if each.source is None] == [Trigger.ENQUEUE]


def test_alternatives_differ_and_each_is_taken_in_some_world() -> None:
    for trigger, source in product(Trigger, JobStatus):
        rows = alternatives(trigger, source)
        assert len({frozenset(each.guards) for each in rows}) == len(rows)
        assert {taken(trigger, source, world) for world in WORLDS} - {None} == set(rows)


@each_row
def test_a_row_names_no_guard_or_fence_twice(move: Transition) -> None:
    assert len(set(move.guards)) == len(move.guards)
    assert len(set(move.fence)) == len(move.fence)


@pytest.mark.parametrize(
    "trigger",
    [Trigger.COMPLETE, Trigger.FAIL, Trigger.RESCHEDULE, Trigger.RETURN_TO_QUEUE],
)
def test_M18_an_acknowledgement_of_the_holder_is_never_left_without_a_row(
    trigger: Trigger,
) -> None:
    assert all(taken(trigger, HANDED_OFF, world) for world in WORLDS)


def test_M8_recovery_takes_each_job_whose_lease_is_over_and_no_other() -> None:
    for world in WORLDS:
        found = taken(Trigger.RECOVER, HANDED_OFF, world)
        assert (found is not None) == (Guard.LEASE_OVER in world)


@pytest.mark.parametrize("trigger", Trigger)
def test_M15_a_job_asked_to_stop_never_goes_back_to_the_queue(trigger: Trigger) -> None:
    for world in WORLDS:
        if Guard.CANCEL_REQUESTED in world:
            found = taken(trigger, HANDED_OFF, world)
            assert found is None or found.dest is not QUEUED


@pytest.mark.parametrize(
    "trigger", [each for each in Trigger if each is not Trigger.FAIL]
)
def test_M7b_a_job_handed_off_too_often_goes_back_only_by_its_own_retries(
    trigger: Trigger,
) -> None:
    for world in WORLDS:
        if Guard.HANDOFFS_SPENT in world:
            found = taken(trigger, HANDED_OFF, world)
            assert found is None or found.dest is not QUEUED


@each_row
def test_B2_without_retries_left_a_failure_does_not_go_back_to_the_queue(
    move: Transition,
) -> None:
    if move.consumes_attempt and move.dest is QUEUED:
        assert Guard.RETRIES_LEFT in move.guards


@each_row
def test_M17_only_failures_and_recoveries_consume_an_attempt(move: Transition) -> None:
    assert move.consumes_attempt == (
        move.trigger in {Trigger.FAIL, Trigger.RECOVER}
        and move.rule in {"M4", "M5", "M8", "M15", "M7b"}
    )
    counted = Value.INCREMENT if move.consumes_attempt else None
    assert move.writes.get("attempts") == counted


def test_M17_each_end_of_a_readable_job_by_recovery_consumes_an_attempt() -> None:
    counted = [
        each.consumes_attempt for each in alternatives(Trigger.RECOVER, HANDED_OFF)
    ]
    assert counted == [True, True, True, True]


@each_row
def test_M16_every_way_out_of_handed_off_clears_what_only_a_holder_has(
    move: Transition,
) -> None:
    assert set(HANDOFF_COLUMNS) == {
        "handoff_id",
        "worker_id",
        "lease_expires_at_ms",
        "lease_ms",
        "handed_off_at_ms",
    }
    cleared = {
        column for column in HANDOFF_COLUMNS if move.writes.get(column) is Value.NULL
    }
    leaves = move.source is HANDED_OFF and move.dest is not HANDED_OFF
    assert cleared == (set(HANDOFF_COLUMNS) if leaves else set())
    assert (move.writes.get("last_ack") is Value.GIVEN) == leaves


def test_M16_only_a_claim_sets_who_holds_a_job_and_the_history_of_it() -> None:
    holder = {"handoff_id", "worker_id", "handed_off_at_ms"}
    history = {"last_handoff_id", "last_worker_id", "last_handed_off_at_ms"}
    for each in TABLE:
        sets = {
            column for column, value in each.writes.items() if value is not Value.NULL
        }
        expected = holder | history | {"handoffs"} if each.name == "claim" else set()
        assert sets & (holder | history | {"handoffs"}) == expected


def test_M2_a_claim_writes_the_handoff_and_counts_the_delivery() -> None:
    assert dict(row(Trigger.CLAIM, "claim", QUEUED).writes) == {
        "handoff_id": "given",
        "worker_id": "given",
        "lease_ms": "given",
        "lease_expires_at_ms": "given",
        "handed_off_at_ms": "now",
        "handoffs": "increment",
        "last_handoff_id": "given",
        "last_worker_id": "given",
        "last_handed_off_at_ms": "now",
        "last_ack": "null",
    }


@each_row
def test_the_fence_is_the_one_of_the_rule(move: Transition) -> None:
    expected = FENCES.get(move.trigger, set())
    if move.rule == "M21":
        expected = {"handoff", "lease_over"}
    assert set(move.fence) == expected


@each_row
def test_F8_nothing_leaves_handed_off_without_the_fence_on_the_handoff(
    move: Transition,
) -> None:
    if move.source is HANDED_OFF and move.dest is not HANDED_OFF:
        assert Fence.HANDOFF in move.fence
    if move.source is not HANDED_OFF:
        assert Fence.HANDOFF not in move.fence


@each_row
def test_only_the_end_a_job_comes_to_is_stamped(move: Transition) -> None:
    stamped = {
        column: value
        for column, value in move.writes.items()
        if column in ENDED_AT.values()
    }
    expected = {ENDED_AT[move.dest]: Value.NOW} if move.dest in TERMINAL else {}
    assert stamped == expected


@each_row
def test_an_error_is_written_by_failures_and_never_by_a_calm_way_back(
    move: Transition,
) -> None:
    fails = move.consumes_attempt or move.dest is FAILED
    assert (move.writes.get("last_error") is Value.GIVEN) == fails
    assert ("last_error" in move.writes) == fails


@pytest.mark.parametrize(
    ("rule", "scheduled_at"),
    [
        ("M4", Value.GIVEN),
        ("M6", Value.GIVEN),
        ("M7", Value.NOW),
        ("M8", Value.GIVEN),
        ("M10", Value.NOW),
    ],
)
def test_a_way_to_the_queue_says_when_the_job_is_due(
    rule: str, scheduled_at: Value
) -> None:
    (found,) = [each for each in TABLE if each.rule == rule and each.dest is QUEUED]
    assert found.writes["scheduled_at_ms"] is scheduled_at


@each_row
def test_the_schedule_is_changed_only_by_what_puts_a_job_into_the_queue(
    move: Transition,
) -> None:
    if "scheduled_at_ms" in move.writes:
        assert move.rule in {"M4", "M6", "M7", "M8", "M10"}
        assert move.dest is QUEUED


def test_M12_M13_M14_write_just_what_their_rule_says() -> None:
    assert dict(row(Trigger.EXTEND_LEASE, "extend_lease", HANDED_OFF).writes) == {
        "lease_ms": "given",
        "lease_expires_at_ms": "given",
    }
    assert dict(row(Trigger.ADOPT_POLICY, "adopt_policy", QUEUED).writes) == {
        "concurrency_key": "given",
        "max_concurrency": "given",
        "priority": "given",
    }
    assert dict(row(Trigger.REQUEST_CANCEL, "request_cancel", HANDED_OFF).writes) == {
        "cancel_requested": "true"
    }


@each_row
def test_every_written_column_exists_and_identity_is_never_written(
    move: Transition,
) -> None:
    columns = {each.name for each in fields(Job)} | INTERNAL_COLUMNS
    untouchable = {"id", "name", "args", "kwargs", "queue", "status", "created_at_ms"}
    untouchable |= {"schedule_key", "schedule_order", "max_retries", "origin_id"}
    assert set(move.writes) <= columns - untouchable


def test_each_column_is_written_by_those_triggers_whose_rules_name_it() -> None:
    ends = {"complete", "fail", "reschedule", "return_to_queue", "recover", "reject"}
    seen: dict[str, set[str]] = {}
    for each in TABLE:
        for column in each.writes:
            seen.setdefault(column, set()).add(each.trigger)
    assert seen == {
        "handoff_id": ends | {"claim"},
        "worker_id": ends | {"claim"},
        "handed_off_at_ms": ends | {"claim"},
        "lease_ms": ends | {"claim", "extend_lease"},
        "lease_expires_at_ms": ends | {"claim", "extend_lease"},
        "handoffs": {"claim"},
        "last_handoff_id": {"claim"},
        "last_worker_id": {"claim"},
        "last_handed_off_at_ms": {"claim"},
        "last_ack": ends | {"claim"},
        "attempts": {"fail", "recover"},
        "last_error": ends - {"complete"},
        "scheduled_at_ms": (ends - {"complete", "reject"}) | {"wake"},
        "completed_at_ms": {"complete"},
        "failed_at_ms": ends - {"complete"},
        "cancelled_at_ms": (ends - {"complete", "reject"}) | {"cancel"},
        "cancel_requested": {"request_cancel"},
        "concurrency_key": {"adopt_policy"},
        "max_concurrency": {"adopt_policy"},
        "priority": {"adopt_policy"},
    }


@each_row
def test_C5_the_slot_follows_from_entering_and_leaving_handed_off(
    move: Transition,
) -> None:
    releasing = {"complete", "fail", "reschedule", "return_to_queue", "recover"}
    expected = Slot.NONE
    if move.trigger == "claim":
        expected = Slot.RESERVE
    elif move.trigger in releasing or move.rule == "M21":
        expected = Slot.RELEASE
    assert move.slot is expected


@each_row
def test_K2_only_a_terminal_transition_ends_the_ownership_of_a_schedule_key(
    move: Transition,
) -> None:
    ends = move.dest in {COMPLETED, FAILED, CANCELLED}
    assert move.ends_ownership == ends


@each_row
def test_a_row_cannot_be_changed(move: Transition) -> None:
    with pytest.raises(AttributeError):
        move.dest = QUEUED  # type: ignore[misc]
    with pytest.raises(TypeError, match="does not support item assignment"):
        move.writes["attempts"] = Value.NOW  # type: ignore[index]


def test_one_row_is_found_by_trigger_name_and_source() -> None:
    assert row(Trigger.REJECT, "reject", QUEUED).rule == "M11"
    assert row(Trigger.REJECT, "reject", HANDED_OFF).rule == "M21"
    assert row(Trigger.RECOVER, "exhaust", HANDED_OFF).dest is FAILED


def test_a_row_that_is_not_there_is_refused_by_all_three_of_its_names() -> None:
    with pytest.raises(LookupError, match="no fail from handed_off called 'exhuast'"):
        row(Trigger.FAIL, "exhuast", HANDED_OFF)
    with pytest.raises(LookupError, match="no fail from queued called 'retry'"):
        row(Trigger.FAIL, "retry", QUEUED)


@pytest.mark.parametrize("kind", [Trigger, Guard, Fence, Value, Slot, JobStatus])
def test_a_mistyped_name_is_not_taken_for_a_new_one(kind: type) -> None:
    with pytest.raises(ValueError, match="'cliam' is not a valid"):
        kind("cliam")
