"""Being a database's only worker (rule L2)."""

from collections.abc import Callable
from typing import cast

from jobfence.dispatch.errors import OwnershipHeld
from jobfence.dispatch.events import EventHub, JobRecovered
from jobfence.statemachine.errors import UnsupportedCapability
from jobfence.store.contract import JobStore, OwnershipStore


class Ownership:
    """The ownership row while a worker with `single_owner` holds it."""

    def __init__(
        self,
        store: JobStore,
        ttl_ms: int,
        hub: EventHub,
        *,
        on_lost: Callable[[], None],
    ) -> None:
        # Not isinstance: from Python 3.12 on it does not see what a proxy passes on.
        if not callable(getattr(store, "acquire_ownership", None)):
            raise UnsupportedCapability(
                type(store).__name__,
                "single_owner",
                "it has no ownership row; start without single_owner, and leases "
                "recover what was left behind",
            )
        self._store: JobStore = store
        self._row = cast("OwnershipStore", store)
        self._ttl_ms, self._hub, self._on_lost = ttl_ms, hub, on_lost
        self._held = False

    def acquire(self) -> None:
        """Take the row, or raise `OwnershipHeld`."""
        worker_id = self._hub.worker_id
        if not self._row.acquire_ownership(worker_id, ttl_ms=self._ttl_ms):
            raise OwnershipHeld(worker_id)
        self._held = True

    def recover(self) -> None:
        """End what any worker before this one left behind, leased or not."""
        for job in self._store.recover_handed_off():
            self._hub.emit(JobRecovered(worker_id=self._hub.worker_id, job=job))

    def renew(self) -> None:
        """Keep the row; a worker that finds another's must stop: it is not alone."""
        if not self._held:
            return
        try:
            self.acquire()
        except OwnershipHeld as error:
            self._held = False
            self._hub.error("ownership", error)
            self._on_lost()

    def release(self) -> None:
        """Let another worker start at once."""
        if self._held:
            self._held = False
            self._row.release_ownership(self._hub.worker_id)
