"""Threads and processes that all start at one moment, and whose errors are not lost."""

import multiprocessing
import signal
import threading
import traceback

from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier as ProcessBarrier
from typing import Any, Generic, TypeVar

T = TypeVar("T")
LONG_S = 120.0


class Running(Generic[T]):
    """One call in a thread of its own."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._result: list[T] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._result.append(self._work())
        except BaseException as error:  # noqa: BLE001  raised again by `result`
            self._error = error

    @property
    def done(self) -> bool:
        return not self._thread.is_alive()

    def result(self, within_s: float = LONG_S) -> T:
        """Wait for the end; return the result, or raise what the call raised."""
        self._thread.join(within_s)
        assert self.done, f"still running after {within_s} s"
        if self._error is not None:
            raise self._error
        return self._result[0]


def together(*works: Callable[[], T]) -> list[T]:
    """Run all at once, in threads; return their results in order."""
    barrier = threading.Barrier(len(works))

    def started(work: Callable[[], T]) -> Callable[[], T]:
        def run() -> T:
            barrier.wait(LONG_S)
            return work()

        return run

    return results([Running(started(work)) for work in works])


def results(running: Sequence[Running[T]], within_s: float = LONG_S) -> list[T]:
    """Wait for all of them; raise the first error only when none runs any more."""
    found: list[T] = []
    errors: list[BaseException] = []
    for each in running:
        try:
            found.append(each.result(within_s))
        except BaseException as error:  # noqa: BLE001  the first is raised below
            errors.append(error)
    # A barrier that broke is what the others get for somebody's error.
    errors.sort(key=lambda error: isinstance(error, threading.BrokenBarrierError))
    if errors:
        raise errors[0]
    return found


def in_rounds(
    rounds: int,
    *works: Callable[[int], None],
    before: Callable[[int], None] = lambda _: None,
    after: Callable[[int], None] = lambda _: None,
) -> None:
    """
    Run all works at once, again and again; each gets the number of the round.

    `before` and `after` run alone, around each round.
    """
    turn = iter(range(2 * rounds))

    def between() -> None:
        number = next(turn)
        (after if number % 2 else before)(number // 2)

    barrier = threading.Barrier(len(works), action=between)

    def one(work: Callable[[int], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                for number in range(rounds):
                    barrier.wait(LONG_S)
                    work(number)
                    barrier.wait(LONG_S)
            except BaseException:
                barrier.abort()
                raise

        return run

    # A round that hangs is noticed by its barriers.
    results([Running(one(work)) for work in works], within_s=LONG_S * rounds)


# Forked from a server without threads, which has the libraries loaded already: cheap,
# and no thread or connection of the tests is ever inherited.
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.store.sql.races.tasks"])

Task = Callable[..., Any]


def in_processes(tasks: Sequence[tuple[Task, tuple[Any, ...]]]) -> list[Any]:
    """
    Run each task in a process of its own; return their results in order.

    A task's first argument is a function that waits for all others: it calls it when it
    is prepared.
    """
    barrier = _context.Barrier(len(tasks))
    ends = []
    for task, arguments in tasks:
        ours, theirs = _context.Pipe(duplex=False)
        process = _context.Process(
            target=_work, args=(theirs, barrier, task, arguments), daemon=True
        )
        process.start()
        theirs.close()
        ends.append((process, ours))
    try:
        return [_answer(ours) for _, ours in ends]
    finally:
        for process, ours in ends:
            ours.close()
            process.join(5)
            if process.is_alive():
                process.kill()
                process.join()
            process.close()


def in_one_that_dies(task: Task, *arguments: Any) -> Any:
    """Run a task in a process; return its result, or None if it was killed."""
    ours, theirs = _context.Pipe(duplex=False)
    barrier = _context.Barrier(1)
    process = _context.Process(
        target=_work, args=(theirs, barrier, task, arguments), daemon=True
    )
    process.start()
    theirs.close()
    try:
        answer = _answer(ours)
    except EOFError:
        answer = None
    finally:
        ours.close()
        process.join()
        killed = process.exitcode == -signal.SIGKILL
        process.close()
    assert killed == (answer is None)
    return answer


def _work(
    conn: Connection, barrier: ProcessBarrier, task: Task, arguments: tuple[Any, ...]
) -> None:
    try:
        answer = task(lambda: barrier.wait(LONG_S), *arguments)
    except BaseException:  # noqa: BLE001  the parent fails with its text
        barrier.abort()
        conn.send((False, traceback.format_exc()))
    else:
        conn.send((True, answer))
    finally:
        conn.close()


def _answer(ours: Connection) -> Any:
    assert ours.poll(LONG_S), f"a process did not answer in {LONG_S} s"
    done, answer = ours.recv()
    assert done, f"in a process:\n{answer}"
    return answer
