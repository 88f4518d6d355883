"""A worker: its start, its stop, and what it can be asked (rules D2, D6, D8)."""

import asyncio
import enum
import threading

from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from contextlib import nullcontext
from typing import Unpack

from jobfence.dispatch.engine import Engine
from jobfence.dispatch.errors import StopIncomplete, WorkerStopping
from jobfence.dispatch.events import EventHub, Listeners, WorkerStarted, WorkerStopped
from jobfence.dispatch.health import Health, health_of
from jobfence.dispatch.host import WorkerHost
from jobfence.dispatch.maintenance import Maintenance
from jobfence.dispatch.settings import (
    WorkerOptions,
    seconds,
    time_out_s,
    worker_settings,
)
from jobfence.dispatch.signals import Doorbell, in_main_thread
from jobfence.statemachine.values import Job

DEFAULT_GRACE_S = 30.0
# The first signal drains, the second stops at once, the third does not wait at all.
PATIENCE = 2


class State(enum.Enum):
    """Where a worker stands."""

    STOPPED = enum.auto()
    STARTING = enum.auto()
    RUNNING = enum.auto()
    STOPPING = enum.auto()


class Worker:
    """
    Runs an app's jobs: `def` on threads, `async def` as tasks, or in processes.

    Options are in `WorkerOptions`. `events` is called with each `WorkerEvent`, on the
    thread that saw it: it should be quick, and must not call `stop`, but may call
    `request_stop`. A stopped worker can be started again.
    """

    def __init__(
        self,
        app: WorkerHost,
        *,
        events: Listeners = None,
        **options: Unpack[WorkerOptions],
    ) -> None:
        self._app = app
        self._settings = worker_settings(**options)
        self._hub = EventHub(self._settings.worker_id, events)
        self._lock = threading.Lock()
        self._closing = threading.Lock()
        self._state = State.STOPPED
        self._stop_wanted = False
        self._starting: Future[None] = Future()
        self._engine: Engine | None = None
        self._on_stopped: list[Callable[[], None]] = []

    @property
    def worker_id(self) -> str:
        """The id that this worker's handoffs carry."""
        return self._settings.worker_id

    @property
    def state(self) -> State:
        """Where the worker stands now."""
        return self._state

    @property
    def counters(self) -> Mapping[str, int]:
        """How many events of each name there were since the worker was made."""
        return self._hub.counters

    def start(self) -> None:
        """
        Start, and return when jobs are taken (D2).

        Again while running: nothing happens. Two at once share one start. If a stop
        comes meanwhile it wins: the worker is then stopped. An error leaves it stopped.
        """
        with self._lock:
            if self._state is State.RUNNING:
                return
            if self._state is State.STOPPING:
                raise WorkerStopping(self.worker_id)
            mine = self._state is State.STOPPED
            if mine:
                self._state, self._stop_wanted = State.STARTING, False
                self._starting = Future()
            starting = self._starting
        if mine:
            self._start(starting)
        starting.result()

    def request_stop(
        self, grace_s: float = DEFAULT_GRACE_S, *, process_exits: bool = False
    ) -> None:
        """Begin to stop as `stop` does, and return at once; safe in a listener."""
        self._drain(grace_s, process_exits=process_exits)

    def stop(
        self, grace_s: float = DEFAULT_GRACE_S, *, process_exits: bool = False
    ) -> None:
        """
        Take no more jobs, wait for the running ones, then end or leave them (D6).

        `grace_s` is the wait in seconds, `math.inf` one without end. After it tasks are cancelled and processes
        killed, and their jobs go back to the queue. A thread cannot be ended: with
        `process_exits`, the caller's word that the process ends now, its job goes back
        as well; else it is left, and acknowledged if it ends before its lease.
        `StopIncomplete` when the database does not take the acknowledgements: they are
        tried on, and `stop` may be called again.
        """
        engine, starting = self._drain(grace_s, process_exits=process_exits)
        if starting is not None:
            wait([starting])
        if engine is None:  # nothing ran, or the start gave way
            return
        if engine.runs_here():
            raise RuntimeError(
                "stop() would wait for the thread it is called on; call request_stop()"
            )
        stuck = engine.wait_drained()
        if stuck:
            raise StopIncomplete(self.worker_id, stuck)
        self._close(engine)

    def run(self, grace_s: float = DEFAULT_GRACE_S) -> None:
        """
        Start, and block until stopped; the last thing its process does.

        In the main thread SIGTERM and SIGINT stop it: the first waits for running jobs
        up to `grace_s` seconds, the second not. Jobs on threads that have not ended
        then go back to the queue, so the process has to exit when this returns.
        """
        grace_s = seconds("grace_s", grace_s)
        bell = Doorbell()
        process_exits = in_main_thread()
        signals = bell.rung_by_signals(self._want_stop) if process_exits else None
        self._on_stopped.append(bell.ring)
        try:
            with signals or nullcontext():
                self.start()
                self._serve(bell, grace_s, process_exits=process_exits)
        finally:
            self._on_stopped.remove(bell.ring)
            bell.close()

    def wait_idle(self, timeout_s: float | None = None) -> bool:
        """
        Wait until nothing runs and a fresh look found nothing due.

        False if that took longer than `timeout_s` seconds. A stopped worker is idle.
        """
        timeout_s = time_out_s(timeout_s)
        engine = self._engine
        return engine is None or engine.board.wait_idle(timeout_s)

    @property
    def next_scheduled(self) -> Job | None:
        """The job that the timer is set for: the next one to fall due, as last seen."""
        engine = self._engine
        return None if engine is None else engine.timer.armed_for

    def wake(self) -> None:
        """Look for work now."""
        engine = self._engine
        if engine is not None:
            engine.board.wake()

    def maintain(self) -> None:
        """Recover, repair and prune (if configured) once, now, on this thread (D9)."""
        Maintenance(
            self._app.store, self._settings, self._hub, wake=self.wake
        ).run_all()

    def health(self) -> Health:
        """Say how the worker is; asks the database once."""
        engine = self._engine
        running = engine is not None and self._state is State.RUNNING
        return health_of(
            self._app.store,
            ready=running and engine is not None and engine.dispatcher.healthy,
            in_flight=0 if engine is None else len(engine.board.held),
            queues=self._settings.queues,
        )

    async def astart(self) -> None:
        """Do as `start`, without blocking the caller's loop."""
        await asyncio.to_thread(self.start)

    async def astop(
        self, grace_s: float = DEFAULT_GRACE_S, *, process_exits: bool = False
    ) -> None:
        """Do as `stop`, without blocking the caller's loop."""
        await asyncio.to_thread(self.stop, grace_s, process_exits=process_exits)

    async def await_idle(self, timeout_s: float | None = None) -> bool:
        """Do as `wait_idle`, without blocking the caller's loop."""
        return await asyncio.to_thread(self.wait_idle, timeout_s)

    def _start(self, starting: Future[None]) -> None:
        engine: Engine | None = None
        accepted = False
        try:
            engine = Engine(
                self._app.store,
                self._app.registry,
                self._settings,
                self._hub,
                clock=self._app.clock,
                find_open=self._app.find_open,
                on_ownership_lost=self.request_stop,
                on_drained=self._close_aside,
            )
            engine.prepare(lambda: self._stop_wanted)
            self._app.subscribe(self.wake)  # before the first look: none is missed
            with self._lock:
                if not self._stop_wanted:
                    engine.accept()
                    self._engine, self._state = engine, State.RUNNING
                    accepted = True
        except BaseException as error:  # noqa: BLE001  raised by every waiting start()
            self._abandon(engine)
            starting.set_exception(error)
            return
        if accepted:
            self._hub.emit(WorkerStarted(worker_id=self.worker_id))
        else:
            self._abandon(engine)
        starting.set_result(None)

    def _drain(
        self, grace_s: float, *, process_exits: bool
    ) -> tuple[Engine | None, Future[None] | None]:
        """
        Begin to stop; return what runs, or the start under way, which then gives way.

        Never what a later `start` makes: a stop that waited for that would wait for
        something that nobody asked to end.
        """
        grace_s = seconds("grace_s", grace_s)
        with self._lock:
            self._stop_wanted = True
            starting = self._starting if self._state is State.STARTING else None
            if self._state is State.RUNNING:
                self._state = State.STOPPING
            engine = self._engine
        if engine is not None:
            engine.drain(grace_s, process_exits=process_exits)
        return engine, starting

    def _abandon(self, engine: Engine | None) -> None:
        """Undo a start that failed, or that a stop overtook."""
        self._app.unsubscribe(self.wake)
        if engine is not None:
            engine.close()
        with self._lock:
            self._state = State.STOPPED

    def _want_stop(self) -> None:
        # A start under way looks at it; the doorbell does the rest.
        self._stop_wanted = True

    def _serve(self, bell: Doorbell, grace_s: float, *, process_exits: bool) -> None:
        """Block until stopped; the first signal drains, the second stops at once."""
        failure: list[Exception] = []

        def stop() -> None:
            try:
                self.stop(grace_s, process_exits=process_exits)
            except Exception as error:  # noqa: BLE001  raised by run()
                failure.append(error)
                bell.ring()

        heeded = 0
        while self._state is not State.STOPPED and not failure:
            if heeded == bell.signals:
                bell.sleep()
                continue
            heeded += 1
            if heeded == 1:
                threading.Thread(target=stop, name="jobfence-stop", daemon=True).start()
            elif heeded <= PATIENCE:
                self.request_stop(0.0, process_exits=process_exits)
            else:
                raise KeyboardInterrupt
        if failure:
            raise failure[0]

    def _close_aside(self, engine: Engine) -> None:
        """Finish a stop that was only requested: nobody may be waiting in `stop`."""
        threading.Thread(
            target=self._close, args=(engine,), name="jobfence-close", daemon=True
        ).start()

    def _close(self, engine: Engine) -> None:
        with self._closing:  # of two stops at once the second returns after the first
            if self._engine is not engine:
                return
            self._app.unsubscribe(self.wake)
            engine.close()
            with self._lock:
                self._engine, self._state = None, State.STOPPED
            self._hub.emit(WorkerStopped(worker_id=self.worker_id))
            for tell in list(self._on_stopped):
                tell()
