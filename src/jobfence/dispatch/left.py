"""Runs that no worker waits for any more and that go on all the same (rule D6)."""

import threading


class LeftRuns:
    """
    The handoffs whose functions were left running, until these have ended.

    No board knows them, but their jobs must not be given back meanwhile: another worker
    would run them a second time at once.
    """

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._lock = threading.Lock()

    @property
    def ids(self) -> frozenset[str]:
        """The ids of their handoffs now, as a copy."""
        with self._lock:
            return frozenset(self._ids)

    def add(self, handoff_id: str) -> None:
        """Note a run before it is left: it may end at once after that."""
        with self._lock:
            self._ids.add(handoff_id)

    def discard(self, handoff_id: str) -> None:
        """Forget a run that has ended."""
        with self._lock:
            self._ids.discard(handoff_id)


# One for the process, as its threads are: a worker may be started again, or another may
# take its place under the same id, while they run.
LEFT_RUNS = LeftRuns()
