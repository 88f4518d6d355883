"""One operation's view of its transaction, and what the store is set up with."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection, Executable, Select
from sqlalchemy.engine import CursorResult
from sqlalchemy.exc import DBAPIError

from jobfence.statemachine.clock import Clock, DatabaseClock
from jobfence.statemachine.ids import IdFactory
from jobfence.statemachine.parts import now_ms
from jobfence.statemachine.policy import NO_POLICY, QueuePolicy
from jobfence.statemachine.retry import RetryPolicy
from jobfence.store.dialects.base import Room
from jobfence.store.sql.journal import Journal
from jobfence.store.sql.rows import Row
from jobfence.store.sql.schema import Schema
from jobfence.store.sql.statements import others

# How many values one list of a statement has: SQLite takes 32,766 parameters in all,
# PostgreSQL 65,535.
LISTED = 10_000


@dataclass(slots=True)
class Settings:
    """
    What a store was made with; `queues` alone may change, by reconciling (C7).

    `origin` are those of the store that a joined one came from: that one goes by other
    policies only once the caller has committed them.
    """

    schema: Schema
    room: Room
    clock: Clock | DatabaseClock
    queues: Mapping[str, QueuePolicy] | None
    lease_ms: int | None
    retry_policy: RetryPolicy
    max_handoffs: int | None
    journal: bool
    ids: IdFactory
    handoff_ids: IdFactory
    origin: "Settings | None" = None

    def joined(self) -> "Settings":
        """Return a copy for a joined store."""
        return replace(self, origin=self.origin or self)

    def go_by(self, queues: Mapping[str, QueuePolicy] | None) -> None:
        """Take over policies that are durable now; None says nothing."""
        if queues is not None:
            self.queues = queues

    def put_back(self, queues: Mapping[str, QueuePolicy] | None) -> None:
        """Go by what was there before policies that were undone."""
        self.queues = queues


@dataclass(frozen=True, slots=True)
class Policies:
    """The queue policies that one operation goes by (C0), and the paused queues."""

    by_queue: Mapping[str, QueuePolicy]
    paused: Collection[str]

    def of(self, queue: str) -> QueuePolicy:
        """Return a queue's policy; one without any has no cap and priority 0."""
        return self.by_queue.get(queue, NO_POLICY)


@dataclass(slots=True)
class Tx:
    """
    A transaction as operations use it.

    `now` is read when first asked for and then stands: operations ask after they hold
    the locks they wait for. `joined` says that the transaction is the caller's;
    `holds_counters`, that it has locked some: it may not wait for more (C4).
    """

    connection: Connection
    settings: Settings
    joined: bool = False
    holds_counters: bool = False
    wake: bool = False
    journal: Journal | None = None
    # What the store goes by once this is committed (C7).
    given_queues: Mapping[str, QueuePolicy] | None = None
    _now: int | None = None
    _policies: Policies | None = field(default=None)
    _reads_the_past: bool | None = None

    def __post_init__(self) -> None:
        if self.settings.journal:
            self.journal = Journal()

    @property
    def schema(self) -> Schema:
        """The tables."""
        return self.settings.schema

    @property
    def room(self) -> Room:
        """What is particular to the database."""
        return self.settings.room

    @property
    def now(self) -> int:
        """The operation's one time (L3)."""
        if self._now is None:
            self._now = self.read_clock()
        return self._now

    def read_clock(self) -> int:
        """Read the clock without fixing the operation's time."""
        clock = self.settings.clock
        if isinstance(clock, DatabaseClock):
            return self.room.now_ms(self.connection)
        return now_ms(clock)

    def finish(self) -> None:
        """Write the journal, as the transaction's last statement."""
        if self.journal is not None:
            self.journal.write(self)

    def time_so_far(self) -> int:
        """Return `now` if it was read, else the clock: for reads before the locks."""
        return self.read_clock() if self._now is None else self._now

    def run(self, statement: Executable, **parameters: Any) -> CursorResult[Any]:
        """Execute a statement."""
        return self.connection.execute(statement, parameters)

    def changed(self, statement: Executable, **parameters: Any) -> int:
        """Execute an UPDATE or DELETE and return how many rows it matched."""
        return self.run(statement, **parameters).rowcount

    def changed_by(
        self, statement: Executable, parameters: Sequence[Mapping[str, Any]]
    ) -> int:
        """Execute it once for each set of parameters, and add up the rows matched."""
        many = len(parameters) != 1
        return self.connection.execute(
            statement, parameters if many else parameters[0]
        ).rowcount

    def rows(self, statement: Executable, **parameters: Any) -> list[Row]:
        """Execute a SELECT and return its rows as mappings."""
        try:
            return self._rows(statement, parameters)
        except DBAPIError as error:
            bytes_too = self.room.reading_bytes(self.connection, error)
            if bytes_too is None:
                raise
        with bytes_too:
            return self._rows(statement, parameters)

    def _rows(self, statement: Executable, parameters: Mapping[str, Any]) -> list[Row]:
        found = self.run(statement, **parameters)
        names = tuple(found.keys())
        # Not by mappings(): that asks each row for each name, in twice the time.
        return [dict(zip(names, row, strict=True)) for row in found.all()]

    def rows_in(
        self, statement: Executable, name: str, values: Collection[str]
    ) -> list[Row]:
        """
        Execute a SELECT that has a list of values under this name, however many.

        Sorted, and part after part: rows that it locks are locked in their order.
        """
        wanted = sorted(values)
        parts = (wanted[at : at + LISTED] for at in range(0, len(wanted), LISTED))
        return [row for part in parts for row in self.rows(statement, **{name: part})]

    def one(self, statement: Executable, **parameters: Any) -> Row | None:
        """Execute a SELECT of at most one row."""
        found = self.rows(statement, **parameters)
        return found[0] if found else None

    def scalar(self, statement: Executable, **parameters: Any) -> Any:
        """Execute a SELECT of at most one value."""
        return self.run(statement, **parameters).scalar_one_or_none()

    @property
    def reads_the_past(self) -> bool:
        """Whether a plain SELECT may miss what is committed: a caller's snapshot."""
        if self._reads_the_past is None:
            self._reads_the_past = self.joined and self.room.reads_the_past(
                self.connection
            )
        return self._reads_the_past

    def latest(self, statement: Select[Any]) -> Select[Any]:
        """Return a SELECT that sees what is committed now, for what is decided by it."""
        return (
            statement.with_for_update(read=True) if self.reads_the_past else statement
        )

    def policies(self, *, latest: bool = False) -> Policies:
        """
        Return the policies this store goes by, read once in the operation (C0).

        A claim asks for the `latest`: a pause holds from when it is committed (R4).
        """
        if self._policies is None:
            statement = others.queues(self.schema)
            durable = self.rows(self.latest(statement) if latest else statement)
            given = self.settings.queues
            by_queue = given if given is not None else _durable(durable)
            paused = [str(row["queue"]) for row in durable if row["paused"]]
            self._policies = Policies(by_queue, paused)
        return self._policies


def _durable(rows: list[Row]) -> dict[str, QueuePolicy]:
    return {
        str(row["queue"]): QueuePolicy(
            max_concurrent=_int_or_none(row["max_concurrent"]),
            priority=_int_or_none(row["priority"]) or 0,
        )
        for row in rows
    }


def _int_or_none(value: object) -> int | None:
    return value if isinstance(value, int) else None
