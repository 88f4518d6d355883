"""
The transition journal: what each transaction wrote, noted in that transaction.

Every job, counter and schedule key has a revision that its every UPDATE raises by one.
A journal row names the row written, its new revision, the action, the transaction,
and the values after it. So consecutive revisions of one row, and the transactions that
join rows, give an order without any clock; a gap is a write that was not noted.
"""

import uuid

from collections import Counter
from collections.abc import Mapping
from typing import Any

from jobfence.statemachine.canonical import canonical
from jobfence.statemachine.table import Transition
from jobfence.store.sql.rows import Row
from jobfence.store.sql.statements import counters, journals, others

# Long texts are left out: identity is in the digest, and an error is only text.
_LEFT_OUT = ("args", "kwargs", "last_error", "rev")


class Journal:
    """The notes of one transaction, written just before it commits."""

    def __init__(self) -> None:
        self._tx = str(uuid.uuid4())
        self._entries: list[dict[str, Any]] = []
        self._touched: Counter[tuple[str, str]] = Counter()
        self._actions: dict[tuple[str, str], list[str]] = {}

    def job(self, action: str, row: Row) -> None:
        """Note a job as it is after a write."""
        self._add("job", str(row["id"]), row["rev"], action, row)

    def moved(self, transition: Transition, row: Row) -> None:
        """Note a job that a row of the table has moved."""
        self.job(f"{transition.trigger}:{transition.name}", row)

    def touched(self, entity: str, entity_id: str, action: str) -> None:
        """Note a write whose values are read at the end, under its lock."""
        self._touched[entity, entity_id] += 1
        self._actions.setdefault((entity, entity_id), []).append(action)

    def deleted(self, entity: str, entity_id: str, rev: object) -> None:
        """Note that a row is gone; `rev` was its last."""
        self._add(entity, entity_id, int(str(rev)) + 1, "delete", None)

    def _add(
        self,
        entity: str,
        entity_id: str,
        rev: object,
        action: str,
        row: Row | None,
        *,
        writes: int = 1,
    ) -> None:
        values = None if row is None else _plain(row)
        self._entries.append(
            {
                "entity": entity,
                "entity_id": entity_id,
                "rev": rev,
                "tx": self._tx,
                "writes": writes,
                "action": action,
                "post": None if values is None else canonical(values, "post"),
            }
        )

    def write(self, tx: Any) -> None:
        """Write the notes; the rows they speak of are locked by the writes."""
        for (entity, entity_id), n in sorted(self._touched.items()):
            row = _read(tx, entity, entity_id)
            if row is not None:
                action = "+".join(self._actions[entity, entity_id])
                self._add(entity, entity_id, row["rev"], action, row, writes=n)
        if self._entries:
            rows = [{**entry, "at_ms": tx.now} for entry in self._entries]
            tx.connection.execute(journals.append(tx.schema), rows)


def _read(tx: Any, entity: str, entity_id: str) -> Row | None:
    if entity == "counter":
        counted: Row | None = tx.one(counters.by_keys(tx.schema), in_keys=[entity_id])
        return counted
    owned: Row | None = tx.one(others.schedule_keys(tx.schema), in_keys=[entity_id])
    return owned


def _plain(row: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in row.items() if name not in _LEFT_OUT}
