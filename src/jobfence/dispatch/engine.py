"""All the parts of a worker between one start and one stop (rules D2 and D6)."""

import threading

from collections.abc import Callable

from jobfence.dispatch.ambient import FindOpen
from jobfence.dispatch.board import Board
from jobfence.dispatch.dispatcher import Dispatcher
from jobfence.dispatch.events import EventHub
from jobfence.dispatch.heartbeat import Heartbeat, Ticker
from jobfence.dispatch.launcher import Launcher
from jobfence.dispatch.maintenance import Maintenance
from jobfence.dispatch.ownership import Ownership
from jobfence.dispatch.registry import Registry
from jobfence.dispatch.settings import WorkerSettings
from jobfence.dispatch.timer import Timer
from jobfence.statemachine.clock import Clock
from jobfence.statemachine.values import Handoff
from jobfence.store.contract import JobStore


class Engine:
    """
    Three threads: the dispatcher, the heartbeat and the maintenance ticks.

    Each has at most one connection at a time, and none while a job runs. The ticks have
    a thread of their own, so that a slow one delays neither acknowledgements nor leases.
    """

    def __init__(
        self,
        store: JobStore,
        registry: Registry,
        settings: WorkerSettings,
        hub: EventHub,
        *,
        clock: Clock,
        find_open: FindOpen,
        on_ownership_lost: Callable[[], None],
        on_drained: Callable[["Engine"], None],
    ) -> None:
        self._store, self._settings = store, settings
        self._hub, self._on_drained = hub, on_drained
        self._ownership: Ownership | None = None
        if settings.single_owner:
            lease_ms = settings.lease_ms
            self._ownership = Ownership(store, lease_ms, hub, on_lost=on_ownership_lost)
        self.board = Board(settings.concurrency)
        self._launcher = Launcher(
            registry, store, settings, hub, clock=clock, find_open=find_open
        )
        self.timer = Timer(clock, settings.poll_ms)
        self.dispatcher = Dispatcher(
            store,
            settings,
            self.board,
            hub,
            timer=self.timer,
            make_run=self._launcher.make_run,
            launch=self._launcher.launch,
        )
        upkeep = self._upkeep = Maintenance(store, settings, hub, wake=self.board.wake)
        self._heartbeat = Heartbeat(store, self.board, hub)
        self._beats = Ticker("heartbeat", settings.heartbeat_ms, self._beat, hub)
        self._ticks = Ticker("maintenance", upkeep.interval_ms, upkeep.tick, hub)
        self._thread = threading.Thread(
            target=self._work, name="jobfence-dispatcher", daemon=True
        )

    def prepare(self, stop_wanted: Callable[[], bool]) -> bool:
        """Ready, policies, recovery (D2); False as soon as a stop is wanted."""
        steps: list[Callable[[], None]] = [self._store.ensure_ready]
        if self._ownership is not None:
            steps.append(self._ownership.acquire)
        steps.append(self._reconcile)
        if self._ownership is not None:
            steps.append(self._ownership.recover)
        steps.append(self._upkeep.recover)
        for step in steps:
            if stop_wanted():
                return False
            step()
        return not stop_wanted()

    def accept(self) -> None:
        """Take jobs from now on."""
        self._thread.start()
        self._beats.start()
        self._ticks.start()
        self.board.wake()

    def drain(self, grace_s: float, *, process_exits: bool) -> None:
        """Begin to stop; returns at once."""
        self.dispatcher.drain(grace_s, process_exits=process_exits)

    def wait_drained(self) -> tuple[Handoff, ...]:
        """Wait for the end of a drain, or return what it could not store."""
        return self.board.wait_closed()

    def close(self) -> None:
        """End every thread; after a drain, or after a start that failed."""
        self._ticks.stop()
        self.dispatcher.drain(0.0, process_exits=False)  # if the start failed half-way
        if self._thread.is_alive():
            self._thread.join()
        # Last of those that use the store: leases are renewed until the drain ends.
        self._beats.stop()
        self._launcher.close()
        if self._ownership is not None:
            try:
                self._ownership.release()
            except Exception as error:  # noqa: BLE001  the row's time runs out instead
                self._hub.error("ownership", error)

    def runs_here(self) -> bool:
        """Whether the caller is one of the threads that `close` waits for."""
        here = threading.current_thread()
        return here is self._thread or self._beats.runs_here or self._ticks.runs_here

    def _work(self) -> None:
        self.dispatcher.run()
        self._on_drained(self)

    def _reconcile(self) -> None:
        self._store.reconcile_queue_policies(
            release_others=self._settings.release_others
        )

    def _beat(self) -> None:
        if self._ownership is not None:
            self._ownership.renew()
        self._heartbeat.beat()
