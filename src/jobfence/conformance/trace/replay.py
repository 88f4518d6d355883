"""
Replaying a journal, transaction by transaction, until something was not possible.

Every step of a job must be a row of the table; what no table says is written by hand:
counters (`counters.py`) and owners (`owners.py`), judged where each transaction ends.
"""

from collections.abc import Callable, Iterator, Sequence, Set as AbstractSet
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import TypeAlias

from jobfence.conformance.trace.counters import check_counter, check_held
from jobfence.conformance.trace.entries import BadEntry, Entry, Values
from jobfence.conformance.trace.facts import Facts, Happened
from jobfence.conformance.trace.jobs import Step, check_step
from jobfence.conformance.trace.order import Order, Transaction, place
from jobfence.conformance.trace.owners import check_given_up, check_owner, check_owns
from jobfence.conformance.trace.rows import status_of
from jobfence.conformance.trace.verdict import JOURNAL, Impossible, Refused
from jobfence.statemachine.table import TABLE, Trigger
from jobfence.store.notes import Action, Entity

# Of a row that was there before the journal began, only this much is known.
PARTIAL = "partial"

_LONG_TEXTS = {"last_error"}
_JOB_COLUMNS = {
    *(name for row in TABLE for name in row.writes if name not in _LONG_TEXTS),
    *("status", "max_retries", "created_at_ms", "schedule_key", "schedule_order"),
}
_COLUMNS: dict[str, AbstractSet[str]] = {
    Entity.JOB: _JOB_COLUMNS,
    Entity.COUNTER: {"active_count", "max_concurrency"},
    Entity.SCHEDULE_KEY: {"job_id", "last_order"},
}
# Which entry of a transaction is judged, and the judgement.
Judgement: TypeAlias = tuple[int, Callable[[], None]]

_ROWS_SHOWN = 4
_NEW_SCHEDULE_KEY: Values = {"job_id": None, "last_order": 0}


@dataclass(slots=True)
class Replay:
    """
    A replay under way. `late` says that rows may have been there before the journal.

    `begun_ms` is when it began, if it says so. `transitions` counts the steps of jobs.
    """

    facts: Facts
    late: bool = False
    begun_ms: int | None = None
    max_handoffs: int | None = None
    transitions: int = 0
    _index: int = 0
    _seen: set[tuple[str, str]] = field(default_factory=set)

    def run(self, order: Order) -> Impossible | None:
        """Replay all of it; return the first entry that was not possible."""
        for transaction in order.transactions:
            found = self._transaction(transaction, order)
            if found is not None:
                return found
        if order.stuck:
            return self._cycle(order.stuck)
        return None

    def _transaction(self, transaction: Transaction, order: Order) -> Impossible | None:
        happened = Happened()
        judgements = chain(
            self._at_each(transaction, order, happened),
            self._at_the_end(transaction, happened),
        )
        for at, judge in judgements:
            try:
                judge()
            except Refused as refused:
                return Impossible.at(transaction[at], self._index + at, refused)
        self._index += len(transaction)
        return None

    def _at_each(
        self, transaction: Transaction, order: Order, happened: Happened
    ) -> Iterator[Judgement]:
        for at, entry in enumerate(transaction):
            yield at, partial(self._entry, entry, order, happened)

    def _entry(self, entry: Entry, order: Order, happened: Happened) -> None:
        if place(entry) in order.gaps:
            raise order.gaps[place(entry)]
        match entry.entity:
            case Entity.JOB:
                self._job(entry, happened)
            case Entity.COUNTER:
                self._counter(entry, happened)
            case Entity.SCHEDULE_KEY:
                self._schedule_key(entry, happened)
            case Entity.JOURNAL:
                pass
            case _:
                known = ", ".join(Entity)
                raise Refused(
                    JOURNAL, expected=f"one of {known}", seen=f"{entry.entity!r}"
                )
        self._seen.add(entry.key)

    def _job(self, entry: Entry, happened: Happened) -> None:
        job_id, before = entry.entity_id, self.facts.jobs.get(entry.entity_id)
        source = None if before is None else status_of(before)
        if entry.action == Action.DELETE:
            if source is not None and not source.terminal:
                raise Refused("R1", expected="an ended job to be deleted", seen=source)
            self.facts.put_job(job_id, before, None)
            return
        after = _values(entry)
        known = None if before is None or PARTIAL in before else before
        if known is None and before is not None:
            self._check_is_old(after)
        step = Step(entry, known, after, self.max_handoffs)
        transition = check_step(step, source)
        if transition.trigger is Trigger.CLAIM:
            self._check_fresh(after["handoff_id"])
        self.facts.handoff_ids.add(after["last_handoff_id"])
        self.facts.put_job(job_id, before, after)
        happened.add(job_id, transition, before, after)
        self.transitions += 1

    def _check_is_old(self, after: Values) -> None:
        """Refuse a job that is younger than the journal and was not enqueued in it."""
        created = after["created_at_ms"]
        begun = self.begun_ms
        if begun is not None and isinstance(created, int) and created > begun:
            raise Refused(
                JOURNAL,
                expected=f"its enqueue: it was made at {created}, after {begun}, when "
                f"the journal began",
                seen="none",
            )

    def _check_fresh(self, handoff_id: object) -> None:
        if not handoff_id or handoff_id in self.facts.handoff_ids:
            raise Refused(
                "M19", expected="a handoff id never used before", seen=repr(handoff_id)
            )

    def _counter(self, entry: Entry, happened: Happened) -> None:
        key = entry.entity_id
        before = self.facts.counters.get(key)
        after = None if entry.action == Action.DELETE else _values(entry)
        known = not self.late or entry.key in self._seen or before is not None
        check_counter(entry, before, after, happened, known=known)
        if after is None:
            self.facts.counters.pop(key, None)
        else:
            self.facts.counters[key] = after

    def _schedule_key(self, entry: Entry, happened: Happened) -> None:
        key, after = entry.entity_id, _values(entry)
        before = self.facts.schedule_keys.get(key)
        if before is None and not self.late:
            before = _NEW_SCHEDULE_KEY
        check_owner(entry, before, after, self.facts, happened)
        self.facts.schedule_keys[key] = after

    def _at_the_end(
        self, transaction: Transaction, happened: Happened
    ) -> Iterator[Judgement]:
        """Yield what must hold at a commit, and the entry that it is about."""
        at = {entry.key: number for number, entry in enumerate(transaction)}
        for judge, about in (
            (check_given_up, happened.ended),
            (check_owns, happened.new),
        ):
            for job_id, job in about.items():
                where = at[Entity.JOB.value, job_id]
                yield where, partial(judge, job_id, job, self.facts)
        counters = {key for entity, key in at if entity == Entity.COUNTER}
        for key in sorted(counters.union(happened.keys)):
            counter = (Entity.COUNTER.value, key)
            known = not self.late or counter in self._seen
            mover = (Entity.JOB.value, happened.movers.get(key, ""))
            where = at[counter] if counter in at else at[mover]
            yield where, partial(check_held, key, self.facts, known=known)

    def _cycle(self, stuck: Sequence[Entry]) -> Impossible:
        rows = sorted({f"{each.entity} {each.entity_id!r}" for each in stuck})
        refused = Refused(
            JOURNAL,
            expected="an order in which its transactions can have happened",
            seen=f"that they wait for one another, over {', '.join(rows[:_ROWS_SHOWN])}"
            + (
                f" and {len(rows) - _ROWS_SHOWN} more"
                if len(rows) > _ROWS_SHOWN
                else ""
            ),
        )
        return Impossible.at(stuck[0], self._index, refused)


def _values(entry: Entry) -> Values:
    """Return an entry's values, with its revision."""
    try:
        values = entry.values()
    except BadEntry as bad:
        raise Refused(
            JOURNAL, expected="values that can be read", seen=str(bad)
        ) from None
    missing = sorted(_COLUMNS[entry.entity] - values.keys())
    if missing:
        raise Refused(
            JOURNAL, expected=f"{', '.join(missing)} among the values", seen="none"
        )
    values["rev"] = entry.rev
    return values
