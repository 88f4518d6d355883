"""
Checking a transition journal: was everything in it possible?

    from jobfence.conformance.trace import Entry, check

    verdict = check([Entry.from_row(row) for row in rows], tables)
    if not verdict.ok:
        print(verdict.impossible)

The entries are brought in an order by their revisions alone, replayed against the table
of transitions, and compared with the tables as they stand. Works for the journal of any
store: an entry is plain values. Imports no SQLAlchemy.
"""

from collections import Counter
from collections.abc import Iterable

from jobfence.conformance.trace.baseline import beginning, earlier_rows
from jobfence.conformance.trace.entries import BadEntry, Entry, Values
from jobfence.conformance.trace.facts import Facts
from jobfence.conformance.trace.order import Order, Transaction, by_time, in_order
from jobfence.conformance.trace.replay import Replay
from jobfence.conformance.trace.tables import Tables, differences, problems
from jobfence.conformance.trace.verdict import Impossible, Verdict
from jobfence.store.notes import Entity

__all__ = [
    "BadEntry",
    "Entry",
    "Impossible",
    "Order",
    "Tables",
    "Transaction",
    "Values",
    "Verdict",
    "by_time",
    "check",
    "check_tables",
    "in_order",
]


def check(
    entries: Iterable[Entry],
    tables: Tables | None = None,
    *,
    max_handoffs: int | None = None,
) -> Verdict:
    """
    Judge a whole journal, and the tables that it led to if they are given.

    The journal says itself whether there was anything before it; one that does not is
    taken for complete. `max_handoffs` is the store's; without it a `give_up` is
    believed. Needs memory for all entries, and time but little more than proportional.
    """
    noted = list(entries)
    begun = beginning(noted)
    late = not begun.empty
    order = in_order(noted, late=late)
    facts, earlier = earlier_rows(noted, tables, begun) if late else (Facts(), 0)
    replay = Replay(facts, late, begun.at_ms, max_handoffs)
    found = replay.run(order)
    if found is None and tables is not None:
        found = next(differences(facts, tables, index=len(noted)), None)
        found = found or next(problems(tables), None)
    return Verdict(found, _counts(noted, replay.transitions), earlier)


def check_tables(tables: Tables) -> list[Impossible]:
    """Return what is wrong in tables that have no journal: each row, and each sum."""
    return list(problems(tables))


def _counts(noted: list[Entry], transitions: int) -> dict[str, int]:
    rows = Counter(entity for entity, _ in {entry.key for entry in noted})
    return {
        "entries": len(noted),
        "transactions": len({entry.tx for entry in noted}),
        "transitions": transitions,
        "jobs": rows[Entity.JOB],
        "counters": rows[Entity.COUNTER],
        "schedule_keys": rows[Entity.SCHEDULE_KEY],
    }
