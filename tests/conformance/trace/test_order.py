"""Revisions and transactions give an order; any that keeps to them is as good."""

import random

from itertools import pairwise

import pytest

from hypothesis import given, strategies as st

from jobfence.conformance.trace import BadEntry, Entry, Transaction, check, in_order
from tests.conformance.trace.story import Story, held, long_story


@given(st.randoms(use_true_random=False))
def test_every_order_that_keeps_to_the_revisions_is_accepted(
    chance: random.Random,
) -> None:
    story = long_story()
    entries = story.entries[:]
    chance.shuffle(entries)

    order = in_order(entries, prefer=lambda _: chance.random())

    flat = [entry for each in order.transactions for entry in each]
    assert sorted(map(repr, flat)) == sorted(map(repr, entries))
    for former, latter in pairwise(flat):
        if former.key == latter.key:
            assert former.rev < latter.rev
    # Clocks do not matter: entries in that order, all at the time of their place.
    assert check(flat, story).ok


@given(st.randoms(use_true_random=False))
def test_transactions_stay_whole(chance: random.Random) -> None:
    entries = long_story().entries
    chance.shuffle(entries)

    order = in_order(entries, prefer=lambda _: chance.random())

    assert all(len({entry.tx for entry in each}) == 1 for each in order.transactions)
    assert not order.gaps
    assert not order.stuck


def test_clocks_only_choose_among_what_may_come_next() -> None:
    story = Story()
    held(story, "late")
    story.at_ms -= 100  # another host's clock
    held(story, "early")

    assert [entry.entity_id for entry in flat(story)] == ["early"] * 2 + ["late"] * 2


def flat(story: Story) -> list[Entry]:
    transactions: list[Transaction] = list(in_order(story.entries).transactions)
    return [entry for each in transactions for entry in each]


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_write_that_was_not_noted_is_found_at_the_next_of_its_row(
    missing: int,
) -> None:
    story = Story()
    held(story, "j")
    story.move("j", "extend_lease", "extend_lease", by="h-j")
    story.move("j", "complete", "complete", by="h-j")
    held(story, "other")
    story.drop(missing)

    found = story.verdict().impossible

    assert found is not None
    assert (found.rule, found.entity_id, found.rev) == ("journal", "j", missing + 1)
    assert found.index == missing
    assert f"revision {missing} was not noted" in found.seen


def test_a_last_write_that_was_not_noted_is_found_in_the_tables() -> None:
    story = Story()
    held(story, "j")
    story.move("j", "complete", "complete", by="h-j")
    rows = story.jobs()
    story.drop(2)

    class Tables(Story):
        def jobs(self) -> list[dict[str, object]]:
            return rows

    found = check(story.entries, Tables(rows=story.rows)).impossible

    assert found is not None
    assert (found.index, found.rule, found.action) == (2, "journal", None)
    assert (found.expected, found.seen) == (
        "rev 1, as last noted",
        "2: a write that was not noted",
    )


def test_a_revision_that_is_there_twice_is_refused() -> None:
    story = Story()
    held(story, "j")
    story.claim("j", "another")
    story.change(2, rev=1)

    found = story.verdict().impossible

    assert found is not None
    assert (found.index, found.rule) == (2, "journal")
    assert "is there twice" in found.seen


def test_transactions_that_wait_for_one_another_are_refused() -> None:
    story = Story()
    for job_id in ("a", "b"):
        story.enqueue(job_id)
    for job_id in ("a", "b", "a", "b"):
        story.move(job_id, "adopt_policy", "adopt_policy", priority=len(story.entries))
    # The first writes a, then b; the second b, then a: neither can have been first.
    for index, tx in ((2, "one"), (5, "one"), (3, "two"), (4, "two")):
        story.change(index, tx=tx)

    found = story.verdict().impossible

    assert found is not None
    assert (found.index, found.rule) == (2, "journal")
    assert "wait for one another, over job 'a', job 'b'" in found.seen


def test_a_write_outside_its_transaction_is_refused() -> None:
    story = Story()
    held(story, "j", "key")
    story.change(3, tx="of its own")  # the counter's reserve, beside the claim

    found = story.verdict().impossible

    assert found is not None
    assert (found.rule, found.index) == ("C5", 2)
    assert story.entries[2].action == "claim:claim"


def test_an_entry_is_read_from_a_row_or_named_as_bad() -> None:
    row: dict[str, object] = {
        "entity": "job",
        "entity_id": "j",
        "rev": 0,
        "tx": "t",
        "writes": 1,
        "action": "enqueue:enqueue",
        "handoff_id": None,
        "at_ms": 1,
        "post": "{}",
    }

    assert Entry.from_row(row).key == ("job", "j")
    for column, value in (("rev", "1"), ("tx", None), ("post", 5), ("writes", None)):
        with pytest.raises(BadEntry, match=f"^{column} is "):
            Entry.from_row({**row, column: value})
