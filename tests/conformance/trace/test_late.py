"""A journal that began when there were rows already, and tables without any journal."""

import pytest

from jobfence.conformance.trace import check, check_tables
from tests.conformance.trace.story import NEW_JOB, START_MS, Row, Story, held

KEYED = {"concurrency_key": "k", "max_concurrency": 3}


def before_the_journal() -> Story:
    """Give three jobs of a key that are handed off, one queued, one with a schedule."""
    story = Story()
    for job_id in ("a", "b", "c"):
        held(story, job_id, "k")
    story.enqueue("d", **KEYED)
    story.schedule("s", "nightly", 1)
    for index, entry in enumerate(story.entries):
        if entry.entity == "counter":
            story.edit(index, max_concurrency=3)
    story.rows["counter", "k"]["max_concurrency"] = 3
    return story


def begun_late() -> tuple[Story, int]:
    story = before_the_journal()
    story.at_ms += 1000
    story.begun(empty=False)
    return story, len(story.entries) - 1


def cut(story: Story, beginning: int) -> None:
    """Forget what was noted before the journal began; the rows stay as they are."""
    del story.entries[:beginning]


def test_what_was_there_is_taken_as_the_first_entries_and_the_tables_say() -> None:
    story, beginning = begun_late()
    revs = [*story.jobs(), *story.counters(), *story.schedule_keys()]
    with story.together():
        story.move("a", "complete", "complete", by="h-a")
        story.counter("k", "release", 2, cap=3)
    story.move("b", "extend_lease", "extend_lease", by="h-b")
    with story.together():
        story.claim("d", "h-d")
        story.counter("k", "reserve", 3, cap=3)
    with story.together():
        story.move("s", "cancel", "cancel")
        story.owner("nightly", "disown", None, 1)
    jobs, counters, keys = story.jobs(), story.counters(), story.schedule_keys()
    cut(story, beginning)

    verdict = check(story.entries, Frozen(jobs, counters, keys))

    assert verdict.ok, verdict.impossible
    assert verdict.earlier == len(revs) == 7


class Frozen:
    """Tables as they were."""

    def __init__(self, jobs: list[Row], counters: list[Row], keys: list[Row]) -> None:
        self._rows = jobs, counters, keys

    def jobs(self) -> list[Row]:
        return self._rows[0]

    def counters(self) -> list[Row]:
        return self._rows[1]

    def schedule_keys(self) -> list[Row]:
        return self._rows[2]


def frozen(story: Story) -> Frozen:
    return Frozen(story.jobs(), story.counters(), story.schedule_keys())


def test_C5_a_leak_is_seen_though_the_job_was_there_before() -> None:
    story, beginning = begun_late()
    with story.together():
        story.move("a", "complete", "complete", by="h-a")
        story.counter("k", "release", 3, cap=3)
    tables = frozen(story)
    cut(story, beginning)

    found = check(story.entries, tables).impossible

    assert found is not None
    assert (found.rule, found.index, found.expected[:8]) == ("C5", 2, "active 2")


def test_M19_a_handoff_id_from_before_the_journal_is_not_used_again() -> None:
    story, beginning = begun_late()
    story.enqueue("e")
    story.claim("e", "h-c")
    tables = frozen(story)
    cut(story, beginning)

    found = check(story.entries, tables).impossible

    assert found is not None
    assert (found.rule, found.entity_id, found.index) == ("M19", "e", 2)


def test_a_job_that_is_younger_than_the_journal_must_be_enqueued_in_it() -> None:
    story, beginning = begun_late()
    story.at_ms += 1
    story.enqueue("young")
    story.claim("young", "h")
    tables = frozen(story)
    cut(story, beginning)
    story.drop(1)

    found = check(story.entries, tables).impossible

    assert found is not None
    assert (found.rule, found.index, found.seen) == ("journal", 1, "none")
    assert "its enqueue: it was made at 2001" in found.expected


def test_a_job_that_is_younger_than_the_journal_and_not_in_it_is_found() -> None:
    story, beginning = begun_late()
    story.at_ms += 1
    story.enqueue("young")
    tables = frozen(story)
    cut(story, beginning)
    story.drop(1)

    found = check(story.entries, tables).impossible

    assert found is not None
    assert (found.rule, found.entity_id, found.index) == ("journal", "young", 1)


def test_a_complete_journal_lets_nothing_be_there_before() -> None:
    story = Story()
    story.begun(empty=True)
    held(story, "j")
    story.drop(1)

    found = story.verdict().impossible

    assert found is not None
    assert (found.rule, found.entity_id, found.rev) == ("journal", "j", 1)


def test_right_tables_have_no_problem() -> None:
    assert check_tables(before_the_journal()) == []


@pytest.mark.parametrize(
    ("entity", "entity_id", "columns", "rule"),
    [
        ("job", "a", {"handoff_id": None}, "M16"),
        ("job", "a", {"worker_id": None}, "M16"),
        ("job", "a", {"lease_ms": None}, "M16"),
        ("job", "a", {"last_handoff_id": "other"}, "M16"),
        ("job", "a", {"completed_at_ms": 1}, "M20"),
        ("job", "a", {"attempts": 2}, "M17"),
        ("job", "a", {"attempts": -1}, "M17"),
        ("job", "a", {"attempts": "many"}, "M21"),
        ("job", "d", {"status": "running"}, "M20"),
        ("job", "d", {"status": "completed"}, "M20"),
        ("job", "d", {"cancel_requested": True}, "M16"),
        ("job", "d", {"handoff_id": "h"}, "M16"),
        ("job", "d", {"lease_ms": 1, "lease_expires_at_ms": 1}, "M16"),
        ("job", "d", {"max_concurrency": None}, "C2"),
        ("job", "d", {"handoffs": 1}, "M2"),
        ("job", "d", {"schedule_key": "nightly", "schedule_order": 1}, "K3"),
        ("job", "d", {"schedule_key": "x", "schedule_order": 1}, "K3"),
        ("counter", "k", {"active_count": 2}, "C5"),
        ("counter", "k", {"concurrency_key": "l"}, "C5"),
        ("schedule_key", "nightly", {"last_order": 0}, "K3"),
        ("schedule_key", "nightly", {"last_order": 2}, "K2"),
        ("schedule_key", "nightly", {"job_id": "a"}, "K2"),
        ("schedule_key", "nightly", {"job_id": "gone"}, "K2"),
    ],
)
def test_tables_that_are_wrong_say_so_by_themselves(
    entity: str, entity_id: str, columns: Row, rule: str
) -> None:
    story = before_the_journal()
    story.rows[entity, entity_id] = {**story.rows[entity, entity_id], **columns}

    found = check_tables(story)

    assert {each.rule for each in found} == {rule}
    assert all(each.index is None for each in found)
    assert all(str(each).startswith(f"{each.entity} '") for each in found)


def test_K2_an_owner_that_has_ended_is_wrong() -> None:
    story = before_the_journal()
    ended = {"status": "cancelled", "cancelled_at_ms": START_MS}
    story.rows["job", "s"] = {**story.rows["job", "s"], **ended}

    (found,) = check_tables(story)

    assert (found.rule, found.seen) == ("K2", "'s', which is cancelled")


def test_a_row_that_the_journal_leads_to_and_is_not_there_is_found() -> None:
    story = Story()
    held(story, "j")
    del story.rows["job", "j"]

    found = story.verdict().impossible

    assert found is not None
    assert (found.entity_id, found.rule, found.seen) == ("j", "journal", "none")


def test_a_row_that_the_journal_does_not_know_is_found() -> None:
    story = Story()
    held(story, "j")
    story.rows["job", "stray"] = {**NEW_JOB, "id": "stray"}

    found = story.verdict().impossible

    assert found is not None
    assert (found.entity_id, found.index, found.seen) == ("stray", 2, "one")


def test_a_schedule_key_that_was_made_and_never_owned_is_no_problem() -> None:
    story = Story()
    story.rows["schedule_key", "k"] = {
        "schedule_key": "k",
        "job_id": None,
        "last_order": 0,
    }

    assert story.verdict().ok


def test_a_beginning_that_cannot_be_read_is_no_promise_of_empty_tables() -> None:
    story, beginning = begun_late()
    tables = frozen(story)
    cut(story, beginning)
    story.change(0, post="{")

    assert check(story.entries, tables).ok


def test_a_first_entry_that_cannot_be_read_is_refused() -> None:
    for fields in ({"post": "{"}, {"action": "nothing"}, {"entity": "queue"}):
        story, beginning = begun_late()
        story.move("a", "extend_lease", "extend_lease", by="h-a")
        tables = frozen(story)
        cut(story, beginning)
        story.change(1, **fields)

        found = check(story.entries, tables).impossible

        assert found is not None
        assert found.index == 1
        assert str(found).startswith("event 1, transaction t")


def test_without_tables_only_what_the_journal_shows_is_judged() -> None:
    story, beginning = begun_late()
    story.move("b", "extend_lease", "extend_lease", by="h-b")
    cut(story, beginning)

    assert check(story.entries).ok
