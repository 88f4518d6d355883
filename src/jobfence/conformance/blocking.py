"""Async stores under the suite: their coroutines run on a loop of their own."""

import asyncio
import inspect
import threading

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol, cast

from jobfence.store.contract import JobStore


def blocking(store: object) -> JobStore:
    """
    Return a store whose methods block, whatever kind was given.

    An async store is one whose `enqueue` is a coroutine function. All of its calls
    run on one loop in one thread, which `close` ends.
    """
    if not inspect.iscoroutinefunction(getattr(store, "enqueue", None)):
        return cast("JobStore", store)
    return cast("JobStore", _Blocking(store))


def is_async(store: JobStore) -> bool:
    """Whether `blocking` made this of an async store."""
    return isinstance(store, _Blocking)


def at_once(
    store: JobStore, *calls: Callable[[Any], Coroutine[Any, Any, object]]
) -> list[object] | None:
    """
    Make several calls as tasks of an async store's loop; return answers and errors.

    None if the store is not an async one. Each call is given the store itself.
    """
    if not isinstance(store, _Blocking):
        return None
    return store.gathered(calls)


class _Closable(Protocol):
    def close(self) -> object: ...


class _Blocking:
    """Waits for every coroutine that the store's methods return."""

    def __init__(self, store: object) -> None:
        self._store = store
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._beginning = threading.Lock()

    def __getattr__(self, name: str) -> object:
        found = getattr(self._store, name)
        return self._waiting(found) if callable(found) else found

    def _waiting(self, method: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **kwargs: object) -> object:
            answer = method(*args, **kwargs)
            return self._wait(answer) if inspect.isawaitable(answer) else answer

        return call

    def gathered(
        self, calls: Sequence[Callable[[Any], Coroutine[Any, Any, object]]]
    ) -> list[object]:
        """Run them together, and wait for all."""

        async def run() -> object:
            tasks = [asyncio.ensure_future(call(self._store)) for call in calls]
            return await asyncio.gather(*tasks, return_exceptions=True)

        return cast("list[object]", self._wait(run()))

    def _wait(self, answer: Awaitable[object]) -> object:
        async def run() -> object:
            return await answer

        return asyncio.run_coroutine_threadsafe(run(), self._running()).result()

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._beginning:  # callers at once get one loop
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                run = self._loop.run_forever
                self._thread = threading.Thread(target=run, daemon=True)
                self._thread.start()
            return self._loop

    def close(self) -> None:
        """Close the store, then end the loop; a later call begins a new one."""
        closing = cast("_Closable", self._store).close()
        if inspect.isawaitable(closing):
            self._wait(closing)
        if self._loop is not None and self._thread is not None:
            asyncio.run_coroutine_threadsafe(_end_tasks(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
            self._loop = self._thread = None


async def _end_tasks() -> None:
    loop = asyncio.get_running_loop()
    await loop.shutdown_asyncgens()
    await loop.shutdown_default_executor()
