"""The tables as they stand: by themselves, and against what a journal leads to."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from jobfence.conformance.trace.entries import Values
from jobfence.conformance.trace.facts import Facts, held_key
from jobfence.conformance.trace.rows import check_row
from jobfence.conformance.trace.verdict import JOURNAL, Impossible, Refused
from jobfence.statemachine.states import TERMINAL
from jobfence.store.notes import Entity

_TERMINAL = {status.value for status in TERMINAL}
ROW_ID = {
    Entity.JOB: "id",
    Entity.COUNTER: "concurrency_key",
    Entity.SCHEDULE_KEY: "schedule_key",
}


class Tables(Protocol):
    """
    The rows of a store, all as of one moment; each call begins anew.

    A row is its columns by name, `rev` with them; long texts may be left out.
    """

    def jobs(self) -> Iterable[Mapping[str, object]]:
        """Return every job."""
        ...

    def counters(self) -> Iterable[Mapping[str, object]]:
        """Return every counter of a concurrency key."""
        ...

    def schedule_keys(self) -> Iterable[Mapping[str, object]]:
        """Return every schedule key."""
        ...


def rows_of(tables: Tables, entity: Entity) -> Iterator[tuple[str, Values]]:
    """Return the rows of an entity, by id, in plain values."""
    read = {
        Entity.JOB: tables.jobs,
        Entity.COUNTER: tables.counters,
        Entity.SCHEDULE_KEY: tables.schedule_keys,
    }
    for row in read[entity]():
        yield str(row[ROW_ID[entity]]), {name: _plain(row[name]) for name in row}


def _plain(value: object) -> object:
    """Return a value as the journal has it: a damaged one as its repr."""
    return (
        value if value is None or isinstance(value, (str, int, float)) else repr(value)
    )


def differences(facts: Facts, tables: Tables, *, index: int) -> Iterator[Impossible]:
    """Yield where the tables are not what the journal leads to, after `index` entries."""
    known = {
        Entity.JOB: facts.jobs,
        Entity.COUNTER: facts.counters,
        Entity.SCHEDULE_KEY: facts.schedule_keys,
    }
    for entity, rows in known.items():
        left = set(rows)
        for row_id, row in rows_of(tables, entity):
            left.discard(row_id)
            problem = _difference(entity, rows.get(row_id), row)
            if problem is not None:
                yield _found(entity, row_id, problem, index)
        for row_id in sorted(left):
            missing = Refused(
                JOURNAL, expected="the row that the journal leads to", seen="none"
            )
            yield _found(entity, row_id, missing, index)


def _difference(entity: Entity, wanted: Values | None, row: Values) -> Refused | None:
    if wanted is None:
        if entity is Entity.SCHEDULE_KEY and row["rev"] == 0 and row["job_id"] is None:
            return None  # made, and not owned yet
        return Refused(JOURNAL, expected="no row: the journal has none", seen="one")
    for name in ("rev", *sorted(wanted)):
        if name in row and row[name] != wanted[name]:
            return Refused(
                JOURNAL,
                expected=f"{name} {wanted[name]!r}, as last noted",
                seen=f"{row[name]!r}: a write that was not noted",
            )
    return None


def problems(tables: Tables) -> Iterator[Impossible]:
    """Yield what the tables alone show to be wrong."""
    held: Counter[str] = Counter()
    owners: dict[str, Values] = {}
    orders: dict[tuple[object, object], str] = {}
    for job_id, job in rows_of(tables, Entity.JOB):
        key = held_key(job)
        if key is not None:
            held[key] += 1
        try:
            check_row(job)
            _check_order(job_id, job, orders)
        except Refused as refused:
            yield _found(Entity.JOB, job_id, refused)
        if job["schedule_key"] is not None:
            owners[job_id] = job
    yield from _counter_problems(tables, held)
    yield from _owner_problems(tables, owners)


def _check_order(
    job_id: str, job: Values, orders: dict[tuple[object, object], str]
) -> None:
    """K3: an order is used once."""
    if job["schedule_order"] is None:
        return
    other = orders.setdefault((job["schedule_key"], job["schedule_order"]), job_id)
    if other != job_id:
        raise Refused(
            "K3",
            expected=f"a schedule_order of its own for {job['schedule_key']!r}",
            seen=f"{job['schedule_order']}, which job {other!r} has too",
        )


def _counter_problems(tables: Tables, held: Counter[str]) -> Iterator[Impossible]:
    waiting = Counter(held)
    for key, counter in rows_of(tables, Entity.COUNTER):
        wanted = waiting.pop(key, 0)
        if counter["active_count"] != wanted:
            wrong = Refused(
                "C5",
                expected=f"active {wanted}: so many jobs of this key are handed off",
                seen=f"active {counter['active_count']!r}",
            )
            yield _found(Entity.COUNTER, key, wrong)
    for key, wanted in sorted(waiting.items()):
        missing = Refused("C5", expected=f"a counter of {wanted}", seen="none")
        yield _found(Entity.COUNTER, key, missing)


def _owner_problems(tables: Tables, jobs: dict[str, Values]) -> Iterator[Impossible]:
    highest: dict[object, int] = {}
    for job in jobs.values():
        order, key = job["schedule_order"], job["schedule_key"]
        highest[key] = max(highest.get(key, 0), order if isinstance(order, int) else 0)
    for key, row in rows_of(tables, Entity.SCHEDULE_KEY):
        top, last, owner = highest.pop(key, 0), row["last_order"], row["job_id"]
        if not isinstance(last, int) or last < top:
            wrong = Refused("K3", expected=f"last_order from {top} on", seen=repr(last))
            yield _found(Entity.SCHEDULE_KEY, key, wrong)
        if owner is not None:
            problem = _owner_problem(key, row, jobs.get(str(owner)))
            if problem is not None:
                yield _found(Entity.SCHEDULE_KEY, key, problem)
    for key in sorted(map(str, highest)):
        missing = Refused("K3", expected="a row with its last order", seen="none")
        yield _found(Entity.SCHEDULE_KEY, key, missing)


def _owner_problem(key: str, row: Values, job: Values | None) -> Refused | None:
    """K2: an owner is the key's latest job, and active."""
    owner, last = row["job_id"], row["last_order"]
    order = None if job is None else job["schedule_order"]
    if job is None or job["schedule_key"] != key:
        return Refused("K2", expected="an owner made for this key", seen=repr(owner))
    if isinstance(order, int) and isinstance(last, int) and order < last:
        return Refused(
            "K2",
            expected=f"the job of the last order, {last}, or none",
            seen=f"{owner!r}, of order {order}",
        )
    if job["status"] in _TERMINAL:
        seen = f"{owner!r}, which is {job['status']}"
        return Refused("K2", expected="an active owner, or none", seen=seen)
    return None


def _found(
    entity: Entity, row_id: str, refused: Refused, index: int | None = None
) -> Impossible:
    return Impossible(
        rule=refused.rule,
        entity=entity.value,
        entity_id=row_id,
        expected=refused.expected,
        seen=refused.seen,
        index=index,
    )
