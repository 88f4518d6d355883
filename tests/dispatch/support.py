"""What the dispatch tests share: recorded events, staged stores, ready-made apps."""

import threading

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar, Unpack, cast

from jobfence.dispatch import JobApp, Worker, WorkerOptions, current_job
from jobfence.dispatch.context import JobContext
from jobfence.dispatch.events import FrameworkError, Listener, WorkerEvent
from jobfence.statemachine.clock import ManualClock
from jobfence.statemachine.retry import RetryPolicy
from jobfence.statemachine.states import JobStatus
from jobfence.statemachine.values import Job
from jobfence.store.contract import JobStore, OwnershipStore
from jobfence.store.memory import MemoryJobStore

E = TypeVar("E", bound=WorkerEvent)
START_MS = 1000
# Nothing in these tests takes long; a wait that fails must not hang the run.
PATIENCE_S = 20.0
# Longer than any test: what happens was caused by a wake-up or a timer, not by a poll.
NEVER_MS = 600_000


class Recorder:
    """Keeps a worker's events, and lets a test wait for them."""

    def __init__(self) -> None:
        self.events: list[WorkerEvent] = []
        self._changed = threading.Condition()

    def __call__(self, event: WorkerEvent) -> None:
        with self._changed:
            self.events.append(event)
            self._changed.notify_all()

    def of(self, kind: type[E]) -> list[E]:
        with self._changed:
            return [event for event in self.events if isinstance(event, kind)]

    def wait(self, kind: type[E], count: int = 1) -> list[E]:
        with self._changed:
            enough = self._changed.wait_for(
                lambda: sum(isinstance(e, kind) for e in self.events) >= count,
                PATIENCE_S,
            )
        assert enough, f"{count} of {kind.__name__} did not come: {self.events}"
        return self.of(kind)

    def stages(self) -> list[str]:
        return [event.stage for event in self.of(FrameworkError)]


Hook = Callable[..., None]


class Staged:
    """
    A store whose calls a test can hold back, refuse, or follow.

    `before` and `after` map a method's name to what is called around it; what they
    raise, the caller gets. A hook of `after` that raises loses the answer of a call
    that was made.
    """

    def __init__(self, store: object) -> None:
        self.real = store
        self.before: dict[str, Hook] = {}
        self.after: dict[str, Hook] = {}
        self.calls: dict[str, int] = defaultdict(int)

    def __getattr__(self, name: str) -> object:
        found = getattr(self.real, name)
        if not callable(found):
            return found

        def call(*args: object, **kwargs: object) -> object:
            self.calls[name] += 1
            if name in self.before:
                self.before[name](*args, **kwargs)
            result = found(*args, **kwargs)
            if name in self.after:
                self.after[name](*args, **kwargs)
            return result

        return call


def as_store(staged: Staged) -> JobStore:
    return cast("JobStore", staged)


def once(error: Exception) -> Hook:
    """Raise an error the first time, and never again."""
    left = [error]

    def hook(*_args: object, **_kwargs: object) -> None:
        if left:
            raise left.pop()

    return hook


class World:
    """A manual clock, a store in memory that can be staged, an app, and its events."""

    def __init__(
        self,
        store: JobStore | None = None,
        *,
        retry_policy: RetryPolicy | None = None,
    ) -> None:
        self.clock = ManualClock(START_MS)
        if store is None:
            store = MemoryJobStore(clock=self.clock, retry_policy=retry_policy)
        self.staged = Staged(store)
        self.store = as_store(self.staged)
        self.app = JobApp(self.store, clock=self.clock)
        self.seen = Recorder()
        self.listeners: list[Listener] = [self.seen]

    def worker(self, **options: Unpack[WorkerOptions]) -> Worker:
        given: WorkerOptions = {
            "poll_ms": NEVER_MS,
            "recover_every_ms": NEVER_MS,
            "repair_every_ms": NEVER_MS,
            **options,
        }
        return Worker(self.app, events=self.listeners, **given)

    @contextmanager
    def running(self, **options: Unpack[WorkerOptions]) -> Iterator[Worker]:
        worker = self.worker(**options)
        worker.start()
        try:
            yield worker
        finally:
            worker.stop(0)

    @property
    def store_of_ownership(self) -> OwnershipStore:
        return cast("OwnershipStore", self.staged)

    def job(self, job_id: str) -> Job:
        found = self.store.get(job_id)
        assert found is not None
        return found

    def status(self, job_id: str) -> JobStatus:
        return self.job(job_id).status


def idle(worker: Worker) -> None:
    """Wait until a look that begins now has found nothing left to do."""
    assert worker.wait_idle(PATIENCE_S)


def stopped(worker: Worker) -> None:
    """Stop a worker; a stop that never returns fails the test and does not hang it."""
    stop = threading.Thread(target=worker.stop, daemon=True)
    stop.start()
    stop.join(PATIENCE_S)
    assert not stop.is_alive()
    assert worker.state.name == "STOPPED"


def reached(event: threading.Event) -> None:
    assert event.wait(PATIENCE_S)


class Held:
    """A job on a thread that runs until it is let go."""

    def __init__(self, world: World, name: str = "held") -> None:
        self.started = threading.Event()
        self.release = threading.Event()
        self.contexts: list[JobContext] = []
        world.app.job(name, max_retries=0)(self.run)

    def run(self) -> None:
        self.contexts.append(current_job())
        self.started.set()
        reached(self.release)


def marked(held: Held) -> bool:
    return held.contexts[0].cancelled
