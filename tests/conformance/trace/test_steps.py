"""Each step of a job is judged by its row of the table."""

import json

from typing import Any

import pytest

from jobfence.conformance.trace import Entry, Impossible
from jobfence.conformance.trace.jobs import Step, check_step
from jobfence.conformance.trace.verdict import Refused
from jobfence.statemachine.states import TERMINAL, JobStatus
from jobfence.statemachine.table import HANDOFF_COLUMNS, TABLE, Fence, Transition
from tests.conformance.trace.story import (
    NEW_JOB,
    START_MS,
    Row,
    Story,
    after,
    example_before,
    held,
    row_of,
)

NOW = START_MS + 500
MOVES = [row for row in TABLE if row.source is not None]


def name(row: Transition) -> str:
    return f"{row.trigger}-{row.name}-{row.source}"


def given(row: Transition) -> dict[str, Any]:
    if row.trigger == "claim":
        return {"handoff_id": "new"}
    if row.trigger == "adopt_policy":
        return {"priority": 5}
    return {}


def step_of(row: Transition, before: Row, result: Row, **entry: Any) -> Step:
    shown = before["handoff_id"] if Fence.HANDOFF in row.fence else None
    fields = {
        "action": f"{row.trigger}:{row.name}",
        "handoff_id": shown,
        "at_ms": NOW,
        **entry,
    }
    noted = Entry("job", "j", 1, "t", post=json.dumps(result), **fields)
    return Step(noted, before, result)


def judge(row: Transition, before: Row, result: Row, **entry: Any) -> Transition:
    return check_step(
        step_of(row, before, result, **entry), JobStatus(before["status"])
    )


@pytest.mark.parametrize("row", MOVES, ids=name)
def test_a_step_that_is_its_row_is_possible(row: Transition) -> None:
    before = example_before(row)

    assert judge(row, before, after(row, before, NOW, **given(row))) is row


@pytest.mark.parametrize("row", MOVES, ids=name)
def test_a_column_that_the_row_does_not_write_must_stay(row: Transition) -> None:
    before = example_before(row)
    for column in sorted({*NEW_JOB} - {*row.writes} - {"status"}):
        result = after(row, before, NOW, **given(row))
        result[column] = "something else"

        with pytest.raises(Refused) as refused:
            judge(row, before, result)

        assert refused.value.rule == row.rule
        assert column in refused.value.expected


@pytest.mark.parametrize("row", MOVES, ids=name)
def test_a_column_that_the_row_writes_must_have_its_value(row: Transition) -> None:
    before = example_before(row)
    free = {"lease_ms", "max_concurrency", "priority", "concurrency_key"}
    for column in sorted({*row.writes} - {"last_error"} - free):
        result = after(row, before, NOW, **given(row))
        result[column] = -1

        with pytest.raises(Refused) as refused:
            judge(row, before, result)

        assert refused.value.rule == row.rule


@pytest.mark.parametrize("trigger", ["claim", "extend_lease"])
@pytest.mark.parametrize("by_ms", [-1, 1, 10**9])
def test_L1_a_lease_ends_its_length_from_now(trigger: str, by_ms: int) -> None:
    row = row_of(trigger, trigger)
    before = example_before(row)
    result = after(row, before, NOW, **given(row))
    result["lease_expires_at_ms"] = NOW + result["lease_ms"] + by_ms

    with pytest.raises(Refused, match="ms from now") as refused:
        judge(row, before, result)

    assert refused.value.rule == row.rule


@pytest.mark.parametrize("row", MOVES, ids=name)
def test_a_step_begins_and_ends_where_its_row_does(row: Transition) -> None:
    before = example_before(row)
    result = after(row, before, NOW, **given(row))
    for status in JobStatus:
        if status is not row.dest:
            with pytest.raises(Refused):
                judge(row, before, {**result, "status": status.value})
        if status not in (row.source, *_sources_of(row)):
            with pytest.raises(Refused) as refused:
                judge(row, {**before, "status": status.value}, result)
            assert str(status) in refused.value.seen
            assert ("which nothing leaves" in refused.value.seen) == (
                status in TERMINAL
            )


def _sources_of(row: Transition) -> list[JobStatus | None]:
    return [
        each.source
        for each in TABLE
        if (each.trigger, each.name) == (row.trigger, row.name)
    ]


@pytest.mark.parametrize(
    "row", [row for row in MOVES if Fence.HANDOFF in row.fence], ids=name
)
def test_M18_a_step_by_another_handoff_is_refused(row: Transition) -> None:
    before = example_before(row)
    result = after(row, before, NOW)
    for other in ("another", None):
        with pytest.raises(Refused, match="held under, 'h'") as refused:
            judge(row, before, result, handoff_id=other)
        assert refused.value.rule == row.rule


@pytest.mark.parametrize(
    ("trigger", "transition", "columns", "rule", "expected"),
    [
        ("claim", "claim", {"scheduled_at_ms": NOW + 1}, "M2", "due"),
        ("wake", "wake", {"scheduled_at_ms": NOW}, "M10", "future"),
        ("fail", "retry", {"max_retries": 0}, "M4", "retries_left"),
        ("fail", "exhaust", {"max_retries": 1}, "M5", "no_retries_left"),
        ("fail", "abort", {"cancel_requested": False}, "M15", "cancel_requested"),
        ("fail", "retry", {"cancel_requested": True}, "M15", "abort, since"),
        ("reschedule", "reschedule", {"cancel_requested": True}, "M15", "abort"),
        ("return_to_queue", "give_up", {"cancel_requested": True}, "M15", "abort"),
        ("recover", "retry", {"lease_expires_at_ms": NOW + 1}, "M8", "lease_over"),
        (
            "recover",
            "retry",
            {"lease_expires_at_ms": None, "lease_ms": None},
            "M8",
            "lease_over",
        ),
        ("recover", "exhaust", {"max_retries": 1}, "M8", "no_retries_left"),
    ],
)
def test_a_guard_that_does_not_hold_is_refused(
    trigger: str, transition: str, columns: Row, rule: str, expected: str
) -> None:
    row = row_of(trigger, transition)
    before = {**example_before(row), **columns}

    with pytest.raises(Refused) as refused:
        judge(row, before, after(row, before, NOW, **given(row)))

    assert refused.value.rule == rule
    assert expected in refused.value.expected


def test_M13_a_policy_that_does_not_differ_is_not_adopted() -> None:
    row = row_of("adopt_policy", "adopt_policy")

    with pytest.raises(Refused, match="policy_differs") as refused:
        judge(row, NEW_JOB, NEW_JOB)

    assert refused.value.rule == "M13"


def test_L2_a_single_owner_recovers_a_handoff_whose_lease_runs() -> None:
    row = row_of("recover", "retry")
    before = {**example_before(row), "lease_expires_at_ms": NOW + 1}
    result = after(row, before, NOW)

    assert judge(row, before, result, action="recover:retry:whole") is row


def test_L5_a_job_gives_up_at_max_handoffs_and_not_before() -> None:
    row, other = row_of("reschedule", "give_up"), row_of("reschedule", "reschedule")
    before = example_before(row)
    gives_up = step_of(row, before, after(row, before, NOW))
    goes_back = step_of(other, before, after(other, before, NOW))

    def limited(step: Step, most: int) -> Transition:
        return check_step(
            Step(step.entry, step.before, step.after, most), JobStatus.HANDED_OFF
        )

    assert limited(gives_up, 1) is row
    assert limited(goes_back, 2) is other
    with pytest.raises(Refused, match="handoffs_spent"):
        limited(gives_up, 2)
    with pytest.raises(Refused, match="give_up, since handoffs_spent"):
        limited(goes_back, 1)


@pytest.mark.parametrize(
    ("columns", "rule"),
    [
        ({"attempts": 1}, "M1"),
        ({"handoffs": 1}, "M1"),
        ({"created_at_ms": START_MS - 1}, "M1"),
        ({"cancel_requested": True}, "M1"),
        ({"completed_at_ms": START_MS}, "M1"),
        ({"last_handoff_id": "h"}, "M1"),
        ({"status": "handed_off"}, "M1"),
        ({"max_concurrency": 1}, "C2"),
        ({"scheduled_at_ms": "soon"}, "M21"),
        *(({column: 1}, "M1") for column in HANDOFF_COLUMNS),
    ],
)
def test_M1_a_new_job_is_new(columns: Row, rule: str) -> None:
    story = Story()
    story.enqueue("j", **columns)

    found = refused(story)

    assert (found.index, found.rule, found.action) == (0, rule, "enqueue:enqueue")


def test_M19_a_handoff_id_is_never_used_again() -> None:
    story = Story()
    held(story, "j")
    story.move("j", "return_to_queue", "return_to_queue", by="h-j")
    story.claim("j", "h-j")

    found = refused(story)

    assert (found.index, found.rule) == (3, "M19")


def test_M20_what_is_no_transition_is_refused() -> None:
    story = Story()
    held(story, "j")
    story.change(1, action="claim:take")

    found = refused(story)

    assert (found.index, found.rule) == (1, "M20")
    assert "'claim:take', which it has not" in found.seen


def refused(story: Story, **options: Any) -> Impossible:
    found = story.verdict(**options).impossible
    assert found is not None
    return found


def test_an_entry_whose_values_cannot_be_read_is_refused_there() -> None:
    for post, expected in (
        ("{", "values that can be read"),
        (None, "values that can be read"),
        ("[]", "values that can be read"),
        ('{"status": "queued"}', "among the values"),
    ):
        story = Story()
        held(story, "j")
        story.change(1, post=post)

        found = refused(story)

        assert (found.index, found.rule) == (1, "journal")
        assert expected in found.expected


def test_M17_more_attempts_than_handoffs_are_refused() -> None:
    story = Story()
    held(story, "j")
    story.edit(0, attempts=0, max_retries=0)
    story.edit(1, attempts=1)

    found = refused(story)

    assert (found.index, found.rule) == (1, "M2")  # max_retries has changed
