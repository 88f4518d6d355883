"""Ids in order of creation (E7), whatever the clock, the threads and forks do."""

import os
import subprocess
import sys
import threading
import time
import uuid

from itertools import pairwise

import pytest

from hypothesis import given, strategies as st

from jobfence.statemachine.checks import LAST_MS
from jobfence.statemachine.clock import ManualClock
from jobfence.statemachine.ids import TimeOrderedIds, random_id


def milliseconds(made: str) -> int:
    return uuid.UUID(made).int >> 80


@given(st.lists(st.integers(min_value=-(10**6), max_value=10**6), min_size=1))
def test_E7_each_id_is_greater_than_the_one_before_whatever_the_clock_does(
    steps: list[int],
) -> None:
    clock = ManualClock(0)
    ids = TimeOrderedIds(clock)
    made = [ids()]
    for step in steps:
        clock.advance(step)
        made.append(ids())
    assert made == sorted(set(made))


@pytest.mark.parametrize("now", [0, 1, 1_700_000_000_000, LAST_MS])
def test_E7_an_id_begins_with_the_time_it_was_made_at(now: int) -> None:
    assert milliseconds(TimeOrderedIds(ManualClock(now))()) == now


def test_E7_a_clock_before_1970_does_not_put_ids_behind_those_of_today() -> None:
    clock = ManualClock(-5)
    ids = TimeOrderedIds(clock)
    early = [ids(), ids()]
    clock.set(1_700_000_000_000)
    made = [*early, ids()]
    assert made == sorted(made)
    assert milliseconds(early[0]) == 0


def test_E7_an_id_keeps_the_last_time_while_the_clock_is_behind() -> None:
    clock = ManualClock(5000)
    ids = TimeOrderedIds(clock)
    ids()
    clock.set(1000)
    assert milliseconds(ids()) == 5000
    clock.set(5001)
    assert milliseconds(ids()) == 5001


@given(st.integers(min_value=0, max_value=LAST_MS))
def test_an_id_is_a_uuid_of_version_7_in_its_usual_spelling(now: int) -> None:
    ids = TimeOrderedIds(ManualClock(now))
    for _ in range(3):
        made = ids()
        assert made == str(uuid.UUID(made))
        assert len(made) == 36
        assert made[14] == "7"
        assert made[19] in "89ab"


def test_an_id_holds_all_of_its_random_bits_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("secrets.randbits", lambda bits: (1 << bits) - 1)
    ids = TimeOrderedIds(ManualClock(1))
    first, second = (uuid.UUID(ids()).int for _ in range(2))
    head = 1 << 80 | 0x7 << 76
    assert first == head | 0x7FF << 64 | 0b10 << 62 | (1 << 62) - 1
    assert second == head | 0x800 << 64 | 0b10 << 62 | (1 << 32) - 1


def test_ids_of_one_millisecond_do_not_follow_from_each_other() -> None:
    ids = TimeOrderedIds(ManualClock(1))
    numbers = [uuid.UUID(ids()).int for _ in range(1000)]
    steps = {after - before for before, after in pairwise(numbers)}
    assert len(steps) > 990
    assert min(steps) > 0


def test_two_makers_at_the_same_time_make_different_ids() -> None:
    clock = ManualClock(1)
    assert len({TimeOrderedIds(clock)() for _ in range(1000)}) == 1000


def test_E7_eight_threads_get_ids_that_are_unique_and_grow_in_each_thread() -> None:
    ids = TimeOrderedIds(ManualClock(1))
    together = threading.Barrier(8)
    made: list[list[str]] = [[] for _ in range(8)]

    def work(mine: list[str]) -> None:
        together.wait()
        mine.extend(ids() for _ in range(2000))

    threads = [threading.Thread(target=work, args=(mine,)) for mine in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({each for mine in made for each in mine}) == 16_000
    assert all(mine == sorted(mine) for mine in made)


def test_without_a_clock_the_time_is_the_processs_own() -> None:
    before = time.time_ns() // 1_000_000
    made = milliseconds(TimeOrderedIds()())
    assert before <= made <= time.time_ns() // 1_000_000


FORKED = """
import os, sys, threading
from jobfence.statemachine.clock import ManualClock
from jobfence.statemachine.ids import TimeOrderedIds

class Clock(ManualClock):
    def now_ms(self):
        if threading.current_thread() is not threading.main_thread():
            inside.set()
            release.wait()
        return super().now_ms()

inside, release = threading.Event(), threading.Event()
ids = TimeOrderedIds(Clock(1))
first = ids()
holder = threading.Thread(target=ids)
holder.start()
inside.wait()  # the other thread now holds the lock of the ids
child = os.fork()
if child == 0:
    print("child", ids(), flush=True)
    sys.exit()
os.waitpid(child, 0)
release.set()
holder.join()
print("parent", first, flush=True)
print("parent", ids(), flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_F77_a_forked_child_makes_ids_of_its_own_and_does_not_hang() -> None:
    found = subprocess.run(
        [sys.executable, "-c", FORKED],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    lines = [line.split() for line in found.stdout.splitlines()]
    assert [who for who, _ in lines] == ["child", "parent", "parent"]
    child, first, last = (uuid.UUID(made).int for _, made in lines)
    assert first < last
    # Within one step (2**32) of the parent's, the two would sooner or later meet.
    assert abs(child - first) > 2**34


def test_a_random_id_is_fresh_and_says_nothing_about_time() -> None:
    made = {random_id() for _ in range(1000)}
    assert len(made) == 1000
    assert {uuid.UUID(each).version for each in made} == {4}
