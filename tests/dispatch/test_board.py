"""What counts as idle, and what is no news."""

import threading

import pytest

from jobfence.dispatch.board import Board
from jobfence.dispatch.context import JobContext
from jobfence.dispatch.dispatcher import Dispatcher
from jobfence.dispatch.runs import Run
from jobfence.statemachine.clock import ManualClock
from jobfence.store.memory import MemoryJobStore
from tests.dispatch.support import PATIENCE_S, Held, World, idle, reached


@pytest.fixture
def board() -> Board:
    return Board(1)


def run_on(board: Board) -> Run:
    store = MemoryJobStore(clock=ManualClock())
    store.enqueue("n")
    (handoff,) = store.claim()
    context = JobContext(handoff, clock=ManualClock())
    return Run(handoff, context, done=board.finished)


def test_nothing_is_idle_before_the_first_look(board: Board) -> None:
    states = [board.idle()]
    board.set_quiet()
    states.append(board.idle())
    assert states == [False, True]


def test_a_wake_up_ends_being_idle_until_a_look_that_came_after_it(
    board: Board,
) -> None:
    board.set_quiet()
    board.wake()
    states = [board.idle()]
    assert board.take_woken()
    states.append(board.idle())  # the look is under way
    board.set_quiet()
    states.append(board.idle())
    assert states == [False, False, True]


def test_a_look_nobody_asked_for_does_not_end_being_idle(board: Board) -> None:
    board.set_quiet()
    assert not board.take_woken()
    assert board.idle()


def test_a_run_ends_being_idle_until_a_look_after_its_end(board: Board) -> None:
    board.set_quiet()
    run = run_on(board)
    board.add(run)
    states = [board.idle()]
    board.set_quiet()  # a look found nothing beside it
    states.append(board.idle())
    assert run.begin()
    run.finish(None)
    assert board.take_finished() == [run]
    board.release(run)
    states.append(board.idle())  # what it freed was not looked for yet
    board.set_quiet()
    states.append(board.idle())
    assert states == [False, False, False, True]


def test_a_closed_board_is_idle(board: Board) -> None:
    board.add(run_on(board))
    board.close()
    assert board.wait_idle(0)
    assert board.wait_closed() == ()


def test_waiting_to_be_idle_has_an_end(board: Board) -> None:
    board.set_quiet()
    assert not board.wait_idle(0)  # it asks for a look, and nobody makes one
    assert not board.wait_idle(-1)


def test_a_wait_of_any_length_is_possible(board: Board) -> None:
    board.close()
    assert board.wait_idle(1e300)
    assert board.wait_idle(None)


def test_wake_ups_while_every_slot_is_taken_do_not_spin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    held = Held(world)
    steps: list[int] = []
    step = Dispatcher.step

    def counted(self: Dispatcher) -> float:
        steps.append(1)
        return step(self)

    monkeypatch.setattr(Dispatcher, "step", counted)
    world.app.enqueue("held")
    with world.running(concurrency=1, heartbeat_ms=1) as worker:
        reached(held.started)
        beaten = threading.Semaphore(0)
        world.staged.after["extend_leases"] = lambda *_a, **_k: beaten.release()
        worker.wake()
        for _ in range(10):  # time enough for thousands of rounds
            assert beaten.acquire(timeout=PATIENCE_S)
        assert len(steps) < 10
        held.release.set()
        idle(worker)
