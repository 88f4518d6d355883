"""
Faults of a store under races: what it leaves out, and the scenario that shows it.

The edits are made in the statements while they run, by a hook of the engine.
"""

import re

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import Connection, Engine, event

from jobfence.conformance.seeded import Seeded


@dataclass(frozen=True, slots=True)
class SqlFault(Seeded):
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
_NO_KEY_LOCK = (r"(FROM \w+_schedule_keys\b.*) FOR UPDATE( SKIP LOCKED)?$", r"\1")
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
        ((r"SELECT pg_advisory_xact_lock\(%\(key\)s # CAST.*\)", "SELECT 1"),),
    ),
    SqlFault(
        "replaces without the key's lock",
        "K1",
        "replaced twice",
        (_NO_KEY_LOCK,),
    ),
    SqlFault(
        "repairs without the counter's lock",
        "C9",
        "a drifted counter mended while a slot is freed",
        (_NO_COUNTER_LOCK,),
    ),
)
