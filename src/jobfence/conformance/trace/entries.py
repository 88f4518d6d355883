"""One row of a transition journal, as plain values of any store."""

import json

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from jobfence.store.notes import JOINT, WHOLE

Values: TypeAlias = dict[str, object]

# What an entry without values is to be told apart by, in sentences.
_SHOWN = 60


class BadEntry(ValueError):
    """A row of the journal that cannot be read."""


@dataclass(frozen=True, slots=True)
class Entry:
    """
    One row written by one transaction.

    `rev` is the row's revision after it, `writes` how many revisions it stands for.
    `handoff_id` is the handoff that the caller showed. `post` is the JSON text of the
    row's values afterwards; None for a row that was deleted.
    """

    entity: str
    entity_id: str
    rev: int
    tx: str
    action: str
    at_ms: int
    writes: int = 1
    handoff_id: str | None = None
    post: str | None = None

    @classmethod
    def from_row(cls, row: Mapping[str, object]) -> "Entry":
        """Read a row by its columns' names; `BadEntry` names the one that is wrong."""
        return cls(
            entity=_text(row, "entity"),
            entity_id=_text(row, "entity_id"),
            rev=_number(row, "rev"),
            tx=_text(row, "tx"),
            action=_text(row, "action"),
            at_ms=_number(row, "at_ms"),
            writes=_number(row, "writes"),
            handoff_id=_optional_text(row, "handoff_id"),
            post=_optional_text(row, "post"),
        )

    @property
    def key(self) -> tuple[str, str]:
        """The row of the database that this entry speaks of."""
        return self.entity, self.entity_id

    @property
    def actions(self) -> list[str]:
        """The words of a counter's or a schedule key's action."""
        return self.action.split(JOINT)

    @property
    def step(self) -> tuple[str, str, bool]:
        """A job's action: trigger, transition, and whether no lease was asked for."""
        trigger, _, rest = self.action.partition(":")
        name, _, mark = rest.partition(":")
        return trigger, name, mark == WHOLE

    def values(self) -> Values:
        """Return the row's values; `BadEntry` if there are none that can be read."""
        try:
            found = json.loads(self.post or "")
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise BadEntry(f"post holds no JSON object: {str(self.post)[:_SHOWN]!r}")
        return found


def _text(row: Mapping[str, object], column: str) -> str:
    value = row.get(column)
    if not isinstance(value, str):
        raise BadEntry(f"{column} is {value!r}, and must be text")
    return value


def _optional_text(row: Mapping[str, object], column: str) -> str | None:
    return None if row.get(column) is None else _text(row, column)


def _number(row: Mapping[str, object], column: str) -> int:
    value = row.get(column)
    if not isinstance(value, int):
        raise BadEntry(f"{column} is {value!r}, and must be an integer")
    return value
