"""One owner of a schedule key at most, active, by an order never used before (K2, K3)."""

from collections.abc import Callable

import pytest

from tests.conformance.trace.story import Story

KEY = "nightly"


def owned() -> Story:
    """Job s1 owns the key, by the second entry."""
    story = Story()
    story.schedule("s1", KEY, 1)
    return story


def replaced_while_held() -> Story:
    """Job s1 runs on, detached; s2 owns the key."""
    story = owned()
    story.claim("s1", "h")
    story.schedule("s2", KEY, 2)
    return story


def test_an_owner_is_replaced_cancelled_woken_and_ends() -> None:
    story = replaced_while_held()
    story.move("s1", "complete", "complete", by="h")
    with story.together():  # s2 is queued: cancelled for s3
        story.move("s2", "cancel", "cancel")
        story.enqueue("s3", schedule_key=KEY, schedule_order=3)
        story.owner(KEY, "disown+own", "s3", 3)
    story.claim("s3", "h3")
    with story.together():  # cancelled by its key while it runs
        story.move("s3", "request_cancel", "request_cancel")
        story.owner(KEY, "disown", None, 3)
    story.move("s3", "fail", "abort", by="h3")
    story.schedule("s4", KEY, 4)
    with story.together():
        story.move("s4", "cancel", "cancel")
        story.owner(KEY, "disown", None, 4)

    verdict = story.verdict()

    assert verdict.ok, verdict.impossible


def not_given_up(story: Story) -> None:
    story.move("s2", "cancel", "cancel")


def given_up_while_it_runs(story: Story) -> None:
    story.owner(KEY, "disown", None, 2)


def taken_back_by_a_detached_job(story: Story) -> None:
    story.owner(KEY, "own", "s1", 3)


def owner_stays_queued(story: Story) -> None:
    story.schedule("s3", KEY, 3)


def order_used_again(story: Story) -> None:
    with story.together():
        story.move("s2", "cancel", "cancel")
        story.enqueue("s3", schedule_key=KEY, schedule_order=2)
        story.owner(KEY, "disown+own", "s3", 2)


def another_order_in_the_job(story: Story) -> None:
    with story.together():
        story.move("s2", "cancel", "cancel")
        story.enqueue("s3", schedule_key=KEY, schedule_order=4)
        story.owner(KEY, "disown+own", "s3", 3)


def owned_by_a_job_of_another_key(story: Story) -> None:
    with story.together():
        story.move("s2", "cancel", "cancel")
        story.enqueue("s3", schedule_key="other", schedule_order=3)
        story.owner(KEY, "disown+own", "s3", 3)


def scheduled_and_not_owning(story: Story) -> None:
    story.enqueue("s3", schedule_key=KEY, schedule_order=3)


def disowned_and_owned(story: Story) -> None:
    with story.together():
        story.move("s2", "cancel", "cancel")
        story.owner(KEY, "disown", "s1", 2)


def order_set_back(story: Story) -> None:
    with story.together():
        story.move("s2", "cancel", "cancel")
        story.owner(KEY, "disown", None, 1)


def disowned_twice(story: Story) -> None:
    with story.together():
        story.move("s2", "cancel", "cancel")
        story.owner(KEY, "disown", None, 2)
    story.owner(KEY, "disown", None, 2)


def strange(story: Story) -> None:
    story.owner(KEY, "steal", "s1", 2)


def rebuilt_for_one_that_ended(story: Story) -> None:
    with story.together():
        story.move("s2", "cancel", "cancel")
        story.owner(KEY, "disown", None, 2)
    story.owner(KEY, "rebuild", "s2", 2)


def rebuilt_with_an_old_order(story: Story) -> None:
    story.owner(KEY, "rebuild", "s2", 1)


@pytest.mark.parametrize(
    ("fault", "rule", "action", "expected"),
    [
        (not_given_up, "K2", "cancel:cancel", "without this job, which ended"),
        (given_up_while_it_runs, "K2", "disown", "to end or to be cancelled"),
        (taken_back_by_a_detached_job, "K2", "own", "a job that is enqueued for this"),
        (owner_stays_queued, "K2", "own", "'s2' to be cancelled"),
        (order_used_again, "K3", "disown+own", "order 3, one more"),
        (another_order_in_the_job, "K3", "disown+own", "order 3 in its job"),
        (owned_by_a_job_of_another_key, "K2", "disown+own", "enqueued for this key"),
        (scheduled_and_not_owning, "K2", "enqueue:enqueue", "this job as owner"),
        (disowned_and_owned, "K2", "disown", "no owner any more"),
        (order_set_back, "K3", "disown", "order still 2"),
        (disowned_twice, "K2", "disown", "an owner whose ownership ends"),
        (strange, "K2", "steal", "a write that schedule keys have"),
        (rebuilt_for_one_that_ended, "K3", "rebuild", "an active job"),
        (rebuilt_with_an_old_order, "K3", "rebuild", "an order from 2 on"),
    ],
)
def test_an_owner_that_is_written_wrongly_is_refused_there(
    fault: Callable[[Story], None], rule: str, action: str, expected: str
) -> None:
    story = replaced_while_held()
    fault(story)

    found = story.verdict().impossible

    assert found is not None
    assert (found.rule, found.action) == (rule, action)
    assert expected in found.expected
    assert found.tx == story.entries[-1].tx


def test_K3_owners_that_were_lost_are_rebuilt_from_the_jobs() -> None:
    story = replaced_while_held()
    story.owner(KEY, "rebuild", "s2", 2)
    with story.together():
        story.move("s2", "cancel", "cancel")
        story.owner(KEY, "disown", None, 2)

    assert story.verdict().ok


def test_K2_an_owner_that_is_damaged_may_be_left() -> None:
    """A dangling owner's ownership ends when the key is cancelled."""
    story = owned()
    with story.together():
        story.move("s1", "cancel", "cancel")
        story.owner(KEY, "disown", None, 1)
    story.delete("job", "s1")

    assert story.verdict().ok
