"""What every worker does for the database besides running jobs (rule D9)."""

import time

from collections.abc import Callable

from jobfence.dispatch.events import (
    CountersRepaired,
    EventHub,
    JobRecovered,
    JobsPruned,
)
from jobfence.dispatch.settings import WorkerSettings
from jobfence.store.contract import JobStore

RECOVER_BATCH = 100
# A timer may fire a little early; the part must not be put off by a whole interval.
SLACK_S = 0.01


class Maintenance:
    """
    Recovers, repairs and prunes; any number of workers may do it at once.

    Each part is isolated: its error is reported, and the others still run.
    """

    def __init__(
        self,
        store: JobStore,
        settings: WorkerSettings,
        hub: EventHub,
        *,
        wake: Callable[[], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._hub, self._wake = store, hub, wake
        self._retention = settings.retention
        self._monotonic = monotonic
        self._parts: list[tuple[str, int, Callable[[], None]]] = [
            ("recover", settings.recover_every_ms, self.recover),
            ("repair", settings.repair_every_ms, self.repair),
        ]
        if settings.retention is not None:
            self._parts.append(("prune", settings.retention.every_ms, self.prune))
        now = monotonic()
        self._due = {name: now + every / 1000 for name, every, _ in self._parts}

    @property
    def interval_ms(self) -> int:
        """How often `tick` should be called."""
        return min(every for _, every, _ in self._parts)

    def tick(self) -> None:
        """Do the parts whose time has come."""
        now = self._monotonic()
        for name, every, part in self._parts:
            if self._due[name] <= now + SLACK_S:
                self._due[name] = now + every / 1000
                self._isolated(name, part)

    def run_all(self) -> None:
        """Do every part now."""
        for name, _, part in self._parts:
            self._isolated(name, part)

    def recover(self) -> None:
        """End expired handoffs as failures (M8), batch after batch."""
        while True:
            jobs = self._store.recover_expired(limit=RECOVER_BATCH)
            for job in jobs:
                self._hub.emit(JobRecovered(worker_id=self._hub.worker_id, job=job))
            if jobs:
                self._wake()
            if len(jobs) < RECOVER_BATCH:
                return

    def repair(self) -> None:
        """Mend counters that differ from the handed-off jobs (C9)."""
        summary = self._store.reconcile_active_concurrency()
        if summary.repaired_count:
            self._hub.emit(
                CountersRepaired(worker_id=self._hub.worker_id, summary=summary)
            )
            self._wake()

    def prune(self) -> None:
        """Delete ended jobs by age (R1)."""
        keep = self._retention
        assert keep is not None
        count = self._store.prune_terminal(
            completed_ttl_ms=keep.completed_ttl_ms,
            failed_ttl_ms=keep.failed_ttl_ms,
            cancelled_ttl_ms=keep.cancelled_ttl_ms,
            batch_size=keep.batch_size,
        )
        if count:
            self._hub.emit(JobsPruned(worker_id=self._hub.worker_id, count=count))

    def _isolated(self, name: str, part: Callable[[], None]) -> None:
        try:
            part()
        except Exception as error:  # noqa: BLE001  the other parts still run
            self._hub.error(name, error)
