"""
Which jobs a claim may take, and in which order: all claim SQL in one place (O1, O3).

Nothing here locks a counter: it says what looks free, and the reservation under the
counter's lock decides (C4).
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Select,
    and_,
    bindparam,
    exists,
    literal_column,
    not_,
    or_,
    select,
    text,
)

from jobfence.statemachine.states import JobStatus
from jobfence.store.dialects.naming import MYSQL_NAMES
from jobfence.store.sql.schema import UNHELD, Schema

NOW = "at_now"
# As text in the statement, not a parameter: a planner then sees that a partial index
# holds all the rows.
QUEUED: ColumnElement[str] = literal_column(f"'{JobStatus.QUEUED.value}'")
HANDED_OFF: ColumnElement[str] = literal_column(f"'{JobStatus.HANDED_OFF.value}'")


@dataclass(frozen=True, slots=True)
class Filter:
    """
    What a claim leaves out, beside what is not due.

    `paused` are queues; `full` are keys known to have no slot; `opened` are derived
    keys whose counter looks full but whose queue's present policy has room.
    """

    queues: Collection[str] | None = None
    modes: Collection[str] | None = None
    paused: Collection[str] = ()
    full: Collection[str] = ()
    opened: Collection[str] = ()
    skipped_ids: Collection[str] = field(default=())

    def shape(self) -> tuple[str, ...]:
        """Return which conditions the statement needs, to build it once for each."""
        return tuple(
            name
            for name in ("queues", "modes", "paused", "full", "opened", "skipped_ids")
            if (
                getattr(self, name) is not None
                if name in _ASKED
                else getattr(self, name)
            )
        )

    def parameters(self) -> dict[str, Any]:
        """Return the values of those conditions."""
        return {f"in_{name}": list(getattr(self, name)) for name in self.shape()}


_ASKED = ("queues", "modes")


@cache
def candidates(schema: Schema, shape: tuple[str, ...]) -> Select[Any]:
    """Return the claimable jobs, best first; `row_limit` of them."""
    jobs = schema.jobs.c
    order = (jobs.priority.desc(), jobs.scheduled_at_ms, jobs.created_at_ms, jobs.id)
    found = select(schema.jobs)
    for mysql in MYSQL_NAMES:
        # The index has the order (case F50), and a sort would read all that is queued.
        found = found.with_hint(schema.jobs, schema.force_index("due"), mysql)
    return (
        found.where(
            *still_claimable(schema),
            *_asked(schema, shape),
            _has_room(schema, shape),
        )
        .order_by(*order)
        .limit(bindparam("row_limit"))
    )


@cache
def still_claimable(schema: Schema) -> tuple[ColumnElement[bool], ...]:
    """Return what another transaction may have ended since a look without locks."""
    jobs = schema.jobs.c
    return (
        jobs.status == QUEUED,
        jobs.scheduled_at_ms <= bindparam(NOW, type_=BigInteger()),
    )


def _asked(schema: Schema, shape: tuple[str, ...]) -> list[ColumnElement[bool]]:
    jobs = schema.jobs.c
    spelled = {
        "queues": lambda: jobs.queue.in_(_many("queues")),
        "modes": lambda: jobs.execution_mode.in_(_many("modes")),
        "paused": lambda: jobs.queue.not_in(_many("paused")),
        "skipped_ids": lambda: jobs.id.not_in(_many("skipped_ids")),
    }
    return [spelled[name]() for name in shape if name in spelled]


def _has_room(schema: Schema, shape: tuple[str, ...]) -> ColumnElement[bool]:
    """No key, or a counter below its cap; as the row stores the key (O1)."""
    key = schema.jobs.c.concurrency_key
    counters = schema.concurrency.c
    counter_full = exists().where(
        counters.concurrency_key == key,
        counters.active_count >= counters.max_concurrency,
    )
    # The first half is more than a short cut: PostgreSQL makes a join of a bare NOT EXISTS,
    # and a join may lose the order of the index.
    room: ColumnElement[bool] = or_(key.is_(None), not_(counter_full))
    if "opened" in shape:
        room = or_(room, key.in_(_many("opened")))
    if "full" in shape:
        room = and_(room, or_(key.is_(None), key.not_in(_many("full"))))
    return room


def _many(name: str) -> Any:
    return bindparam(f"in_{name}", expanding=True)


@cache
def next_scheduled(schema: Schema, *, queues: bool, passing: bool) -> Select[Any]:
    """Return the earliest queued jobs that are not due yet (O2), some passed over."""
    jobs = schema.jobs.c
    found = select(schema.jobs).where(
        jobs.status == QUEUED,
        text(UNHELD),
        jobs.scheduled_at_ms > bindparam(NOW, type_=BigInteger()),
    )
    if queues:
        found = found.where(jobs.queue.in_(_many("queues")))
    if passing:
        found = found.where(jobs.id.not_in(_many("skipped_ids")))
    return found.order_by(jobs.scheduled_at_ms, jobs.created_at_ms, jobs.id).limit(
        bindparam("row_limit")
    )
