"""Leases renewed, lost handoffs noticed, and a ticker that nothing stops."""

import threading

from jobfence.dispatch.board import Board
from jobfence.dispatch.context import JobContext
from jobfence.dispatch.events import EventHub, JobCompleted
from jobfence.dispatch.heartbeat import Heartbeat, Ticker
from jobfence.dispatch.runs import Run
from jobfence.statemachine.states import JobStatus
from tests.dispatch.support import (
    NEVER_MS,
    PATIENCE_S,
    Recorder,
    World,
    idle,
    reached,
)


class Beating:
    """A board with one run, and its heartbeat, called by hand."""

    def __init__(self) -> None:
        self.world = World()
        self.board = Board(1)
        self.world.store.enqueue("n", max_retries=0)
        (self.handoff,) = self.world.store.claim(lease_ms=1000)
        self.context = JobContext(self.handoff, clock=self.world.clock)
        self.run = Run(self.handoff, self.context, done=self.board.finished)
        self.board.add(self.run)
        hub = EventHub("w", self.world.seen)
        self.heartbeat = Heartbeat(self.world.store, self.board, hub)

    def lose(self) -> None:
        self.world.clock.advance(1000)
        self.world.store.recover_expired()


def test_a_beat_renews_by_the_length_of_the_claim() -> None:
    beating = Beating()
    beating.world.clock.advance(900)
    beating.heartbeat.beat()
    job = beating.world.job(beating.handoff.job.id)
    assert job.lease_expires_at_ms == 1000 + 900 + 1000


def test_without_runs_no_call_is_made() -> None:
    beating = Beating()
    beating.board.release(beating.run)
    beating.heartbeat.beat()
    assert beating.world.staged.calls["extend_leases"] == 0


def test_a_lost_handoff_marks_its_run() -> None:
    beating = Beating()
    assert beating.run.begin()
    beating.lose()
    beating.heartbeat.beat()
    assert (beating.context.lost, beating.context.cancelled) == (True, True)


def test_a_lost_run_that_has_not_begun_is_not_begun() -> None:
    beating = Beating()
    beating.lose()
    beating.heartbeat.beat()
    assert not beating.run.begin()
    assert beating.board.take_finished() == [beating.run]


def test_a_run_that_was_acknowledged_meanwhile_is_not_taken_for_lost() -> None:
    beating = Beating()
    assert beating.run.begin()
    beating.run.finish(None)
    before = beating.run.outcome
    beating.world.store.complete(beating.handoff.job.id, beating.handoff.handoff_id)
    beating.heartbeat.beat()
    assert beating.run.outcome is before
    assert beating.run.stop_reason is None


def test_R6_a_job_that_has_completed_itself_is_not_taken_for_lost() -> None:
    beating = Beating()
    assert beating.run.begin()
    beating.context._completing = True  # noqa: SLF001  as inside `transaction`
    beating.world.store.complete(beating.handoff.job.id, beating.handoff.handoff_id)
    beating.heartbeat.beat()
    assert not beating.context.lost
    assert beating.run.stop_reason is None


def test_D5_a_lease_is_renewed_while_an_acknowledgement_cannot_be_stored() -> None:
    world = World()
    world.app.job("n")(lambda: None)
    job_id = world.app.enqueue("n")
    down = threading.Event()
    down.set()

    def refuse(acks: list[object], **_options: object) -> None:
        if acks and down.is_set():
            raise RuntimeError("staged: down")

    world.staged.before["settle"] = refuse
    with world.running(lease_ms=3000, heartbeat_ms=1) as worker:
        beaten = threading.Semaphore(0)
        world.staged.after["extend_leases"] = lambda *_a, **_k: beaten.release()
        for _ in range(3):
            world.clock.advance(2000)
            for _ in range(2):  # the first may have begun before the clock moved
                assert beaten.acquire(timeout=PATIENCE_S)
            assert world.store.recover_expired() == []
        assert world.status(job_id) is JobStatus.HANDED_OFF
        down.clear()
        idle(worker)
    assert len(world.seen.of(JobCompleted)) == 1
    assert world.job(job_id).handoffs == 1


def test_a_ticker_reports_errors_and_goes_on() -> None:
    seen = Recorder()
    calls: list[str] = []
    third = threading.Event()

    def call() -> None:
        calls.append("call")
        if len(calls) == 3:
            third.set()
        raise RuntimeError("staged")

    ticker = Ticker("heartbeat", 1, call, EventHub("w", seen))
    assert not ticker.runs_here
    ticker.start()
    reached(third)
    ticker.stop()
    assert seen.stages()[:3] == ["heartbeat"] * 3


def test_a_ticker_that_was_never_started_can_be_stopped() -> None:
    ticker = Ticker("heartbeat", NEVER_MS, lambda: None, EventHub("w"))
    ticker.stop()
