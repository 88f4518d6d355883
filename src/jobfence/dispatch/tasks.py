"""One asyncio loop on a thread of its own, for `async def` jobs."""

import asyncio
import contextlib
import threading

from collections.abc import Coroutine
from concurrent.futures import Future

CLOSE_WAIT_S = 5.0


class TaskLoop:
    """
    Starts with the first task; a worker without async jobs has no such thread.

    A loop that is lost, with its selector for instance, is replaced at the next task.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._thread: _LoopThread | None = None

    def submit(self, coroutine: Coroutine[object, object, None]) -> None:
        """Run a coroutine as a task; it must not raise. An error: it does not run."""
        try:
            with self._lock:
                self._running().submit(coroutine)
        except BaseException:
            coroutine.close()  # or Python warns that it was never awaited
            raise

    def close(self) -> None:
        """Cancel what still runs, and end the loop if the tasks let it."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.end()
            # A task that ignores its cancellation keeps the thread, which is a daemon.
            thread.join(CLOSE_WAIT_S)

    def _running(self) -> "_LoopThread":
        if self._thread is None or self._thread.lost:
            self._thread = _LoopThread.started(self._name)
        return self._thread


class _LoopThread(threading.Thread):
    """Runs a loop until it is told to end, whatever tasks do to it."""

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(name=name, daemon=True)
        self.loop = loop
        self.lost = False
        self._ending = False
        self._futures: set[Future[None]] = set()

    @classmethod
    def started(cls, name: str) -> "_LoopThread":
        # The loop is made here, where its errors (no descriptor is left) reach whoever
        # asks, and what is submitted before it runs waits in it.
        loop = asyncio.new_event_loop()
        thread = cls(name, loop)
        try:
            thread.start()
        except BaseException:
            loop.close()
            raise
        return thread

    def submit(self, coroutine: Coroutine[object, object, None]) -> None:
        future = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        # The future holds its task until it ends. A loop holds tasks weakly, so one
        # that waits for what nothing else refers to would be collected, unfinished.
        self._futures.add(future)
        future.add_done_callback(self._futures.discard)

    def end(self) -> None:
        with contextlib.suppress(RuntimeError):  # closed: it was lost
            self.loop.call_soon_threadsafe(self._end)

    def run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self.loop):  # cancels tasks at its end
            try:
                while not self._ending:
                    self._run_until_stopped()
            finally:
                self.lost = True

    def _run_until_stopped(self) -> None:
        """
        Run until `end`, or until a task stops the loop.

        asyncio hands SystemExit and KeyboardInterrupt of a task to whoever runs the
        loop as well as to those that await it. They are the job's, if it awaits.
        """
        try:
            self.loop.run_forever()
        except (SystemExit, KeyboardInterrupt) as error:
            self.loop.call_exception_handler(
                {"message": "An async job's task ended with", "exception": error}
            )

    def _end(self) -> None:
        self._ending = True
        self.loop.stop()
