"""What a job may know about itself while it runs, and how it asks to come back."""

import threading

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeVar, Union, cast

from jobfence.dispatch.ambient import AmbientTransactions, FindOpen
from jobfence.dispatch.blocks import Block, check_session
from jobfence.dispatch.errors import HandoffLost, NoCurrentJob, SecondCompletion
from jobfence.statemachine import checks
from jobfence.statemachine.clock import Clock
from jobfence.statemachine.errors import InvalidOption, UnsupportedCapability
from jobfence.statemachine.values import Ack, Handoff, Job
from jobfence.store.contract import JobStore

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.orm import Session

T = TypeVar("T", bound=Union["Connection", "Session"])


class Reschedule(Exception):
    """
    Raised inside a job: run it again in `delay_ms` milliseconds, at no attempt (D4).

    A delay out of bounds raises `InvalidOption` here, which is an ordinary failure.
    """

    def __init__(self, delay_ms: int) -> None:
        super().__init__(f"run again in {delay_ms} ms")
        self._delay_ms = checks.delay_ms(delay_ms)

    @property
    def delay_ms(self) -> int:
        """The wait in milliseconds."""
        return self._delay_ms


def delay_of(later: Reschedule) -> int:
    """
    Return a delay that a store takes, or raise what says why there is none (D4).

    A subclass may have forgotten its initialiser, or say something else than it gave.
    """
    refused: InvalidOption
    try:
        return checks.delay_ms(later.delay_ms)
    except InvalidOption as problem:
        refused = problem
    except BaseException as problem:  # noqa: BLE001  a property is the job's own code
        refused = InvalidOption(
            "delay_ms",
            type(problem),
            f"of {type(later).__qualname__} must be readable: call "
            f"super().__init__(delay_ms) in its __init__",
        )
    refused.__cause__ = later  # shows where the job raised it
    raise refused


class JobContext:
    """One run of one job, seen from inside. Get it with `current_job()`."""

    def __init__(
        self,
        handoff: Handoff,
        *,
        clock: Clock,
        timeout_ms: int | None = None,
        store: JobStore | None = None,
        find_open: FindOpen = lambda: None,
    ) -> None:
        self.ambient = AmbientTransactions(find_open)
        self._handoff = handoff
        self._clock = clock
        self._store = store
        self._deadline_ms = None if timeout_ms is None else clock.now_ms() + timeout_ms
        self._cancelled = False
        self._stopping = False
        self._lost = False
        self._block = threading.Lock()
        self._completing = False
        self._commit_in_doubt = False
        self._completion: Ack | None = None

    @property
    def handoff(self) -> Handoff:
        """What the worker holds; `.fence` is a number for systems outside."""
        return self._handoff

    @property
    def job(self) -> Job:
        """The job as the claim committed it."""
        return self._handoff.job

    @property
    def cancelled(self) -> bool:
        """
        Whether the job should end soon.

        It was asked to (R3), is past its deadline, lost its handoff, or is not waited
        for by its stopping worker any longer. A job on a thread has to look here:
        nothing else can end it.
        """
        return self._cancelled or self._lost or self._overdue()

    @property
    def stopping(self) -> bool:
        """
        Whether the worker has begun to stop: from now on the grace runs (D6).

        A long job looks at it between its steps, saves how far it came, and returns or
        raises `Reschedule`: so a deploy neither waits for it nor throws its work away.
        Always false in a process of its own.
        """
        return self._stopping

    @property
    def lost(self) -> bool:
        """Whether the handoff is known to hold the job no longer."""
        return self._lost

    @property
    def deadline_ms(self) -> int | None:
        """When the timeout ends, in epoch milliseconds; None without a timeout."""
        return self._deadline_ms

    @property
    def completion(self) -> Ack | None:
        """The acknowledgement that `transaction` committed; None before it."""
        return self._completion

    @property
    def completing(self) -> bool:
        """Whether `transaction` is about to complete the job, or has."""
        return self._completing

    def extend(self, lease_ms: int | None = None) -> bool:
        """
        Renew the lease now, and say whether the handoff still stands (M12).

        The worker does so by itself; a job asks before a step it must not do twice.
        Blocks for one short statement, also in an `async def`.
        """
        ack = self._need_store("extend").extend_lease(
            self.job.id, self._handoff.handoff_id, lease_ms=lease_ms
        )
        if ack.stale:
            self.mark_lost()
        elif ack.job is not None and ack.job.cancel_requested:
            self.mark_cancelled()
        return not ack.stale

    def transaction(self, session: T) -> AbstractContextManager[T]:
        """
        Commit the effects made through a session, and the completion, as one (R6).

        At the end of the block the job is completed in the session's transaction, which
        is then committed; the worker acknowledges nothing more. If the handoff was
        lost, or the block raises, all is rolled back: `HandoffLost`, or the block's
        own error. A run has one such block: `SecondCompletion` says so of another.
        Give a session or connection that no other block will commit.
        """
        return Block(self._transaction(session))

    @contextmanager
    def _transaction(self, session: T) -> Iterator[T]:
        """Do it."""
        within = self._joining()
        check_session(session)
        if not self._block.acquire(blocking=False):
            raise SecondCompletion(
                self._handoff, "is completed by a block that is open"
            )
        try:
            ack = yield from self._complete_in(within, session)
        finally:
            self._block.release()
        if ack.stale:
            self.mark_lost()
            raise HandoffLost(self._handoff)
        self._completion = ack
        if ack.repeated and not self._commit_in_doubt:
            raise SecondCompletion(self._handoff, "was completed outside of this block")

    def _joining(self) -> Callable[[T], JobStore]:
        """Return the store's `within`, unless there is nothing to do in a block."""
        if self._completion is not None:
            raise SecondCompletion(self._handoff, "was completed before")
        if self._lost:
            raise HandoffLost(self._handoff)
        within = getattr(self._need_store("transaction"), "within", None)
        if within is None:
            raise UnsupportedCapability(
                type(self._store).__name__,
                "transaction",
                "it has no within(); use a SQL store",
            )
        return cast("Callable[[T], JobStore]", within)

    def _complete_in(
        self, within: Callable[[T], JobStore], session: T
    ) -> Generator[T, None, Ack]:
        """Run the block and complete the job in the session's transaction."""
        try:
            # First: on SQLite it has to begin the transaction that the effects join.
            joined = within(session)
            self.ambient.enter_block(session)
            try:
                yield session
            finally:
                self.ambient.leave_block()
            self._completing = True
            ack = joined.complete(self.job.id, self._handoff.handoff_id)
            # Repeated: an earlier block of this run was committed, effects and all,
            # and its reply was lost. Committing again would double the effects.
            if ack.accepted:
                self._commit_in_doubt = True
                session.commit()
                self._commit_in_doubt = False
        except BaseException:
            self._completing = False
            session.rollback()
            raise
        if not ack.accepted:
            session.rollback()
        return ack

    def mark_cancelled(self) -> None:
        """Ask the job to end: for the worker."""
        self._cancelled = True

    def mark_stopping(self) -> None:
        """Tell the job that its worker stops: for the worker."""
        self._stopping = True

    def mark_lost(self) -> None:
        """Note that another handoff holds the job, or none: for the worker."""
        self._lost = True

    def _overdue(self) -> bool:
        return (
            self._deadline_ms is not None and self._clock.now_ms() >= self._deadline_ms
        )

    def _need_store(self, capability: str) -> JobStore:
        if self._store is None:
            raise UnsupportedCapability(
                "a job in a process of its own",
                capability,
                "the store is in the worker's process; use execution_mode='inline'",
            )
        return self._store


CURRENT: ContextVar[JobContext] = ContextVar("jobfence_current_job")


def current_job() -> JobContext:
    """Return the running job's context; `NoCurrentJob` outside a job."""
    try:
        return CURRENT.get()
    except LookupError:
        raise NoCurrentJob from None
