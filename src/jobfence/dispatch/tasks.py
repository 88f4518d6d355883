"""One asyncio loop on a thread of its own, for `async def` jobs."""

import asyncio
import threading

from collections.abc import Coroutine

CLOSE_WAIT_S = 5.0


class TaskLoop:
    """Starts with the first task; a worker without async jobs has no such thread."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing: asyncio.Event | None = None

    def submit(self, coroutine: Coroutine[object, object, None]) -> None:
        """Run a coroutine as a task; it must not raise."""
        try:
            loop = self._running_loop()
        except BaseException:
            coroutine.close()  # or Python warns that it was never awaited
            raise
        asyncio.run_coroutine_threadsafe(coroutine, loop)

    def close(self) -> None:
        """Cancel what still runs, and end the loop if the tasks let it."""
        with self._lock:
            thread, loop, closing = self._thread, self._loop, self._closing
            self._thread = self._loop = self._closing = None
        if thread is None or loop is None or closing is None:
            return
        loop.call_soon_threadsafe(closing.set)
        # A task that ignores its cancellation keeps the thread, which is a daemon.
        thread.join(CLOSE_WAIT_S)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                started = threading.Event()
                self._thread = threading.Thread(
                    target=lambda: asyncio.run(self._serve(started)),
                    name=self._name,
                    daemon=True,
                )
                self._thread.start()
                started.wait()
            assert self._loop is not None
            return self._loop

    async def _serve(self, started: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._closing = closing = asyncio.Event()
        started.set()
        await closing.wait()
