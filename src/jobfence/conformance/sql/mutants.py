"""
Faults put into a store's statements while it runs, by a hook of the engine.

No source is changed, so this works on any store on SQLAlchemy with named parameters.
Dropping a condition may leave a parameter unused, which drivers allow by name.
"""

import re

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import Connection, Engine, event

_LOCKS = (" FOR UPDATE SKIP LOCKED", " FOR UPDATE")


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one statement."""

    statement: str
    change: str
    mutated: str

    def __str__(self) -> str:
        return f"{self.change} in {' '.join(self.statement.split())[:70]}"


def mutants_of(statement: str) -> Iterator[Mutant]:
    """Drop each condition of an UPDATE or DELETE, and each lock of a SELECT."""
    verb = statement.split(None, 1)[0].upper()
    if verb == "SELECT":
        for lock in _LOCKS:
            if statement.rstrip().endswith(lock):
                bare = statement.rstrip().removesuffix(lock)
                yield Mutant(statement, f"no{lock}", bare)
                return
    if verb not in ("UPDATE", "DELETE"):
        return
    head, where, conditions = statement.rpartition("WHERE ")
    if not where or "(" in head.rpartition("SET")[0]:
        return
    parts = _split(conditions)
    for index, part in enumerate(parts):
        rest = [each for number, each in enumerate(parts) if number != index]
        yield Mutant(
            statement,
            f"no {' '.join(part.split())[:60]}",
            f"{head}WHERE {' AND '.join(rest) or '1 = 1'}",
        )


def _split(conditions: str) -> list[str]:
    """Split at the ANDs that are in no brackets; an OR binds the whole."""
    parts, depth, begin = [], 0, 0
    for match in re.finditer(r"[()]| AND | \nAND | OR ", conditions):
        found = match[0].strip()
        if found in "()":
            depth += 1 if found == "(" else -1
        elif depth == 0 and found == "AND":
            parts.append(conditions[begin : match.start()])
            begin = match.end()
        elif depth == 0:
            return [conditions]
    return [*parts, conditions[begin:]]


@contextmanager
def mutated(engine: Engine, mutant: Mutant) -> Iterator[None]:
    """Have the engine run the mutated statement in the place of the right one."""

    def swap(
        _connection: Connection,
        _cursor: object,
        statement: str,
        parameters: object,
        *_rest: object,
    ) -> tuple[str, object]:
        same = active and statement == mutant.statement
        return (mutant.mutated if same else statement), parameters

    # Not removed at the end: engines made from this one by execution_options have
    # joined its listeners, and removing does not reach them.
    active = True
    event.listen(engine, "before_cursor_execute", swap, retval=True)
    try:
        yield
    finally:
        active = False


@dataclass(frozen=True, slots=True)
class SqlFault:
    """
    A store that leaves out what makes a race safe, and the scenario that shows it.

    Each edit is a pattern and what takes its place, in every statement that matches.
    Several together, because a store may guard twice: by a lock and in the UPDATE.
    """

    name: str
    rule: str
    scenario: str
    edits: tuple[tuple[str, str], ...]


@contextmanager
def edited(engine: Engine, fault: SqlFault) -> Iterator[set[str]]:
    """Apply the edits; the set given back is of those that met a statement."""
    met: set[str] = set()

    def swap(
        _connection: Connection,
        _cursor: object,
        statement: str,
        parameters: object,
        *_rest: object,
    ) -> tuple[str, object]:
        for pattern, instead in fault.edits if active else ():
            statement, number = re.subn(pattern, instead, statement, flags=re.DOTALL)
            met.update([pattern] * bool(number))
        return statement, parameters

    active = True
    event.listen(engine, "before_cursor_execute", swap, retval=True)
    try:
        yield met
    finally:
        active = False


_NO_JOB_LOCK = (r"(FROM \w+_jobs\b.*) FOR UPDATE( SKIP LOCKED)?$", r"\1")
_NO_COUNTER_LOCK = (r"(FROM \w+_concurrency\b.*) FOR UPDATE( SKIP LOCKED)?$", r"\1")
_NO_STATUS = (
    r" AND \w+_jobs\.status = %\(status_1\)s(::VARCHAR)?(?= AND|$)",
    "",
)
_NO_HANDOFF = (
    r" AND \w+_jobs\.handoff_id = %\(fence_handoff_id\)s(::VARCHAR)?",
    "",
)
_NO_LEASE = (
    r" AND \w+_jobs\.lease_expires_at_ms <= %\(at_now\)s(::BIGINT)?$",
    "",
)
_NO_CAP = (
    r" AND \w+_concurrency\.active_count \+ %\(n\)s(::INTEGER)? <= \w+_concurrency\.max_concurrency",
    "",
)

SQL_FAULTS = (
    SqlFault(
        "claims without lock and status",
        "M2",
        "two claims, one job",
        (_NO_JOB_LOCK, _NO_STATUS),
    ),
    SqlFault(
        "slots counted without lock and cap",
        "C4",
        "two jobs of a key claimed by id",
        (_NO_COUNTER_LOCK, _NO_CAP),
    ),
    SqlFault(
        "cancels without lock and status",
        "M9",
        "a claim and a cancellation",
        (_NO_JOB_LOCK, _NO_STATUS),
    ),
    SqlFault(
        "completes without lock and fence",
        "M18",
        "completed and failed",
        (_NO_JOB_LOCK, _NO_STATUS, _NO_HANDOFF),
    ),
    SqlFault(
        "frees the slot of every completion",
        "C5",
        "completed twice at once",
        (_NO_JOB_LOCK, _NO_STATUS, _NO_HANDOFF),
    ),
    SqlFault(
        "recovers without lock and fence",
        "M8",
        "a completion and a recovery",
        (_NO_JOB_LOCK, _NO_STATUS, _NO_HANDOFF),
    ),
    SqlFault(
        "recovers twice",
        "L4",
        "two recoveries",
        (_NO_JOB_LOCK, _NO_STATUS, _NO_HANDOFF, _NO_LEASE),
    ),
    SqlFault(
        "dedupes without a lock",
        "E4",
        "one dedupe identity",
        ((r"SELECT pg_advisory_xact_lock\(%\(key\)s\)", "SELECT 1"),),
    ),
)


def statements_of(engine: Engine, work: Callable[[], object]) -> list[str]:
    """Return the statements that some work executes, each once."""
    seen: dict[str, None] = {}

    def note(
        _connection: Connection, _cursor: object, statement: str, *_: object
    ) -> None:
        seen[statement] = None

    event.listen(engine, "before_cursor_execute", note)
    try:
        work()
    finally:
        event.remove(engine, "before_cursor_execute", note)
    return list(seen)
