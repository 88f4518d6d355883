"""
The transition journal: what each transaction wrote, noted in that transaction.

Every job, counter and schedule key has a revision that its every UPDATE raises by one.
A journal row names the row written, its new revision, the action, the transaction,
and the values after it. So consecutive revisions of one row, and the transactions that
join rows, give an order without any clock; a gap is a write that was not noted.

Values and revisions are read back from the database: what is noted is what it holds,
not what this code meant to write. The journal never decides anything: a note that
clashes with one that is there is dropped, for an audit to find.
"""

import json
import uuid

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import inspect

from jobfence.statemachine.table import Transition
from jobfence.store.notes import JOINT, WHOLE, Action, Entity
from jobfence.store.sql.rows import Row
from jobfence.store.sql.schema import Schema
from jobfence.store.sql.statements import journals

_ACTION_LENGTH = 64


@dataclass(slots=True)
class _Step:
    """One move of a job; `row` is what it should have left."""

    action: str
    row: Row
    handoff_id: str | None = None


@dataclass(slots=True)
class Journal:
    """The notes of one transaction, written just before it commits."""

    _tx: str = field(default_factory=lambda: str(uuid.uuid4()))
    _entries: list[dict[str, Any]] = field(default_factory=list)
    _steps: dict[str, list[_Step]] = field(default_factory=dict)
    _touched: dict[tuple[Entity, str], list[str]] = field(default_factory=dict)

    def job(self, action: str, row: Row, handoff_id: str | None = None) -> None:
        """Note a job as it should be after a write."""
        self._steps.setdefault(str(row["id"]), []).append(
            _Step(action, row, handoff_id)
        )

    def moved(
        self,
        transition: Transition,
        row: Row,
        handoff_id: str | None = None,
        *,
        whole: bool = False,
    ) -> None:
        """
        Note a job that a row of the table has moved.

        `handoff_id` is what the caller showed: whether it was the right one is for
        the reader of the journal to see.
        """
        action = f"{transition.trigger}:{transition.name}"
        self.job(f"{action}:{WHOLE}" if whole else action, row, handoff_id)

    def touched(self, entity: Entity, entity_id: str, action: str) -> None:
        """Note a write to a counter or a schedule key."""
        self._touched.setdefault((entity, entity_id), []).append(action)

    def deleted(self, entity: Entity, entity_id: str, rev: object) -> None:
        """Note that a row is gone; `rev` was its last."""
        self._add(entity, entity_id, _number(rev) + 1, Action.DELETE, None)

    def begun(self, *, empty: bool) -> None:
        """Note that the journal begins here."""
        self._add(Entity.JOURNAL, "", 0, Action.BEGIN, {"empty": empty})

    def write(self, tx: Any) -> None:
        """Write the notes; the rows they speak of are locked by the writes."""
        for job_id, row in _read(tx, Entity.JOB, self._steps):
            self._add_steps(job_id, row)
        for entity in (Entity.COUNTER, Entity.SCHEDULE_KEY):
            ids = [each for kind, each in self._touched if kind == entity]
            for entity_id, row in _read(tx, entity, ids):
                actions = self._touched[entity, entity_id]
                self._add(
                    entity,
                    entity_id,
                    row["rev"],
                    JOINT.join(actions),
                    row,
                    writes=len(actions),
                )
        if self._entries:
            rows = [{**entry, "at_ms": tx.now} for entry in self._entries]
            tx.room.insert_many(tx.connection, tx.schema.journal, rows, if_missing=True)

    def _add_steps(self, job_id: str, row: Row) -> None:
        """
        Note a job's steps, the last one as the database has it.

        Revisions are counted back from the last, so a write that was not noted leaves
        its gap before the first.
        """
        steps = self._steps[job_id]
        for behind, step in zip(range(len(steps) - 1, -1, -1), steps, strict=True):
            after = row if behind == 0 else {name: step.row.get(name) for name in row}
            rev = _number(row["rev"]) - behind
            self._add(
                Entity.JOB,
                job_id,
                rev,
                step.action,
                after,
                handoff_id=step.handoff_id,
            )

    def _add(
        self,
        entity: Entity,
        entity_id: str,
        rev: object,
        action: str,
        row: Row | None,
        *,
        writes: int = 1,
        handoff_id: str | None = None,
    ) -> None:
        self._entries.append(
            {
                "entity": entity.value,
                "entity_id": entity_id,
                "rev": rev,
                "tx": self._tx,
                "writes": writes,
                "action": action[:_ACTION_LENGTH],
                "handoff_id": handoff_id,
                "post": None if row is None else _text(row),
            }
        )


def is_there(tx: Any) -> bool:
    """Whether there is a journal with anything in it; the table may be missing."""
    table = tx.schema.journal
    if not inspect(tx.connection).has_table(table.name, schema=table.schema):
        return False
    return bool(tx.rows(journals.anything(table)))


def has_begun(tx: Any) -> bool:
    """Whether the journal says how it began."""
    return tx.scalar(journals.beginning(tx.schema)) is not None


def begin(tx: Any) -> None:
    """Begin the journal: later revisions are judged from here."""
    schema: Schema = tx.schema
    tables = (schema.journal, schema.jobs, schema.concurrency, schema.schedule_keys)
    tx.journal.begun(empty=not any(tx.rows(journals.anything(each)) for each in tables))


def _read(tx: Any, entity: Entity, ids: Collection[str]) -> Iterator[tuple[str, Row]]:
    """Read rows of an entity back, those that are there."""
    tables = {
        Entity.JOB: tx.schema.jobs,
        Entity.COUNTER: tx.schema.concurrency,
        Entity.SCHEDULE_KEY: tx.schema.schedule_keys,
    }
    for row in tx.rows_in(journals.rows_now(tables[entity]), "in_ids", ids):
        yield str(row["entity_id"]), row


def _text(row: Row) -> str:
    """Return a row's values as JSON; a damaged one must not stop what ends its job."""
    values = {
        name: value for name, value in row.items() if name not in ("rev", "entity_id")
    }
    return json.dumps(values, sort_keys=True, separators=(",", ":"), default=repr)


def _number(value: object) -> int:
    """Return a revision; a damaged one is taken for 0."""
    return value if isinstance(value, int) else 0
