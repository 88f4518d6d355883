"""The hook that puts mutants in the place of statements, and notes what is executed."""

import time

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sqlalchemy import Connection, Engine, event

from jobfence.conformance.sql.mutants import changed, shape_of


class RanAway(Exception):
    """A mutant has made the store go on and on."""


class Swapper:
    """
    Listens to one engine for as long as that lives.

    Not removed at the end: engines made from this one by execution_options have joined
    its listeners, and removing does not reach them.
    """

    def __init__(self, engine: Engine) -> None:
        self._edits: tuple[tuple[str, str], ...] = ()
        self._shapes: dict[str, str] = {}
        self._end = float("inf")
        event.listen(engine, "before_cursor_execute", self._swap, retval=True)

    def _swap(
        self,
        _connection: Connection,
        _cursor: object,
        statement: str,
        parameters: object,
        *_: object,
    ) -> tuple[str, object]:
        if time.monotonic() > self._end:
            self._end = float("inf")  # what is rolled back now may take its time
            raise RanAway("it still executes statements")
        if self._edits:
            return changed(statement, self._edits), parameters
        self._shapes.setdefault(shape_of(statement), statement)
        return statement, parameters

    @contextmanager
    def mutated(self, edits: Sequence[tuple[str, str]]) -> Iterator[None]:
        """Have the engine run these mutants: a family and a change each."""
        self._edits = tuple(edits)
        try:
            yield
        finally:
            self._edits, self._end = (), float("inf")

    def allow(self, seconds: float) -> None:
        """Stop whatever still executes statements after so long."""
        self._end = time.monotonic() + seconds

    @contextmanager
    def noting(self) -> Iterator[dict[str, str]]:
        """Give the shapes executed meanwhile, each with a statement that has it."""
        self._shapes = {}
        yield self._shapes
        self._shapes = {}
