"""Calls at once, as well as threads of one process can make them."""

import sys
import threading
import time

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar, cast

from jobfence.statemachine.errors import RetryableError
from jobfence.store.contract import JobStore

THREADS = 6
SWITCH_S = 1e-5
_TRIES = 20
_PATIENCE_S = 60.0
Answer = TypeVar("Answer")


def race(
    stores: Sequence[JobStore], *works: Callable[[JobStore], Answer]
) -> list[Answer]:
    """
    Do the work in several threads that begin together, on these instances in turn.

    Of several works each thread does one, in turn too. A call that a store wants
    repeated (T2) is repeated. An error of any thread is raised.
    """
    begin = threading.Barrier(THREADS, timeout=_PATIENCE_S)
    answers: list[Answer] = []
    errors: list[Exception] = []

    def run(store: JobStore, work: Callable[[JobStore], Answer]) -> None:
        try:
            begin.wait()
            answers.append(work(patient(store)))
        except Exception as error:  # noqa: BLE001  raised again below
            errors.append(error)

    threads = [
        threading.Thread(
            target=run,
            args=(stores[number % len(stores)], works[number % len(works)]),
            daemon=True,
        )
        for number in range(THREADS)
    ]
    with _switching_often():
        for each in threads:
            each.start()
        end = time.monotonic() + _PATIENCE_S
        for each in threads:
            each.join(max(0.0, end - time.monotonic()))
    assert not any(each.is_alive() for each in threads), (
        f"calls at once wait for each other: no answer after {_PATIENCE_S:.0f} s"
    )
    if errors:
        raise AssertionError(
            f"T2: of {THREADS} callers at once {len(errors)} got an error, the first "
            f"{type(errors[0]).__name__}: {errors[0]}"
        ) from errors[0]
    return answers


def patient(store: JobStore) -> JobStore:
    """Return the store with each call repeated for as long as it asks for that (T2)."""
    return cast("JobStore", _Patient(store))


class _Patient:
    def __init__(self, store: JobStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Callable[..., object]:
        method: Callable[..., object] = getattr(self._store, name)

        def call(*args: object, **kwargs: object) -> object:
            for _ in range(_TRIES):
                try:
                    return method(*args, **kwargs)
                except RetryableError:
                    pass
            return method(*args, **kwargs)

        return call


@contextmanager
def _switching_often() -> Iterator[None]:
    usual = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)
