"""What a job knows about its run, and effects committed with the completion (R6)."""

import asyncio
import gc
import threading

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, create_async_engine
from sqlalchemy.orm import Session, sessionmaker

from jobfence.dispatch import (
    HandoffLost,
    JobApp,
    NoCurrentJob,
    Reschedule,
    SecondCompletion,
    current_job,
)
from jobfence.dispatch.context import JobContext
from jobfence.dispatch.events import (
    AcknowledgementStale,
    FrameworkError,
    JobCompleted,
    JobFailed,
)
from jobfence.statemachine.clock import ManualClock
from jobfence.statemachine.errors import InvalidOption, UnsupportedCapability
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import Handoff
from jobfence.store.contract import JobStore
from jobfence.store.memory import MemoryJobStore
from jobfence.store.sql.store import SqlJobStore
from tests.dispatch.support import NEVER_MS, START_MS, Recorder, World, idle, reached


def claimed(store: JobStore) -> Handoff:
    store.enqueue("n")
    return store.claim()[0]


def test_outside_a_job_there_is_no_current_one() -> None:
    with pytest.raises(NoCurrentJob, match="from inside a job"):
        current_job()


def test_a_thread_keeps_no_context_after_its_job() -> None:
    world = World()
    seen: list[object] = []

    @world.app.job("n")
    def n() -> None:
        seen.append(current_job())

    @world.app.job("other")
    def other() -> None:
        seen.append(current_job())

    world.app.enqueue(n)
    world.app.enqueue(other)
    with world.running(concurrency=1) as worker:
        idle(worker)
    assert len({id(each) for each in seen}) == 2


@pytest.mark.parametrize("delay_ms", [-1, 10**18, 1.5, None, True])
def test_a_delay_out_of_bounds_is_refused_where_it_is_raised(delay_ms: object) -> None:
    with pytest.raises(InvalidOption, match="delay_ms"):
        Reschedule(delay_ms)  # type: ignore[arg-type]


def test_a_context_is_cancelled_from_its_deadline_on() -> None:
    clock = ManualClock(START_MS)
    context = JobContext(
        claimed(MemoryJobStore(clock=clock)), clock=clock, timeout_ms=250
    )
    assert context.deadline_ms == START_MS + 250
    seen = [context.cancelled]
    clock.advance(249)
    seen.append(context.cancelled)
    clock.advance(1)
    seen.append(context.cancelled)
    assert seen == [False, False, True]


def test_a_context_without_timeout_has_no_deadline() -> None:
    context = JobContext(claimed(MemoryJobStore()), clock=ManualClock())
    assert context.deadline_ms is None
    assert not context.cancelled


def test_extend_renews_the_lease_and_says_whether_the_handoff_stands() -> None:
    clock = ManualClock(START_MS)
    store = MemoryJobStore(clock=clock, lease_ms=1000)
    handoff = claimed(store)
    context = JobContext(handoff, clock=clock, store=store)
    clock.advance(900)
    assert context.extend()
    assert context.extend(5000)
    job = store.get(handoff.job.id)
    assert job is not None
    assert job.lease_expires_at_ms == START_MS + 900 + 5000
    assert not context.cancelled


def test_extend_notices_a_request_to_cancel_and_a_lost_handoff() -> None:
    store = MemoryJobStore(clock=ManualClock(START_MS))
    handoff = claimed(store)
    context = JobContext(handoff, clock=ManualClock(), store=store)
    store.cancel(handoff.job.id)
    assert context.extend()
    assert (context.cancelled, context.lost) == (True, False)
    store.complete(handoff.job.id, handoff.handoff_id)
    assert not context.extend()
    assert context.lost


def test_a_thread_past_its_timeout_only_gets_the_cancel_mark() -> None:
    world = World()
    seen: list[bool] = []
    started, go_on = threading.Event(), threading.Event()

    @world.app.job("n", timeout_ms=250)
    def n() -> None:
        started.set()
        reached(go_on)
        seen.append(current_job().cancelled)

    job_id = world.app.enqueue(n)
    with world.running() as worker:
        reached(started)
        world.clock.advance(250)
        go_on.set()
        idle(worker)
    assert seen == [True]
    assert world.status(job_id) is JobStatus.COMPLETED


def test_a_task_past_its_timeout_is_cancelled_and_has_failed() -> None:
    world = World()
    ended: list[str] = []

    @world.app.job("n", max_retries=0)
    async def n() -> None:
        try:
            await asyncio.sleep(NEVER_MS)
        finally:
            ended.append("ended")

    job_id = world.app.enqueue(n)
    with world.running(timeout_ms=1) as worker:
        idle(worker)
    job = world.job(job_id)
    assert (job.status, job.attempts) == (JobStatus.FAILED, 1)
    assert "job 'n' ran longer than timeout_ms=1" in str(job.last_error)
    assert ended == ["ended"]


def test_a_timeout_error_of_the_job_s_own_is_its_own() -> None:
    world = World()

    @world.app.job("n", max_retries=0)
    async def n() -> None:
        raise TimeoutError("of a socket")

    @world.app.job("cancelled", max_retries=0)
    async def cancelled() -> None:
        raise asyncio.CancelledError("by the job itself")

    ids = [world.app.enqueue(n), world.app.enqueue(cancelled)]
    with world.running(timeout_ms=NEVER_MS) as worker:
        idle(worker)
    errors = [str(world.job(each).last_error) for each in ids]
    assert errors[0].endswith("TimeoutError: of a socket\n")
    assert errors[1].endswith("CancelledError: by the job itself\n")
    assert all(world.status(each) is JobStatus.FAILED for each in ids)


class Bank:
    """An application's table, in the same database as the jobs."""

    def __init__(self, path: Path) -> None:
        self.engine: Engine = create_engine(f"sqlite:///{path}")
        self.clock = ManualClock(START_MS)
        self.store = SqlJobStore(self.engine, clock=self.clock)
        self.app = JobApp(self.store, clock=self.clock)
        self.seen = Recorder()
        with self.engine.begin() as connection:
            connection.execute(text("CREATE TABLE paid (who TEXT)"))

    def pay(self, session: Session | Connection, who: str) -> None:
        session.execute(text("INSERT INTO paid VALUES (:who)"), {"who": who})

    def paid(self) -> list[str]:
        with self.engine.connect() as connection:
            return list(connection.scalars(text("SELECT who FROM paid")))

    def run(self) -> None:
        with self.app.running(events=self.seen, poll_ms=NEVER_MS, grace_s=0) as worker:
            idle(worker)

    def close(self) -> None:
        self.store.close()
        self.engine.dispose()


@pytest.fixture
def bank(tmp_path: Path) -> Iterator[Bank]:
    bank = Bank(tmp_path / "jobs.db")
    yield bank
    bank.close()


def test_R6_effects_and_completion_are_committed_together(bank: Bank) -> None:
    @bank.app.job("pay")
    def pay(who: str) -> None:
        with Session(bank.engine) as s, current_job().transaction(s) as session:
            bank.pay(session, who)

    job_id = bank.app.enqueue(pay, "ann")
    bank.run()
    assert bank.paid() == ["ann"]
    job = bank.store.get(job_id)
    assert job is not None
    assert (job.status, job.handoffs) == (JobStatus.COMPLETED, 1)
    assert len(bank.seen.of(JobCompleted)) == 1
    assert bank.seen.of(AcknowledgementStale) == []


def test_R6_a_lost_handoff_rolls_the_effects_back(bank: Bank) -> None:
    errors: list[HandoffLost] = []

    @bank.app.job("pay", max_retries=0)
    def pay(who: str) -> None:
        # The worker is taken for dead meanwhile.
        bank.clock.advance(60_000)
        bank.store.recover_expired()
        try:
            with bank.engine.connect() as c, current_job().transaction(c) as connection:
                bank.pay(connection, who)
        except HandoffLost as error:
            errors.append(error)
            raise

    job_id = bank.app.enqueue(pay, "ann")
    bank.run()
    assert bank.paid() == []
    job = bank.store.get(job_id)
    assert job is not None
    assert (job.status, job.attempts) == (JobStatus.FAILED, 1)
    assert "interrupted" in str(job.last_error)
    assert len(bank.seen.of(AcknowledgementStale)) == 1
    assert errors[0].handoff.job.id == job_id


def test_R6_a_handoff_known_to_be_lost_is_refused_before_any_effect(bank: Bank) -> None:
    handoff = claimed(bank.store)
    context = JobContext(handoff, clock=bank.clock, store=bank.store)
    bank.store.complete(handoff.job.id, handoff.handoff_id)
    assert not context.extend()
    with Session(bank.engine) as session:
        with pytest.raises(HandoffLost), context.transaction(session):
            bank.pay(session, "never reached")
        assert not session.in_transaction()
    assert bank.paid() == []


def test_R6_an_error_in_the_block_rolls_back_and_fails_the_job(bank: Bank) -> None:
    @bank.app.job("pay", max_retries=0)
    def pay(who: str) -> None:
        with Session(bank.engine) as s, current_job().transaction(s) as session:
            bank.pay(session, who)
            raise ValueError("not enough")

    job_id = bank.app.enqueue(pay, "ann")
    bank.run()
    assert bank.paid() == []
    job = bank.store.get(job_id)
    assert job is not None
    assert (job.status, job.attempts) == (JobStatus.FAILED, 1)
    assert "not enough" in str(job.last_error)
    assert len(bank.seen.of(JobFailed)) == 1


def told_late(bank: Bank) -> BaseException:
    """Return what a job raised after its completion."""
    (error,) = bank.seen.of(FrameworkError)
    assert error.stage == "after_completion"
    return error.error


def test_R6_a_block_after_a_commit_whose_reply_was_lost_has_no_effects(
    bank: Bank,
) -> None:
    class Losing(Session):
        def commit(self) -> None:
            super().commit()
            raise ConnectionError("staged: the reply to COMMIT was lost")

    @bank.app.job("pay")
    def pay(who: str) -> None:
        context = current_job()
        with (
            pytest.raises(ConnectionError),
            Losing(bank.engine) as losing,
            context.transaction(losing),
        ):
            bank.pay(losing, who)
        with Session(bank.engine) as s, context.transaction(s) as session:
            bank.pay(session, who)  # the job does it all again

    job_id = bank.app.enqueue(pay, "ann")
    bank.run()
    assert bank.paid() == ["ann"]
    job = bank.store.get(job_id)
    assert job is not None
    assert job.status is JobStatus.COMPLETED
    assert len(bank.seen.of(JobCompleted)) == 1
    assert bank.seen.of(FrameworkError) == []


def test_R6_a_second_block_of_one_run_is_refused_and_not_silent(bank: Bank) -> None:
    @bank.app.job("pay")
    def pay(*names: str) -> None:
        for who in names:
            with Session(bank.engine) as s, current_job().transaction(s) as session:
                bank.pay(session, who)

    job_id = bank.app.enqueue(pay, "ann", "bob")
    bank.run()
    assert bank.paid() == ["ann"]
    job = bank.store.get(job_id)
    assert job is not None
    assert job.status is JobStatus.COMPLETED
    assert len(bank.seen.of(JobCompleted)) == 1
    assert isinstance(told_late(bank), SecondCompletion)
    assert f"job {job_id} was completed before" in str(told_late(bank))


def test_R6_a_second_block_is_refused_also_where_the_job_asked_for_its_lease(
    bank: Bank,
) -> None:
    @bank.app.job("pay")
    def pay(who: str) -> None:
        with Session(bank.engine) as s, current_job().transaction(s) as session:
            bank.pay(session, who)
        assert not current_job().extend()  # it is completed: nothing to extend
        with Session(bank.engine) as s, current_job().transaction(s):
            raise AssertionError

    bank.app.enqueue(pay, "ann")
    bank.run()
    assert bank.paid() == ["ann"]
    assert isinstance(told_late(bank), SecondCompletion)


def test_R6_a_block_within_a_block_is_refused_and_commits_nothing(bank: Bank) -> None:
    @bank.app.job("pay", max_retries=0)
    def pay() -> None:
        with Session(bank.engine) as s, current_job().transaction(s) as outer:
            bank.pay(outer, "ann")
            with current_job().transaction(outer) as inner:
                bank.pay(inner, "bob")

    job_id = bank.app.enqueue(pay)
    bank.run()
    assert bank.paid() == []
    job = bank.store.get(job_id)
    assert job is not None
    assert job.status is JobStatus.FAILED
    assert "is completed by a block that is open" in str(job.last_error)


def test_R6_a_block_that_raised_may_be_followed_by_another(bank: Bank) -> None:
    @bank.app.job("pay")
    def pay() -> None:
        for who in ("ann", "bob"):
            with (
                suppress(ValueError),
                Session(bank.engine) as s,
                current_job().transaction(s) as session,
            ):
                bank.pay(session, who)
                if who == "ann":
                    raise ValueError("not enough")

    bank.app.enqueue(pay)
    bank.run()
    assert bank.paid() == ["bob"]
    assert len(bank.seen.of(JobCompleted)) == 1
    assert bank.seen.of(FrameworkError) == []


def test_R6_a_block_of_a_job_that_was_completed_by_hand_is_refused(bank: Bank) -> None:
    @bank.app.job("pay")
    def pay(who: str) -> None:
        handoff = current_job().handoff
        assert bank.store.complete(handoff.job.id, handoff.handoff_id).accepted
        with Session(bank.engine) as s, current_job().transaction(s) as session:
            bank.pay(session, who)

    bank.app.enqueue(pay, "ann")
    bank.run()
    assert bank.paid() == []
    assert "was completed outside of this block" in str(told_late(bank))
    assert len(bank.seen.of(JobCompleted)) == 1
    assert bank.seen.of(AcknowledgementStale) == []


def test_R6_an_error_after_the_commit_is_reported_and_the_job_stays_completed(
    bank: Bank,
) -> None:
    @bank.app.job("pay")
    def pay(who: str) -> None:
        with Session(bank.engine) as s, current_job().transaction(s) as session:
            bank.pay(session, who)
        raise ValueError("too late")

    job_id = bank.app.enqueue(pay, "ann")
    bank.run()
    assert bank.paid() == ["ann"]
    job = bank.store.get(job_id)
    assert job is not None
    assert (job.status, job.attempts, job.last_error) == (JobStatus.COMPLETED, 0, None)
    (error,) = bank.seen.of(FrameworkError)
    assert (error.stage, str(error.error)) == ("after_completion", "too late")


def test_a_store_without_transactions_refuses_them_by_name() -> None:
    class Bare:
        """A store of somebody else's that has no `within`."""

    handoff = claimed(MemoryJobStore())
    for store in (MemoryJobStore(), Bare()):
        context = JobContext(
            handoff,
            clock=ManualClock(),
            store=store,  # type: ignore[arg-type]
        )
        with (
            Session(create_engine("sqlite://")) as session,
            pytest.raises(UnsupportedCapability, match="does not support"),
            context.transaction(session),
        ):
            raise AssertionError


@pytest.mark.parametrize("session", [None, 5, "sqlite://", sessionmaker()])
def test_a_block_needs_a_session_and_says_so(bank: Bank, session: Any) -> None:
    context = JobContext(claimed(bank.store), clock=bank.clock, store=bank.store)
    with (
        pytest.raises(InvalidOption, match="must be a SQLAlchemy Session or Conn"),
        context.transaction(session),
    ):
        raise AssertionError


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", [AsyncSession, AsyncConnection])
def test_a_block_says_what_an_async_session_needs_instead(
    bank: Bank, kind: type[Any]
) -> None:
    context = JobContext(claimed(bank.store), clock=bank.clock, store=bank.store)
    session = kind(create_async_engine("sqlite+aiosqlite://"))
    instead = r"AsyncSqlJobStore\(engine\)\.within\(session\)\.complete\("
    with (
        pytest.raises(InvalidOption, match=instead),
        context.transaction(session),
    ):
        raise AssertionError

    async def main() -> None:
        block: Any = context.transaction(session)
        async with block:
            raise AssertionError

    with pytest.raises(TypeError, match=instead):
        asyncio.run(main())
    gc.collect()
