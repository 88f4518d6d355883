"""TLC judges a journal as Python does, and stops at the same event."""

import os
import re
import subprocess
import sys

from collections.abc import Callable
from pathlib import Path

import pytest

from jobfence.conformance.trace.tla import NotForTLC, trace_module
from tests.conformance.trace.story import Row, Story, held, long_story

REPOSITORY = Path(__file__).parents[3]
RUN = REPOSITORY / "spec" / "trace" / "run.py"
NOT_JUDGED = "the trace was not judged: "


def judged(story: Story, folder: Path) -> int | None:
    """Let TLC judge it; return the event that was not possible, if any."""
    path = folder / "TraceData.tla"
    path.write_text(trace_module(story.entries))
    done = subprocess.run(
        [sys.executable, str(RUN), str(path)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if NOT_JUDGED in done.stderr and os.environ.get("CI") != "true":
        pytest.skip(done.stderr.strip())
    assert done.stderr == ""
    if done.returncode == 0:
        assert done.stdout.startswith(f"accepted: {len(story.entries)} events")
        return None
    found = re.match(r"rejected: event (\d+) of ", done.stdout)
    assert found is not None, done.stdout
    return int(found[1])


def everything() -> Story:
    """Every row of the table that a story can take, and every write beside them."""
    story = long_story()
    story.schedule("w", "weekly", 1)
    story.edit(-2, scheduled_at_ms=10**13)
    story.rows["job", "w"]["scheduled_at_ms"] = 10**13
    story.move("w", "wake", "wake")
    for trigger, name in (
        ("return_to_queue", "return_to_queue"),
        ("reschedule", "reschedule"),
        ("fail", "retry"),
    ):
        story.claim("w", f"{name}-w")
        story.move("w", "extend_lease", "extend_lease", by=f"{name}-w")
        story.move("w", trigger, name, by=f"{name}-w")
        story.at_ms += 1
    story.claim("w", "lost")
    story.at_ms += 1000
    story.move("w", "recover", "retry", by="lost")
    story.claim("w", "kept")
    story.move("w", "recover", "retry", by="kept", whole=True)
    story.owner("weekly", "rebuild", "w", 1)
    story.claim("w", "last")
    with story.together():
        story.move("w", "request_cancel", "request_cancel")
        story.owner("weekly", "disown", None, 1)
    story.move("w", "reschedule", "abort", by="last")
    story.enqueue("p", max_retries=0)
    story.move("p", "adopt_policy", "adopt_policy", priority=3)
    story.claim("p", "h-p")
    story.move("p", "fail", "exhaust", by="h-p")
    story.enqueue("u")
    story.move("u", "reject", "reject")
    held(story, "g")
    story.move("g", "return_to_queue", "give_up", by="h-g")
    with story.together():
        story.delete("job", "g")
        story.delete("counter", "key")
    held(story, "again", "key")
    story.counter("key", "set_cap", 1, 5)
    return story


def test_a_possible_journal_is_accepted(tmp_path: Path) -> None:
    story = everything()
    assert story.verdict().ok, story.verdict().impossible

    assert judged(story, tmp_path) is None


def unfenced(story: Story) -> None:
    held(story, "late")
    story.move("late", "return_to_queue", "return_to_queue", by="h-late")
    story.claim("late", "new")
    story.move("late", "complete", "complete", by="h-late")


def used_again(story: Story) -> None:
    held(story, "j9")
    story.move("j9", "return_to_queue", "return_to_queue", by="h-j9")
    story.claim("j9", "h-j9")


def counted(story: Story) -> None:
    held(story, "j9")
    story.move("j9", "reschedule", "reschedule", by="h-j9")
    story.edit(-1, attempts=1)


def not_noted(story: Story) -> None:
    held(story, "j9")
    story.move("j9", "complete", "complete", by="h-j9")
    story.drop(-2)


def leaked(story: Story) -> None:
    held(story, "j9", "k")
    story.move("j9", "complete", "complete", by="h-j9")


def over_the_cap(story: Story) -> None:
    for job_id in ("j7", "j8", "j9"):
        held(story, job_id, "k")


def taken_back(story: Story) -> None:
    story.schedule("j8", "yearly", 1)
    story.claim("j8", "h-j8")
    story.schedule("j9", "yearly", 2)
    story.owner("yearly", "own", "j8", 3)


def not_given_up(story: Story) -> None:
    story.schedule("j9", "yearly", 1)
    story.move("j9", "cancel", "cancel")


def over_before_it_began(story: Story) -> None:
    held(story, "j9")
    story.move("j9", "extend_lease", "extend_lease", by="h-j9")
    story.edit(-1, lease_expires_at_ms=story.at_ms - 1)


def due_before_now(story: Story) -> None:
    held(story, "j9")
    story.move("j9", "fail", "retry", by="h-j9")
    story.edit(-1, scheduled_at_ms=story.at_ms - 1)


def another_schedule_key(story: Story) -> None:
    story.schedule("j9", "yearly", 1)
    story.claim("j9", "h-j9")
    story.edit(-1, schedule_key=None, schedule_order=None)


def another_order(story: Story) -> None:
    story.schedule("j9", "yearly", 1)
    story.claim("j9", "h-j9")
    story.edit(-1, schedule_order=2)


def more_retries(story: Story) -> None:
    held(story, "j9")
    story.move("j9", "fail", "retry", by="h-j9")
    story.edit(-1, max_retries=99)


def another_priority(story: Story) -> None:
    held(story, "j9")
    story.edit(-1, priority=9)


def another_key(story: Story) -> None:
    held(story, "j9", "k")
    story.move("j9", "extend_lease", "extend_lease", by="h-j9")
    story.edit(-1, concurrency_key=None, max_concurrency=None)


def not_owned(story: Story) -> None:
    story.enqueue("j9", schedule_key="yearly", schedule_order=1)


FAULTS = [
    unfenced,
    used_again,
    counted,
    not_noted,
    leaked,
    over_the_cap,
    taken_back,
    not_given_up,
    over_before_it_began,
    due_before_now,
    another_schedule_key,
    another_order,
    more_retries,
    another_priority,
    another_key,
    not_owned,
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_an_impossible_event_is_where_python_finds_it(
    fault: Callable[[Story], None], tmp_path: Path
) -> None:
    story = everything()
    fault(story)
    held(story, "afterwards")
    found = story.verdict().impossible
    assert found is not None

    assert judged(story, tmp_path) == found.index


def test_a_journal_that_is_no_trace_is_refused() -> None:
    late, unreadable, circular = Story(), Story(), Story()
    late.begun(empty=False)
    held(unreadable, "j")
    unreadable.edit(0, attempts="none")
    circular.enqueue("a")
    circular.enqueue("b")
    for job_id in ("a", "b", "a", "b"):
        circular.move(job_id, "extend_lease", "extend_lease")
    for index, tx in ((2, "x"), (5, "x"), (3, "y"), (4, "y")):
        circular.change(index, tx=tx)
    for story, reason in (
        (late, "when there were rows already"),
        (unreadable, "attempts is 'none'"),
        (circular, "cannot be ordered"),
    ):
        with pytest.raises(NotForTLC, match=reason):
            trace_module(story.entries)


def test_words_that_somebody_has_edited_cannot_leave_their_quotes() -> None:
    story = Story()
    row: Row = {"concurrency_key": "k", "max_concurrency": 1, "active_count": 0}
    story.note("counter", "k", 'create"}>> /\\ TRUE', row)

    assert 'Words == <<{"create????????TRUE"}>>' in trace_module(story.entries)
