"""Renewing leases, and learning what became of the jobs meanwhile (rule L1)."""

import threading

from collections.abc import Callable

from jobfence.dispatch.board import LONGEST_WAIT_S, Board
from jobfence.dispatch.events import EventHub
from jobfence.dispatch.runs import StopReason
from jobfence.store.contract import JobStore


class Heartbeat:
    """
    Renews the lease of every run that has a slot, also while its worker drains (F89).

    The answers say which handoffs were lost and which jobs are asked to cancel (R3).
    """

    def __init__(self, store: JobStore, board: Board, hub: EventHub) -> None:
        self._store, self._board, self._hub = store, board, hub

    def beat(self) -> None:
        """Renew all leases once, in one transaction."""
        runs = self._board.held
        if not runs:
            return
        acks = self._store.extend_leases([run.handoff for run in runs])
        for run, ack in zip(runs, acks, strict=True):
            if ack.stale:
                # Stale is also the answer when its own acknowledgement was stored
                # meanwhile: a run with an outcome cannot be stopped any more, and one
                # that completes itself must not be.
                if not run.context.completing:
                    run.stop(StopReason.LOST)
            elif ack.job is not None and ack.job.cancel_requested:
                run.stop(StopReason.CANCEL_REQUESTED)


class Ticker:
    """
    A thread that calls something at an interval until told to end.

    The call's errors are reported and do not end it (D9).
    """

    def __init__(
        self, name: str, interval_ms: int, call: Callable[[], None], hub: EventHub
    ) -> None:
        self._stage = name
        self._interval_s = min(interval_ms / 1000, LONGEST_WAIT_S)
        self._call, self._hub = call, hub
        self._end = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"jobfence-{name}", daemon=True
        )

    @property
    def runs_here(self) -> bool:
        """Whether the caller runs on this thread."""
        return threading.current_thread() is self._thread

    def start(self) -> None:
        """Begin; the first call comes after one interval."""
        self._thread.start()

    def stop(self) -> None:
        """Let the call under way end, and make no other."""
        self._end.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(self._interval_s):
            try:
                self._call()
            except Exception as error:  # noqa: BLE001  the next tick tries again
                self._hub.error(self._stage, error)
