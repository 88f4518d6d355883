"""What went on below the surface: database errors that were got over, and waits."""

import threading
import time

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

from sqlalchemy import Engine, Table, event
from sqlalchemy.engine import ExceptionContext

PATIENCE_S = 30.0
DEADLOCKS = ("40P01", "1213")
BUSY = ("SQLITE_BUSY", "SQLITE_BUSY_SNAPSHOT", "SQLITE_LOCKED")


class Troubles:
    """Counts the errors of engines by the database's own code."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self._lock = threading.Lock()

    def watch(self, engine: Engine) -> None:
        event.listen(engine, "handle_error", self._note)

    def _note(self, context: ExceptionContext) -> None:
        with self._lock:
            self.seen[code_of(context.original_exception)] += 1

    def add(self, seen: Counter[str]) -> None:
        """Take over what a process counted."""
        with self._lock:
            self.seen.update(seen)

    @property
    def deadlocks(self) -> int:
        return sum(self.seen[code] for code in DEADLOCKS)

    @property
    def busy(self) -> int:
        return sum(self.seen[code] for code in BUSY)


def code_of(error: BaseException | None) -> str:
    """Return MySQL's number, SQLSTATE or SQLite's name of an error."""
    arguments = getattr(error, "args", ())
    if arguments and isinstance(arguments[0], int):
        return str(arguments[0])
    state = getattr(error, "sqlstate", None) or getattr(error, "sqlite_errorname", None)
    return str(state or type(error).__name__)


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Look again and again, for a time that only a failure needs."""
    until = time.monotonic() + PATIENCE_S
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < until, f"waited {PATIENCE_S} s for {what}"
        pause.wait(0.01)


@contextmanager
def interrupting(
    engine: Engine, table: Table, work: Callable[[], object], *, nth: int
) -> Iterator[None]:
    """Do something else right before the engine's nth statement that names a table."""
    numbers = count(1)

    def before(_: object, __: object, statement: str, *___: object) -> None:
        if table.name in statement and next(numbers) == nth:
            work()

    event.listen(engine, "before_cursor_execute", before)
    try:
        yield
    finally:
        event.remove(engine, "before_cursor_execute", before)
