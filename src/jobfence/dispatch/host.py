"""What a worker needs of the app whose jobs it runs."""

from collections.abc import Callable
from typing import Protocol

from jobfence.dispatch.registry import Registry
from jobfence.statemachine.clock import Clock
from jobfence.store.contract import JobStore


class WorkerHost(Protocol):
    """What a worker needs of its `JobApp`."""

    @property
    def store(self) -> JobStore:
        """Where the jobs are."""
        ...

    @property
    def registry(self) -> Registry:
        """What runs them."""
        ...

    @property
    def clock(self) -> Clock:
        """What timers and deadlines go by."""
        ...

    def find_open(self) -> object:
        """Return the transaction that is open in the app's own session here, if any."""
        ...

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call back when a commit may have made work due."""
        ...

    def unsubscribe(self, wake: Callable[[], None]) -> None:
        """End that."""
        ...
