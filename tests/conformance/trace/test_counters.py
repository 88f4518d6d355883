"""Counters are the handed-off jobs of their key at every commit (C3, C4, C5, C9, R1)."""

from collections.abc import Callable

import pytest

from tests.conformance.trace.story import Row, Story, held

KEYED = {"concurrency_key": "k", "max_concurrency": 2}


def one_held() -> Story:
    """One job of key k is handed off, by the fourth entry."""
    story = Story()
    held(story, "j", "k")
    return story


def finish(story: Story, action: str | None, active: int, cap: int = 2) -> None:
    """Complete the job, and write its counter so."""
    with story.together():
        story.move("j", "complete", "complete", by="h-j")
        if action is not None:
            story.counter("k", action, active, cap)


def test_a_slot_is_taken_and_given_back() -> None:
    story = one_held()
    finish(story, "release", 0)

    verdict = story.verdict()

    assert verdict.ok, verdict.impossible
    assert verdict.counts == {
        "entries": 6,
        "transactions": 3,
        "transitions": 3,
        "jobs": 1,
        "counters": 1,
        "schedule_keys": 0,
    }


def leak(story: Story) -> None:
    finish(story, None, 1)


def released_by_two(story: Story) -> None:
    held(story, "other", "k")
    finish(story, "release", 0)


def double_release(story: Story) -> None:
    finish(story, "release", 0)
    story.counter("k", "release", 0)


def unreserved(story: Story) -> None:
    with story.together():
        story.enqueue("j2", **KEYED)
    story.claim("j2", "h2")


def reserved_for_nobody(story: Story) -> None:
    story.counter("k", "reserve", 2)


def over_the_cap(story: Story) -> None:
    for job_id in ("j2", "j3"):
        held(story, job_id, "k")


def counted_wrongly(story: Story) -> None:
    held(story, "j2", "k")
    story.counter("k", "count", 1)


def cap_changed_in_passing(story: Story) -> None:
    finish(story, "release", 0, cap=3)


def repaired_though_right(story: Story) -> None:
    story.counter("k", "repair", 1)


def made_twice(story: Story) -> None:
    story.counter("k", "create+count", 1)


def deleted_in_use(story: Story) -> None:
    story.delete("counter", "k")


def strange(story: Story) -> None:
    story.counter("k", "increase", 1)


def made_by_nobody(story: Story) -> None:
    story.counter("l", "set_cap", 0)
    story.change(-1, rev=0)


@pytest.mark.parametrize(
    ("fault", "rule", "action", "expected"),
    [
        (leak, "C5", "complete:complete", "active 0"),
        (released_by_two, "C4", "release", "active 1, from 2"),
        (double_release, "C4", "release", "only with a job of this key leaving"),
        (unreserved, "C5", "claim:claim", "active 2"),
        (reserved_for_nobody, "C4", "reserve", "only with a job of this key handed"),
        (over_the_cap, "C4", "reserve", "at most 2 active after a claim"),
        (counted_wrongly, "C5", "count", "active 2"),
        (cap_changed_in_passing, "C3", "release", "cap still 2"),
        (repaired_though_right, "C9", "repair", "only of a counter that is wrong"),
        (made_twice, "C3", "create+count", "where there is no counter"),
        (deleted_in_use, "R1", "delete", "a counter at 0"),
        (strange, "C4", "increase", "a write that counters have"),
        (made_by_nobody, "C3", "set_cap", "where there is no counter"),
    ],
)
def test_a_counter_that_is_written_wrongly_is_refused_there(
    fault: Callable[[Story], None], rule: str, action: str, expected: str
) -> None:
    story = one_held()
    fault(story)

    found = story.verdict().impossible

    assert found is not None
    assert (found.rule, found.action) == (rule, action)
    assert expected in found.expected
    assert found.index is not None
    assert found.tx == story.entries[found.index].tx == story.entries[-1].tx


def test_C4_a_slot_given_back_must_be_noted_as_such() -> None:
    story = one_held()
    finish(story, "set_cap", 0)

    found = story.verdict().impossible

    assert found is not None
    assert (found.rule, found.seen) == ("C4", "set_cap")
    assert found.expected == "release, for 1 of this key leaving"


def test_C5_a_cap_below_what_runs_drains() -> None:
    story = one_held()
    held(story, "j2", "k")
    story.counter("k", "set_cap", 2, cap=1)
    finish(story, "release", 1, cap=1)
    with story.together():
        story.move("j2", "fail", "retry", by="h-j2")
        story.claim("j2", "again")
        story.counter("k", "release+reserve", 1, cap=1)

    assert story.verdict().ok


def test_R1_a_counter_lives_again_with_later_revisions() -> None:
    story = one_held()
    finish(story, "release", 0)
    with story.together():
        story.delete("job", "j")
        story.delete("counter", "k")
    with story.together():
        story.enqueue("j2", **KEYED)
        story.counter("k", "create", 0)

    assert story.verdict().ok
    assert story.counters()[0]["rev"] == 4


def test_R1_a_job_that_has_not_ended_is_not_deleted() -> None:
    story = Story()
    held(story, "j")
    story.delete("job", "j")

    found = story.verdict().impossible

    assert found is not None
    assert (found.index, found.rule, found.seen) == (2, "R1", "handed_off")


def test_C9_a_counter_that_is_missing_is_made_from_the_jobs() -> None:
    story = one_held()
    story.drop(1)  # the counter's own entries: its row was deleted by hand
    story.drop(2)
    del story.rows["counter", "k"]

    found = story.verdict().impossible

    assert found is not None
    assert (found.index, found.rule, found.seen) == (1, "C5", "none")
    assert found.expected == "a counter of 1"


def test_C8_a_key_that_is_adopted_is_the_one_that_is_taken() -> None:
    story = Story()
    story.enqueue("j")
    key: Row = {"concurrency_key": "queue:q", "max_concurrency": 1}
    with story.together():
        story.counter("queue:q", "create", 0, cap=1)
    with story.together():
        story.move("j", "adopt_policy", "adopt_policy", **key)
        story.claim("j", "h")
        story.counter("queue:q", "reserve", 1, cap=1)
    with story.together():
        story.move("j", "reschedule", "reschedule", by="h")
        story.move(
            "j",
            "adopt_policy",
            "adopt_policy",
            concurrency_key=None,
            max_concurrency=None,
        )
        story.counter("queue:q", "release", 0, cap=1)

    assert story.verdict().ok
