"""An application's jobs: where they are kept, what they are, and one worker of its own."""

import inspect
import threading

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias, Unpack, cast

from jobfence.dispatch.ambient import open_in
from jobfence.dispatch.context import CURRENT
from jobfence.dispatch.enqueuing import Enqueuer, Enqueuing, joined
from jobfence.dispatch.events import Listeners
from jobfence.dispatch.health import Health, health_of
from jobfence.dispatch.registry import F, JobDefaults, Registry
from jobfence.dispatch.settings import WorkerOptions, seconds, time_out_s
from jobfence.dispatch.worker import DEFAULT_GRACE_S, State, Worker
from jobfence.statemachine.clock import Clock, SystemClock
from jobfence.statemachine.errors import InvalidOption
from jobfence.statemachine.options import EnqueueOptions
from jobfence.store.contract import JobStore

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.orm import Session

    Transaction: TypeAlias = Connection | Session

StoreSource: TypeAlias = JobStore | str | Callable[[], JobStore]


class JobApp(Enqueuing):
    """
    The jobs of an application.

    `store` is a store, or a database URL, or a function that makes a store. What the
    app makes itself it makes at its first use, closes in `close`, and makes anew if it
    is used again; a store that was given stays its owner's to close.

    `session`, such as SQLAlchemy's `scoped_session`, returns the session whose
    transaction every enqueue joins; inside a job, only one that the job has begun. `clock` is what delays are counted from and the
    worker's timers go by: the store's by default, where that is a clock of this
    process, else the system's.
    """

    def __init__(
        self,
        store: StoreSource,
        *,
        registry: Registry | None = None,
        session: Callable[[], "Session"] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._source = store
        self._registry = Registry() if registry is None else registry
        self._session = session
        self._given_clock = clock
        self._lock = threading.RLock()
        self._open: JobStore | None = None
        self._listening: JobStore | None = None
        self._wakes: list[Callable[[], None]] = []
        self._worker: Worker | None = None

    @property
    def store(self) -> JobStore:
        """The store, opened at the first use."""
        with self._lock:
            if self._open is None:
                self._open = _open(self._source)
            return self._open

    @property
    def registry(self) -> Registry:
        """The functions that run jobs, by name."""
        return self._registry

    @property
    def clock(self) -> Clock:
        """What delays are counted from and timers go by."""
        if self._given_clock is not None:
            return self._given_clock
        found = getattr(self.store, "clock", None)
        if callable(getattr(found, "now_ms", None)):
            return cast("Clock", found)
        return SystemClock()  # the database's own clock cannot be read from here

    def job(self, name: str, **defaults: Unpack[JobDefaults]) -> Callable[[F], F]:
        """Register a function; see `Registry.job`."""
        return self._registry.job(name, **defaults)

    def options(self, **options: Unpack[EnqueueOptions]) -> Enqueuer:
        """Return an enqueuer whose jobs get these options, over the job's defaults."""
        return Enqueuer(self, options, self._target, self._join)

    def within(self, transaction: "Transaction") -> Enqueuer:
        """Return an enqueuer that writes in this transaction, for you to commit."""
        return self.options().within(transaction)

    def start(
        self, *, events: Listeners = None, **options: Unpack[WorkerOptions]
    ) -> Worker:
        """
        Start the app's own worker in this process, and return it.

        One that runs already is returned as it is, so options may be given only once.
        """
        with self._lock:
            if self._worker is None:
                self._worker = Worker(self, events=events, **options)
            elif options or events is not None:
                raise InvalidOption(
                    "options",
                    sorted(options),
                    "must not be given again: the app's worker exists; close() it first",
                )
            worker = self._worker
        try:
            worker.start()
        except BaseException:
            self._forget(worker)
            raise
        self._remember(worker)
        return worker

    @contextmanager
    def running(
        self,
        *,
        events: Listeners = None,
        grace_s: float = DEFAULT_GRACE_S,
        **options: Unpack[WorkerOptions],
    ) -> Iterator[Worker]:
        """Run the app's own worker for the length of a `with` block, then `close`."""
        seconds("grace_s", grace_s)  # before there is anything to close
        worker = self.start(events=events, **options)
        try:
            yield worker
        finally:
            self.close(grace_s)

    def wake(self) -> None:
        """Let the app's workers look for work now."""
        with self._lock:
            wakes = list(self._wakes)
        for wake in wakes:
            wake()

    def wait_idle(self, timeout_s: float | None = None) -> bool:
        """Wait until the app's own worker has nothing to do; see `Worker.wait_idle`."""
        timeout_s = time_out_s(timeout_s)
        worker = self._worker
        return worker is None or worker.wait_idle(timeout_s)

    def health(self) -> Health:
        """Say how the app's own worker is; not ready without one."""
        worker = self._worker
        if worker is not None:
            return worker.health()
        return health_of(self.store, ready=False, in_flight=0, queues=None)

    def close(self, grace_s: float = DEFAULT_GRACE_S) -> None:
        """
        Stop the app's own worker, and close the store if the app made it (D6).

        A `start` of another thread that comes after the stop keeps both.
        """
        grace_s = seconds("grace_s", grace_s)
        worker = self._worker
        if worker is not None:
            worker.stop(grace_s)
            self._forget(worker)
        with self._lock:
            if self._worker is not None:
                return  # it uses the store
            made, self._open = self._open, None
        if made is not None and made is not self._source:
            made.close()

    def find_open(self) -> object:
        """Return the transaction that is open in the app's own session here, if any."""
        return open_in(self._session)

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call back when a commit of this process may have made work due."""
        with self._lock:
            self._wakes.append(wake)
            store = self.store
            if self._listening is not store:  # a store has no way to stop listening
                self._listening = store
                store.on_commit_wake(self.wake)

    def unsubscribe(self, wake: Callable[[], None]) -> None:
        """End that."""
        with self._lock:
            if wake in self._wakes:
                self._wakes.remove(wake)

    def _remember(self, worker: Worker) -> None:
        """Know a worker again that another thread's `close` forgot as it started."""
        with self._lock:
            if self._worker is None and worker.state is not State.STOPPED:
                self._worker = worker

    def _forget(self, worker: Worker) -> None:
        """Forget a worker, unless it still runs: nobody could stop it any more."""
        with self._lock:
            if self._worker is worker and worker.state is State.STOPPED:
                self._worker = None

    def _given(self) -> EnqueueOptions:
        return {}

    def _target(self) -> JobStore:
        if self._session is None:
            return self.store
        session, context = self._session(), CURRENT.get(None)
        if context is None or context.ambient.joins(session):
            return self._join(session)
        return self.store  # nobody would commit that session in a job

    def _join(self, transaction: "Transaction") -> JobStore:
        return joined(self.store, transaction)


def _open(source: StoreSource) -> JobStore:
    if isinstance(source, str):
        from jobfence.store.sql.store import SqlJobStore  # noqa: PLC0415  SQLAlchemy

        return SqlJobStore(source)
    # The class of a store makes one, though it has the names of one.
    made = isinstance(source, type) or not hasattr(source, "settle")
    found = _made(source) if made else source
    settle = getattr(found, "settle", None)
    if not callable(settle):
        raise InvalidOption(
            "store", found, "must be a job store, a database URL, or make a store"
        )
    if inspect.iscoroutinefunction(settle):
        raise InvalidOption(
            "store", found, "must be a store that blocks: a worker runs it on threads"
        )
    return cast("JobStore", found)


def _made(source: object) -> object:
    return source() if callable(source) else source
