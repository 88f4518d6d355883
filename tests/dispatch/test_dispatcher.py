"""Rules D3 and D5 step by step, with a clock moved by hand and no thread."""

import threading

from collections.abc import Callable, Sequence
from typing import TypeVar

import pytest

from jobfence.dispatch.acks import FIRST_RETRY_S, LONGEST_RETRY_S, backoff_s
from jobfence.dispatch.board import LONGEST_WAIT_S, Board
from jobfence.dispatch.context import JobContext
from jobfence.dispatch.dispatcher import LAST_WAIT_S, Dispatcher
from jobfence.dispatch.events import EventHub, JobCompleted, JobLeftRunning, JobReturned
from jobfence.dispatch.left import LEFT_RUNS
from jobfence.dispatch.runs import Run
from jobfence.dispatch.settings import worker_settings
from jobfence.dispatch.timer import Timer
from jobfence.statemachine.errors import StoreUnavailable
from jobfence.statemachine.options import JobRequest
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import Handoff, Settlement
from tests.dispatch.support import NEVER_MS, PATIENCE_S, START_MS, World, once

T = TypeVar("T")


class Stepping:
    """A dispatcher whose jobs begin and end when the test says so."""

    def __init__(self, concurrency: int = 2, *, poll_ms: int = NEVER_MS) -> None:
        self.world = World()
        self.now_s = 1000.0
        self.board = Board(concurrency)
        self.begun: list[Run] = []
        self.launch_error: Exception | None = None
        self.dispatcher = Dispatcher(
            self.world.store,
            worker_settings(
                concurrency=concurrency, poll_ms=poll_ms, queues=["default"]
            ),
            self.board,
            EventHub("w", self.world.seen),
            timer=Timer(self.world.clock, poll_ms),
            make_run=self.make_run,
            launch=self.launch,
            monotonic=lambda: self.now_s,
        )

    def make_run(self, handoff: Handoff, done: object) -> Run:
        assert callable(done)
        return Run(handoff, JobContext(handoff, clock=self.world.clock), done=done)

    def launch(self, run: Run) -> None:
        if self.launch_error is not None:
            raise self.launch_error
        assert run.begin()
        self.begun.append(run)

    def enqueue(self, count: int = 1) -> list[str]:
        return self.world.store.enqueue_many([JobRequest("n") for _ in range(count)])

    def settle_calls(self) -> list[tuple[int, int]]:
        """Record each settle as (acknowledgements, claim)."""
        calls: list[tuple[int, int]] = []

        def note(acks: Sequence[Settlement], *, claim: int = 0, **_: object) -> None:
            calls.append((len(acks), claim))

        self.world.staged.before["settle"] = note
        return calls

    def down(self) -> None:
        def refuse(*_args: object, **_options: object) -> None:
            raise StoreUnavailable("staged: down")

        self.world.staged.before["settle"] = refuse

    def up(self) -> None:
        del self.world.staged.before["settle"]

    def quiet(self) -> None:
        """Step until a look found nothing."""
        for _ in range(10):
            if self.dispatcher.step() > 0:
                return
        raise AssertionError("it never comes to rest")


def test_a_claim_asks_for_no_more_than_free_slots() -> None:
    stepping = Stepping(concurrency=3)
    calls = stepping.settle_calls()
    stepping.enqueue(5)
    stepping.dispatcher.step()
    assert (calls, len(stepping.begun)) == ([(0, 3)], 3)
    stepping.board.wake()
    assert stepping.dispatcher.step() == LONGEST_WAIT_S  # no slot: no look
    assert calls == [(0, 3)]


def test_acknowledging_and_claiming_is_one_call() -> None:
    stepping = Stepping(concurrency=2)
    stepping.enqueue(5)
    stepping.dispatcher.step()
    calls = stepping.settle_calls()
    for run in stepping.begun[:2]:
        run.finish(None)
    stepping.dispatcher.step()
    assert calls == [(2, 2)]
    assert len(stepping.begun) == 4
    assert stepping.world.store.counts()[JobStatus.COMPLETED] == 2


def test_many_wakes_are_one_look() -> None:
    stepping = Stepping()
    stepping.quiet()
    calls = stepping.settle_calls()
    for _ in range(5):
        stepping.board.wake()
    assert stepping.dispatcher.step() > 0
    assert calls == [(0, 2)]
    stepping.dispatcher.step()
    assert calls == [(0, 2)]


def test_after_acknowledgements_it_looks_once_more_before_it_sleeps() -> None:
    stepping = Stepping()
    stepping.enqueue()
    stepping.quiet()
    calls = stepping.settle_calls()
    stepping.begun[0].finish(None)
    assert stepping.dispatcher.step() == 0
    assert stepping.dispatcher.step() > 0
    assert calls == [(1, 2), (0, 2)]


def test_D3_a_job_that_falls_due_between_the_two_questions_is_claimed() -> None:
    stepping = Stepping()
    stepping.world.store.enqueue("n", scheduled_at=START_MS + 1)
    # It falls due after "what is next?" and before the claim.
    stepping.world.staged.after["next_scheduled"] = lambda **_: (
        stepping.world.clock.advance(1)
    )
    stepping.dispatcher.step()
    assert len(stepping.begun) == 1


def test_D3_a_job_that_falls_due_after_the_claim_has_its_timer() -> None:
    stepping = Stepping()
    stepping.world.store.enqueue("n", scheduled_at=START_MS + 250)
    assert stepping.dispatcher.step() == pytest.approx(0.25)
    stepping.now_s += 0.25
    stepping.world.clock.advance(250)
    stepping.dispatcher.step()
    assert len(stepping.begun) == 1


def test_it_polls_without_being_woken() -> None:
    stepping = Stepping(poll_ms=1000)
    assert stepping.dispatcher.step() == pytest.approx(1)
    calls = stepping.settle_calls()
    stepping.now_s += 0.9
    assert stepping.dispatcher.step() == pytest.approx(0.1)
    assert calls == []
    stepping.now_s += 0.1
    stepping.dispatcher.step()
    assert calls == [(0, 2)]


def test_it_takes_only_from_its_queues() -> None:
    stepping = Stepping()
    stepping.world.store.enqueue("n", queue="other", scheduled_at=START_MS + 5)
    stepping.world.store.enqueue("n", queue="other")
    assert stepping.dispatcher.step() == NEVER_MS / 1000
    assert stepping.begun == []


def test_a_claim_that_fails_is_tried_again_after_a_back_off() -> None:
    stepping = Stepping()
    stepping.enqueue()
    stepping.down()
    assert stepping.dispatcher.step() == pytest.approx(FIRST_RETRY_S)
    healthy = [stepping.dispatcher.healthy]
    stepping.board.wake()  # does not make it ask a database that is down
    assert stepping.dispatcher.step() == pytest.approx(FIRST_RETRY_S)
    assert stepping.world.staged.calls["settle"] == 1
    stepping.now_s += FIRST_RETRY_S
    assert stepping.dispatcher.step() == pytest.approx(2 * FIRST_RETRY_S)
    stepping.up()
    stepping.now_s += 2 * FIRST_RETRY_S
    stepping.dispatcher.step()
    assert len(stepping.begun) == 1
    healthy.append(stepping.dispatcher.healthy)
    assert healthy == [False, True]
    assert stepping.world.seen.stages() == ["claim", "claim"]


def test_back_off_doubles_and_is_bounded() -> None:
    waits = [backoff_s(n) for n in (1, 2, 3, 7, 100, 10**6)]
    assert waits[:3] == [FIRST_RETRY_S, 2 * FIRST_RETRY_S, 4 * FIRST_RETRY_S]
    assert waits[3:] == [LONGEST_RETRY_S] * 3


def test_D5_one_bad_acknowledgement_does_not_hold_up_the_others() -> None:
    stepping = Stepping(concurrency=3)
    bad, *good = stepping.enqueue(3)
    stepping.dispatcher.step()

    def refuse(acks: Sequence[Settlement], **_options: object) -> None:
        if any(ack.job_id == bad for ack in acks):
            raise StoreUnavailable("staged")

    stepping.world.staged.before["settle"] = refuse
    for run in stepping.begun:
        run.finish(None)
    stepping.dispatcher.step()
    store = stepping.world
    assert [store.status(each) for each in good] == [JobStatus.COMPLETED] * 2
    assert store.status(bad) is JobStatus.HANDED_OFF
    assert [run.handoff.job.id for run in stepping.board.held] == [bad]
    more = stepping.enqueue(3)
    stepping.now_s += LONGEST_RETRY_S
    stepping.dispatcher.step()  # the bad one keeps its slot, the others are used
    assert len(stepping.begun) == 3 + 2
    stepping.up()
    stepping.now_s += LONGEST_RETRY_S
    stepping.dispatcher.step()
    assert store.status(bad) is JobStatus.COMPLETED
    assert store.job(bad).handoffs == 1
    assert len(store.seen.of(JobCompleted)) == 3
    assert store.status(more[2]) is JobStatus.HANDED_OFF


def test_a_slot_is_freed_though_its_end_cannot_be_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stepping = Stepping()
    stepping.enqueue(2)
    stepping.dispatcher.step()
    for run in stepping.begun:
        run.finish(None)
    monkeypatch.setattr(EventHub, "emit", once_then(MemoryError(), lambda *_: None))
    with pytest.raises(MemoryError):
        stepping.dispatcher.step()
    assert stepping.board.held == []
    assert stepping.world.store.counts()[JobStatus.COMPLETED] == 2


def test_a_run_is_left_though_that_cannot_be_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stepping = Stepping()
    (job_id,) = stepping.enqueue()
    stepping.dispatcher.step()
    stepping.dispatcher.drain(0, process_exits=False)
    monkeypatch.setattr(EventHub, "emit", once_then(MemoryError(), lambda *_: None))
    with pytest.raises(MemoryError):
        stepping.dispatcher.step()
    assert stepping.board.held == []
    assert stepping.world.status(job_id) is JobStatus.HANDED_OFF


def test_D5_when_the_database_is_down_not_every_acknowledgement_is_tried() -> None:
    stepping = Stepping(concurrency=10)
    stepping.enqueue(10)
    stepping.dispatcher.step()
    stepping.down()
    for run in stepping.begun:
        run.finish(None)
    stepping.dispatcher.step()
    assert stepping.world.staged.calls["settle"] == 1 + 1 + 2
    assert len(stepping.board.held) == 10
    stepping.up()
    stepping.now_s += LONGEST_RETRY_S
    stepping.dispatcher.step()
    assert stepping.world.store.counts()[JobStatus.COMPLETED] == 10


def test_a_failed_call_that_was_the_claim_s_fault_keeps_no_acknowledgement() -> None:
    stepping = Stepping()
    stepping.enqueue()
    stepping.quiet()

    def refuse(_acks: object, *, claim: int = 0, **_options: object) -> None:
        if claim:
            raise StoreUnavailable("staged")

    stepping.world.staged.before["settle"] = refuse
    stepping.begun[0].finish(None)
    assert stepping.dispatcher.step() == 0
    assert stepping.world.store.counts()[JobStatus.COMPLETED] == 1
    assert stepping.board.held == []


def test_A157_a_claim_in_doubt_is_looked_for_before_the_next_one() -> None:
    stepping = Stepping()
    (job_id,) = stepping.enqueue()
    stepping.world.staged.after["settle"] = once(StoreUnavailable("x", in_doubt=True))
    stepping.dispatcher.step()
    assert stepping.world.status(job_id) is JobStatus.HANDED_OFF
    assert stepping.begun == []
    stepping.now_s += FIRST_RETRY_S
    stepping.dispatcher.step()
    assert len(stepping.world.seen.of(JobReturned)) == 1
    assert [run.handoff.job.handoffs for run in stepping.begun] == [2]
    stepping.quiet()
    assert stepping.world.staged.calls["handoffs_for_worker"] == 1


def test_a_claim_in_doubt_that_took_nothing_costs_one_question() -> None:
    stepping = Stepping()
    stepping.world.staged.before["settle"] = once(StoreUnavailable("x", in_doubt=True))
    stepping.dispatcher.step()
    stepping.now_s += FIRST_RETRY_S
    stepping.quiet()
    assert stepping.world.seen.of(JobReturned) == []
    assert stepping.world.staged.calls["handoffs_for_worker"] == 1


def test_a_job_that_cannot_be_launched_goes_back() -> None:
    stepping = Stepping()
    (job_id,) = stepping.enqueue()
    stepping.launch_error = RuntimeError("can't start new thread")
    stepping.dispatcher.step()
    stepping.dispatcher.step()
    job = stepping.world.job(job_id)
    assert (job.status, job.attempts, job.handoffs) == (JobStatus.QUEUED, 0, 1)
    assert stepping.world.seen.stages() == ["launch"]
    stepping.launch_error = None
    stepping.now_s += FIRST_RETRY_S
    stepping.dispatcher.step()
    assert len(stepping.begun) == 1


def test_D6_a_task_that_ignores_its_cancellation_is_left_in_the_end() -> None:
    stepping = Stepping()
    (job_id,) = stepping.enqueue()
    stepping.dispatcher.step()
    (run,) = stepping.begun
    stopped: list[str] = []
    run.stopper = lambda: stopped.append("cancelled")
    stepping.dispatcher.drain(30, process_exits=False)
    assert stepping.dispatcher.step() == pytest.approx(30)
    stepping.now_s += 30
    assert stepping.dispatcher.step() == pytest.approx(LAST_WAIT_S)
    assert stopped == ["cancelled"]
    stepping.now_s += LAST_WAIT_S
    stepping.dispatcher.step()
    assert (stopped, stepping.board.held) == (["cancelled"], [])
    assert len(stepping.world.seen.of(JobLeftRunning)) == 1
    assert stepping.world.status(job_id) is JobStatus.HANDED_OFF
    assert run.handoff.handoff_id in LEFT_RUNS.ids
    run.finish(None)  # after all
    assert stepping.world.status(job_id) is JobStatus.COMPLETED
    assert run.handoff.handoff_id not in LEFT_RUNS.ids


def test_a_run_that_was_left_is_forgotten_though_its_end_cannot_be_stored() -> None:
    stepping = Stepping()
    (job_id,) = stepping.enqueue()
    stepping.dispatcher.step()
    stepping.dispatcher.drain(0, process_exits=False)
    stepping.dispatcher.step()
    (run,) = stepping.begun
    assert run.handoff.handoff_id in LEFT_RUNS.ids
    stepping.down()
    run.finish(None)
    assert stepping.world.seen.stages() == ["late_acknowledgement"]
    assert stepping.world.status(job_id) is JobStatus.HANDED_OFF
    assert run.handoff.handoff_id not in LEFT_RUNS.ids


def test_D6_a_run_that_ends_while_it_is_being_left_is_acknowledged() -> None:
    stepping = Stepping()
    (job_id,) = stepping.enqueue()
    stepping.dispatcher.step()
    (run,) = stepping.begun
    run.stopper = lambda: run.finish(None)
    stepping.dispatcher.drain(0, process_exits=False)
    stepping.now_s += LAST_WAIT_S
    stepping.dispatcher.step()
    stepping.dispatcher.step()
    assert stepping.world.status(job_id) is JobStatus.COMPLETED
    assert stepping.world.seen.of(JobLeftRunning) == []
    assert run.handoff.handoff_id not in LEFT_RUNS.ids


def test_D6_kept_acknowledgements_get_a_last_try_when_the_grace_ends() -> None:
    stepping = Stepping()
    (job_id,) = stepping.enqueue()
    stepping.dispatcher.step()
    stepping.down()
    stepping.begun[0].finish(None)
    stepping.dispatcher.step()
    for _ in range(6):
        stepping.now_s += LONGEST_RETRY_S
        stepping.dispatcher.step()
    stepping.dispatcher.drain(0.001, process_exits=False)
    stepping.now_s += 0.001
    stepping.up()
    stepping.dispatcher.step()
    assert stepping.world.status(job_id) is JobStatus.COMPLETED


def test_a_drain_is_woken_by_nothing_but_its_jobs() -> None:
    stepping = Stepping()
    stepping.enqueue()
    stepping.dispatcher.step()
    stepping.dispatcher.drain(30, process_exits=False)
    calls = stepping.settle_calls()
    stepping.enqueue()
    stepping.board.wake()
    assert stepping.dispatcher.step() == pytest.approx(30)
    assert calls == []


def test_the_loop_outlives_an_error_of_its_own() -> None:
    stepping = Stepping()
    thread = threading.Thread(target=stepping.dispatcher.run)
    stepping.world.staged.before["settle"] = lambda *_a, **_k: (
        stepping.dispatcher.drain(0, process_exits=False)
    )
    stepping.board.take_finished = once_then(  # type: ignore[method-assign]
        RuntimeError("staged"), stepping.board.take_finished
    )
    thread.start()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert stepping.world.seen.stages() == ["dispatch"]


def once_then(error: Exception, call: Callable[..., T]) -> Callable[..., T]:
    left = [error]

    def instead(*given: object) -> T:
        if left:
            raise left.pop()
        return call(*given)

    return instead
