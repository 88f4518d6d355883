"""Threads that run `def` jobs and are kept for the next one."""

import threading

from collections.abc import Callable
from queue import SimpleQueue

Call = Callable[[], None]


class ThreadPool:
    """
    As many threads as calls at once, never fewer: a claimed job never waits for one.

    They are daemons, unlike those of `concurrent.futures`: a hung job must not keep a
    process alive that wants to exit (D6).
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._idle = 0

    def submit(self, call: Call) -> None:
        """Run a call on a thread at once; it must not raise."""
        with self._lock:
            if self._idle > 0:
                self._idle -= 1
            else:
                threading.Thread(
                    target=self._work,
                    name=f"{self._name}-{self._threads}",
                    daemon=True,
                ).start()
                self._threads += 1
        self._calls.put(call)

    def close(self) -> None:
        """Let each thread end when it is idle."""
        with self._lock:
            threads, self._threads, self._idle = self._threads, 0, 0
        for _ in range(threads):
            self._calls.put(None)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
            del call  # it holds the job's arguments
            with self._lock:
                self._idle += 1
