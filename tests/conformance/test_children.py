"""Processes of the suite: what they are told to do, and what becomes of them."""

import gc
import os
import threading

from collections.abc import Callable
from pathlib import Path

import pytest

from jobfence.conformance import children
from jobfence.conformance.children import Point, Work
from jobfence.conformance.faults.base import FaultySuite
from jobfence.conformance.faults.processes import OnFile
from jobfence.statemachine.clock import ManualClock
from jobfence.store.contract import JobStore

suite = FaultySuite(OnFile)


def opened() -> JobStore:
    store: JobStore = suite.open_store("n", clock=ManualClock(1000))
    return store


@pytest.fixture(autouse=True)
def _empty() -> None:
    opened().clear()


def work(call: Callable[[JobStore], object]) -> Work:
    return Work(opened, call)


def enqueue(store: JobStore) -> object:
    return store.enqueue("x")


def points() -> list[Point]:
    found = children.learn(work(enqueue))
    opened().clear()
    return found


def number() -> int:
    return sum(opened().counts().values())


def has_children() -> bool:
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return False
    return True


def test_the_lines_of_a_call_are_those_of_the_store_s_own_files() -> None:
    found = points()
    assert len(found) > 5
    assert {Path(file).parent.name for file, _, _ in found} == {"faults"}
    assert len(set(found)) == len(found)


def test_what_is_garbage_of_the_parent_is_not_ended_by_a_child() -> None:
    class Noting:
        """Says of which process it was when it was collected."""

        def __del__(self) -> None:
            ended_in.append(os.getpid())

    def collected(_: JobStore) -> object:
        before = [*ended_in]
        [[] for _ in range(100_000)]  # enough for a collection, if there is one
        assert ended_in == before, "a child ended what was its parent's"
        return None

    ended_in: list[int] = []
    gc.disable()
    try:
        noting = Noting()
        noting.itself = noting  # type: ignore[attr-defined]
        del noting
        gc.enable()
        children.learn(work(collected))
        assert gc.isenabled()
    finally:
        gc.enable()
    gc.collect()
    assert ended_in == [os.getpid()]


def test_a_process_is_killed_before_its_line_is_run() -> None:
    found = points()
    left = []
    for at in found:
        children.die(work(enqueue), at)
        left.append(number())
    assert sorted(left) == left, "once it was there it stays"
    assert (left[0], left[-1]) == (0, 1)
    assert not has_children()


def test_a_process_that_does_not_come_to_the_line_ends_by_itself() -> None:
    children.die(work(enqueue), ("nowhere.py", 1, 1))
    children.overtake(work(enqueue), ("nowhere.py", 1, 1), work(enqueue), 0.0)
    assert number() == 3
    assert not has_children()


def test_an_error_of_a_call_is_told_with_its_kind() -> None:
    def refused(store: JobStore) -> object:
        return store.enqueue("")

    with pytest.raises(AssertionError, match="raised InvalidOption: name must"):
        children.learn(work(refused))
    with pytest.raises(AssertionError, match="raised InvalidOption: name must"):
        children.overtake(work(enqueue), points()[0], work(refused), 0.0)
    assert not has_children()


def test_a_process_that_ends_in_a_call_is_told() -> None:
    with pytest.raises(AssertionError, match="the process ended in it"):
        children.learn(work(lambda _: os._exit(0)))
    assert not has_children()


def test_a_process_that_does_not_answer_is_told_and_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(children, "PATIENCE_S", 0.2)
    stuck = work(lambda _: threading.Event().wait())
    for tried in (
        lambda: children.learn(stuck),
        lambda: children.die(stuck, points()[0]),
        lambda: children.overtake(stuck, points()[0], work(enqueue), 0.0),
        lambda: children.overtake(work(enqueue), points()[0], stuck, 0.0),
    ):
        with pytest.raises(AssertionError, match="no answer after 0 s"):
            tried()
        assert not has_children()
